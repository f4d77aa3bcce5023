// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "cli/exit_code.h"
#include "cli/host.h"
#include "cli/line/usage_error.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
namespace fs = std::filesystem;

namespace {

/// A temporary directory. It is the current one while the object lives.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/ddprun-program-XXXXXX";
    if (mkdtemp(name) == nullptr) FAIL("no temporary directory");
    root_ = name;
    fs::current_path(root_);
  }
  ~TemporaryDirectory() {
    fs::current_path(before_);
    fs::remove_all(root_);
  }

  void add(const std::string& path, bool executable,
           const std::string& text = "#!/bin/sh\n") const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    if (executable) fs::permissions(root_ / path, fs::perms(0755));
  }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

 private:
  fs::path before_ = fs::current_path();
  fs::path root_;
};

void check_refused(const std::string& name, const std::string& search_path, int code,
                   const std::string& sentence) {
  const Result<std::string> found = cli::find_program(name, search_path);
  if (found) FAIL("found " + *found);
  CHECK(found.error().message == sentence);
  CHECK(cli::exit_code(found.error()) == code);
}

void check_script_refused(const std::string& name, int code, const std::string& sentence) {
  const Result<> checked = cli::check_script(name);
  if (checked) FAIL("passed " + name);
  CHECK(checked.error().message == sentence);
  CHECK(cli::exit_code(checked.error()) == code);
}

}  // namespace

TEST_CASE("a name with a slash is a path") {
  TemporaryDirectory here;
  here.add("bin/train", true);

  CHECK(must(cli::find_program("bin/train", "/nowhere")) == "bin/train");
  CHECK(must(cli::find_program(here.path("bin/train"), "")) == here.path("bin/train"));
}

TEST_CASE("a name without a slash is the first executable file of that name in PATH") {
  TemporaryDirectory here;
  here.add("a/train", false);
  here.add("b/train", true);
  here.add("c/train", true);
  fs::create_directories(here.path("d/train"));
  const std::string search =
      here.path("d") + ":" + here.path("none") + ":" + here.path("a") + ":" + here.path("b");

  CHECK(must(cli::find_program("train", search + ":" + here.path("c"))) == here.path("b/train"));
}

TEST_CASE("an empty entry in PATH is the current directory") {
  TemporaryDirectory here;
  here.add("train", true);

  CHECK(must(cli::find_program("train", "/nowhere:")) == "./train");
}

TEST_CASE("a missing file exits with 127 and suggests the closest program beside it") {
  TemporaryDirectory here;
  here.add("train", true);
  here.add("trial", false);

  check_refused("./trian", "", 127, "cannot run ./trian: no such file (did you mean ./train?)");
  check_refused("./evaluate", "", 127, "cannot run ./evaluate: no such file");
  check_refused("no/such/train", "", 127, "cannot run no/such/train: no such file");
  check_refused("", "/bin", 127, "cannot run '': the program's name is empty");
}

TEST_CASE("a command that is not in PATH is searched in the current directory") {
  TemporaryDirectory here;
  here.add("train", true);
  here.add("model.py", false);
  here.add("bin/evaluate", true);

  check_refused("train", here.path("bin"), 127,
                "cannot run train: not found in PATH (did you mean ./train?)");
  check_refused("model.py", here.path("bin"), 127,
                "cannot run model.py: not found in PATH (without --no_python, python3 runs it)");
  check_refused("evalute", here.path("bin"), 127,
                "cannot run evalute: not found in PATH (did you mean evaluate?)");
  check_refused("python train", here.path("bin"), 127,
                "cannot run python train: not found in PATH (a program and its arguments are "
                "separate words, not one in quotes)");
  check_refused("evaluate -n 1", here.path("bin"), 127,
                "cannot run evaluate -n 1: not found in PATH (a program and its arguments are "
                "separate words, not one in quotes)");
  here.add("bin/ex", true);
  check_refused("exc", here.path("bin"), 127,
                "cannot run exc: not found in PATH (did you mean ex?)");
  here.add("exc.py", false);
  check_refused("exc", here.path("bin"), 127,
                "cannot run exc: not found in PATH (did you mean exc.py?)");
  check_refused("ey", here.path("bin"), 127, "cannot run ey: not found in PATH");
}

TEST_CASE("if a file here has the command's name, ddprun says how to make it executable") {
  TemporaryDirectory here;
  here.add("plain", false);
  here.add("app.pyz", false);
  here.add("bin/splain", true);

  check_refused("plain", here.path("bin"), 127,
                "cannot run plain: not found in PATH, and ./plain is not executable (chmod +x "
                "./plain permits it; a Python program: ddprun python3 -u ./plain)");
  check_refused("app.pyz", here.path("bin"), 127,
                "cannot run app.pyz: not found in PATH, and ./app.pyz is not executable (chmod +x "
                "./app.pyz permits it; a Python program: ddprun python3 -u ./app.pyz)");
}

TEST_CASE("chmod is no advice for a file that is neither compiled nor a script") {
  TemporaryDirectory here;
  here.add("hello.c", false, "int main() {}\n");
  const std::string why =
      " (neither a compiled program, nor a script with a first line such as #!/bin/sh; a Python "
      "program: ddprun python3 -u ./hello.c)";

  check_refused("hello.c", here.path("bin"), 127,
                "cannot run hello.c: not found in PATH, and ./hello.c is not executable" + why);
  check_refused("./hello.c", "", 126, "cannot run ./hello.c: permission denied" + why);
}

TEST_CASE("ddprun suggests its own command before a program whose name is as close") {
  TemporaryDirectory here;
  here.add("bin/statuz", true);
  here.add("bin/versionx", true);
  here.add("bin/runc", true);
  const auto suggests = [&](const std::string& name, const std::string& meant) {
    check_refused(name, here.path("bin"), 127,
                  "cannot run " + name + ": not found in PATH (did you mean " + meant + "?)");
  };
  suggests("stauts", "ddprun status");
  suggests("statu", "ddprun status");
  suggests("statuzz", "statuz");
  suggests("hlep", "ddprun help");
  suggests("version", "ddprun --version");
  suggests("list", "ddprun ls");
  suggests("run", "ddprun PROGRAM, without run");
  suggests("docter", "ddprun doctor");
}

TEST_CASE("a script with Windows line ends is refused before it is started") {
  TemporaryDirectory here;
  here.add("bin/train", true, "#!/usr/bin/env python3\r\nprint(1)\r\n");
  const std::string why =
      ": its lines end as on Windows (CRLF), which leaves its first line without an interpreter "
      "(dos2unix ";

  check_refused("bin/train", "", 126, "cannot run bin/train" + why + "bin/train mends that)");
  check_refused(
      "train", here.path("bin"), 126,
      "cannot run " + here.path("bin/train") + why + here.path("bin/train") + " mends that)");
  here.add("bin/other", true, "#!/bin/sh\necho 'a\r\n'\n");
  CHECK(must(cli::find_program("bin/other", "")) == "bin/other");
  here.add("bin/binary", true,
           "\x7f"
           "ELF\r\n");
  CHECK(must(cli::find_program("bin/binary", "")) == "bin/binary");
}

TEST_CASE("a file that cannot be executed exits with 126") {
  TemporaryDirectory here;
  here.add("notes", false);
  here.add("model.py", false);
  here.add("bin/notes", false);

  check_refused("./notes", "", 126,
                "cannot run ./notes: permission denied (chmod +x ./notes permits it; a Python "
                "program: ddprun python3 -u ./notes)");
  check_refused("./bin", "", 126,
                "cannot run ./bin: is a directory (if it is a Python program: ddprun python3 -u "
                "./bin)");
  check_refused(".", "", 126,
                "cannot run .: is a directory (if it is a Python program: ddprun python3 -u .)");
  check_refused("./model.py", "", 126,
                "cannot run ./model.py: permission denied (without --no_python, python3 runs it)");
  check_refused("notes", here.path("bin"), 126,
                "cannot run " + here.path("bin/notes") + ": permission denied (chmod +x " +
                    here.path("bin/notes") + " permits it; a Python program: ddprun python3 -u " +
                    here.path("bin/notes") + ")");
}

TEST_CASE("a script has to exist and is not searched in PATH") {
  TemporaryDirectory here;
  here.add("train.py", false);
  here.add("models/evaluate.py", false);
  here.add("trial", true);
  fs::create_directories(here.path("package.py"));

  must(cli::check_script("train.py"));
  must(cli::check_script(here.path("models/evaluate.py")));
  must(cli::check_script("package.py"));
  check_script_refused("trian.py", 127,
                       "cannot run trian.py: no such file (did you mean train.py?)");
  check_script_refused("models/evalute.py", 127,
                       "cannot run models/evalute.py: no such file "
                       "(did you mean models/evaluate.py?)");
  check_script_refused("sample.py", 127, "cannot run sample.py: no such file");
  check_script_refused("train.py/x.py", 127, "cannot run train.py/x.py: no such file");
}

TEST_CASE("the suggested word is the one with the fewest typing mistakes") {
  CHECK(cli::suggest("trian", {"tram", "train", "brain"}) == "train");
  CHECK(cli::suggest("trainn", {"train"}) == "train");
  CHECK_FALSE(cli::suggest("evaluate", {"train"}));
  CHECK_FALSE(cli::suggest("train", {"strai"}));  // one letter more and one letter less
  CHECK_FALSE(cli::suggest("x", {"y"}));
}

TEST_CASE("this host knows its CPUs, its environment and its programs") {
  const cli::Host host = cli::this_host({});

  CHECK(host.cpus().size() >= 1);
  CHECK_FALSE(host.name.empty());
  CHECK_FALSE(host.environment.empty());
  CHECK(must(host.find_program("sh")).ends_with("/sh"));
}

TEST_CASE("ddprun reads from a program's file which libraries it is linked with") {
  const auto libraries = cli::needed_libraries("/proc/self/exe");
  CHECK(std::find(libraries.begin(), libraries.end(), "libc.so.6") != libraries.end());
  TemporaryDirectory here;
  here.add("script", true);
  CHECK(cli::needed_libraries("./script").empty());
  CHECK(cli::needed_libraries("/dev/null").empty());
  CHECK(cli::needed_libraries("/nowhere").empty());
}

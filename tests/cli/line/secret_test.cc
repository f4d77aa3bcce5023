// SPDX-License-Identifier: Apache-2.0
#include "cli/line/secret.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/cli/command_line.h"
#include "tests/contains.h"

using namespace ddprun;
using ddprun::tests::contains;

namespace {

const std::string kDigits = "00112233445566778899aabbccddeeff";

/// A temporary file.
class SecretFile {
 public:
  explicit SecretFile(const std::string& content, mode_t mode = 0600) {
    const int fd = mkstemp(name_.data());
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    REQUIRE(fchmod(fd, mode) == 0);
    close(fd);
  }
  SecretFile(const SecretFile&) = delete;
  ~SecretFile() { unlink(name_.c_str()); }

  const std::string& name() const { return name_; }

 private:
  std::string name_ = "/tmp/ddprun_secret_test_XXXXXX";
};

std::string reason(const Result<Secret>& refused) {
  if (refused) FAIL("was not refused");
  CHECK(refused.error().code == Errc::usage);
  CHECK(refused.error().message.find('\n') == std::string::npos);
  return refused.error().message;
}

std::string key_of(const agent::JobSpec& job) {
  return job.security ? std::string(job.security->key().bytes.view()) : "";
}

cli::Host host_with_secret(const std::string& variable, const std::string& in_file = "") {
  cli::Host with = host();
  if (!variable.empty()) with.secret = std::make_shared<Secret>(variable);
  with.read_secret = [in_file](const std::string& path) {
    return cli::decode_secret(in_file, "--secret_file " + path);
  };
  return with;
}

}  // namespace

TEST_CASE("a secret is at least 32 hexadecimal digits, with white space around them") {
  const std::string bytes("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff", 16);
  CHECK(must(cli::decode_secret(kDigits, "it")).view() == bytes);
  CHECK(must(cli::decode_secret(" 00112233445566778899AABBCCDDEEFF\r\n", "it")).view() == bytes);
  CHECK(must(cli::decode_secret(std::string(1024, 'a'), "it")).view().size() == 512);
}

TEST_CASE("a malformed secret is refused and not shown") {
  CHECK(contains(reason(cli::decode_secret("", "it")), "it has 0 characters"));
  CHECK(contains(reason(cli::decode_secret(kDigits.substr(2), "it")), "it has 30 characters"));
  CHECK(contains(reason(cli::decode_secret(kDigits + "a", "it")), "it has 33 characters"));
  CHECK(contains(reason(cli::decode_secret(std::string(1026, 'a'), "it")), "1026 characters"));
  const std::string password = "correct horse battery staple 123";
  const std::string refused = reason(cli::decode_secret(password, "DDPRUN_SECRET"));
  CHECK(contains(refused, "DDPRUN_SECRET has other characters than hexadecimal digits"));
  CHECK_FALSE(contains(refused, "horse"));
  const SecretFile empty("");
  CHECK(contains(reason(cli::read_secret_file(empty.name())), empty.name() + " has 0 characters"));
}

TEST_CASE("a secret file that others may use is refused") {
  const SecretFile good(kDigits + "\n");
  CHECK(must(cli::read_secret_file(good.name())).view().size() == 16);
  for (const mode_t mode : {0640, 0604, 0660, 0601}) {
    const SecretFile open(kDigits, mode);
    CHECK(reason(cli::read_secret_file(open.name())) ==
          "--secret_file " + open.name() + " is open to other users than its owner: chmod 600 it");
  }
}

TEST_CASE("a secret file of another user is refused") {
  if (geteuid() != 0) return;  // only root can change a file's owner
  const SecretFile file(kDigits);
  REQUIRE(chown(file.name().c_str(), 65534, 65534) == 0);
  CHECK(
      contains(reason(cli::read_secret_file(file.name())), "belongs to another user (uid 65534)"));
}

/// The process acts as user and group 65534 while the object lives.
class AsNobody {
 public:
  AsNobody() {
    REQUIRE(setegid(65534) == 0);
    REQUIRE(seteuid(65534) == 0);
  }
  AsNobody(const AsNobody&) = delete;
  ~AsNobody() {
    if (seteuid(0) != 0 || setegid(0) != 0) std::abort();
  }
};

TEST_CASE("root's secret file may be readable by a group, as Kubernetes mounts it") {
  if (geteuid() != 0) return;
  for (const mode_t mode : {0440, 0460, 0444, 0450}) {
    const SecretFile file(kDigits, mode);
    REQUIRE(chown(file.name().c_str(), 0, 65534) == 0);
    CHECK_FALSE(cli::read_secret_file(file.name()).has_value());  // root, the owner, must close it
    const AsNobody nobody;
    INFO(mode);
    CHECK(cli::read_secret_file(file.name()).has_value() == (mode == 0440));
  }
}

TEST_CASE("a secret file has to be a regular file") {
  CHECK(contains(reason(cli::read_secret_file("/nowhere/secret")), "No such file"));
  CHECK(contains(reason(cli::read_secret_file("/tmp")), "/tmp is not a file"));
  const SecretFile name("");
  unlink(name.name().c_str());
  REQUIRE(mkfifo(name.name().c_str(), 0600) == 0);  // without a writer
  CHECK(contains(reason(cli::read_secret_file(name.name())), "is not a file"));
}

TEST_CASE("a secret that is given instead of a file's name is not shown") {
  const std::string sentence = reason(cli::read_secret_file(std::string(64, 'a')));
  CHECK(contains(sentence, "--secret_file takes the name of a file"));
  CHECK_FALSE(contains(sentence, "aaaa"));
}

TEST_CASE("a new secret's file is only its owner's, and replaces no file") {
  const SecretFile name("");
  unlink(name.name().c_str());
  const mode_t before = umask(0);
  must(cli::make_secret(name.name()));
  umask(before);
  struct stat status = {};
  REQUIRE(stat(name.name().c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  CHECK(must(cli::read_secret_file(name.name())).view().size() == 32);

  const Result<> again = cli::make_secret(name.name());
  REQUIRE_FALSE(again.has_value());
  CHECK(contains(again.error().message, "exists"));
  unlink(name.name().c_str());
  REQUIRE(symlink("/tmp/ddprun_secret_test_nowhere", name.name().c_str()) == 0);
  CHECK_FALSE(cli::make_secret(name.name()).has_value());
  CHECK_FALSE(std::filesystem::exists("/tmp/ddprun_secret_test_nowhere"));
}

TEST_CASE("ddprun secret makes a secret") {
  const auto file = [](const Words& words) {
    return std::get<cli::MakeSecret>(must(cli::parse(words, host()))).file;
  };
  CHECK(file({"secret"}).empty());
  CHECK(file({"secret", "a/b"}) == "a/b");
  CHECK(contains(printed({"secret", "--help"}), "Usage: ddprun secret [FILE]"));
  CHECK(contains(refusal({"secret", "a", "b"}), "ddprun ./secret"));
  CHECK(contains(refusal({"secret", "--force"}), "'--force'"));
  CHECK(job({"./secret"}).command == std::vector<std::string>{"./secret"});
}

TEST_CASE("without a secret there is no key") {
  CHECK(job({"prog"}).security == nullptr);
  CHECK(job({"prog"}, host({"DDPRUN_SECRET_FILE="})).security == nullptr);
}

TEST_CASE("the key depends on the secret and the job, not on the source of the secret") {
  const std::string key =
      key_of(job({"--secret_file", "f", "prog"}, host_with_secret("", kDigits)));
  CHECK(key.size() == 32);
  CHECK(key_of(job({"prog"}, host_with_secret(kDigits))) == key);
  CHECK(key_of(served({"serve", "--rdzv_endpoint", ":1"}, host_with_secret(kDigits))) == key);
  CHECK(key_of(job({"--rdzv_id", "other", "prog"}, host_with_secret(kDigits))) != key);
  const std::string other(32, '5');
  CHECK(key_of(job({"--secret_file", "f", "prog"}, host_with_secret(other, kDigits))) == key);
}

TEST_CASE("the variable's secret is overwritten once it has been read") {
  const cli::Host with = host_with_secret(kDigits);
  job({"prog"}, with);
  CHECK_FALSE(*with.secret);
}

TEST_CASE("a bad secret is a usage error that names its source") {
  CHECK(contains(refusal({"prog"}, host_with_secret("123")), "DDPRUN_SECRET has 3 characters"));
  CHECK(contains(refusal({"--secret_file", "f", "prog"}, host_with_secret("", "123")),
                 "--secret_file f has 3 characters"));
  CHECK(contains(refusal({"--secret_file=", "prog"}), "--secret_file expects the name of a file"));
}

TEST_CASE("a dry run shows no secret") {
  const std::string text = printed({"--dry_run", "prog"}, host_with_secret(kDigits));
  CHECK_FALSE(contains(text, kDigits));
  CHECK_FALSE(contains(text, "SECRET"));
}

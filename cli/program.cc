// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <link.h>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/text.h"
#include "cli/line/usage_error.h"
#include "cli/manual/pages.h"

namespace ddprun::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRunByPython = " (without --no_python, python3 runs it)";
constexpr size_t kShortestTypo = 3;  // a shorter name is close to any
constexpr std::string_view kShebang = "#!";

/// Commands of other programs, and what ddprun has instead.
constexpr auto kOthersCommands = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"version", "ddprun --version"},
    {"list", "ddprun ls"},
    {"run", "ddprun PROGRAM, without run"},
});

/// 0 if `path` is a file that this process may execute, otherwise an errno.
int executable_error(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return EACCES;
  return faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

bool is_missing(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR;
}

std::vector<std::string> split_path(const std::string& search_path) {
  std::vector<std::string> directories;
  size_t begin = 0;
  for (;;) {
    const size_t end = search_path.find(':', begin);
    const std::string directory = search_path.substr(begin, end - begin);
    directories.push_back(directory.empty() ? "." : directory);
    if (end == std::string::npos) return directories;
    begin = end + 1;
  }
}

using IsWanted = bool (*)(const std::string& path);

bool is_program(const std::string& path) {
  return executable_error(path) == 0;
}

bool is_readable_script(const std::string& path) {
  return is_script(path) && access(path.c_str(), R_OK) == 0;
}

void append_files(const std::string& directory, IsWanted wanted, std::vector<std::string>& names) {
  std::error_code ignored;  // no suggestions from a directory that cannot be read
  for (fs::directory_iterator entry(directory, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (wanted(entry->path())) names.push_back(entry->path().filename());
  }
}

std::string in_brackets(const std::optional<std::string>& suggestion) {
  return suggestion ? " (did you mean " + *suggestion + "?)" : "";
}

/// Advice about a name for which there is no file.
std::string suggestion_or_advice(const std::string& name,
                                 const std::optional<std::string>& suggestion) {
  const bool is_line = name.find(' ') != name.npos;  // or a name with a space
  if (!is_line || (suggestion && suggestion->find(' ') != name.npos))
    return in_brackets(suggestion);
  return " (a program and its arguments are separate words, not one in quotes)";
}

Error missing_file(const std::string& name, IsWanted wanted) {
  const size_t slash = name.rfind('/') + 1;
  const std::string directory = name.substr(0, slash);
  std::vector<std::string> names;
  append_files(directory.empty() ? "." : directory, wanted, names);
  std::sort(names.begin(), names.end());  // the same suggestion every time
  std::optional<std::string> near = suggest(name.substr(slash), names);
  if (near) near->insert(0, directory);
  return {Errc::not_found,
          "cannot run " + name + ": no such file" + suggestion_or_advice(name, near)};
}

/// The first bytes of the file; empty: it cannot be read.
std::string head_of(const std::string& path) {
  constexpr std::streamsize kMostRead = 256;  // the kernel reads as much
  std::string head(kMostRead, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), kMostRead);
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

/// Advice about a path that cannot be executed; torchrun would run any path by Python.
std::string advice(const std::string& path, int error_number) {
  const std::string by_python = "ddprun python3 -u " + shell_word(path);
  if (error_number == EISDIR) return " (if it is a Python program: " + by_python + ")";
  if (error_number != EACCES) return "";
  if (is_readable_script(path)) return std::string(kRunByPython);
  struct stat status{};
  const bool is_file = stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file) return "";
  const std::string head = head_of(path);
  const bool is_other = !head.empty() && !head.starts_with(kShebang) && !head.starts_with(ELFMAG);
  return (is_other
              ? " (neither a compiled program, nor a script with a first line such as #!/bin/sh"
              : " (chmod +x " + shell_word(path) + " permits it") +
         "; a Python program: " + by_python + ")";
}

Error refused(const std::string& path, int error_number) {
  return {Errc::not_executable,
          "cannot run " + path + ": " +
              (error_number == EISDIR   ? "is a directory"
               : error_number == EACCES ? "permission denied"
                                        : std::generic_category().message(error_number)) +
              advice(path, error_number)};
}

/// The closest name: a command of ddprun itself, or a program. If both are equally close, the
/// command.
std::optional<std::string> closest_command(const std::string& name,
                                           const std::vector<std::string>& directories) {
  std::vector<std::string> names;
  for (const auto& [theirs, ours] : kOthersCommands) names.emplace_back(theirs);
  for (const CommandName& command : command_names()) names.emplace_back(command.name);
  const std::vector<std::string> own = names;
  for (const std::string& directory : directories) append_files(directory, is_program, names);
  std::sort(names.begin() + static_cast<std::ptrdiff_t>(own.size()), names.end());
  const std::optional<std::string> closest = suggest(name, names);
  for (const auto& [theirs, ours] : kOthersCommands) {
    if (closest == theirs) return std::string(ours);
  }
  const bool is_own = closest && std::find(own.begin(), own.end(), *closest) != own.end();
  return is_own ? "ddprun " + *closest : closest;
}

Error missing_command(const std::string& name, const std::vector<std::string>& directories) {
  const std::string sentence = "cannot run " + name + ": not found in PATH";
  const std::string here = "./" + name;
  const int here_error = executable_error(here);
  if (here_error == 0) return {Errc::not_found, sentence + in_brackets(here)};
  if (here_error == EISDIR) return refused(name, EISDIR);
  if (is_readable_script(name)) return {Errc::not_found, sentence + std::string(kRunByPython)};
  if (const std::string how = advice(here, here_error); !how.empty()) {
    return {Errc::not_found, sentence + ", and " + here + " is not executable" + how};
  }
  if (is_readable_script(name + ".py")) {
    return {Errc::not_found, sentence + in_brackets(name + ".py")};
  }
  if (name.size() < kShortestTypo) return {Errc::not_found, sentence};
  return {Errc::not_found,
          sentence + suggestion_or_advice(name, closest_command(name, directories))};
}

/// Whether the kernel, or env, would look for an interpreter whose name ends in a carriage return.
bool has_windows_shebang(const std::string& path) {
  const std::string head = head_of(path);
  return head.starts_with(kShebang) && head.find("\r\n") < head.find('\n');
}

/// Returns the executable file, or an error if the kernel could not run it.
Result<std::string> runnable(std::string path) {
  if (!has_windows_shebang(path)) return path;
  return Error{Errc::not_executable,
               "cannot run " + path +
                   ": its lines end as on Windows (CRLF), which leaves its first " +
                   "line without an interpreter (dos2unix " + shell_word(path) + " mends that)"};
}

}  // namespace

bool is_script(std::string_view name) {
  return name.ends_with(".py");
}

Result<> check_script(const std::string& name) {
  if (access(name.c_str(), R_OK) == 0) return {};
  const int error_number = errno;
  if (is_missing(error_number)) return missing_file(name, is_readable_script);
  return refused(name, error_number);
}

Result<std::string> find_program(const std::string& name, const std::string& search_path) {
  if (name.empty()) return Error{Errc::not_found, "cannot run '': the program's name is empty"};
  if (name.find('/') != std::string::npos) {
    const int error_number = executable_error(name);
    if (error_number == 0) return runnable(name);
    return is_missing(error_number) ? missing_file(name, is_program) : refused(name, error_number);
  }
  const std::vector<std::string> directories = split_path(search_path);
  std::optional<Error> refusal;  // reported only when no later directory has the program
  for (const std::string& directory : directories) {
    const std::string path = directory + "/" + name;
    const int error_number = executable_error(path);
    if (error_number == 0) return runnable(path);
    if (!is_missing(error_number) && error_number != EISDIR && !refusal &&
        access(path.c_str(), F_OK) == 0) {
      refusal = refused(path, error_number);
    }
  }
  return refusal ? *refusal : missing_command(name, directories);
}

namespace {

// Far more than any program has.
constexpr size_t kMostHeaders = 256;
constexpr size_t kMostEntries = 1024;
constexpr size_t kLongestName = 256;

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Entry = ElfW(Dyn);

/// The headers of an ELF file.
class Program {
 public:
  explicit Program(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}

  std::vector<std::string> needed() const {
    std::vector<std::string> names;
    const std::vector<Segment> segments = read_segments();
    const std::vector<Entry> entries = read_entries(segments);
    const auto strings = std::find_if(entries.begin(), entries.end(),
                                      [](const Entry& entry) { return entry.d_tag == DT_STRTAB; });
    if (strings == entries.end()) return names;
    const std::optional<std::uint64_t> begin = place_of(segments, strings->d_un.d_ptr);
    for (const Entry& entry : entries) {
      if (begin && entry.d_tag == DT_NEEDED) names.push_back(read_name(*begin + entry.d_un.d_val));
    }
    return names;
  }

 private:
  size_t read(std::uint64_t at, void* bytes, size_t size) const {
    const ssize_t count = pread(file_.get(), bytes, size, static_cast<off_t>(at));
    return count > 0 ? static_cast<size_t>(count) : 0;
  }

  template <class T>
  std::vector<T> read_all(std::uint64_t at, size_t count, size_t most) const {
    std::vector<T> all(std::min(count, most));
    all.resize(read(at, all.data(), all.size() * sizeof(T)) / sizeof(T));
    return all;
  }

  std::vector<Segment> read_segments() const {
    Header header{};
    const bool whole = file_ && read(0, &header, sizeof header) == sizeof header;
    const unsigned char own_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
    const bool fits = whole && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                      header.e_ident[EI_CLASS] == own_class &&
                      header.e_phentsize == sizeof(Segment);
    if (!fits) return {};
    return read_all<Segment>(header.e_phoff, header.e_phnum, kMostHeaders);
  }

  std::vector<Entry> read_entries(const std::vector<Segment>& segments) const {
    for (const Segment& segment : segments) {
      if (segment.p_type != PT_DYNAMIC) continue;
      return read_all<Entry>(segment.p_offset, segment.p_filesz / sizeof(Entry), kMostEntries);
    }
    return {};
  }

  /// The place in the file of an address in memory.
  static std::optional<std::uint64_t> place_of(const std::vector<Segment>& segments,
                                               std::uint64_t address) {
    for (const Segment& segment : segments) {
      const bool holds = segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
                         address - segment.p_vaddr < segment.p_filesz;
      if (holds) return segment.p_offset + (address - segment.p_vaddr);
    }
    return std::nullopt;
  }

  std::string read_name(std::uint64_t at) const {
    std::string name(kLongestName, '\0');
    name.resize(read(at, name.data(), name.size()));
    return name.substr(0, name.find('\0'));
  }

  Fd file_;
};

}  // namespace

std::vector<std::string> needed_libraries(const std::string& path) {
  return Program(path).needed();
}

}  // namespace ddprun::cli

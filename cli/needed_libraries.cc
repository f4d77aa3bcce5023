// SPDX-License-Identifier: Apache-2.0
#include "cli/needed_libraries.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <optional>
#include <unistd.h>

#include "base/fd.h"

namespace ddprun::cli {
namespace {

// Far more than any program has.
constexpr size_t kMostHeaders = 256;
constexpr size_t kMostEntries = 1024;
constexpr size_t kLongestName = 256;

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Entry = ElfW(Dyn);

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

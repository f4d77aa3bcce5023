// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/checkpoint_disk.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "collectives/call/call.h"
#include "collectives/training/checkpoint_file.h"
#include "collectives/training/checkpoint_sum.h"
#include "collectives/training/safetensors.h"

namespace ddp::internal {
namespace {

namespace fs = std::filesystem;

using ddprun::Errc;
using ddprun::Fd;
using ddprun::os_error;
using ddprun::Result;

constexpr std::size_t kUsualHeader = 64 << 10;
constexpr const char* kNewFile = ".new-";

std::string_view bytes_of(const Buffer& buffer) {
  return {static_cast<const char*>(buffer.data), buffer.count * size_of(buffer.type)};
}

Result<> write_at(int fd, std::uint64_t offset, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno != EINTR) return os_error("cannot write " + path, errno);
    if (n < 0) continue;
    bytes.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

/// Calls work(offset, size) for each piece of `size` bytes, until one fails. A piece stays in the
/// processor's cache between its checksum and the disk.
template <class Work>
Result<> in_pieces(std::uint64_t size, Work work) {
  constexpr std::uint64_t kPiece = 1 << 20;
  for (std::uint64_t at = 0; at < size; at += kPiece) {
    if (auto done = work(at, std::min(kPiece, size - at)); !done) return done;
  }
  return {};
}

/// Returns when the file is on the disk. Writes its header last, with the checksum.
Result<> fill_file(int fd, const std::string& path, CheckpointHeader header,
                   const std::vector<Buffer>& parts) {
  CheckpointSum sum(header);
  std::uint64_t offset = checked_bytes(header).size();
  for (const Buffer& part : parts) {
    const std::string_view bytes = bytes_of(part);
    auto done = in_pieces(bytes.size(), [&](std::uint64_t at, std::uint64_t size) {
      sum.add(bytes.substr(at, size));
      return write_at(fd, offset + at, bytes.substr(at, size), path);
    });
    if (!done) return done;
    offset += bytes.size();
  }
  header.checksum = sum.value();
  if (auto done = write_at(fd, 0, encode_safetensors(header), path); !done) return done;
  if (::fsync(fd) != 0) return os_error("cannot flush " + path, errno);
  return {};
}

Result<> write_file(const std::string& fresh, const std::string& path,
                    const CheckpointHeader& header, const std::vector<Buffer>& parts) {
  const Fd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) return os_error("cannot create " + path, errno);
  return fill_file(fd.get(), path, header, parts);
}

std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// Puts changed names of the folder on the disk, too.
Result<> flush_folder_of(const std::string& path) {
  const std::string folder = folder_of(path);
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error("cannot open " + folder, errno);
  // EINVAL: the file system has nothing to flush.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return os_error("cannot flush " + folder, errno);
  return {};
}

/// Returns "PATH.new-GENERATION-RANDOM": another name for each writer, also on other hosts.
std::string name_new_file(const std::string& path, std::uint64_t generation) {
  std::uint64_t random = 0;
  [[maybe_unused]] const ssize_t filled = ::getrandom(&random, sizeof(random), 0);
  return path + kNewFile + ddprun::hex_text(generation) + "-" + ddprun::hex_text(random);
}

/// Returns the generation in the name of a writer's file; nothing for other names.
std::optional<std::uint64_t> generation_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint64_t generation = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), generation, 16);
  const bool valid = error == std::errc() && end != name.data() + name.size() && *end == '-';
  return valid ? std::optional(generation) : std::nullopt;
}

/// Removes the files of writers whose generation is not above this one, except `own`.
void remove_new_files(const std::string& path, std::uint64_t generation, const std::string& own) {
  const std::string prefix = fs::path(path).filename().string() + kNewFile;
  std::error_code error;
  for (fs::directory_iterator entry(folder_of(path), error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path name = entry->path().filename();
    const auto found = generation_of(name.native(), prefix);
    if (found && *found <= generation && name != fs::path(own).filename()) {
      ::unlink(entry->path().c_str());
    }
  }
}

ddprun::Error superseded(const std::string& path) {
  return {Errc::closed, "cannot replace " + path + ": " + path +
                            " is of a process group that was formed later, which goes on in the "
                            "place of this one"};
}

/// Makes a second name, so that there is no moment without the first. If the file system has no
/// such names, no previous file is kept: the new one, which is on the disk by now, is as good.
void link_previous(const std::string& path) {
  const std::string previous = previous_checkpoint(path);
  ::unlink(previous.c_str());
  [[maybe_unused]] const int kept = ::link(path.c_str(), previous.c_str());
}

Result<> replace(const std::string& path, const std::string& fresh, std::uint64_t generation,
                 bool keep_previous) {
  remove_new_files(path, generation, fresh);
  const auto there = CheckpointReader::open(path);
  if (there && *there && (*there)->header().generation > generation) return superseded(path);
  if (keep_previous) link_previous(path);
  if (::rename(fresh.c_str(), path.c_str()) == 0) return {};
  // Only a newer writer removes another's file.
  return errno == ENOENT ? superseded(path) : os_error("cannot replace " + path, errno);
}

}  // namespace

std::string previous_checkpoint(const std::string& path) {
  return path + ".previous";
}

std::string target_of(std::string path) {
  constexpr int kMostLinks = 40;  // as in the kernel
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = fs::path(path).parent_path() / target;
  }
  return path;
}

Result<std::optional<CheckpointReader>> CheckpointReader::open(const std::string& path) {
  // Without O_NONBLOCK, open would wait for a pipe of that name.
  Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return os_error("cannot read " + path, errno);
  if (!S_ISREG(status.st_mode)) return ddprun::Error{Errc::usage, path + " is not a file"};

  CheckpointReader reader(path, std::move(file));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  HeaderStatus found = HeaderStatus::incomplete;
  for (const std::size_t most : {kUsualHeader, kMaxCheckpointHeader}) {
    std::string begin(std::min<std::uint64_t>(size, most), '\0');
    if (auto done = reader.read_at(0, begin.data(), begin.size()); !done) return done.error();
    found = decode(begin, reader.header_);
    if (found != HeaderStatus::incomplete) break;
  }
  if (found == HeaderStatus::malformed) {
    return ddprun::Error{Errc::protocol,
                         path + " is not a checkpoint of ddp, or of a later version"};
  }
  if (found == HeaderStatus::incomplete) {
    return ddprun::Error{Errc::protocol, path + " is damaged: it ends in its first lines"};
  }
  const std::uint64_t expected = reader.header_.size + data_size(reader.header_);
  if (size != expected) {
    return ddprun::Error{Errc::protocol, path + " is damaged: it has " + std::to_string(size) +
                                             " bytes instead of " + std::to_string(expected)};
  }
  return std::optional(std::move(reader));
}

Result<> CheckpointReader::check() const {
  CheckpointSum sum(header_);
  std::string piece;
  auto done = in_pieces(data_size(header_), [&](std::uint64_t at, std::uint64_t size) {
    piece.resize(size);
    auto read = read_at(header_.size + at, piece.data(), size);
    sum.add(piece);
    return read;
  });
  return done ? compare(sum) : done;
}

Result<> CheckpointReader::read(const std::vector<Buffer>& parts) const {
  CheckpointSum sum(header_);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string_view bytes = bytes_of(parts[i]);
    auto* const to = static_cast<char*>(parts[i].data);
    const std::uint64_t from = header_.size + header_.parts[i].offset;
    auto done = in_pieces(bytes.size(), [&](std::uint64_t at, std::uint64_t size) {
      auto read = read_at(from + at, to + at, size);
      sum.add(bytes.substr(at, size));
      return read;
    });
    if (!done) return done;
  }
  return compare(sum);
}

Result<> CheckpointReader::compare(const CheckpointSum& sum) const {
  if (!header_.checksum || sum.value() == *header_.checksum) return {};
  return ddprun::Error{Errc::protocol, path_ + " is damaged: its checksum is wrong"};
}

Result<> CheckpointReader::read_at(std::uint64_t offset, void* data, std::size_t size) const {
  auto* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::pread(file_.get(), to, size, static_cast<off_t>(offset));
    if (n < 0 && errno != EINTR) return os_error("cannot read " + path_, errno);
    if (n == 0) return ddprun::Error{Errc::protocol, path_ + " is damaged: it became shorter"};
    if (n < 0) continue;
    to += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
  return {};
}

Result<> write_checkpoint(const std::string& name, CheckpointHeader header,
                          const std::vector<Buffer>& parts, bool keep_previous) {
  const std::string path = target_of(name);
  header.parts.clear();
  for (const Buffer& part : parts) {
    header.parts.push_back({part.type, part.count, data_size(header)});
  }
  remove_new_files(path, header.generation, "");  // of processes that died while writing
  const std::string fresh = name_new_file(path, header.generation);
  auto done = write_file(fresh, path, header, parts);
  if (done) done = replace(path, fresh, header.generation, keep_previous);
  if (!done) ::unlink(fresh.c_str());  // so as not to fill a full disk further
  return done ? flush_folder_of(path) : done;
}

}  // namespace ddp::internal

// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/checkpoint_disk.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "collectives/call/call.h"
#include "collectives/fnv.h"

namespace ddp::internal {
namespace {

using ddprun::Errc;
using ddprun::Fd;
using ddprun::os_error;
using ddprun::Result;

std::string_view bytes_of(const Buffer& buffer) {
  return {static_cast<const char*>(buffer.data), buffer.count * size_of(buffer.type)};
}

Result<> write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return os_error("cannot write " + path, errno);
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

/// Returns once the file is on the disk.
Result<> write_file(const std::string& path, const CheckpointHeader& header,
                    const std::vector<Buffer>& parts) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return os_error("cannot create " + path, errno);
  if (auto done = write_all(fd.get(), encode(header), path); !done) return done;
  for (const Buffer& part : parts) {
    if (auto done = write_all(fd.get(), bytes_of(part), path); !done) return done;
  }
  if (::fsync(fd.get()) != 0) return os_error("cannot flush " + path, errno);
  return {};
}

/// Names that were changed in it are on the disk, too.
Result<> flush_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path();
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error("cannot open " + folder, errno);
  // EINVAL: a file system that has nothing to flush.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return os_error("cannot flush " + folder, errno);
  return {};
}

}  // namespace

std::string previous_checkpoint(const std::string& path) {
  return path + ".previous";
}

Result<std::optional<CheckpointReader>> CheckpointReader::open(const std::string& path) {
  // Without O_NONBLOCK a pipe of that name would be waited for.
  Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return os_error("cannot read " + path, errno);
  if (!S_ISREG(status.st_mode)) return ddprun::Error{Errc::usage, path + " is not a file"};

  CheckpointReader reader(path, std::move(file));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::string begin(std::min<std::uint64_t>(size, kMaxCheckpointHeader), '\0');
  if (auto done = reader.read_at(0, begin.data(), begin.size()); !done) return done.error();
  const HeaderStatus found = decode(begin, reader.header_);
  if (found == HeaderStatus::malformed) {
    return ddprun::Error{Errc::protocol,
                         path + " is not a checkpoint of ddp, or of a later version"};
  }
  if (found == HeaderStatus::incomplete) {
    return ddprun::Error{Errc::protocol, path + " is damaged: it ends in its first lines"};
  }
  const std::uint64_t expected = reader.header_.size() + reader.header_.data_size();
  if (size != expected) {
    return ddprun::Error{Errc::protocol, path + " is damaged: it has " + std::to_string(size) +
                                             " bytes instead of " + std::to_string(expected)};
  }
  return std::optional(std::move(reader));
}

Result<> CheckpointReader::check() const {
  const std::uint64_t end = header_.size() + header_.data_size();
  Fnv64 sum;
  std::string piece;
  for (std::uint64_t at = kCheckpointChecked; at < end; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(end - at, std::uint64_t{1} << 20));
    if (auto done = read_at(at, piece.data(), piece.size()); !done) return done;
    sum.add(piece);
  }
  if (sum.value() != header_.checksum) {
    return ddprun::Error{Errc::protocol, path_ + " is damaged: its checksum is wrong"};
  }
  return {};
}

Result<> CheckpointReader::read(const std::vector<Buffer>& parts) const {
  std::uint64_t at = header_.size();
  for (const Buffer& part : parts) {
    if (auto done = read_at(at, part.data, bytes_of(part).size()); !done) return done;
    at += bytes_of(part).size();
  }
  return {};
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

Result<> write_checkpoint(const std::string& path, std::uint64_t version,
                          const std::vector<Buffer>& parts, bool keep_previous) {
  CheckpointHeader header{.version = version};
  for (const Buffer& part : parts) header.parts.push_back({part.type, part.count});
  Fnv64 sum;
  sum.add(std::string_view(encode(header)).substr(kCheckpointChecked));
  for (const Buffer& part : parts) sum.add(bytes_of(part));
  header.checksum = sum.value();

  const std::string fresh = path + ".tmp";
  if (auto done = write_file(fresh, header, parts); !done) {
    ::unlink(fresh.c_str());  // a full disk is not made fuller
    return done;
  }
  if (keep_previous) {
    // A second name, so that there is no moment without the first. Where the file system has no
    // such names none is kept: the new file, which is on the disk by now, is as good.
    const std::string previous = previous_checkpoint(path);
    ::unlink(previous.c_str());
    [[maybe_unused]] const int kept = ::link(path.c_str(), previous.c_str());
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) return os_error("cannot replace " + path, errno);
  return flush_folder_of(path);
}

}  // namespace ddp::internal

// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/checkpoint.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

namespace digits {
namespace {

constexpr std::uint64_t kMagic = 0x314b435449474944;  // "DIGITCK1"

struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t checksum = 0;  ///< of everything after this field
  std::uint64_t epochs_done = 0;
  std::uint64_t parameters = 0;
};

/// FNV-1a.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

constexpr std::size_t kChecked = offsetof(Header, epochs_done);

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw std::runtime_error("cannot " + what + " " + path + ": " + std::strerror(errno));
}

/// Returns once `bytes` are on the disk.
void write_durably(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) fail("create", path);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) fail("write", path);
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(fd) != 0) fail("flush", path);
  ::close(fd);
}

std::string_view bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

void save_checkpoint(const std::string& path, int epochs_done, std::span<const float> parameters,
                     std::span<const float> optimizer_state) {
  Header header;
  header.epochs_done = static_cast<std::uint64_t>(epochs_done);
  header.parameters = parameters.size();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(bytes_of(parameters)).append(bytes_of(optimizer_state));
  header.checksum = checksum(std::string_view(bytes).substr(kChecked));
  std::memcpy(bytes.data(), &header, sizeof(header));

  const std::string fresh = path + ".tmp";
  write_durably(fresh, bytes);
  if (::rename(fresh.c_str(), path.c_str()) != 0) fail("replace", path);
  // The new name has to reach the disk too.
  const std::string folder = std::filesystem::absolute(path).parent_path();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("open", folder);
  ::fsync(fd);
  ::close(fd);
}

int load_checkpoint(const std::string& path, std::span<float> parameters,
                    std::span<float> optimizer_state) {
  std::ifstream file(path, std::ios::binary);
  if (!file && errno == ENOENT) return 0;
  if (!file) fail("read", path);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Header header;
  std::memcpy(&header, bytes.data(), std::min(sizeof(header), bytes.size()));
  if (bytes.size() < sizeof(header) || header.magic != kMagic) {
    throw std::runtime_error(path + " is not a checkpoint of this program");
  }
  if (checksum(std::string_view(bytes).substr(kChecked)) != header.checksum) {
    throw std::runtime_error(path + " is damaged: its checksum is wrong; remove it to start over");
  }
  const std::size_t size = parameters.size_bytes() + optimizer_state.size_bytes();
  if (header.parameters != parameters.size() || bytes.size() != sizeof(header) + size) {
    throw std::runtime_error(path + " is of another network: " + std::to_string(header.parameters) +
                             " parameters, not " + std::to_string(parameters.size()));
  }
  const char* values = bytes.data() + sizeof(header);
  std::memcpy(parameters.data(), values, parameters.size_bytes());
  std::memcpy(optimizer_state.data(), values + parameters.size_bytes(),
              optimizer_state.size_bytes());
  return static_cast<int>(header.epochs_done);
}

}  // namespace digits

// SPDX-License-Identifier: Apache-2.0
#include "cli/line/secret.h"

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/line/usage_error.h"

namespace ddprun::cli {
namespace {

constexpr std::size_t kLeastDigits = 32;  // 128 bits
constexpr std::size_t kMostDigits = 1024;
constexpr std::size_t kMadeBytes = 32;

constexpr const char* kHowToMake = "as `ddprun secret` makes them";

/// The value of a hexadecimal digit; -1: it is no digit.
int digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const int lower = std::tolower(static_cast<unsigned char>(digit));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

/// Memory on the stack that its destructor overwrites.
template <std::size_t kSize>
struct Scratch {
  ~Scratch() { explicit_bzero(bytes.data(), bytes.size()); }
  std::array<char, kSize> bytes{};
};

/// An open secret file, of the right owner and mode.
Result<Fd> open_secret_file(const std::string& path) {
  if (decode_secret(path, "")) {
    return usage_error(
        "--secret_file takes the name of a file, and got what may be a secret (it is not shown "
        "here): write another one to a file, or write ./ before the name");
  }
  const std::string what = "--secret_file " + path;
  // O_NONBLOCK: opening a named pipe would wait.
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!file || fstat(file.get(), &status) != 0) {
    return usage_error(os_error(what + " cannot be read", errno).message);
  }
  if (!S_ISREG(status.st_mode)) return usage_error(what + " is not a file");
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    return usage_error(what + " belongs to another user (uid " + std::to_string(status.st_uid) +
                       "), who may change it: use a file of your own");
  }
  // Root gives the file to a group, as Kubernetes gives a mounted Secret to the pod's.
  const bool is_given = status.st_uid == 0 && geteuid() != 0;
  const mode_t refused = is_given ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
  if ((status.st_mode & refused) == 0) return file;
  return usage_error(what + " is open to other users than its owner: chmod 600 it");
}

/// A secret in its written form, with a newline.
using SecretLine = Scratch<2 * kMadeBytes + 1>;

Result<> write_line(const SecretLine& line, const Fd& to, const std::string& name) {
  const ssize_t written = ::write(to.get(), line.bytes.data(), line.bytes.size());
  if (written == std::ssize(line.bytes)) return {};
  return os_error("cannot write to " + name, written < 0 ? errno : ENOSPC);
}

Result<> write_file(const SecretLine& line, const std::string& path) {
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const Fd file(::open(path.c_str(), kNew, S_IRUSR | S_IWUSR));
  if (!file && errno == EEXIST) {
    return usage_error("ddprun secret does not replace a file: " + path + " exists");
  }
  if (!file) return os_error("cannot make " + path, errno);
  return write_line(line, file, path);
}

}  // namespace

Result<Secret> decode_secret(std::string_view text, const std::string& source) {
  const std::string_view digits = without_space(text);
  if (digits.size() < kLeastDigits || digits.size() > kMostDigits || digits.size() % 2 != 0) {
    return usage_error(source + " has " + std::to_string(digits.size()) +
                       " characters; a secret is " + std::to_string(kLeastDigits) + " to " +
                       std::to_string(kMostDigits) + " hexadecimal digits, two for each byte, " +
                       kHowToMake);
  }
  Scratch<kMostDigits / 2> scratch;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const int high = digit_value(digits[i]);
    const int low = digit_value(digits[i + 1]);
    if (high < 0 || low < 0) {
      return usage_error(source + " has other characters than hexadecimal digits; a secret has " +
                         "none, " + kHowToMake);
    }
    scratch.bytes[i / 2] = static_cast<char>(high << 4 | low);
  }
  return Secret(std::string_view(scratch.bytes.data(), digits.size() / 2));
}

Result<Secret> read_secret_file(const std::string& path) {
  const Result<Fd> file = open_secret_file(path);
  if (!file) return file.error();
  Scratch<kMostDigits + 64> scratch;  // and white space
  const ssize_t size = ::read(file->get(), scratch.bytes.data(), scratch.bytes.size());
  if (size < 0) {
    return usage_error(os_error("--secret_file " + path + " cannot be read", errno).message);
  }
  return decode_secret({scratch.bytes.data(), static_cast<std::size_t>(size)},
                       "--secret_file " + path);
}

Secret secret_text(const Secret& secret) {
  Scratch<kMostDigits> digits;
  write_hex(secret.view(), digits.bytes.data());
  return Secret(std::string_view(digits.bytes.data(), 2 * secret.view().size()));
}

Result<Secret> new_secret() {
  Scratch<kMadeBytes> random;
  // getrandom(2) returns so few bytes whole, or fails.
  while (getrandom(random.bytes.data(), kMadeBytes, 0) != kMadeBytes) {
    if (errno != EINTR) return os_error("cannot get random bytes", errno);
  }
  return Secret({random.bytes.data(), kMadeBytes});
}

Result<> make_secret(const std::string& file) {
  const Result<Secret> secret = new_secret();
  if (!secret) return secret.error();
  SecretLine line;
  write_hex(secret->view(), line.bytes.data());
  line.bytes.back() = '\n';
  return file.empty() ? write_line(line, Fd(dup(STDOUT_FILENO)), "stdout") : write_file(line, file);
}

}  // namespace ddprun::cli

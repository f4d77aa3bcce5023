// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret/tls_record.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kHeader = 5;  // type, version (2 bytes), length (2 bytes)

std::size_t byte(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

}  // namespace

bool may_be_tls(std::string_view first) {
  constexpr std::string_view kBegin = "\x16\x03";  // handshake, SSL 3 or later
  return first.starts_with(kBegin.substr(0, first.size()));
}

std::optional<std::size_t> first_record_size(std::string_view first) {
  if (first.size() < kHeader) return std::nullopt;
  return kHeader + (byte(first, 3) << 8 | byte(first, 4));
}

std::string alert_record(TlsAlert alert) {
  constexpr std::string_view kFatal("\x15\x03\x03\x00\x02\x02", 6);
  return std::string(kFatal) + static_cast<char>(alert);
}

}  // namespace ddprun::rendezvous

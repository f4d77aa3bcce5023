// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/refusal.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "rendezvous/etcd/messages.h"

namespace ddprun::rendezvous::etcd {
namespace {

constexpr size_t kMostWords = 300;  // in bytes, of a server's answer

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Etcd's words for errors that no other attempt changes, and what to do.
struct Lasting {
  std::string_view words;
  std::string_view advice;
};
constexpr std::array kLasting = std::to_array<Lasting>({
    {"authentication failed", "correct DDPRUN_ETCD_USER=name:password"},
    {"user name is empty", "give DDPRUN_ETCD_USER=name:password"},
    {"permission denied", "its role has to read and write the keys below /ddprun/"},
    {"authentication is not enabled", "unset DDPRUN_ETCD_USER"},
});

/// The refusal of a server that is no etcd, or none with this API.
Refusal stranger(unsigned status, std::string_view body) {
  if (contains(body, "HTTP request to an HTTPS server")) {
    return {Refusal::Kind::lasting, "it speaks TLS: give --rdzv_conf protocol=https,cacert=FILE"};
  }
  return {Refusal::Kind::server,
          "HTTP status " + std::to_string(status) + ": it does not answer as etcd 3.4 or later"};
}

/// A server that has lost the others answers with 5xx, an overloaded one with 408 or 429.
bool is_about_server(unsigned status) {
  return status >= 500 || status == 408 || status == 429 || status == 499;
}

}  // namespace

Refusal judge_refusal(unsigned status, std::string_view body, const std::string& user) {
  constexpr unsigned kBadRequest = 400, kUnauthorized = 401;
  const std::string words = printable(cut(decode_error(body), kMostWords));
  if (words.empty()) return stranger(status, body);
  const auto* const lasting =
      std::find_if(kLasting.begin(), kLasting.end(),
                   [&words](const Lasting& each) { return contains(words, each.words); });
  if (lasting != kLasting.end()) {
    const std::string subject = user.empty() ? "" : "user '" + user + "': ";
    return {Refusal::Kind::lasting, subject + words + "; " + std::string(lasting->advice)};
  }
  if (is_about_server(status)) return {Refusal::Kind::server, words};
  // A token lasts for minutes, or until users are changed: then its revision of auth is too old.
  const bool is_token = status == kUnauthorized || status == kBadRequest;
  return {is_token ? Refusal::Kind::token : Refusal::Kind::request, words};
}

}  // namespace ddprun::rendezvous::etcd

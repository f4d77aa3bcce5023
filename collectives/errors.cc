// SPDX-License-Identifier: Apache-2.0
#include "collectives/errors.h"

#include <memory>
#include <string_view>
#include <utility>

namespace ddp {

Error::Error(ErrorKind kind, const std::string& sentence)
    : std::runtime_error(sentence), kind_(kind) {}

const std::vector<int>& Error::lost_ranks() const noexcept {
  return internal::ErrorAccess::facts(*this).lost;
}

Error::~Error() = default;  // here, so that only this library has its vtable and type information

}  // namespace ddp

namespace ddp::internal {
namespace {

ErrorKind to_kind(ddprun::Errc code) {
  switch (code) {
    case ddprun::Errc::usage:
      return ErrorKind::usage;
    case ddprun::Errc::unreachable:
      return ErrorKind::unreachable;
    case ddprun::Errc::timed_out:
      return ErrorKind::timed_out;
    case ddprun::Errc::not_found:
    case ddprun::Errc::not_executable:
    case ddprun::Errc::port_in_use:
    case ddprun::Errc::system:
    case ddprun::Errc::left_out:
    case ddprun::Errc::closed:
    case ddprun::Errc::protocol:
      return ErrorKind::system;
  }
  return ErrorKind::system;
}

}  // namespace

Error ErrorAccess::make(ErrorKind kind, const std::string& sentence, ErrorFacts facts) {
  Error error(kind, sentence);
  error.facts_ = std::make_shared<const ErrorFacts>(std::move(facts));
  return error;
}

const ErrorFacts& ErrorAccess::facts(const Error& error) {
  static const ErrorFacts none;
  return error.facts_ ? *error.facts_ : none;
}

Error to_error(int rank, const ddprun::Error& error) {
  return {to_kind(error.code), "ddp: rank " + std::to_string(rank) + ": " + error.message};
}

Error to_error(const ddprun::Error& error) {
  return {to_kind(error.code), "ddp: " + error.message};
}

Error at_rank(int rank, const Error& error) {
  std::string_view sentence = error.what();
  if (sentence.starts_with("ddp: ")) sentence.remove_prefix(5);
  return {error.kind(), "ddp: rank " + std::to_string(rank) + ": " + std::string(sentence)};
}

std::string name_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string name_time(std::chrono::milliseconds time) {
  if (time.count() % 1000 != 0) return std::to_string(time.count()) + " ms";
  return std::to_string(time.count() / 1000) + " s";
}

}  // namespace ddp::internal

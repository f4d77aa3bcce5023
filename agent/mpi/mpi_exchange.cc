// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_exchange.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <sstream>

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kStoreTime{60};  // to connect, and for each reply

/// A number that an MpiServer has written.
int number_in(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

Result<> MpiExchange::connect() {
  if (client_) return {};
  Result<store::Client> client =
      store::Client::connect(store_.host, store_.port, kStoreTime, kStoreTime);
  if (!client) return client.error();
  client_.emplace(std::move(*client));
  return {};
}

std::string MpiExchange::key(std::string_view what) const {
  return "ddprun/mpi/" + name_ + '/' + std::to_string(number_) + '/' + std::string(what);
}

std::string MpiExchange::uncalled_key(int node) {
  return "ddprun/mpi/uncalled/" + std::to_string(node);
}

std::string MpiExchange::lost_key(int number) {
  return "ddprun/mpi/lost/" + std::to_string(number);
}

/// The last node to come wakes all others with one key.
Result<> MpiExchange::begin(std::string_view own) {
  if (const Result<> connected = connect(); !connected) return connected;
  ++number_;
  if (const Result<> given = client_->append(key("data"), own); !given) return given;
  const std::string node = std::to_string(own_node_) + ' ';
  if (const Result<> noted = client_->append(key("nodes"), node); !noted) return noted;
  const Result<std::int64_t> count = client_->add(key("count"), 1);
  if (!count) return count.error();
  return *count == std::ssize(nodes_) ? finish() : Result<>();
}

Result<> MpiExchange::finish() {
  const Result<std::int64_t> number = client_->add("ddprun/mpi/exchanges", 1);
  if (!number) return number.error();
  const Result<std::string> done = client_->compare_set(key("done"), "", std::to_string(*number));
  return done ? Result<>() : done.error();
}

Result<std::optional<std::string>> MpiExchange::end(std::chrono::milliseconds limit) {
  const Result<std::string> done = client_->get(key("done"), limit);
  if (!done && done.error().code == Errc::timed_out && !client_->lost()) {
    return std::optional<std::string>();
  }
  if (!done) return done.error();
  number_of_all_ = number_in(*done);
  Result<std::string> data = client_->get(key("data"), kStoreTime);
  if (!data) return data.error();
  return std::optional(std::move(*data));
}

Result<std::vector<int>> MpiExchange::missing() {
  const Result<std::string> there = client_->get(key("nodes"), kStoreTime);
  if (!there) return there.error();
  std::istringstream numbers(*there);
  const std::set<int> begun{std::istream_iterator<int>(numbers), {}};
  std::vector<int> nodes;
  std::ranges::copy_if(nodes_, std::back_inserter(nodes),
                       [&](int node) { return !begun.contains(node); });
  return nodes;
}

Result<> MpiExchange::publish_uncalled(const std::string& ranks) {
  if (const Result<> connected = connect(); !connected) return connected;
  return client_->set(uncalled_key(own_node_), ranks);
}

Result<std::string> MpiExchange::uncalled_of(const std::vector<int>& nodes) {
  std::string all;
  for (const int node : nodes) {
    const Result<bool> is_there = client_->check({uncalled_key(node)});
    if (!is_there) return is_there.error();
    if (!*is_there) continue;
    const Result<std::string> ranks = client_->get(uncalled_key(node), kStoreTime);
    if (!ranks) return ranks.error();
    if (!ranks->empty()) all.append(all.empty() ? "" : ", ").append(*ranks);
  }
  return all;
}

Result<int> MpiExchange::publish_lost(int rank) {
  if (const Result<> connected = connect(); !connected) return connected.error();
  const Result<std::int64_t> count = client_->add("ddprun/mpi/lost", 1);
  if (!count) return count.error();
  const auto number = static_cast<int>(*count);
  const Result<> told = client_->set(lost_key(number), std::to_string(rank));
  return told ? Result<int>(number) : told.error();
}

Result<std::optional<int>> MpiExchange::next_lost(std::chrono::milliseconds limit) {
  if (const Result<> connected = connect(); !connected) return connected.error();
  const Result<std::string> rank = client_->get(lost_key(known_lost_ + 1), limit);
  if (!rank && rank.error().code == Errc::timed_out && !client_->lost()) {
    return std::optional<int>();
  }
  if (!rank) return rank.error();
  ++known_lost_;
  return std::optional(number_in(*rank));
}

}  // namespace ddprun::agent

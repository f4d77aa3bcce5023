// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend_store.h"

#include <string_view>
#include <utility>

#include "collectives/failure.h"

namespace ddp::internal {

GlooStore::GlooStore(ddprun::rendezvous::StoreClient& client, std::string prefix, int rank,
                     int size, std::chrono::milliseconds timeout)
    : client_(client), prefix_(std::move(prefix)), rank_(rank), size_(size), timeout_(timeout) {}

void GlooStore::set(const std::string& key, const std::vector<char>& data) {
  auto stored = client_.set(prefix_ + key, std::string_view(data.data(), data.size()));
  if (stored) stored = client_.set(joined_key(rank_), "1");
  if (!stored) throw to_error(rank_, stored.error());
}

std::vector<char> GlooStore::get(const std::string& key) {
  wait_for_everyone();
  auto value = client_.get(prefix_ + key, timeout_);
  if (!value) throw to_error(rank_, value.error());
  return {value->begin(), value->end()};
}

void GlooStore::wait(const std::vector<std::string>& keys) {
  wait_for_everyone();
  std::vector<std::string> full;
  for (const std::string& key : keys) full.push_back(prefix_ + key);
  auto there = client_.wait(full, timeout_);
  if (!there) throw to_error(rank_, there.error());
}

void GlooStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) {
  wait(keys);
}

std::string GlooStore::joined_key(int rank) const {
  return prefix_ + "joined/" + std::to_string(rank);
}

void GlooStore::wait_for_everyone() {
  if (everyone_is_here_) return;
  std::vector<std::string> keys;
  for (int rank = 0; rank < size_; ++rank) keys.push_back(joined_key(rank));
  auto there = client_.wait(keys, timeout_);
  if (!there && there.error().code == ddprun::Errc::timed_out) {
    throw Error(ErrorKind::timed_out, "ddp: rank " + std::to_string(rank_) + ": " +
                                          missing_ranks() + " did not join within " +
                                          name_time(timeout_) + " (store " + client_.server() +
                                          ")");
  }
  if (!there) throw to_error(rank_, there.error());
  everyone_is_here_ = true;
}

std::string GlooStore::missing_ranks() {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    auto joined = client_.check({joined_key(rank)});
    if (joined && !*joined) missing.push_back(rank);
  }
  return missing.empty() ? "some rank" : name_ranks(missing);
}

}  // namespace ddp::internal

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::store {

/// The recorded traffic of unmodified PyTorch clients and servers: tests/data/tcpstore-vectors.tsv.
class StoreVectors {
 public:
  StoreVectors();

  /// The bytes of a row; marks it as used.
  const std::string& operator[](const std::string& id);

  std::size_t size() const { return rows_.size(); }
  std::vector<std::string> unused() const;

 private:
  std::map<std::string, std::string> rows_;
  std::set<std::string> used_;
};

/// One request and the reply to it.
struct Exchange {
  std::string request;
  std::string reply;
};

/// The requests of one client, in order, on a fresh store.
std::vector<Exchange> current_conversation(StoreVectors& vectors);
std::vector<Exchange> legacy_conversation(StoreVectors& vectors);

}  // namespace ddprun::store

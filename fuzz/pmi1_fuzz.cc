// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes of two ranks as requests of PMI-1: each request gets one answer at most, answers
// are whole lines. The first byte selects how the bytes
// are cut into pieces, which the ranks send in turn.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/mpi/pmi1_server.h"
#include "fuzz/feed.h"
#include "fuzz/target.h"

namespace {

using namespace ddprun;
using fuzz::require;

constexpr int kRanks = 2;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  rendezvous::Layout layout;
  layout.local_size = layout.world_size = kRanks;
  agent::Pmi1Server server(layout, {"name", {kRanks}, {}});
  const auto lines = static_cast<std::size_t>(std::ranges::count(bytes, '\n'));
  std::size_t answers = 0, told = 0, barriers = 0;
  int rank = 0;
  for (const std::string_view piece : fuzz::pieces_of(bytes, std::size_t{data[0]} + 1)) {
    server.receive(rank, piece);
    rank = (rank + 1) % kRanks;
    if (const auto puts = server.take_barrier()) {
      ++barriers;
      require(puts->size() <= agent::Pmi1Server::kMostPuts, "what a node puts is bounded");
      server.end_barrier(*puts);
    }
    for (const agent::Pmi1Server::Reply& reply : server.take_replies()) {
      ++answers;
      require(std::ranges::count(reply.line, '\n') == 1 && reply.line.ends_with('\n'),
              "an answer is a line");
      require(reply.line.size() <= agent::Pmi1Server::kMostLine, "answers are bounded");
    }
    for (const agent::MpiNews& news : server.take_news()) {
      ++told;
      std::string line = agent::line_of(news);
      require(std::ranges::count(line, '\n') == 1, "news are a line");
      line.pop_back();
      require(agent::parse_mpi_news(line, kRanks).has_value(), "news are read as written");
    }
  }
  require(answers <= lines && told <= lines + kRanks && kRanks * barriers <= lines,
          "nothing comes of nothing");
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_order.h"

#include <charconv>

namespace ddprun::agent {
namespace {

constexpr const char* kServerFlag = "--mpi_server";
constexpr size_t kTexts = 3;    // before the numbers
constexpr size_t kNumbers = 8;  // before the sockets

}  // namespace

std::vector<std::string> arguments_of(const MpiOrder& order) {
  const rendezvous::Layout& layout = order.layout;
  std::vector<std::string> words = {kServerFlag, order.store.host, order.program};
  for (const int number :
       {static_cast<int>(order.mpi), int{order.store.port}, layout.round, layout.node_rank,
        layout.node_count, layout.first_rank, layout.local_size, layout.world_size}) {
    words.push_back(std::to_string(number));
  }
  for (const int socket : order.sockets) words.push_back(std::to_string(socket));
  return words;
}

bool is_mpi_server(std::span<const std::string> arguments) {
  return arguments.size() > kTexts + kNumbers && arguments.front() == kServerFlag;
}

std::optional<MpiOrder> order_of(std::span<const std::string> arguments) {
  std::vector<int> numbers;
  for (const std::string& word : arguments.subspan(kTexts)) {
    const auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), numbers.emplace_back());
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  }
  MpiOrder order;
  order.program = arguments[2];
  order.mpi = static_cast<Mpi>(numbers[0]);
  order.store = {arguments[1], static_cast<std::uint16_t>(numbers[1])};
  order.layout.round = numbers[2];
  order.layout.node_rank = numbers[3];
  order.layout.node_count = numbers[4];
  order.layout.first_rank = numbers[5];
  order.layout.local_size = numbers[6];
  order.layout.world_size = numbers[7];
  order.sockets.assign(numbers.begin() + kNumbers, numbers.end());
  if (std::ssize(order.sockets) != order.layout.local_size) return std::nullopt;
  return order;
}

}  // namespace ddprun::agent

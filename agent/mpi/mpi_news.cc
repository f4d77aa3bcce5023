// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_news.h"

#include <charconv>
#include <system_error>

#include "base/text.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kKinds = "ifavrkwx";

std::optional<int> take_number(std::string_view& rest) {
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || end == rest.data() + rest.size() || *end != ' ') return std::nullopt;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()) + 1);
  return number;
}

}  // namespace

MpiNews spawn_refused(int local_rank, const rendezvous::Layout& layout) {
  return {.local_rank = local_rank,
          .text = ranks_text({layout.first_rank + local_rank}) +
                  " called MPI_Comm_spawn, which ddprun does not serve: start all ranks with "
                  "--nproc_per_node"};
}

std::string line_of(const MpiNews& news) {
  std::string line(1, static_cast<char>(news.kind));
  line += ' ' + std::to_string(news.local_rank) + ' ' + std::to_string(news.code) + ' ';
  return line + news.text + '\n';
}

std::optional<MpiNews> parse_mpi_news(std::string_view line, int local_size) {
  if (line.size() < 2 || kKinds.find(line[0]) == kKinds.npos || line[1] != ' ') return std::nullopt;
  std::string_view rest = line.substr(2);
  const auto rank = take_number(rest);
  const auto code = rank ? take_number(rest) : std::nullopt;
  if (!code || *rank < 0 || *rank >= local_size) return std::nullopt;
  return MpiNews{static_cast<MpiNews::Kind>(line[0]), *rank, *code, std::string(rest)};
}

}  // namespace ddprun::agent

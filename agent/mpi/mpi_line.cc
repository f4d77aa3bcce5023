// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_line.h"

#include <charconv>
#include <system_error>

#include "base/text.h"

namespace ddprun::agent {
namespace {

constexpr const char* kServerFlag = "--mpi_server";
constexpr size_t kTexts = 3;    // before the numbers
constexpr size_t kNumbers = 9;  // before the sockets

constexpr std::string_view kKinds = "ifavrkwx";

std::optional<int> take_number(std::string_view& rest) {
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || end == rest.data() + rest.size() || *end != ' ') return std::nullopt;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()) + 1);
  return number;
}

launcher::ExitStatus exit_with(int code) {
  return launcher::ExitStatus((code & 0xff) << 8);  // as wait(2) has it
}

}  // namespace

std::vector<std::string> arguments_of(const MpiOrder& order) {
  const rendezvous::Layout& layout = order.layout;
  std::vector<std::string> words = {kServerFlag, order.store.host, order.program};
  for (const int number : {static_cast<int>(order.mpi), int{order.store.port}, layout.round,
                           layout.node_rank, layout.node_count, layout.first_rank,
                           layout.local_size, layout.world_size, order.survives ? 1 : 0}) {
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
  order.survives = numbers[8] != 0;
  order.sockets.assign(numbers.begin() + kNumbers, numbers.end());
  if (std::ssize(order.sockets) != order.layout.local_size) return std::nullopt;
  return order;
}

std::string line_of(MpiQuestion question, int local_rank) {
  return std::string{static_cast<char>(question), ' '} + std::to_string(local_rank) + '\n';
}

std::optional<std::pair<MpiQuestion, int>> parse_mpi_question(std::string_view line,
                                                              int local_size) {
  if (line.size() < 3 || (line[0] != 'e' && line[0] != 'l') || line[1] != ' ') return std::nullopt;
  int rank = -1;
  const auto [end, error] = std::from_chars(line.data() + 2, line.data() + line.size(), rank);
  if (error != std::errc() || end != line.data() + line.size()) return std::nullopt;
  if (rank < 0 || rank >= local_size) return std::nullopt;
  return std::pair(static_cast<MpiQuestion>(line[0]), rank);
}

MpiNews refusal_of(Unserved part, int local_rank, const rendezvous::Layout& layout) {
  return {.local_rank = local_rank,
          .text = ranks_text({layout.first_rank + local_rank}) +
                  (part == Unserved::spawn
                       ? " called MPI_Comm_spawn, which ddprun does not serve: start all ranks "
                         "with --nproc_per_node"
                       : " published or looked up a name (MPI_Publish_name, MPI_Comm_accept), "
                         "which ddprun does not serve: all ranks are in MPI_COMM_WORLD")};
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

std::optional<MpiFailure> mpi_failure(const MpiRank& rank, launcher::ExitStatus status,
                                      int world_size) {
  if (rank.abort_code) {
    const int code = *rank.abort_code & 0xff;
    return MpiFailure{exit_with(code == 0 ? 1 : code),
                      "called MPI_Abort(" + std::to_string(*rank.abort_code) + ")"};
  }
  const bool is_open = rank.called_init && !rank.finalized && world_size > 1;
  if (!is_open || !status.success()) return std::nullopt;
  return MpiFailure{exit_with(1), "ended without MPI_Finalize, with exit code 0"};
}

}  // namespace ddprun::agent

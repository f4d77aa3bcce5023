// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/pmi1_server.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kMapping = "PMI_process_mapping";
constexpr std::size_t kMostShown = 80;  // of a line that is refused

/// The text after "name=" in the line, up to its end; empty: it is not there.
std::string_view rest_of(std::string_view line, std::string_view name) {
  for (size_t at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool is_word = at == 0 || line[at - 1] == ' ';
    if (is_word && end < line.size() && line[end] == '=') return line.substr(end + 1);
  }
  return {};
}

/// The same up to the next space.
std::string_view word_of(std::string_view line, std::string_view name) {
  const std::string_view rest = rest_of(line, name);
  return rest.substr(0, rest.find(' '));
}

}  // namespace

Pmi1Server::Pmi1Server(const rendezvous::Layout& layout, const MpiNodes& nodes)
    : layout_(layout), name_(nodes.name), ranks_(static_cast<size_t>(layout.local_size)) {
  values_.emplace(kMapping, pmi1_mapping(nodes));
}

void Pmi1Server::receive(int local_rank, std::string_view bytes) {
  Rank& rank = ranks_[static_cast<size_t>(local_rank)];
  while (!bytes.empty() && !rank.broken) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (rank.line.size() + piece.size() > kMostLine) {
      return refuse(local_rank, "a line of more than " + std::to_string(kMostLine) + " bytes");
    }
    rank.line.append(piece);
    if (end == bytes.npos) return;
    bytes.remove_prefix(end + 1);
    take_line(local_rank, std::exchange(rank.line, {}));
  }
}

void Pmi1Server::take_line(int local_rank, std::string_view line) {
  Rank& rank = ranks_[static_cast<size_t>(local_rank)];
  if (rank.in_spawn || line == "mcmd=spawn") {
    rank.in_spawn = line != "endcmd";
    return rank.in_spawn ? void() : refuse_spawn(local_rank);
  }
  const std::string_view command = word_of(line, "cmd");
  if (command == "init") return init(local_rank, line);
  if (command == "put") return put(local_rank, line);
  if (command == "get") return get(local_rank, line);
  if (command == "get_maxes") {
    return reply(local_rank,
                 "cmd=maxes rc=0 kvsname_max=256 keylen_max=" + std::to_string(kMostKey) +
                     " vallen_max=" + std::to_string(kMostValue));
  }
  if (command == "get_appnum") return reply(local_rank, "cmd=appnum rc=0 appnum=0");
  if (command == "get_my_kvsname") {
    return reply(local_rank, "cmd=my_kvsname rc=0 kvsname=" + name_);
  }
  if (command == "get_universe_size") {
    return reply(local_rank, "cmd=universe_size rc=0 size=" + std::to_string(layout_.world_size));
  }
  if (command == "barrier_in") {
    in_barrier_ += std::exchange(rank.in_barrier, true) ? 0 : 1;
    return;
  }
  if (command == "finalize") {
    news_.push_back({MpiNews::Kind::finalized, local_rank});
    return reply(local_rank, "cmd=finalize_ack rc=0");
  }
  if (command == "abort") {
    const std::string_view code = word_of(line, "exitcode");
    MpiNews& news = news_.emplace_back(MpiNews{MpiNews::Kind::aborted, local_rank});
    std::from_chars(code.data(), code.data() + code.size(), news.code);
    return;
  }
  for (const auto& [unserved, answer] : {std::pair("publish_name", "publish"),
                                         {"unpublish_name", "unpublish"},
                                         {"lookup_name", "lookup"}}) {
    if (command != unserved) continue;
    news_.push_back(refusal_of(Unserved::names, local_rank, layout_));
    return reply(local_rank, std::string("cmd=") + answer + "_result rc=-1 info=not_served");
  }
  refuse(local_rank, '\'' + cut(printable(line), kMostShown) + '\'');
}

void Pmi1Server::init(int local_rank, std::string_view line) {
  const bool is_ours = word_of(line, "pmi_version") == "1";
  reply(local_rank, std::string("cmd=response_to_init rc=") + (is_ours ? "0" : "-1") +
                        " pmi_version=1 pmi_subversion=1");
  if (!is_ours || std::exchange(ranks_[static_cast<size_t>(local_rank)].called_init, true)) return;
  news_.push_back({MpiNews::Kind::called_init, local_rank});
}

/// The value is the last word, and may have spaces.
void Pmi1Server::put(int local_rank, std::string_view line) {
  const std::string_view key = word_of(line, "key");
  const std::string_view value = rest_of(line, "value");
  const bool fits = !key.empty() && key.size() <= kMostKey && value.size() <= kMostValue &&
                    puts_.size() + key.size() + value.size() + 2 <= kMostPuts;
  if (!fits) return refuse(local_rank, "a key or a value that is too long, or too many of them");
  values_[std::string(key)] = value;
  puts_.append(key).append(" ").append(value).append("\n");
  reply(local_rank, "cmd=put_result rc=0 msg=success");
}

void Pmi1Server::get(int local_rank, std::string_view line) {
  const auto value = values_.find(word_of(line, "key"));
  if (value == values_.end()) {
    return reply(local_rank, "cmd=get_result rc=-1 msg=key_not_found value=unknown");
  }
  reply(local_rank, "cmd=get_result rc=0 msg=success value=" + value->second);
}

void Pmi1Server::refuse_spawn(int local_rank) {
  news_.push_back(refusal_of(Unserved::spawn, local_rank, layout_));
  reply(local_rank, "cmd=spawn_result rc=-1 msg=not_served");
}

void Pmi1Server::refuse(int local_rank, const std::string& what) {
  ranks_[static_cast<size_t>(local_rank)].broken = true;
  news_.push_back({.kind = MpiNews::Kind::failed,
                   .local_rank = local_rank,
                   .text = ranks_text({layout_.first_rank + local_rank}) +
                           " sent a request of PMI-1 that ddprun does not "
                           "know: " +
                           what});
}

void Pmi1Server::reply(int local_rank, std::string line) {
  replies_.push_back({local_rank, std::move(line) + '\n'});
}

std::vector<Pmi1Server::Reply> Pmi1Server::take_replies() {
  return std::exchange(replies_, {});
}

std::vector<MpiNews> Pmi1Server::take_news() {
  return std::exchange(news_, {});
}

std::optional<std::string> Pmi1Server::take_barrier() {
  if (in_barrier_ < layout_.local_size) return std::nullopt;
  in_barrier_ = 0;
  return std::exchange(puts_, {});
}

void Pmi1Server::end_barrier(std::string_view puts) {
  while (!puts.empty()) {
    const size_t end = std::min(puts.find('\n'), puts.size());
    const std::string_view line = puts.substr(0, end);
    const size_t space = std::min(line.find(' '), line.size());
    values_[std::string(line.substr(0, space))] = line.substr(std::min(space + 1, line.size()));
    puts.remove_prefix(std::min(end + 1, puts.size()));
  }
  for (int local_rank = 0; local_rank < layout_.local_size; ++local_rank) {
    ranks_[static_cast<size_t>(local_rank)].in_barrier = false;
    reply(local_rank, "cmd=barrier_out rc=0");
  }
}

}  // namespace ddprun::agent

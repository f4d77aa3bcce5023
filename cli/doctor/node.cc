// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/node.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/signal_masked_thread.h"
#include "cli/doctor/facts.h"
#include "cli/doctor/json.h"
#include "cli/doctor/pairs.h"
#include "cli/doctor/probe.h"
#include "cli/doctor/read_facts.h"
#include "cli/doctor/report.h"
#include "store/client.h"

namespace ddprun::doctor {

Result<std::vector<std::optional<std::string>>> collect(store::Client& store,
                                                        const std::vector<std::string>& keys,
                                                        std::chrono::milliseconds limit) {
  const Result<> waited = store.wait(keys, limit);
  if (!waited && store.lost()) return waited.error();
  std::vector<std::optional<std::string>> values;
  for (const std::string& key : keys) {
    const Result<bool> is_there = waited ? Result<bool>(true) : store.check({key});
    if (!is_there) return is_there.error();
    if (!*is_there) {
      values.emplace_back();
      continue;
    }
    Result<std::vector<std::string>> value = store.multi_get({key});  // it waits for no key
    if (!value) return value.error();
    values.emplace_back(std::move(value->front()));
  }
  return values;
}

namespace {

constexpr int kCannotTell = 125;
constexpr std::chrono::seconds kStoreLimit{60};
constexpr std::chrono::seconds kPeerTimeout{60};  // for another node's disk or probes

int number_from(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? 0 : std::atoi(value);
}

std::string text_from(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

/// This node of the job, and the store through which the nodes talk.
class Node {
 public:
  Node(Order order, store::Client store)
      : order_(std::move(order)),
        store_(std::move(store)),
        rank_(number_from("RANK")),
        count_(number_from("WORLD_SIZE")),
        master_(text_from("MASTER_ADDR")) {}

  /// Returns whether all is well; only rank 0 finds that out.
  Result<bool> run();

 private:
  static std::string key(const std::string& what, int rank) {
    return "doctor/" + what + "/" + std::to_string(rank);
  }

  Result<> tell_facts();
  Result<> collect_facts();
  std::vector<Link> try_links() const;
  Result<> measure_links(std::vector<Link>& links);
  std::string way_of(int node) const;
  Result<> load_ring(std::vector<Link>& links);
  void measure_with(int other, std::vector<Link>& links) const;
  Result<bool> meet(const std::string& where);
  Result<std::vector<std::optional<std::string>>> collect_of_all(const std::string& what);
  Result<bool> report();

  const Order order_;
  store::Client store_;
  const int rank_;
  const int count_;
  const std::string master_;
  std::vector<Facts> nodes_;
};

Result<> Node::tell_facts() {
  Facts facts = read_facts_in_time(order_, store_.local_address());
  facts.bench = order_.bench;
  if (count_ > 1) {
    const Result<Answerer> answerer = Answerer::listen();
    if (!answerer) return answerer.error();
    facts.port = answerer->port();
    facts.token = answerer->token();
  }
  return store_.set(key("facts", rank_), encode(facts));
}

/// Collects `what` of all nodes; nullopt for nodes that take too long.
Result<std::vector<std::optional<std::string>>> Node::collect_of_all(const std::string& what) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < count_; ++rank) keys.push_back(key(what, rank));
  return collect(store_, keys, kPeerTimeout);
}

Result<> Node::collect_facts() {
  const auto told = collect_of_all("facts");
  if (!told) return told.error();
  for (size_t rank = 0; rank < told->size(); ++rank) {
    const auto& text = (*told)[rank];
    std::optional<Facts> facts = text ? decode_facts(*text) : std::nullopt;
    if (!facts) {
      facts.emplace();
      facts->host = "node " + std::to_string(rank);
      facts->missing =
          "no report from this node for " + std::to_string(kPeerTimeout.count()) + " s";
    }
    nodes_.push_back(std::move(*facts));
  }
  return {};
}

/// Tries all links at once: a link takes seconds if no answer comes.
std::vector<Link> Node::try_links() const {
  const std::vector<Target> all = targets(rank_, nodes_, master_);
  std::vector<Link> links(all.size());
  std::vector<std::thread> threads;
  threads.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const auto try_one = [this, &links, &all, i] {
      links[i] = probe(rank_, all[i], nodes_.at(static_cast<size_t>(all[i].node)));
    };
    try {
      threads.push_back(signal_masked_thread(try_one));
    } catch (const std::system_error&) {  // no thread is left, as in a container
      try_one();
    }
  }
  for (std::thread& thread : threads) thread.join();
  return links;
}

std::string Node::way_of(int node) const {
  const Facts& facts = nodes_.at(static_cast<size_t>(node));
  return facts.way.empty() ? master_ : facts.way;
}

/// Measures the link to `other`. In a job of many nodes, this node may not have tried it yet.
void Node::measure_with(int other, std::vector<Link>& links) const {
  const Facts& facts = nodes_.at(static_cast<size_t>(other));
  const auto link = std::ranges::find_if(
      links, [&](const Link& l) { return l.to == other && l.use.starts_with("ddprun"); });
  const bool is_tried = link != links.end();
  if (is_tried && !link->error.empty()) return;
  const Target target =
      is_tried ? Target{other, link->use, link->address} : Target{other, "ddprun", way_of(other)};
  Link measured = measure(rank_, target, facts);
  if (measured.is_measured || !is_tried) links.push_back(std::move(measured));
}

/// Sends to the next node while all others do the same, as in a ring. Does so only if all nodes
/// have --bench and are here: otherwise nodes would wait for the others.
Result<> Node::load_ring(std::vector<Link>& links) {
  const bool all_will = std::ranges::all_of(
      nodes_, [](const Facts& facts) { return facts.bench && facts.missing.empty(); });
  if (!all_will || count_ < 2) return {};
  const Result<bool> met = meet("ring");
  if (!met) return met.error();
  if (!*met) return {};
  const int next = (rank_ + 1) % count_;
  Link link = load(rank_, {next, "ddprun", way_of(next)}, nodes_.at(static_cast<size_t>(next)));
  if (link.is_measured) links.push_back(std::move(link));
  return {};
}

/// Measures in turns, so that no two measurements share a node. Does nothing if a node is missing:
/// the turns would wait for it.
Result<> Node::measure_links(std::vector<Link>& links) {
  const bool all_here = std::ranges::all_of(nodes_, &std::string::empty, &Facts::missing);
  for (int turn = 0; all_here && turn < turns(count_); ++turn) {
    const std::optional<int> other = partner(rank_, count_, turn);
    if (other && rank_ < *other) measure_with(*other, links);
    const Result<bool> met = meet("turn/" + std::to_string(turn));
    if (!met) return met.error();
    if (!*met) break;
  }
  return {};
}

/// Waits until all nodes have called it. Returns false if some have not in kPeerTimeout.
Result<bool> Node::meet(const std::string& where) {
  const std::string name = "doctor/" + where;
  const Result<std::int64_t> come = store_.add(name, 1);
  if (!come) return come.error();
  if (*come == count_) {
    const Result<> set = store_.set(name + "/all", "");
    return set ? Result<bool>(true) : set.error();
  }
  const Result<> waited = store_.wait({name + "/all"}, kPeerTimeout);
  if (!waited && store_.lost()) return waited.error();
  return waited.has_value();
}

Result<bool> Node::report() {
  const auto told = collect_of_all("links");
  if (!told) return told.error();
  std::vector<Link> all;
  for (int rank = 0; rank < count_; ++rank) {
    const auto& text = (*told)[static_cast<size_t>(rank)];
    auto links = text ? decode_links(*text, rank, count_) : std::nullopt;
    Facts& facts = nodes_[static_cast<size_t>(rank)];
    if (links) {
      all.insert(all.end(), links->begin(), links->end());
    } else if (facts.missing.empty()) {
      facts.missing = "it did not finish its probes";
    }
  }
  const Findings findings = examine(nodes_, all);
  const std::string text =
      order_.json ? report_json(findings, nodes_) : report_text(findings, nodes_);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return os_error("cannot write the report", errno);
  }
  return !has_failure(findings);
}

Result<bool> Node::run() {
  if (const Result<> told = tell_facts(); !told) return told.error();
  if (const Result<> collected = collect_facts(); !collected) return collected.error();
  std::vector<Link> links = count_ > 1 ? try_links() : std::vector<Link>();
  if (const Result<> measured = measure_links(links); !measured) return measured.error();
  if (const Result<> loaded = load_ring(links); !loaded) return loaded.error();
  if (const Result<> told = store_.set(key("links", rank_), encode(links)); !told) {
    return told.error();
  }
  if (rank_ != 0) {  // until then others may try to reach this node
    const Result<> waited = store_.wait({"doctor/end"}, 2 * kPeerTimeout);
    return waited || !store_.lost() ? Result<bool>(true) : waited.error();
  }
  const Result<bool> well = report();
  const Result<> ended = store_.set("doctor/end", "");
  return ended ? well : ended.error();
}

int fail_with(const Error& error) {
  log::error(error.message);
  return kCannotTell;
}

}  // namespace

bool is_node(const std::vector<std::string>& words) {
  return words.size() > 1 && words.front() == kNodeWord;
}

int run_node(const std::vector<std::string>& words) {
  std::optional<Order> order = decode_order(words[1]);
  if (!order) return fail_with({Errc::usage, std::string(kNodeWord) + " is for ddprun doctor"});
  Result<store::Client> store = store::Client::connect(
      text_from("MASTER_ADDR"), static_cast<std::uint16_t>(number_from("MASTER_PORT")), kStoreLimit,
      kStoreLimit);
  if (!store) return fail_with(store.error());
  const Result<bool> well = Node(std::move(*order), std::move(*store)).run();
  if (!well) return fail_with(well.error());
  return *well ? 0 : 1;
}

}  // namespace ddprun::doctor

// SPDX-License-Identifier: Apache-2.0
// Invariants of every history.
#include <algorithm>
#include <set>
#include <variant>

#include "tests/catch.h"
#include "tests/rendezvous/round/walk.h"

namespace ddprun::rendezvous {

bool Walk::given_up(const Agent& agent) const {
  return agent.told && now_ >= *agent.told + spec_.join_timeout;
}

void Walk::check_nobody_works_but_in(int round) {
  for (const auto& [name, agent] : agents_) {
    if (!agent.works() || agent.layout->round == round || given_up(agent)) continue;
    // No new node knows the rounds of an earlier master, so the present master need not know them.
    blind_ |= masters_ > 1 && agent.layout->round > before_;
    if (!blind_) {
      INFO("round " << round << ", round " << agent.layout->round << " on " << name);
      CHECK_FALSE(agent.works());
    }
  }
}

void Walk::check_round_of(const Notifications& notifications) {
  std::vector<std::pair<const Agent*, Layout>> members;
  for (const auto& [node, notification] : notifications) {
    auto* ready = std::get_if<Ready>(&notification);
    if (ready != nullptr) members.emplace_back(&agents_.at(at_node_.at(node)), ready->layout);
  }
  CHECK(round_->restarts() == spent_);
  CHECK(round_->ending().has_value() == round_->closed());
  if (members.empty()) return;

  CHECK(now_ >= pause_ends_);
  CHECK_FALSE(ended_.has_value());
  CHECK(members.size() >= static_cast<size_t>(spec_.min_nodes));
  CHECK(members.size() <= static_cast<size_t>(spec_.max_nodes));
  std::set<const Agent*> once;
  int next_rank = 0, node_rank = 0;
  for (const auto& [agent, layout] : members) {
    CHECK(once.insert(agent).second);
    CHECK(layout.node_rank == node_rank++);
    CHECK(layout.first_rank == next_rank);
    CHECK(layout.local_size == agent->request.local_size);
    CHECK(layout.node_count == static_cast<int>(members.size()));
    CHECK(layout.world_size == members.back().second.world_size);
    CHECK(layout.round == highest_ + 1);
    CHECK(layout.restarts == spent_);
    CHECK(layout.guests == std::count_if(members.begin(), members.end(), [](const auto& member) {
            return !member.first->request.hosting;
          }));
    CHECK(layout.store_port == members.front().first->request.store_port);
    next_rank += layout.local_size;
  }
  CHECK(next_rank == members.back().second.world_size);
  for (const auto& [name, agent] : agents_) {
    blind_ |= masters_ > 1 && agent.layout && agent.layout->round > highest_;
  }
  // No failure is forgotten.
  const auto prior = prior_failures_.find(highest_);
  if (prior != prior_failures_.end()) CHECK(prior->second.first < spent_);
  before_ = highest_;
  check_nobody_works_but_in(++highest_);
  own_ = highest_;
  check_stable(members);
  started_ = now_;
  ++rounds_;
  if (masters_ > 1 && !blind_ && before_ >= 0) ++resumed_;
}

void Walk::check_stable(const std::vector<std::pair<const Agent*, Layout>>& members) {
  if (blind_) return;
  int latest = -1;
  for (const auto& [agent, layout] : members) latest = std::max(latest, agent->request.last_round);
  for (const auto& [agent, layout] : members) {
    const bool survived = latest >= 0 && agent->request.last_round == latest;
    const int held = agent->request.node_rank.value_or(survived ? agent->request.last_node_rank
                                                                : layout.node_count);
    if (held >= layout.node_count) continue;
    if (!ranks_given_ && (held == 0 || agent->request.is_host)) continue;
    CHECK(layout.node_rank == held);
  }
}

void Walk::check_end(const Ending& ending) {
  const auto* failure = std::get_if<Failed>(&ending);
  const std::string text = failure == nullptr ? "" : failure->no_restart + "\n" + failure->summary;
  if (end_) CHECK(text == *end_);
  if (failure != nullptr && !end_) {
    CHECK(ended_.has_value());
    CHECK(!failure->no_restart.empty());
    CHECK(failure->summary.size() < 1'200);
    for (const auto& [name, agent] : agents_) {
      if (agent.works() && agent.told && !given_up(agent)) CHECK_FALSE(agent.works());
    }
  }
  end_ = text;
}

}  // namespace ddprun::rendezvous

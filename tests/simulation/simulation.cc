// SPDX-License-Identifier: Apache-2.0
// Time, the network, and the master.
#include "tests/simulation/simulation.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace ddprun::simulation {

using namespace rendezvous;
using std::chrono::seconds;

namespace {

const char* name_of(const Message& message) {
  constexpr std::array kNames = {"hello", "heartbeat", "join",  "fail",       "succeed", "progress",
                                 "leave", "ask",       "owned", "get_secret", "gone",    "inquiry"};
  static_assert(kNames.size() == std::variant_size_v<Message>);
  return kNames[message.index()];
}

const char* name_of(const Reply& reply) {
  constexpr std::array kReplies = {"welcome", "heartbeat", "waiting", "sealed_secret", "whose"};
  constexpr std::array kNotifications = {"ready", "broken", "closed", "refused", "stalled"};
  static_assert(kReplies.size() + 2 == std::variant_size_v<Reply>);
  static_assert(kNotifications.size() == std::variant_size_v<Notification>);
  const auto* notification = std::get_if<Notification>(&reply);
  if (std::holds_alternative<Inquiry>(reply)) return "inquiry";
  return notification ? kNotifications[notification->index()] : kReplies[reply.index()];
}

/// Only a history with an endless loop has more events.
constexpr std::uint64_t kMostEvents = 400'000;

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  rounds += other.rounds;
  resumed += other.resumed;
  leases_over += other.leases_over;
  evicted += other.evicted;
  proven += other.proven;
  masters += other.masters;
  gave_up += other.gave_up;
  answers += other.answers;
  stops += other.stops;
  hangs += other.hangs;
  of_suspended_host += other.of_suspended_host;
  of_unknown_round += other.of_unknown_round;
  of_unguarded_agent += other.of_unguarded_agent;
  of_killed_master += other.of_killed_master;
  return *this;
}

Simulation::Simulation(std::uint64_t seed, bool trace, Kind kind)
    : random_(static_cast<std::mt19937::result_type>(seed ^ (seed >> 32))),
      trace_(trace),
      wide_(kind == Kind::wide) {
  now_ += seconds(1'000);
  spec_.min_nodes = number(1, 3);
  spec_.max_nodes = spec_.min_nodes + number(0, 2);
  spec_.max_restarts = number(0, 5);
  spec_.join_timeout = seconds(number(30, 90));
  spec_.last_call = seconds(number(0, 5));
  if (chance(3)) spec_.restart_backoff = std::chrono::milliseconds(number(1, 3'000));
  if (chance(2)) spec_.hang_timeout = seconds(60);
  lease_.lease = std::chrono::milliseconds(number(2'000, 10'000));
  lease_.heartbeat = lease_.lease / number(4, 8);
}

bool Simulation::run() {
  elected_ = wide_ && chance(2);
  hosted_ = chance(2) && !elected_;
  if (chance(4)) {
    after(milliseconds(0, 10'000), [this] { start_master(); });
  } else {
    start_master();
  }
  const int first = number(spec_.min_nodes, spec_.max_nodes + 1);
  for (int i = 0; i < first; ++i) {
    after(milliseconds(0, chance(3) ? 20'000 : 500), [this] { add_node(false); });
  }
  plan_misfortunes();
  const Time end = now_ + seconds(number(20, 120));
  if (!run_until(end, [] { return false; })) return false;
  settle();
  const auto all_finished = [this] {
    return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
      return node->finished || node->dead || node->killed;
    });
  };
  // The pauses of restarts, of round and session, and two time-outs in a row.
  if (!run_until(now_ + 3 * spec_.join_timeout + seconds(120), all_finished)) return false;
  // The master waits for the leases of lost nodes. If it stands still now, it first has to thaw.
  const auto still = std::chrono::milliseconds(master_frozen_ ? kLongestStandstill : 0);
  const Time quiet = now_ + still + 2 * lease_.lease + seconds(10);
  if (!run_until(quiet, [] { return false; })) return false;
  check_end();
  return violation_.empty();
}

// Time.

/// The delay of a message: usually as in a good network, sometimes as in a bad one.
Duration Simulation::delay() {
  if (chance(50)) return milliseconds(0, 3'000);
  return std::chrono::microseconds(number(50, chance(5) ? 50'000 : 2'000));
}

void Simulation::at(Time time, std::function<void()>&& event) {
  if (free_places_.empty()) {
    free_places_.push_back(events_.size());
    events_.emplace_back();
  }
  const size_t place = free_places_.back();
  free_places_.pop_back();
  events_[place] = std::move(event);
  queue_.push({std::max(time, now_), ++last_order_, place});
}

bool Simulation::run_until(Time end, const std::function<bool()>& done) {
  while (!queue_.empty() && queue_.top().time <= end && !done()) {
    const Due next = queue_.top();
    queue_.pop();
    now_ = next.time;
    const auto event = std::move(events_[next.place]);
    free_places_.push_back(next.place);
    event();
    if (last_order_ > kMostEvents) violate("more than " + std::to_string(kMostEvents) + " events");
    if (!violation_.empty()) return false;
  }
  if (!done()) now_ = std::max(now_, end);
  return true;
}

void Simulation::violate(const std::string& what) {
  note("VIOLATION: ", what);
  if (violation_.empty()) violation_ = what;
}

void Simulation::print(const std::string& what) const {
  const double time = std::chrono::duration<double>(now_.time_since_epoch()).count() - 1'000;
  std::fprintf(stderr, "%10.4f  %s\n", time, what.c_str());
}

// The network.

bool Simulation::is_blocked(const Line& line, bool there) const {
  const Node& node = *nodes_[static_cast<size_t>(line.node)];
  if (!line.own && (line.master == masters_ ? is_cut(node) : node.cut)) return true;
  if (there) return master_frozen_ && line.master == masters_;
  return node.frozen || node.suspended;
}

/// Whether `node` is cut off from the master. The process of a node may host the master.
bool Simulation::is_cut(const Node& node) const {
  if (!elected_ || resident_ < 0) return node.cut;
  return node.name != resident_ && (node.cut || nodes_[static_cast<size_t>(resident_)]->cut);
}

void Simulation::put(int line, bool there, Parcel parcel) {
  Line& on = line_of(line);
  Way& way = there ? on.there : on.back;
  if (way.has_gap && parcel.kind != Parcel::Kind::ended) return;
  way.parcels.push_back(std::move(parcel));
  way.last = std::max(way.last, now_ + (on.own ? Duration(0) : delay()));
  at(way.last, [this, line, there] { pump(line, there); });
}

void Simulation::pump(int line, bool there) {
  Line& on = line_of(line);
  Way& way = there ? on.there : on.back;
  if (way.parcels.empty() || is_blocked(on, there)) return;
  const Parcel parcel = std::move(way.parcels.front());
  way.parcels.pop_front();
  there ? arrive_at_master(line, parcel) : arrive_at_agent(line, parcel);
}

/// All waiting parcels of these lines arrive now, line by line.
void Simulation::pump_all(const std::function<bool(const Line&)>& which) {
  for (int id = 1; id <= static_cast<int>(lines_.size()); ++id) {
    const Line& line = line_of(id);
    if (!which(line)) continue;
    for (size_t i = line.there.parcels.size(); i > 0; --i)
      after({}, [this, id] { pump(id, true); });
    for (size_t i = line.back.parcels.size(); i > 0; --i)
      after({}, [this, id] { pump(id, false); });
  }
}

void Simulation::arrive_at_master(int id, const Parcel& parcel) {
  Line& line = line_of(id);
  if (line.master != masters_ || !line.master_open || !sessions_) {
    // The kernel of a living host answers with a reset.
    const bool answers = !master_host_dead_ || line.master != masters_ || sessions_;
    if (answers && line.agent_open && parcel.kind != Parcel::Kind::ended) put_end(id, false);
    return;
  }
  const auto connection = static_cast<ConnectionId>(id);
  if (parcel.kind == Parcel::Kind::opened) {
    perform(sessions_->connected(connection, "node", kProtocolVersion, line.own));
  } else if (parcel.message) {
    const Message& message = **parcel.message;
    if (!std::holds_alternative<Heartbeat>(message)) {
      note("  master gets ", name_of(message), " of node ", line.node, " on line ", id);
    }
    if (const auto* join = std::get_if<message::Join>(&message)) {
      const Node& sender = *nodes_[static_cast<size_t>(line.node)];
      if (join->request.last_round >= 0)
        told_.rounds.insert({sender.round_master, join->request.last_round});
    }
    if (const auto* hello = std::get_if<message::Hello>(&message)) {
      hear_of_round(*nodes_[static_cast<size_t>(line.node)], *hello);
    }
    if (const auto* fail = std::get_if<message::Fail>(&message)) {
      expect_end_of_round(*nodes_[static_cast<size_t>(line.node)], *fail);
    }
    if (std::holds_alternative<message::Gone>(message)) ++counts_.proven;
    const bool was_ending = sessions_->is_ending();
    perform(sessions_->received(connection, *parcel.message, now_));
    if (std::holds_alternative<Inquiry>(message) && !was_ending && sessions_->is_ending()) {
      check_stop();
    }
  } else {
    line.master_open = false;
    ++nodes_[static_cast<size_t>(line.node)]->changes;
    perform(sessions_->lost(connection, now_));
  }
}

void Simulation::arrive_at_agent(int id, const Parcel& parcel) {
  Line& line = line_of(id);
  Node& node = *nodes_[static_cast<size_t>(line.node)];
  if (!line.agent_open || node.dead || node.killed) {
    if (!node.dead && line.master_open && parcel.kind != Parcel::Kind::ended) put_end(id, true);
    return;
  }
  node.master = line.master;
  const auto connection = static_cast<ConnectionId>(id);
  if (parcel.reply) {
    if (!std::holds_alternative<Heartbeat>(*parcel.reply)) {
      note("  ", name_of(*parcel.reply), " arrives of node ", line.node, " on line ", id);
    }
    perform(node, node.session.received(connection, *parcel.reply, now_));
  } else if (parcel.kind == Parcel::Kind::ended) {
    line.agent_open = false;
    ++node.changes;
    perform(node, node.session.lost(connection, {Errc::closed, "connection closed"}, now_));
  }
}

void Simulation::close_agents_end(int id) {
  if (!std::exchange(line_of(id).agent_open, false)) return;
  ++nodes_[static_cast<size_t>(line_of(id).node)]->changes;
  put_end(id, true);
}

void Simulation::close_masters_end(int id) {
  if (!std::exchange(line_of(id).master_open, false)) return;
  ++nodes_[static_cast<size_t>(line_of(id).node)]->changes;
  put_end(id, false);
}

/// A device on the way resets the line, and may lose the parcels that it had.
void Simulation::reset(int id, bool agents_end, bool masters_end) {
  Line& line = line_of(id);
  if (line.own) return;
  ++nodes_[static_cast<size_t>(line.node)]->changes;
  const auto lose = [](Way& way) {
    way.parcels.clear();
    way.has_gap = true;
  };
  if (chance(2)) lose(line.there);
  if (chance(2)) lose(line.back);
  if (agents_end && line.agent_open) {
    lose(line.back);
    put_end(id, false);
  }
  if (masters_end && line.master_open) {
    lose(line.there);
    put_end(id, true);
  }
}

void Simulation::dial(Node& node) {
  const int attempt = ++node.dial;
  if (node.hosting) {
    const int line = connect(node, true);
    return perform(node, node.session.connected(static_cast<ConnectionId>(line), now_));
  }
  const auto try_now = [this, &node, attempt] {
    in_agent(node, [this, &node, attempt] {
      if (attempt != node.dial) return;
      if (is_cut(node) || master_host_dead_) {
        return after(AgentSession::kDialLimit, [this, &node, attempt] {
          in_agent(node, [this, &node, attempt] {
            if (attempt == node.dial)
              perform(node, node.session.dial_failed({Errc::unreachable, "no answer"}, now_));
          });
        });
      }
      if (!master_is_there())
        return perform(node, node.session.dial_failed({Errc::unreachable, "refused"}, now_));
      const int line = connect(node, false);
      node.has_final_message = true;
      perform(node, node.session.connected(static_cast<ConnectionId>(line), now_));
    });
  };
  after(delay(), try_now);
}

int Simulation::connect(Node& node, bool own) {
  Line line;
  line.node = node.name;
  line.master = masters_;
  line.own = own;
  lines_.push_back(std::move(line));
  ++node.changes;
  const int id = static_cast<int>(lines_.size());
  put(id, true, Parcel{Parcel::Kind::opened});
  return id;
}

// The master.

void Simulation::start_master() {
  if (sessions_) return;
  if (elected_ && !elect()) return after(seconds(1), [this] { start_master(); });
  ServerSessions::Options options;
  static_cast<LeaseSpec&>(options) = lease_;
  options.run_id = "job";
  options.round = spec_;
  options.name = "master " + std::to_string(++masters_);
  if (elected_) {
    options.inherited = recorded_.value_or(JobState());
    options.resident = nodes_[static_cast<size_t>(resident_)]->session_name();
  }
  note(options.name, " starts");
  sessions_.emplace(std::move(options));
  ++counts_.masters;
  ++master_changes_;
  master_host_dead_ = master_frozen_ = false;
  master_timer_.reset();
  told_ = {};
  found_hangs_.clear();
  rounds_started_.clear();
  if (hosted_) add_node(true);
}

void Simulation::stop_master(bool host_dies) {
  if (!sessions_) return;
  note(host_dies ? "the master's host dies" : "the master is killed");
  sessions_.reset();
  master_frozen_ = false;
  master_host_dead_ = host_dies;
  for (int id = 1; id <= static_cast<int>(lines_.size()); ++id) {
    Line& line = line_of(id);
    if (line.master != masters_ || !line.master_open) continue;
    if (host_dies) {
      line.master_open = false;
    } else {
      close_masters_end(id);
    }
  }
}

void Simulation::freeze_master(Duration duration) {
  if (!master_runs() || (hosted_ && !wide_)) return;
  if (elected_) return freeze(*nodes_[static_cast<size_t>(resident_)], duration);
  note("the master freezes");
  master_frozen_ = true;
  ++master_changes_;
  for (const auto& node : nodes_) {
    if (node->hosting && !node->killed) freeze(*node, duration);  // one process
  }
  after(duration, [this, master = masters_] {
    if (master == masters_ && sessions_) thaw_master();
  });
}

void Simulation::thaw_master() {
  note("the master thaws");
  master_frozen_ = false;
  ++master_changes_;
  const auto read = [this] {
    pump_all([this](const Line& line) { return line.master == masters_; });
  };
  if (chance(2)) read();
  after({}, [this] { tick_master(); });
  read();
}

bool Simulation::elect() {
  const Node* const node = any_node([](const Node& one) { return one.runs(); });
  resident_ = node == nullptr ? -1 : node->name;
  return node != nullptr;
}

void Simulation::lose_elected(bool host_dies, Duration until_next) {
  stop_master(host_dies);
  after(until_next, [this] { start_master(); });
}

/// Writes `state` to etcd. If the master is lost, its request or the answer may be lost, too.
void Simulation::record(const JobState& state) {
  const auto way = [this] { return chance(8) ? milliseconds(0, leases(1.5)) : delay(); };
  if (!settling_ && chance(10)) after(delay(), [this] { misfortune_of_elected(); });
  after(way(), [this, way, state, master = masters_] {
    if (master != masters_ || (!sessions_ && chance(2))) return;
    recorded_ = state;
    after(way(), [this, master] { was_recorded(master); });
  });
}

void Simulation::was_recorded(int master) {
  if (master != masters_ || !sessions_) return;
  if (master_runs()) return perform(sessions_->recorded());
  after(std::chrono::milliseconds(50), [this, master] { was_recorded(master); });
}

/// Ends the process of a finished node. A master in it first waits until all agents know the end.
void Simulation::retire(Node& node) {
  if (is_resident(node) && sessions_->is_ending() && !sessions_->settled()) {
    return after(std::chrono::milliseconds(50), [this, &node] { retire(node); });
  }
  if (is_resident(node)) {
    lose_elected(false, milliseconds(1, 100));
    if (!settling_ && chance(3)) part_from_others();
  }
  end_agent(node);
}

void Simulation::perform(const ServerActions& actions) {
  note_start();
  for (const ServerAction& action : actions) {
    if (const auto* send = std::get_if<server_action::Send>(&action)) {
      const auto* notification = std::get_if<Notification>(send->reply.get());
      const auto* ready = notification ? std::get_if<Ready>(notification) : nullptr;
      if (ready != nullptr && rounds_started_.insert(ready->layout.round).second) {
        ++counts_.rounds;
        told_then_.try_emplace({masters_, ready->layout.round}, told_);
        rounds_while_settling_ += settling_ ? 1 : 0;
        note("round ", ready->layout.round, " begins");
      }
      if (const auto* welcome = std::get_if<reply::Welcome>(send->reply.get())) {
        counts_.resumed += welcome->resumed ? 1 : 0;
      }
      const auto* broken = notification ? std::get_if<Broken>(notification) : nullptr;
      const bool hangs = broken != nullptr && broken->root_cause && broken->root_cause->hung;
      if (hangs && found_hangs_.insert(send->reply).second) check_hang();
      put(static_cast<int>(send->to), false, Parcel{Parcel::Kind::letter, {}, send->reply});
    } else if (const auto* close = std::get_if<server_action::Close>(&action)) {
      close_masters_end(static_cast<int>(close->connection));
    } else if (const auto* warn = std::get_if<server_action::Warn>(&action)) {
      note(warn->sentence);
    } else if (const auto* news = std::get_if<server_action::NotifyWorkers>(&action)) {
      counts_.evicted += news->sentence.find("silent for") != std::string::npos ? 1 : 0;
      note("broken: ", news->sentence);
    } else if (const auto* state = std::get_if<server_action::Record>(&action)) {
      record(state->state);
    }
  }
  set_master_timer();
}

/// A round begins when the master announces it. Its members may read that later.
void Simulation::note_start() {
  const rendezvous::Round& round = sessions_->round();
  if (round.phase() != rendezvous::Round::Phase::active) return;
  told_then_.try_emplace({masters_, round.state().round}, told_);
}

void Simulation::tick_master() {
  if (!master_runs()) return;
  master_timer_.reset();
  perform(sessions_->tick(now_));
}

void Simulation::set_master_timer() {
  const auto deadline = sessions_->deadline();
  if (!deadline || (master_timer_ && *master_timer_ <= *deadline)) return;
  master_timer_ = std::max(*deadline, now_);
  at(*master_timer_, [this, master = masters_] {
    if (master == masters_ && master_timer_ == now_) tick_master();
  });
}

}  // namespace ddprun::simulation

// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/election.h"

#include <algorithm>

#include "base/text.h"

namespace ddprun::rendezvous::etcd {
namespace {

using std::chrono::seconds;

constexpr seconds kLeastTtl{2};  // etcd grants no less than 1.5 times its own election timeout

/// The time that a job's state outlives its master's key: any remaining node is the master sooner.
constexpr seconds kStateOutlives{60};

seconds key_ttl(std::chrono::milliseconds lease) {
  return std::max(kLeastTtl, std::chrono::ceil<seconds>(3 * lease));
}

/// The time that a lease in etcd counts here, from its request: at most as long as requested.
BootClock::duration usable(seconds granted, seconds asked) {
  return BootClock::duration(std::min(granted, asked)) / 2;
}

template <class T>
const T* as(const Answer& answer) {
  return std::get_if<T>(&answer);
}

}  // namespace

Election::Election(std::chrono::milliseconds lease) : ttl_(key_ttl(lease)) {}

Election::Pending Election::ask(Request request, Time now) {
  act(election_action::Ask{++last_number_, std::move(request)});
  return {last_number_, now};
}

void Election::found(std::optional<std::string> master) {
  if (std::exchange(asked_, false)) act(election_action::Found{std::move(master)});
}

void Election::not_found(std::string reason) {
  if (std::exchange(asked_, false)) act(election_action::NotFound{std::move(reason)});
}

// The search for a master.

ElectionActions Election::look(Time now) {
  end_if_over(now);
  asked_ = true;
  if (epoch_) {
    found(std::nullopt);
  } else if (!search_) {
    search_ = ask(request::Look{}, now);
  }
  return take();
}

void Election::take_search_answer(const Answer& answer, Time sent, Time now) {
  if (const auto* granted = as<answer::Granted>(answer)) {
    lease_ = {granted->lease, sent + usable(granted->ttl, ttl_)};
    return campaign(now);
  }
  if (const auto* created = as<answer::Created>(answer)) {
    return lead(created->epoch, created->state, now);
  }
  if (const auto* keys = as<answer::Keys>(answer)) return take_keys(*keys, now);
  not_found("etcd gave another answer than was asked for");
}

void Election::take_keys(const answer::Keys& keys, Time now) {
  if (!keys.master) return campaign(now);
  if (lease_ && keys.master->lease == lease_->id) return lead(keys.master->epoch, keys.state, now);
  // The attempt of this lease came too late.
  if (lease_) ask(request::Revoke{std::exchange(lease_, std::nullopt)->id}, now);
  found(keys.master->value);
}

/// If the answer of an attempt was lost, its lease makes this the same attempt.
void Election::campaign(Time now) {
  if (lease_ && now >= lease_->limit) lease_.reset();
  search_ = lease_ ? ask(request::Create{lease_->id}, now) : ask(request::Grant{ttl_}, now);
}

void Election::lead(Epoch epoch, const std::optional<Recorded>& state, Time now) {
  if (!lease_ || now >= lease_->limit) {  // no node got a lease, so no worker can be left
    if (lease_) ask(request::Revoke{std::exchange(lease_, std::nullopt)->id}, now);
    return not_found("etcd answers too slowly for an election");
  }
  epoch_ = epoch;
  next_renewal_ = now;  // also for the state's lease
  state_revision_ = state ? state->revision : 0;
  if (state) state_lease_ = state->lease;
  act(election_action::Lead{state ? state->state : ""});
  found(std::nullopt);
}

// The master's part.

void Election::renew(Time now) {
  next_renewal_ = now + pause();
  if (!renewal_) renewal_ = ask(request::Renew{lease_->id}, now);
  if (!look_) look_ = ask(request::Look{}, now);
  if (state_lease_ && !state_renewal_) state_renewal_ = ask(request::Renew{*state_lease_}, now);
}

void Election::take_renewed(seconds ttl, Time sent, Time now) {
  if (ttl <= seconds::zero()) return step_down("its lease in etcd is over");
  lease_->limit = std::max(lease_->limit, sent + usable(ttl, ttl_));
  trouble_.clear();
  end_if_over(now);
}

/// The lease also lasts if the key was deleted, and another master may have created the key again.
void Election::take_look_answer(const Answer& answer) {
  const auto* keys = as<answer::Keys>(answer);
  if (keys == nullptr || (keys->master && keys->master->epoch == *epoch_)) return;
  step_down("its key in etcd was deleted");
}

ElectionActions Election::record(std::string state, Time now) {
  end_if_over(now);
  if (!epoch_) return take();
  state_ = std::move(state);
  is_delay_reported_ = false;
  if (!write_) write(now);
  return take();
}

void Election::write(Time now) {
  next_write_.reset();
  write_ = state_lease_
               ? ask(request::Record{*epoch_, state_revision_, *state_lease_, *state_}, now)
               : ask(request::Grant{ttl_ + kStateOutlives}, now);
}

void Election::take_write_answer(const Answer& answer, Time now) {
  if (const auto* granted = as<answer::Granted>(answer)) {
    state_lease_ = granted->lease;
    return write(now);
  }
  if (const auto* done = as<answer::Written>(answer)) return written(done->revision);
  const auto* keys = as<answer::Keys>(answer);
  const bool is_ours = keys != nullptr && keys->master && keys->master->epoch == *epoch_;
  if (is_ours && keys->state && keys->state->state == *state_) return was_written(*keys->state);
  const Revision latest = keys != nullptr && keys->state ? keys->state->revision : 0;
  if (is_ours && latest != state_revision_) return write_after(latest, now);
  step_down("its key in etcd is gone");
}

/// An earlier attempt, whose answer was lost, has written it with a lease of its own.
void Election::was_written(const Recorded& state) {
  state_lease_ = state.lease;
  written(state.revision);
}

/// The state has another revision: it vanished, as its lease was over, or nearly, when this master
/// was elected, or somebody has set it back. Only this master may write it.
void Election::write_after(Revision latest, Time now) {
  state_revision_ = latest;
  state_lease_.reset();
  write(now);
}

void Election::written(Revision revision) {
  state_revision_ = revision;
  state_.reset();
  act(election_action::Done{});
}

ElectionActions Election::resign() {
  if (lease_) ask(request::Revoke{lease_->id}, {});
  asked_ = false;
  search_.reset();
  forget();
  return take();
}

/// Leaves the key to its end: workers of this node may have leases for so long.
void Election::step_down(const std::string& reason) {
  act(election_action::StepDown{reason});
  forget();
}

void Election::forget() {
  epoch_.reset();
  lease_.reset();
  state_lease_.reset();
  state_.reset();
  next_write_.reset();
  for (auto* pending : {&renewal_, &look_, &state_renewal_, &write_}) pending->reset();
  trouble_.clear();
}

void Election::end_if_over(Time now) {
  if (!epoch_ || now < lease_->limit) return;
  step_down("no answer of etcd for " + duration_text(usable(ttl_, ttl_)) +
            (trouble_.empty() ? "" : " (" + trouble_ + ")"));
}

// Events.

ElectionActions Election::answered(std::uint64_t number, const Answer& answer, Time now) {
  end_if_over(now);
  const auto is = [number](const std::optional<Pending>& pending) {
    return pending && pending->number == number;
  };
  if (is(search_)) {
    const Time sent = std::exchange(search_, std::nullopt)->sent;
    take_search_answer(answer, sent, now);
  } else if (is(renewal_)) {
    const Time sent = std::exchange(renewal_, std::nullopt)->sent;
    if (const auto* renewed = as<answer::Renewed>(answer)) take_renewed(renewed->ttl, sent, now);
  } else if (is(look_)) {
    look_.reset();
    take_look_answer(answer);
  } else if (is(state_renewal_)) {
    state_renewal_.reset();
  } else if (is(write_)) {
    write_.reset();
    take_write_answer(answer, now);
  }
  return take();
}

ElectionActions Election::failed(std::uint64_t number, const std::string& reason, Time now) {
  end_if_over(now);
  const auto is = [number](const std::optional<Pending>& pending) {
    return pending && pending->number == number;
  };
  if (is(search_)) {
    search_.reset();
    not_found(reason);
  } else if (is(renewal_)) {
    renewal_.reset();
    trouble_ = reason;
  } else if (is(look_)) {
    look_.reset();
  } else if (is(state_renewal_)) {
    state_renewal_.reset();
  } else if (is(write_)) {
    write_.reset();
    state_lease_.reset();  // it may be over
    next_write_ = now + pause();
    if (!std::exchange(is_delay_reported_, true)) act(election_action::Delayed{reason});
  }
  return take();
}

ElectionActions Election::tick(Time now) {
  end_if_over(now);
  if (!epoch_) return take();
  if (next_renewal_ <= now) renew(now);
  if (next_write_ && *next_write_ <= now) write(now);
  return take();
}

std::optional<Election::Time> Election::deadline() const {
  if (!epoch_) return std::nullopt;
  const Time renewal = renewal_ ? lease_->limit : std::min(next_renewal_, lease_->limit);
  return next_write_ ? std::min(renewal, *next_write_) : renewal;
}

}  // namespace ddprun::rendezvous::etcd

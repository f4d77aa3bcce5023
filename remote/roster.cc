// SPDX-License-Identifier: Apache-2.0
#include "remote/roster.h"

#include <algorithm>

namespace ddprun::remote {

std::vector<size_t> Roster::start_more() {
  std::vector<size_t> hosts;
  auto starting = static_cast<size_t>(std::count(states_.begin(), states_.end(), State::starting));
  for (size_t host = 0; host < states_.size() && starting < kAtOnce && !stopping_; ++host) {
    if (states_[host] != State::waiting) continue;
    states_[host] = State::starting;
    hosts.push_back(host);
    ++starting;
  }
  return hosts;
}

void Roster::is_ready(size_t host) {
  if (states_[host] == State::starting) states_[host] = State::running;
}

void Roster::stop(int code) {
  if (!stopping_) stop_code_ = code;
  stopping_ = true;
  for (State& state : states_) {
    if (state != State::waiting) continue;
    state = State::ended;
    --left_;
  }
}

Roster::Verdict Roster::has_ended(size_t host, std::optional<int> code) {
  using What = Verdict::What;
  const What what = is_starting(host) ? What::failed_to_start : code ? What::ended : What::lost;
  states_[host] = State::ended;
  --left_;
  if (what == What::ended) last_code_ = code;
  return {what, stopping_ ? Stop::none : decide(what, code)};
}

Roster::Stop Roster::decide(Verdict::What what, std::optional<int> code) {
  if (what == Verdict::What::ended && code == 0) {
    succeeded_ = true;
    return Stop::none;
  }
  // It is not the reason why the job ends. The master tells the others so.
  if (what == Verdict::What::ended && code == kSpare && has_spares_) return Stop::none;
  if (left_ >= least_ || reason_ || succeeded_) return Stop::none;
  reason_ = what == Verdict::What::ended ? *code : kOwnFailure;
  lost_host_ = what == Verdict::What::lost;
  return what == Verdict::What::ended ? Stop::soon : Stop::now;
}

bool Roster::all_ended() const {
  return left_ == 0;
}

int Roster::code() const {
  if (succeeded_) return 0;
  return reason_ ? *reason_ : last_code_.value_or(stop_code_);
}

bool OwnLines::is_new(size_t host, std::string_view text) {
  if (counts_.size() * hosts_ > kMostNumbers) counts_.clear();
  Count& count = counts_[std::string(text)];
  count.said.resize(hosts_);
  if (++count.said[host] <= count.shown) return false;
  ++count.shown;
  return true;
}

}  // namespace ddprun::remote

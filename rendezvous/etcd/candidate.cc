// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/candidate.h"

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>

#include "rendezvous/net/addresses.h"

namespace ddprun::rendezvous::etcd {

namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLeastLimit{500};  // the time for one server to answer

milliseconds limit_of(BootClock::duration pause) {
  return std::max(kLeastLimit, std::chrono::duration_cast<milliseconds>(pause));
}

}  // namespace

Candidate::Candidate(const asio::any_io_executor& executor, Options options, Hooks hooks)
    : executor_(executor),
      options_(std::move(options)),
      hooks_(std::move(hooks)),
      election_(options_.lease),
      gateway_(executor, options_.etcd),
      timer_(executor, [this] { perform(election_.tick(now())); }) {}

void Candidate::find(Found found) {
  found_ = std::move(found);
  perform(election_.look(now()));
}

void Candidate::record(const JobState& state) {
  perform(election_.record(encode_state(state), now()));
}

void Candidate::resign(std::function<void()> done) {
  found_ = nullptr;
  resigned_ = std::move(done);
  perform(election_.resign());
  if (!revoke_) asio::post(executor_, std::exchange(resigned_, nullptr));
}

void Candidate::perform(const ElectionActions& actions) {
  for (const ElectionAction& action : actions) {
    std::visit([this](const auto& a) { perform(a); }, action);
  }
  timer_.set(election_.deadline());
}

void Candidate::perform(const election_action::Ask& ask) {
  if (std::holds_alternative<request::Create>(ask.request)) {
    if (const Result<> chosen = choose_place(); !chosen) {
      failed_with_ = Errc::unreachable;
      return perform(election_.failed(ask.number, chosen.error().message, now()));
    }
  }
  if (resigned_) revoke_ = ask.number;
  gateway_.ask(encode(ask.request, options_.run_id, place_ ? encode_master(*place_) : ""),
               limit_of(election_.pause()),
               [this, number = ask.number, request = ask.request](Result<std::string> body) {
                 on_answer(number, request, std::move(body));
               });
}

/// Chooses one place for all attempts, as an answer may be lost.
Result<> Candidate::choose_place() {
  if (place_) return {};
  Endpoint place{options_.host, options_.port};
  if (place.host.empty()) place.host = plain_text(*gateway_.own_address());
  if (place.port == 0) {
    const auto port = free_port(asio::ip::address_v4::any());
    if (!port) return port.error();
    place.port = *port;
  }
  place_ = std::move(place);
  return {};
}

void Candidate::on_answer(std::uint64_t number, const Request& request, Result<std::string> body) {
  if (revoke_ == number) return std::exchange(resigned_, nullptr)();
  const auto answer = body ? decode(request, *body) : Result<Answer>(body.error());
  const bool is_refused = !answer && answer.error().code == Errc::usage;
  failed_with_ = is_refused ? Errc::usage : Errc::unreachable;
  perform(answer ? election_.answered(number, *answer, now())
                 : election_.failed(number, answer.error().message, now()));
}

void Candidate::perform(const election_action::Lead& lead) {
  const Result<JobState> state = lead.state.empty() ? JobState() : decode_state(lead.state);
  const Result<> hosting = state ? hooks_.lead(*place_, *state) : Result<>(state.error());
  if (hosting) return;
  place_.reset();
  tell(Error(hosting.error()).in("this node cannot be the master"));
  perform(election_.resign());
}

void Candidate::perform(const election_action::Found& found) {
  if (!found.master && !place_) return;  // it could not lead, and tell() said so
  if (!found.master) return tell(*place_);
  Result<Endpoint> master = decode_master(*found.master);
  tell(master ? std::move(master) : Error(master.error()).in("the master's key in etcd"));
}

/// Calls found_ later, as for every answer.
void Candidate::tell(Result<Endpoint> where) {
  if (!found_) return;
  asio::post(executor_,
             [found = std::exchange(found_, nullptr), where = std::move(where)] { found(where); });
}

}  // namespace ddprun::rendezvous::etcd

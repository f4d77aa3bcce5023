// SPDX-License-Identifier: Apache-2.0
#include "agent/web/site.h"

#include <algorithm>
#include <utility>

#include "agent/ask/status.h"
#include "agent/web/metrics.h"
#include "base/secret.h"
#include "base/text.h"

namespace ddprun::agent::web {
namespace {

using ask::Answer;
using ask::Question;
using ask::Respond;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{500};
constexpr int kShare = 4;  // for a large job's master: the pause in answer times

/// With these headers a browser keeps the answer, and the token in its address, to itself.
Answer private_answer(Answer answer) {
  answer.fields.insert(answer.fields.end(), {{"Cache-Control", "no-store"},
                                             {"Referrer-Policy", "no-referrer"},
                                             {"X-Content-Type-Options", "nosniff"},
                                             {"Cross-Origin-Resource-Policy", "same-origin"}});
  return answer;
}

Answer page() {
  return {200,
          std::string(kPage),
          "text/html; charset=utf-8",
          {{"Content-Security-Policy", std::string(kPagePolicy)}}};
}

/// This part of the query, if it has it: unknown parts are not passed on.
std::string part_of(const std::string& query, const std::string& name) {
  const std::string value = ask::query_value(query, name);
  return value.empty() ? "" : name + "=" + value;
}

bool is_any(const std::string& address) {
  return address == "0.0.0.0" || address == "::";
}

}  // namespace

Site::Site(const boost::asio::any_io_executor& executor, ask::Handler ask, std::string host_name)
    : ask_(std::move(ask)),
      host_name_(std::move(host_name)),
      token_(random_name()),
      access_(token_, host_name_),
      writes_(executor),
      next_look_(executor),
      server_(executor, [this](const Question& question, const Respond& respond) {
        answer(question, respond);
      }) {
  routes_.add("GET", "/metrics",
              [this](const Question&, const Respond& respond) { answer_metrics(respond); });
  routes_.add("GET", "/api/events",
              [this](const Question&, const Respond& respond) { answer_events(respond); });
  routes_.add("GET", "/api/status", [this](const Question&, const Respond& respond) {
    ask_({"GET", "/status", "", ""}, respond);
  });
  routes_.add("GET", "/api/stacks", [this](const Question& asked, const Respond& respond) {
    ask_({"GET", "/stacks", part_of(asked.query, "native"), ""}, respond);
  });
  routes_.add("GET", "/api/logs/", [this](const Question& asked, const Respond& respond) {
    ask_({"GET", "/logs/" + asked.rest, part_of(asked.query, "from"), ""}, respond);
  });
}

Result<std::string> Site::open(const rendezvous::Endpoint& address) {
  const Result<std::uint16_t> port = server_.listen(address.host, address.port);
  if (!port) return port.error();
  const std::string host = is_any(address.host) ? host_name_ : address.host;
  return "http://" + endpoint_text(host, *port) + "/?token=" + token_;
}

/// Without the token a client learns nothing, not even which paths there are.
void Site::answer(const Question& question, const Respond& respond) {
  if (!access_.admits(question)) return respond(private_answer({403, "", "text/plain"}));
  if (question.path == "/" && question.method == "GET") return respond(private_answer(page()));
  routes_.ask(question, [respond](Answer answer) { respond(private_answer(std::move(answer))); });
}

void Site::answer_metrics(const Respond& respond) {
  ask_({"GET", "/status", "", ""}, [this, respond, alive = std::weak_ptr(alive_)](Answer answer) {
    if (alive.expired()) return;
    writes_.run(
        [body = std::move(answer.body), history = history_, now = now()]() -> Answer {
          const Result<ask::JobStatus> status = ask::status_in(body);
          if (!status) return ask::refusal(503, "no status: " + status.error().message);
          return {200, metrics_text(*status, history, now), kMetricsType};
        },
        respond);
  });
}

/// Sends the events so far at once, so that a page begins with them.
void Site::answer_events(const Respond& respond) {
  respond({200, "retry: 2000\n\n" + event(""), "text/event-stream", {}, true});
  if (!std::exchange(looks_, true)) look();
}

void Site::tell(const std::function<void(History&, double)>& note) {
  note(history_, now());
  if (server_.followers() > 0) server_.publish(event(""));
}

double Site::now() const {
  return std::chrono::duration<double>(steady_clock::now() - began_).count();
}

/// An event of the stream. Line breaks would end it, but compact JSON has none. `status` may be
/// empty.
std::string Site::event(const std::string& status) const {
  std::string text = "data: {\"history\":" + history_.json(now());
  if (!status.empty()) text.append(",\"status\":").append(status);
  return text += "}\n\n";
}

void Site::look() {
  ask_({"GET", "/status", "", ""},
       [this, began = steady_clock::now(), alive = std::weak_ptr(alive_)](Answer answer) {
         if (alive.expired()) return;
         while (answer.body.ends_with('\n')) answer.body.pop_back();
         if (answer.status == 200) server_.publish(event(answer.body));
         look_later(steady_clock::now() - began);
       });
}

void Site::look_later(steady_clock::duration took) {
  next_look_.expires_after(std::max<steady_clock::duration>(kPause, kShare * took));
  next_look_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code cancelled) {
    if (cancelled || alive.expired()) return;
    looks_ = server_.followers() > 0;
    if (looks_) look();
  });
}

}  // namespace ddprun::agent::web

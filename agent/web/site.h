// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/ask/http_server.h"
#include "agent/ask/routes.h"
#include "agent/web/access.h"
#include "agent/web/history.h"
#include "base/async_jobs.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::agent::web {

/// The page, one HTML text with its style and script, made of page.html, page.css and page.js by
/// cmake/embed_page.cmake.
extern const std::string_view kPage;

/// Lets a browser run this script, use this style and ask this server, and nothing else.
extern const std::string_view kPagePolicy;

/// The page of a job and its metrics, for browsers and Prometheus (--web). Asks the job only for a
/// request, and while a page is open: twice a second, or less often if answers are slow, once for
/// all clients.
///
/// Destroying it closes the port, and drops the pending answers. Thread: the executor's.
class Site {
 public:
  /// `ask` passes a question to the agent's own routes: "/status", "/stacks", "/logs/N".
  Site(const boost::asio::any_io_executor& executor, ask::Handler ask, std::string host_name);

  /// Begins to answer at this IP address; port 0: a free one. Returns the URL of the page, with its
  /// token. Errors: port_in_use, system.
  Result<std::string> open(const rendezvous::Endpoint& address);

  /// Records an event, and shows it to all clients.
  void tell(const std::function<void(History& history, double now)>& note);

  /// Calls `done` when all clients have all events, at the latest in half a second.
  void close(std::function<void()> done) { server_.drain(std::move(done)); }

 private:
  void answer(const ask::Question& question, const ask::Respond& respond);
  void answer_metrics(const ask::Respond& respond);
  void answer_events(const ask::Respond& respond);
  void look();
  void look_later(std::chrono::steady_clock::duration took);
  std::string event(const std::string& status) const;
  double now() const;

  ask::Handler ask_;
  const std::string host_name_;
  const std::string token_;
  Access access_;
  History history_;
  AsyncJobs writes_;  // the metrics
  boost::asio::steady_timer next_look_;
  bool looks_ = false;  // a look is pending, or the pause before the next one
  ask::Routes routes_;
  ask::HttpServer server_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace ddprun::agent::web

// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "agent/agent.h"
#include "agent/report.h"
#include "base/log.h"

namespace ddprun::agent {

/// Before the first lease, so that a port which is taken is an error of the command line.
Result<> Agent::open_web() {
  if (!job_.web) return {};
  const ask::Handler ask = [this](const ask::Question& question, const ask::Respond& respond) {
    answers_.routes().ask(question, respond);
  };
  web_.emplace(io_.get_executor(), ask, host_name_);
  const Result<std::string> url = web_->open(*job_.web);
  if (!url) return Error(url.error()).in("--web");
  log::info("page and metrics of the job: " + *url);
  return {};
}

void Agent::tell_web(const std::function<void(web::History&, double)>& note) {
  if (web_) web_->tell(note);
}

void Agent::tell_web_broken(const rendezvous::Broken& broken) {
  tell_web([&](web::History& history, double now) {
    if (!broken.root_cause) return history.changed(now, broken.reason);
    history.failed(now, *broken.root_cause, failure_line(*broken.root_cause, layout_.round));
  });
}

}  // namespace ddprun::agent

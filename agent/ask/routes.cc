// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/routes.h"

#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace ddprun::agent::ask {

Answer refusal(unsigned status, std::string_view sentence) {
  const Json object = {{"error", sentence}};
  return {status, json_text(object) + "\n"};
}

std::string query_value(const std::string& query, std::string_view name) {
  for (std::string_view rest = query; !rest.empty();) {
    const std::string_view pair = take_piece(rest, '&');
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) {
      return std::string(pair.substr(name.size() + 1));
    }
  }
  return "";
}

void Routes::add(std::string method, std::string path, Handler handler) {
  routes_.push_back({std::move(method), std::move(path), std::move(handler)});
}

void Routes::ask(Question question, const Respond& respond) const {
  constexpr size_t kShown = 64;
  bool known = false;
  for (const Route& route : routes_) {
    if (!route.is_for(question.path)) continue;
    known = true;
    if (route.method != question.method) continue;
    question.rest = question.path.substr(route.path.size());
    return route.handler(question, respond);
  }
  const std::string path = printable(cut(question.path, kShown));
  if (known) return respond(refusal(405, path + " is not for " + cut(question.method, kShown)));
  respond(refusal(404, "nothing is known of " + path));
}

}  // namespace ddprun::agent::ask

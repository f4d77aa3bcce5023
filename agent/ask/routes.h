// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::agent::ask {

/// A question to a running job: the parts of an HTTP request that have a meaning here.
struct Question {
  std::string method;  ///< "GET" for what changes nothing, else "POST"
  std::string path;    ///< "/status", without the query
  std::string query;   ///< what follows "?"; may be empty
  std::string rest;    ///< what follows the path of a route that ends in "/"

  // Of the request's header; empty: it has none.
  std::string host = {};
  std::string origin = {};
  std::string authorization = {};
};

struct Answer {
  unsigned status = 200;  ///< of HTTP
  std::string body;       ///< JSON, unless `type` says otherwise
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> fields = {};  ///< more of the answer's header
  bool follows =
      false;  ///< what HttpServer::publish has is sent after it, until one of the two ends
};

/// Takes the answer, at once or later; a second one is ignored. It may outlive the one who asked.
using Respond = std::function<void(Answer)>;
using Handler = std::function<void(const Question&, const Respond&)>;

/// An answer that says why there is none: {"error": `sentence`}.
Answer refusal(unsigned status, std::string_view sentence);

/// Whether a body is that of a refusal.
inline bool is_refusal(std::string_view body) {
  return body.starts_with("{\"error\":");
}

/// The value of `name` in a query such as "from=12&node=1"; empty: it has none. Names and values
/// are not escaped.
std::string query_value(const std::string& query, std::string_view name);

/// Which handler answers which question: a table that parts of the agent add their lines to. Pure.
class Routes {
 public:
  /// `path` is a whole one, or ends in "/" and is the beginning of many.
  void add(std::string method, std::string path, Handler handler);

  /// Passes the question to its handler. Others are answered here: 404, or 405 where only the
  /// method is wrong.
  void ask(Question question, const Respond& respond) const;

 private:
  struct Route {
    std::string method;
    std::string path;
    Handler handler;

    bool is_for(const std::string& asked) const {
      return path.ends_with('/') ? asked.starts_with(path) : asked == path;
    }
  };

  std::vector<Route> routes_;
};

}  // namespace ddprun::agent::ask

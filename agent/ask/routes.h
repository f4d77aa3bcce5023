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

  // Fields of the request's header; empty: absent.
  std::string host = {};
  std::string origin = {};
  std::string authorization = {};
};

struct Answer {
  unsigned status = 200;  ///< of HTTP
  std::string body;       ///< JSON, unless `type` says otherwise
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> fields = {};  ///< more of the answer's header
  bool follows = false;  ///< HttpServer::publish sends more after it
};

/// Takes the answer, at once or later; ignores a second one. It may outlive the asker.
using Respond = std::function<void(Answer)>;
using Handler = std::function<void(const Question&, const Respond&)>;

/// An answer that says why the question has none: {"error": `sentence`}.
Answer refusal(unsigned status, std::string_view sentence);

/// Whether a body is that of a refusal.
inline bool is_refusal(std::string_view body) {
  return body.starts_with("{\"error\":");
}

/// The value of `name` in a query such as "from=12&node=1"; empty: it has none. Names and values
/// are not escaped.
std::string query_value(const std::string& query, std::string_view name);

/// The table of questions and their handlers. Parts of the agent add their rows. Pure.
class Routes {
 public:
  /// Adds a row. A `path` that ends in "/" stands for all paths that begin with it.
  void add(std::string method, std::string path, Handler handler);

  /// Passes the question to its handler. If there is none, answers 404, or 405 if only the method
  /// is wrong.
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

// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes from a visitor of a job's page. A visitor without the token gets only the
// refusal, and each connection ends.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "agent/ask/http_server.h"
#include "agent/web/access.h"
#include "fuzz/target.h"

namespace {

using namespace ddprun;
using namespace ddprun::agent;
using boost::asio::local::stream_protocol;
using boost::system::error_code;
using fuzz::require;

constexpr std::size_t kMostBytes = 60'000;  // a socket takes so many at once
constexpr std::string_view kToken = "0123456789abcdef";

/// A server with one page.
class Page {
 public:
  Page() { require(server_.listen(path_).has_value(), "it listens"); }

  /// Sends `bytes`; returns the answer, until the connection ends.
  std::string get(std::string_view bytes) {
    has_admitted_ = false;
    stream_protocol::socket visitor(io_);
    visitor.connect(path_);
    boost::asio::write(visitor, boost::asio::buffer(bytes.substr(0, kMostBytes)));
    visitor.shutdown(stream_protocol::socket::shutdown_send);
    std::string answer;
    bool is_over = false;
    boost::asio::async_read(visitor, boost::asio::dynamic_buffer(answer),
                            [&is_over](error_code, std::size_t) { is_over = true; });
    while (!is_over) io_.run_one();
    return answer;
  }

  bool has_admitted() const { return has_admitted_; }

 private:
  const std::string path_ = "/tmp/ddprun-fuzz." + std::to_string(getpid()) + ".sock";
  boost::asio::io_context io_{1};
  web::Access access_{std::string(kToken), "host"};
  bool has_admitted_ = false;
  ask::HttpServer server_{
      io_.get_executor(), [this](const ask::Question& question, const ask::Respond& respond) {
        has_admitted_ = access_.admits(question);
        respond(has_admitted_ ? ask::Answer{200, "page"} : ask::Answer{403, ""});
      }};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  static Page page;
  const std::string answer = page.get(bytes);
  require(answer.empty() || answer.starts_with("HTTP/1."), "an answer is one");
  require(answer.ends_with("page") == page.has_admitted(),
          "the page is for those who are admitted");
  require(!page.has_admitted() || bytes.find(kToken) != bytes.npos,
          "who is admitted has the token");
  return 0;
}

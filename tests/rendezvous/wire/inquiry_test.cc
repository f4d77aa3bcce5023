// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/inquiry.h"

#include <chrono>

#include "rendezvous/session/server_sessions.h"
#include "rendezvous/wire/protocol.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/rendezvous/wire/protocol_samples.h"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

template <class T>
T passed(const T& inquiry) {
  const Message message = must(decode_message(body_of(encode(Message(Inquiry(inquiry))))));
  const Reply reply = must(decode_reply(body_of(encode(Reply(Inquiry(inquiry))))));
  CHECK(std::holds_alternative<T>(std::get<Inquiry>(message)));
  return std::get<T>(std::get<Inquiry>(reply));
}

bool is_refused(const Inquiry& inquiry) {
  return !decode_message(body_of(encode(Message(inquiry))));
}

constexpr ServerSessions::Time kInquiryStart{std::chrono::seconds(1'000)};

/// A master, and agents whose line and node have the same number.
struct InquiredJob {
  ServerSessions sessions;

  explicit InquiredJob(int nodes) : sessions(options(nodes)) {
    for (int i = 1; i <= nodes; ++i) add(static_cast<ConnectionId>(i), nodes);
  }

  static ServerSessions::Options options(int nodes) {
    ServerSessions::Options options;
    options.name = "m";
    options.round.min_nodes = options.round.max_nodes = nodes;
    return options;
  }

  ServerActions add(ConnectionId line, int nodes, std::uint64_t number = 1, int session = 0) {
    sessions.connected(line, "host", kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = nodes;
    hello.session = hello.host = "host" + std::to_string(session == 0 ? line : session);
    hello.number = number;
    ServerActions actions = sessions.received(line, Message(hello), kInquiryStart);
    JoinRequest request;
    request.host = hello.host;
    request.local_size = 2;
    if (number == 1) sessions.received(line, Message(message::Join{request}), kInquiryStart);
    return actions;
  }

  ServerActions say(ConnectionId line, const Inquiry& inquiry,
                    std::chrono::seconds later = std::chrono::seconds(0)) {
    return sessions.received(line, Message(inquiry), kInquiryStart + later);
  }
};

/// The inquiries of this kind among the actions, with the lines that they go to.
template <class T>
std::vector<std::pair<ConnectionId, T>> inquiries(const ServerActions& actions) {
  std::vector<std::pair<ConnectionId, T>> found;
  for (const ServerAction& action : actions) {
    const auto* send = std::get_if<server_action::Send>(&action);
    const auto* inquiry = send != nullptr ? std::get_if<Inquiry>(send->reply.get()) : nullptr;
    const auto* one = inquiry != nullptr ? std::get_if<T>(inquiry) : nullptr;
    if (one != nullptr) found.emplace_back(send->to, *one);
  }
  return found;
}

}  // namespace

TEST_CASE("inquiries arrive as they were written") {
  CHECK(passed(ListNodes{7}).after == 7);
  NodeList list{7, {{8, "gpu-08", "running", 1, 8, 4, 1.5, true}}, true, "1 of 2 nodes"};
  list = passed(list);
  REQUIRE(list.nodes.size() == 1);
  CHECK(list.after == 7);
  CHECK(list.more);
  CHECK(list.waiting == "1 of 2 nodes");
  const ListedNode& node = list.nodes[0];
  CHECK((node.id == 8 && node.host == "gpu-08" && node.state == "running" && node.node_rank == 1));
  CHECK((node.first_rank == 8 && node.local_size == 4 && node.silent == 1.5 && node.connected));
  CHECK(passed(Inquire{3, 8, "/status?node=1"}).question == "/status?node=1");
  const auto inquired = passed(Inquired{2, 3, "/logs/1"});
  CHECK((inquired.asker == 2 && inquired.number == 3 && inquired.question == "/logs/1"));
  CHECK(passed(Inform{2, 3, "{\"a\":1}"}).answer == "{\"a\":1}");
  const auto informed = passed(Informed{3, 8, std::string(kMaxAnswer, '"')});
  CHECK((informed.number == 3 && informed.node == 8 && informed.answer.size() == kMaxAnswer));
  passed(StopJob{});
}

TEST_CASE("inquiries that are too long, or would be with escapes, are refused") {
  CHECK(is_refused(Inquire{1, 1, std::string(kMaxQuestion + 1, 'x')}));
  CHECK(is_refused(Inform{1, 1, std::string(kMaxAnswer + 1, 'x')}));
  CHECK(is_refused(Inform{1, 1, "\n"}));
  CHECK_FALSE(is_refused(Inform{1, 1, std::string(kMaxAnswer, 'x')}));
  CHECK(answer_to_send("{}") == "{}");
  CHECK(answer_to_send("{}\n").empty());
  CHECK(answer_to_send(std::string(kMaxAnswer + 1, 'x')).empty());
  NodeList longest{0, {}, true, ""};
  for (size_t i = 0; i < kMaxListed; ++i) {
    longest.nodes.push_back({i + (1ULL << 40), std::string(70, '"'), "held back", 65'000, 1 << 30,
                             65'536, 123456.789, true});
  }
  CHECK(encode(Reply(Inquiry(longest))).size() < kMaxFrame);
  longest.nodes.push_back({});
  CHECK(is_refused(longest));
}

TEST_CASE("the master lists the nodes, in pieces") {
  InquiredJob job(2);
  const auto lists = inquiries<NodeList>(job.say(1, ListNodes{0}, std::chrono::seconds(3)));
  REQUIRE(lists.size() == 1);
  CHECK(lists[0].first == 1);
  const NodeList& list = lists[0].second;
  REQUIRE(list.nodes.size() == 2);
  CHECK_FALSE(list.more);
  CHECK(list.waiting.empty());
  CHECK((list.nodes[0].id == 1 && list.nodes[0].host == "host1" && list.nodes[0].connected));
  CHECK(list.nodes[0].silent == 0);
  CHECK(list.nodes[1].silent == 3);
  CHECK((list.nodes[1].node_rank == 1 && list.nodes[1].first_rank == 2));
  job.sessions.lost(2, kInquiryStart);
  const auto rest = inquiries<NodeList>(job.say(1, ListNodes{1}));
  REQUIRE(rest.at(0).second.nodes.size() == 1);
  CHECK_FALSE(rest.at(0).second.nodes[0].connected);

  InquiredJob large(static_cast<int>(kMaxListed) + 1);
  const NodeList first = inquiries<NodeList>(large.say(1, ListNodes{0})).at(0).second;
  CHECK(first.nodes.size() == kMaxListed);
  CHECK(first.more);
  const NodeList last =
      inquiries<NodeList>(large.say(1, ListNodes{first.nodes.back().id})).at(0).second;
  CHECK(last.nodes.size() == 1);
  CHECK_FALSE(last.more);
}

TEST_CASE("the master passes a question on, and its answer back, once") {
  InquiredJob job(3);
  const auto asked = inquiries<Inquired>(job.say(1, Inquire{70, 2, "/status?node=1"}));
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].first == 2);
  CHECK((asked[0].second.asker == 1 && asked[0].second.number == 70));
  CHECK(inquiries<Informed>(job.say(3, Inform{1, 70, "{}"})).empty());  // it was not asked
  CHECK(inquiries<Informed>(job.say(2, Inform{1, 71, "{}"})).empty());
  CHECK(inquiries<Informed>(job.say(2, Inform{3, 70, "{}"})).empty());
  const auto answer = inquiries<Informed>(job.say(2, Inform{1, 70, "{}"}));
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].first == 1);
  CHECK((answer[0].second.number == 70 && answer[0].second.node == 2));
  CHECK(answer[0].second.answer == "{}");
  CHECK(inquiries<Informed>(job.say(2, Inform{1, 70, "{}"})).empty());
}

TEST_CASE("a question to an unreachable node is answered, and a lost asker gets nothing") {
  InquiredJob job(3);
  CHECK(inquiries<Informed>(job.say(1, Inquire{70, 99, "/"})).at(0).second.answer.empty());
  job.sessions.lost(2, kInquiryStart);
  CHECK(inquiries<Informed>(job.say(1, Inquire{71, 2, "/"})).at(0).second.number == 71);
  job.say(1, Inquire{72, 3, "/"});
  job.sessions.lost(1, kInquiryStart);
  CHECK(inquiries<Informed>(job.say(3, Inform{1, 72, "{}"})).empty());
}

TEST_CASE("a request to stop reaches every node once, and a node without a line when it is back") {
  InquiredJob job(3);
  job.sessions.lost(3, kInquiryStart);
  const auto told = inquiries<StopJob>(job.say(2, StopJob{}));
  REQUIRE(told.size() == 2);
  CHECK(told[0].first + told[1].first == 3);
  CHECK(inquiries<StopJob>(job.say(1, StopJob{})).empty());
  const auto back = inquiries<StopJob>(job.add(4, 3, 2, 3));
  REQUIRE(back.size() == 1);
  CHECK(back[0].first == 4);
  CHECK_FALSE(job.sessions.settled());
  for (const char* host : {"host1", "host2", "host3"}) {
    const int line = host[4] == '3' ? 4 : host[4] - '0';
    job.sessions.received(static_cast<ConnectionId>(line), Message(message::Gone{host, "ended"}),
                          kInquiryStart);
  }
  CHECK(job.sessions.settled());
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/node_questions.h"

#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "tests/catch.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::rendezvous;

namespace {

ListedNode listed_as(NodeId id, bool connected = true) {
  const int rank = static_cast<int>(id) - 1;
  return {id, "host" + std::to_string(id), "running", rank, 2 * rank, 2, 0.5, connected};
}

/// An agent that asks, without its master.
struct AskingAgent {
  boost::asio::io_context io{1};
  std::vector<Inquiry> sent;
  NodeQuestions questions{io.get_executor(),
                          [this](Inquiry inquiry) { sent.push_back(std::move(inquiry)); },
                          AnswerLimits{std::chrono::milliseconds(1), std::chrono::seconds(30)}};
  std::vector<ask::NodeAnswers> done;

  void ask(const std::string& question) {
    questions.ask(
        question, [](const ListedNode& node) { return node.id != 99; },
        [this](ask::NodeAnswers answers) { done.push_back(std::move(answers)); });
  }

  std::vector<Inquire> asked() const {
    std::vector<Inquire> found;
    for (const Inquiry& inquiry : sent) {
      if (const auto* one = std::get_if<Inquire>(&inquiry)) found.push_back(*one);
    }
    return found;
  }

  void answer(const Inquire& question, const std::string& text) {
    questions.received(Informed{question.number, question.node, text});
  }
};

}  // namespace

TEST_CASE("node questions: all nodes of a long list are asked, a few at a time") {
  AskingAgent world;
  world.ask("/status?node=1");
  REQUIRE(world.sent.size() == 1);
  CHECK(std::get<ListNodes>(world.sent[0]).after == 0);
  NodeList list{0, {}, true, ""};
  for (NodeId id = 1; id <= 30; ++id) list.nodes.push_back(listed_as(id));
  world.questions.received(list);
  CHECK(std::get<ListNodes>(world.sent.at(1)).after == 30);
  world.questions.received(
      NodeList{30, {listed_as(31), listed_as(32, false), listed_as(99)}, false, "all"});
  size_t answered = 0;
  while (answered < world.asked().size()) {
    CHECK(world.asked().size() - answered <= 8);
    const Inquire question = world.asked()[answered++];
    CHECK(question.question == "/status?node=1");
    world.answer(question, "answer " + std::to_string(question.node));
  }
  CHECK(answered == 31);
  REQUIRE(world.done.size() == 1);
  const ask::NodeAnswers& answers = world.done[0];
  REQUIRE(answers.nodes.size() == 32);
  CHECK(answers.waiting == "all");
  CHECK(answers.nodes[6].answer == "answer 7");
  CHECK(answers.nodes[31].answer.empty());
  CHECK(answers.nodes[31].problem == "it is not connected");
}

TEST_CASE("node questions: only answers to open questions count") {
  AskingAgent world;
  world.questions.received(NodeList{0, {listed_as(1)}, false, ""});  // nobody asks
  world.ask("/a");
  world.ask("/b");
  world.questions.received(NodeList{5, {listed_as(1)}, false, ""});
  CHECK(world.asked().empty());
  world.questions.received(NodeList{0, {listed_as(1), listed_as(2)}, false, ""});
  REQUIRE(world.asked().size() == 2);
  const Inquire first = world.asked()[0], second = world.asked()[1];
  world.questions.received(Informed{first.number, 2, "of another node"});
  world.questions.received(Informed{first.number + 100, 1, "of another number"});
  world.answer(first, "one");
  world.answer(first, "again");
  CHECK(world.done.empty());
  world.answer(second, "two");
  REQUIRE(world.done.size() == 1);
  CHECK(world.done[0].nodes[0].answer == "one");
  // Then the next question.
  world.questions.received(NodeList{0, {listed_as(1)}, false, ""});
  CHECK(world.asked().back().question == "/b");
  world.answer(world.asked().back(), "three");
  CHECK(world.done.size() == 2);
}

TEST_CASE("node questions: the questions of two agents have different numbers") {
  std::vector<std::uint64_t> numbers;
  for (int agent = 0; agent < 2; ++agent) {
    AskingAgent world;
    world.ask("/a");
    world.questions.received(NodeList{0, {listed_as(1), listed_as(2)}, false, ""});
    for (const Inquire& question : world.asked()) numbers.push_back(question.number);
  }
  REQUIRE(numbers.size() == 4);
  CHECK(numbers[0] != numbers[2]);
  CHECK(numbers[1] == numbers[0] + 1);
}

TEST_CASE("node questions: a question without an answer times out") {
  AskingAgent world;
  world.ask("/a");
  world.ask("/b");
  NodeList list{0, {}, false, ""};
  for (NodeId id = 1; id <= 10; ++id) list.nodes.push_back(listed_as(id));
  world.questions.received(list);
  world.answer(world.asked().at(0), "one");
  world.io.run();  // until both have timed out
  REQUIRE(world.done.size() == 2);
  REQUIRE(world.done[0].nodes.size() == 10);
  CHECK(world.done[0].nodes[0].answer == "one");
  CHECK(world.done[0].nodes[8].problem == "no answer");
  CHECK(world.done[0].nodes[9].problem == "it was not asked in time");
  CHECK(world.done[1].nodes.empty());
  world.answer(world.asked().at(1), "late");
}

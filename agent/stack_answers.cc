// SPDX-License-Identifier: Apache-2.0
#include "agent/stack_answers.h"

#include <utility>

#include "agent/ask/whole_job.h"
#include "base/log.h"

namespace ddprun::agent {
namespace {

ask::Answer answer_of(const Stacks& stacks) {
  return {200, stacks_json(stacks) + "\n"};
}

}  // namespace

void StackAnswers::add_route() {
  answers_.routes().add("GET", "/stacks", [this](const auto& question, const auto& respond) {
    answer(question, respond);
  });
}

void StackAnswers::show() {
  workers_.collect_stacks(
      false, [](const CollectedStacks& collected) { log::error(stacks_text(collected.stacks)); });
}

void StackAnswers::show_all() {
  ask_all(false, [this](ask::NodeAnswers answers) {
    if (answers.nodes.empty()) return show();
    threads_.run([answers = std::move(answers)] { return stacks_text(ask::whole_stacks(answers)); },
                 [](const std::string& text) { log::warning(text); });
  });
}

void StackAnswers::ask_all(bool native, std::function<void(ask::NodeAnswers)> done) {
  const auto every = [](const rendezvous::ListedNode& node) { return node.node_rank >= 0; };
  answers_.nodes().ask(native ? "/stacks?node=1&native=1" : "/stacks?node=1", every,
                       std::move(done));
}

void StackAnswers::answer(const ask::Question& question, const ask::Respond& respond) {
  const bool native = ask::query_value(question.query, "native") == "1";
  if (ask::query_value(question.query, "node") == "1") return answer_node(native, respond);
  ask_all(native, [this, native, respond](ask::NodeAnswers answers) {
    if (answers.nodes.empty()) return answer_node(native, respond);
    threads_.run([answers = std::move(answers)] { return answer_of(ask::whole_stacks(answers)); },
                 respond);
  });
}

void StackAnswers::answer_node(bool native, const ask::Respond& respond) {
  workers_.collect_stacks(native, [respond](const CollectedStacks& collected) {
    respond(answer_of(collected.stacks));
  });
}

}  // namespace ddprun::agent

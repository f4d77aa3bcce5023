// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/inquiry.h"

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include <nlohmann/json.hpp>

#include "rendezvous/wire/message_values.h"

namespace ddprun::rendezvous {
namespace {

using InquiryJson = nlohmann::json;

/// The names in the order of the variant.
constexpr std::array<const char*, std::variant_size_v<Inquiry>> kInquiryNames = {
    "list_nodes", "node_list", "inquire", "inquired", "inform", "informed", "stop_job"};

bool is_plain(const std::string& text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20; });
}

InquiryJson fields_of(const ListNodes& list) {
  return {{"after", list.after}};
}

InquiryJson fields_of(const ListedNode& node) {
  return {{"id", node.id},
          {"host", tail(node.host)},
          {"state", node.state},
          {"node_rank", node.node_rank},
          {"first_rank", node.first_rank},
          {"local_size", node.local_size},
          {"silent", node.silent},
          {"connected", node.connected}};
}

InquiryJson fields_of(const NodeList& list) {
  InquiryJson nodes = InquiryJson::array();
  for (const ListedNode& node : list.nodes) nodes.push_back(fields_of(node));
  return {{"after", list.after},
          {"nodes", std::move(nodes)},
          {"more", list.more},
          {"waiting", tail(list.waiting)}};
}

InquiryJson fields_of(const Inquire& inquire) {
  return {{"number", inquire.number}, {"node", inquire.node}, {"question", inquire.question}};
}

InquiryJson fields_of(const Inquired& inquired) {
  return {{"asker", inquired.asker}, {"number", inquired.number}, {"question", inquired.question}};
}

InquiryJson fields_of(const Inform& inform) {
  return {{"asker", inform.asker}, {"number", inform.number}, {"answer", inform.answer}};
}

InquiryJson fields_of(const Informed& informed) {
  return {{"number", informed.number}, {"node", informed.node}, {"answer", informed.answer}};
}

InquiryJson fields_of(const StopJob&) {
  return InquiryJson::object();
}

ListedNode listed_node(const InquiryJson& object, Fields& outer) {
  Fields fields(object);
  ListedNode node;
  node.id = fields.count("id");
  node.host = fields.text("host");
  node.state = fields.text("state");
  node.node_rank = fields.integer("node_rank", -1, INT_MAX);
  node.first_rank = fields.integer("first_rank", 0, INT_MAX);
  node.local_size = fields.integer("local_size", 1, 65'536);
  node.silent = fields.seconds("silent");
  node.connected = fields.boolean("connected");
  outer.take_error(fields);
  return node;
}

NodeList node_list(Fields& fields) {
  NodeList list;
  list.after = fields.count("after");
  for (const InquiryJson& node : fields.list("nodes", kMaxListed)) {
    list.nodes.push_back(listed_node(node, fields));
  }
  list.more = fields.boolean("more");
  list.waiting = fields.text("waiting");
  return list;
}

std::string plain_text(Fields& fields, const char* name, size_t most) {
  std::string text = fields.text(name, most);
  if (!is_plain(text)) fields.refuse(name);
  return text;
}

}  // namespace

std::string type_of(const Inquiry& inquiry) {
  return kInquiryNames[inquiry.index()];
}

InquiryJson json_of(const Inquiry& inquiry) {
  InquiryJson object = std::visit([](const auto& one) { return fields_of(one); }, inquiry);
  object["type"] = type_of(inquiry);
  return object;
}

bool is_inquiry(const std::string& type) {
  return std::ranges::find(kInquiryNames, type) != kInquiryNames.end();
}

Inquiry inquiry_in(Fields& fields, const std::string& type) {
  const auto is = [&type](size_t index) { return type == kInquiryNames[index]; };
  if (is(0)) return ListNodes{fields.count("after")};
  if (is(1)) return node_list(fields);
  if (is(2)) {
    return Inquire{fields.count("number"), fields.count("node"),
                   plain_text(fields, "question", kMaxQuestion)};
  }
  if (is(3)) {
    return Inquired{fields.count("asker"), fields.count("number"),
                    plain_text(fields, "question", kMaxQuestion)};
  }
  if (is(4)) {
    return Inform{fields.count("asker"), fields.count("number"),
                  plain_text(fields, "answer", kMaxAnswer)};
  }
  if (is(5)) {
    return Informed{fields.count("number"), fields.count("node"),
                    plain_text(fields, "answer", kMaxAnswer)};
  }
  return StopJob{};
}

std::string answer_to_send(std::string answer) {
  return answer.size() <= kMaxAnswer && is_plain(answer) ? std::move(answer) : std::string();
}

std::string state_text(NodeState state) {
  switch (state) {
    case NodeState::waiting:
      return "waiting";
    case NodeState::held:
      return "held back";
    case NodeState::running:
      return "running";
    case NodeState::finished:
      return "finished";
    case NodeState::returning:
      return "stopping";
    case NodeState::leaving:
      return "leaving";
  }
  return "";
}

}  // namespace ddprun::rendezvous

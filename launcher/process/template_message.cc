// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/template_message.h"

#include <vector>

#include "base/number.h"

namespace ddprun::launcher {
namespace {

using Kind = TemplateMessage::Kind;

struct MessageForm {
  std::string_view name;
  Kind kind;
  size_t fields;  // with the name
};
constexpr MessageForm kForms[] = {{"ready", Kind::ready, 1},
                                  {"refused", Kind::refused, 2},
                                  {"failed", Kind::failed, 3},
                                  {"started", Kind::started, 2},
                                  {"not_started", Kind::not_started, 2},
                                  {"done", Kind::done, 1}};

std::vector<std::string_view> fields_of(std::string_view bytes) {
  std::vector<std::string_view> fields;
  for (size_t end = 0; end != bytes.npos && fields.size() < 4; bytes.remove_prefix(end + 1)) {
    end = bytes.find('\0');
    fields.push_back(bytes.substr(0, end));
    if (end == bytes.npos) break;
  }
  return fields;
}

int pid_in(std::string_view text) {
  return whole_number<int>(text).value_or(0);
}

void append_word(std::string& request, std::string_view word) {
  request.append(word).push_back('\0');
}

}  // namespace

std::optional<TemplateMessage> parse_template_message(std::string_view bytes) {
  if (bytes.size() > kMaxTemplateMessage) return std::nullopt;
  const std::vector<std::string_view> fields = fields_of(bytes);
  for (const MessageForm& form : kForms) {
    if (fields.empty() || fields[0] != form.name || fields.size() != form.fields) continue;
    TemplateMessage message{form.kind};
    if (fields.size() > 1) message.text = fields[1];
    if (fields.size() > 2) message.traceback = fields[2];
    if (form.kind == Kind::started) message.pid = pid_in(message.text);
    if (form.kind == Kind::started && message.pid <= 1) return std::nullopt;
    return message;
  }
  return std::nullopt;
}

std::string fork_request(const Command& command) {
  std::string cpus;
  for (const int cpu : command.cpus) cpus += (cpus.empty() ? "" : ",") + std::to_string(cpu);
  std::string request;
  append_word(request, cpus);
  append_word(request, std::to_string(command.arguments.size()));
  for (const std::string& word : command.arguments) append_word(request, word);
  if (command.common_environment) {
    for (const std::string& variable : *command.common_environment) append_word(request, variable);
  }
  for (const std::string& variable : command.environment) append_word(request, variable);
  return request;
}

}  // namespace ddprun::launcher

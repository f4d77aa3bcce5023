// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a message of the process of --preload: what is read of a message is all of its
// bytes, and the pid of a worker is that of one process.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/target.h"
#include "launcher/process/template_message.h"

namespace {

using namespace ddprun::launcher;
using ddprun::fuzz::require;
using Kind = TemplateMessage::Kind;

constexpr std::array<std::string_view, 6> kNames = {"ready",   "refused",     "failed",
                                                    "started", "not_started", "done"};

std::string bytes_of(const TemplateMessage& message) {
  std::string bytes(kNames.at(static_cast<std::size_t>(message.kind)));
  if (message.kind == Kind::ready || message.kind == Kind::done) return bytes;
  bytes.append(1, '\0').append(message.text);
  if (message.kind == Kind::failed) bytes.append(1, '\0').append(message.traceback);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto message = parse_template_message(bytes);
  require(!message || size <= kMaxTemplateMessage, "a message is not too long");
  require(!message || bytes_of(*message) == bytes, "a message is read as it is");
  require(!message || (message->kind == Kind::started) == (message->pid > 1),
          "only a worker that was started has a pid, which is no other's");
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/gone_message.h"

#include <memory>
#include <utility>

#include "base/secret.h"
#include "rendezvous/wire/protocol.h"

namespace ddprun::agent {
namespace {

using launcher::FinalMessage;
using rendezvous::SecureChannel;
using rendezvous::Security;

/// Ends the session in the subject. If the job has a secret, the key's bytes and name follow.
constexpr char kEnd = '\n';
constexpr std::size_t kKeySize = 32;

Result<std::shared_ptr<const Security>> security_in(std::string_view key) {
  return Security::with_key({std::string(key.substr(kKeySize)), Secret(key.substr(0, kKeySize))});
}

/// Sends `message` once the master has proven that it has the key, too.
FinalMessage::Talk encrypted(const std::shared_ptr<const Security>& security,
                             const std::string& message) {
  const auto channel = std::make_shared<SecureChannel>(security, SecureChannel::Role::agent);
  channel->send(message);
  return [channel](std::string_view received) {
    const bool goes_on = received.empty() || channel->receive(received).has_value();
    return FinalMessage::Turn{channel->take_output(), !goes_on || channel->is_proven()};
  };
}

}  // namespace

std::string gone_subject(const std::string& session, const Security* security) {
  if (security == nullptr) return session;
  const auto& key = security->key();
  std::string subject;
  subject.reserve(session.size() + 1 + key.bytes.view().size() + key.name.size());
  return subject.append(session).append(1, kEnd).append(key.bytes.view()).append(key.name);
}

FinalMessage::Talk gone_message(const std::string& subject, const std::string& how) {
  using namespace rendezvous;
  const std::size_t end = subject.find(kEnd);
  const std::string message = greeting() + encode(message::Gone{subject.substr(0, end), how});
  if (end == std::string::npos) {
    return [message](std::string_view) { return FinalMessage::Turn{message}; };
  }
  const auto security = security_in(std::string_view(subject).substr(end + 1));
  if (!security) return [](std::string_view) { return FinalMessage::Turn{}; };
  return encrypted(*security, message);
}

}  // namespace ddprun::agent

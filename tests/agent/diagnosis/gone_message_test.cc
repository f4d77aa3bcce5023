// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/gone_message.h"

#include <string>

#include "rendezvous/wire/protocol.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using rendezvous::SecureChannel;

namespace {

const std::string kMessage =
    rendezvous::greeting() +
    rendezvous::encode(rendezvous::message::Gone{"session", "its agent was killed by SIGKILL"});

launcher::FinalMessage::Talk talk_with(const rendezvous::Security* security) {
  return agent::gone_message(agent::gone_subject("session", security),
                             "its agent was killed by SIGKILL");
}

std::shared_ptr<const rendezvous::Security> security_of(const std::string& secret) {
  return must(rendezvous::Security::of_job(Secret(secret), std::string(256, 'j')));
}

/// The message as a master with this secret receives it.
std::string received_with(const std::string& secret, const launcher::FinalMessage::Talk& talk) {
  SecureChannel master(security_of(secret), SecureChannel::Role::master);
  auto turn = talk("");
  while (master.receive(turn.bytes) && !turn.is_last) turn = talk(master.take_output());
  CHECK(turn.is_last == master.is_proven());
  return master.take_received();
}

}  // namespace

TEST_CASE("without a secret the guardian's first message says who is gone") {
  const auto turn = talk_with(nullptr)("");
  CHECK(turn.bytes == kMessage);
  CHECK(turn.is_last);
}

TEST_CASE("with a secret the guardian tells only a master that has it who is gone") {
  const auto security = security_of("ours");
  CHECK(agent::gone_subject("session", security.get()).size() <= 512);
  CHECK(received_with("ours", talk_with(security.get())) == kMessage);
  CHECK(received_with("another", talk_with(security.get())).empty());
}

TEST_CASE("a guardian that gets a wrong answer sends no more") {
  const auto talk = talk_with(security_of("ours").get());
  CHECK_FALSE(talk("").is_last);
  CHECK(talk("HTTP/1.1 400 Bad Request\r\n").is_last);
}

// SPDX-License-Identifier: Apache-2.0
// The two ends of a control line, and an attacker between them.
#include "rendezvous/secret/secure_channel.h"

#include <algorithm>
#include <string>

#include "rendezvous/secret/openssl.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using ddprun::tests::contains;

namespace {

using Role = SecureChannel::Role;

std::shared_ptr<const Security> security(const std::string& secret = std::string(32, 's'),
                                         const std::string& run_id = "job") {
  return must(Security::of_job(Secret(secret), run_id));
}

/// A security with a key of the test's own.
std::shared_ptr<const Security> with_key(const std::string& name, const std::string& bytes) {
  return must(Security::with_key({name, Secret(bytes)}));
}

/// An agent, a master, and the line between them.
struct Line {
  explicit Line(std::shared_ptr<const Security> of_agent = security(),
                std::shared_ptr<const Security> of_master = security())
      : agent(std::move(of_agent), Role::agent), master(std::move(of_master), Role::master) {}

  /// Passes everything on until nothing more comes, `size` bytes at a time.
  void pass(size_t size = 1 << 20) {
    for (bool any = true; any;) {
      const bool there = pass(agent, master, master_error, size);
      const bool back = pass(master, agent, agent_error, size);
      any = there || back;
    }
  }

  SecureChannel agent;
  SecureChannel master;
  std::string agent_error;
  std::string master_error;

 private:
  static bool pass(SecureChannel& from, SecureChannel& to, std::string& error, size_t size) {
    const std::string bytes = from.take_output();
    for (size_t at = 0; at < bytes.size() && error.empty(); at += size) {
      const Result<> taken = to.receive(std::string_view(bytes).substr(at, size));
      if (!taken) error = taken.error().message.empty() ? "stranger" : taken.error().message;
    }
    return !bytes.empty();
  }
};

/// Both sides' errors.
std::pair<std::string, std::string> errors_of(std::shared_ptr<const Security> agent,
                                              std::shared_ptr<const Security> master) {
  Line line(std::move(agent), std::move(master));
  line.agent.send("for the master alone");
  line.pass();
  CHECK(line.master.take_received().empty());
  CHECK_FALSE(line.agent.is_proven());
  CHECK_FALSE(line.master.is_proven());
  return {line.agent_error, line.master_error};
}

}  // namespace

TEST_CASE("two ends with one secret understand each other, and send nothing that others can read") {
  Line line;
  line.agent.send("from the agent");
  const std::string hello = line.agent.take_output();
  CHECK(contains(hello, "ddprun1/job"));
  CHECK_FALSE(contains(hello, "from the agent"));
  must(line.master.receive(hello));
  line.pass();
  CHECK(line.master.take_received() == "from the agent");
  line.master.send("from the master");
  const std::string answer = line.master.take_output();
  CHECK_FALSE(contains(answer, "from the master"));
  must(line.agent.receive(answer));
  CHECK(line.agent.take_received() == "from the master");
}

TEST_CASE("how the bytes are cut does not matter") {
  for (const size_t size : {1, 2, 7, 100}) {
    Line line;
    line.agent.send(std::string(100'000, 'a'));
    line.master.send("b");
    line.pass(size);
    CHECK(line.master.take_received() == std::string(100'000, 'a'));
    CHECK(line.agent.take_received() == "b");
  }
}

TEST_CASE("a job's key is derived from the secret as by any other HKDF-SHA256") {
  // Python: hmac.digest(hmac.digest(b"ddprun", bytes(range(32)), "sha256"),
  //                     b"control line, agent to master\0job\1", "sha256")
  std::string secret;
  for (char byte = 0; byte < 32; ++byte) secret += byte;
  const std::string key(security(secret)->key().bytes.view());
  std::string hex;
  for (const char byte : key) {
    for (const int shift : {4, 0})
      hex += "0123456789abcdef"[static_cast<unsigned char>(byte) >> shift & 15];
  }
  CHECK(hex == "3d75837d205a5ebb957c01cc1c1aec55def0ce21e5eb43b8766e58660a765831");
  CHECK(security(secret, "other")->key().bytes.view() != key);
}

TEST_CASE("the hello of the longest job id fits") {
  const std::string run_id(256, 'j');
  Line line(security("s", run_id), security("s", run_id));
  const std::string hello = line.agent.take_output();
  CHECK(first_record_size(hello) == hello.size());
  CHECK(hello.size() <= kMaxFirstRecord);
  must(line.master.receive(hello));
  line.pass();
  CHECK(line.master.is_proven());
  CHECK(line.agent.is_proven());
}

TEST_CASE("another secret is refused, and both sides say so") {
  const auto [agent, master] = errors_of(security("one"), security("other"));
  CHECK(contains(agent, "the two secrets differ"));
  CHECK(contains(master, "the two secrets differ"));
}

TEST_CASE("the secret of another job is refused, and this job is not named") {
  const auto [agent, master] = errors_of(security("s", "that"), security("s", "job"));
  CHECK(agent == "it serves another job (--rdzv_id)");
  CHECK(master == "it belongs to another job (--rdzv_id)");
}

TEST_CASE("another way to use TLS is refused as another version") {
  const std::string key(32, 'k');
  const auto [agent, master] =
      errors_of(with_key("ddprun2/job", key), with_key("ddprun1/job", key));
  CHECK(contains(agent, "another version"));
  CHECK(contains(master, "another version"));
}

TEST_CASE("a stranger's TLS is refused without an answer") {
  const std::string key(32, 'k');
  const auto [agent, master] = errors_of(with_key("admin", key), with_key("ddprun1/job", key));
  CHECK(master == "stranger");
}

TEST_CASE("an agent without the key does not believe a master without it") {
  // A recorded answer has the right name, but no key for this line.
  Line honest;
  must(honest.master.receive(honest.agent.take_output()));
  const std::string recorded = honest.master.take_output();
  SecureChannel agent(security(), Role::agent);
  agent.send("for the master alone");
  agent.take_output();
  CHECK_FALSE(agent.receive(recorded).has_value());
  CHECK_FALSE(agent.is_proven());
}

TEST_CASE("a replay of an agent's bytes proves nothing") {
  Line honest;
  const std::string hello = honest.agent.take_output();
  must(honest.master.receive(hello));
  must(honest.agent.receive(honest.master.take_output()));
  honest.agent.send("join");
  const std::string rest = honest.agent.take_output();

  SecureChannel master(security(), Role::master);
  must(master.receive(hello));
  master.take_output();
  const Result<> again = master.receive(rest);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().message.empty());
  CHECK(master.take_received().empty());
  CHECK_FALSE(master.is_proven());
}

TEST_CASE("a record that comes twice, changed or cut is no message") {
  const auto change = GENERATE(0, 1, 2);
  Line line;
  line.pass();
  line.agent.send("leave");
  std::string record = line.agent.take_output();
  if (change == 0) record += record;
  if (change == 1) record[record.size() / 2] ^= 1;
  if (change == 2) record.pop_back();
  const Result<> taken = line.master.receive(record);
  CHECK(line.master.take_received() == (change == 0 ? "leave" : ""));
  CHECK(taken.has_value() == (change == 2));  // a cut record waits for the rest
  if (!taken) CHECK(taken.error().code == Errc::unreachable);
}

TEST_CASE("an agent does not take its own bytes for a master's") {
  Line line;
  const std::string hello = line.agent.take_output();
  CHECK_FALSE(line.agent.receive(hello).has_value());
  CHECK_FALSE(line.agent.is_proven());
}

TEST_CASE("an older TLS and other ciphers are refused") {
  // The agent's hello with the versions that it supports (extension 43: 0x0304) changed to 1.2.
  Line line;
  std::string hello = line.agent.take_output();
  const size_t at = hello.find(std::string("\x00\x2b\x00\x03\x02\x03\x04", 7));
  REQUIRE(at != std::string::npos);
  hello[at + 6] = '\x03';
  CHECK_FALSE(line.master.receive(hello).has_value());
  CHECK_FALSE(line.master.is_proven());
}

TEST_CASE("bytes that are not TLS end the handshake at both ends") {
  SecureChannel agent(security(), Role::agent);
  agent.take_output();
  const Result<> answered = agent.receive("HTTP/1.1 400 Bad Request\r\n\r\n");
  REQUIRE_FALSE(answered.has_value());
  CHECK(contains(answered.error().message, "does not answer as a master with a secret"));
  SecureChannel master(security(), Role::master);
  CHECK_FALSE(master.receive(std::string("\x16\x03\x01\x00\x05hello", 10)).has_value());
}

TEST_CASE("a hello without end is not collected") {
  SecureChannel master(security(), Role::master);
  const std::string begin("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03", 11);
  Result<> taken = master.receive(begin);
  for (int i = 0; taken && i < 4; ++i) taken = master.receive(std::string(1024, 'x'));
  CHECK_FALSE(taken.has_value());
}

TEST_CASE("a master gives no ticket by which a later line could begin") {
  Line line;
  must(line.master.receive(line.agent.take_output()));
  must(line.agent.receive(line.master.take_output()));
  must(line.master.receive(line.agent.take_output()));
  CHECK(line.master.is_proven());
  CHECK(line.master.take_output().empty());
}

TEST_CASE("an agent's OpenSSL understands a master's alerts") {
  const auto [alert, words] = GENERATE(std::pair{TlsAlert::no_secret, "it has no secret"},
                                       std::pair{TlsAlert::wrong_secret, "the two secrets differ"},
                                       std::pair{TlsAlert::wrong_version, "another version"},
                                       std::pair{TlsAlert::another_job, "another job"});
  SecureChannel agent(security(), Role::agent);
  agent.take_output();
  const Result<> taken = agent.receive(alert_record(alert));
  REQUIRE_FALSE(taken.has_value());
  CHECK(taken.error().code == Errc::usage);
  CHECK(contains(taken.error().message, words));
}

// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret/secure_channel.h"

#include <array>
#include <cstring>
#include <utility>

#include "rendezvous/secret/openssl.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kHeader = 5;  // type, version (2 bytes), length (2 bytes)

std::size_t byte(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

}  // namespace

bool may_be_tls(std::string_view first) {
  constexpr std::string_view kBegin = "\x16\x03";  // handshake, SSL 3 or later
  return first.starts_with(kBegin.substr(0, first.size()));
}

std::optional<std::size_t> first_record_size(std::string_view first) {
  if (first.size() < kHeader) return std::nullopt;
  return kHeader + (byte(first, 3) << 8 | byte(first, 4));
}

std::string alert_record(TlsAlert alert) {
  constexpr std::string_view kFatal("\x15\x03\x03\x00\x02\x02", 6);
  return std::string(kFatal) + static_cast<char>(alert);
}

namespace {

/// Names ddprun's use of TLS; a change of that changes the number.
constexpr std::string_view kVersionName = "ddprun1/";

/// More than either side's part of a handshake takes.
constexpr std::size_t kMaxUnproven = 4096;

constexpr std::size_t kKeySize = 32;

constexpr const char* kWrongSecret =
    "the two secrets differ: give every node the same one (--secret_file, DDPRUN_SECRET)";
constexpr const char* kWrongVersion =
    "ddprun of another version encrypts differently: use the same ddprun on all nodes";
constexpr const char* kNoSecretThere =
    "it has no secret, and this node has one (--secret_file, DDPRUN_SECRET): give both the same, "
    "or "
    "none";

using Digest = std::array<unsigned char, kKeySize>;

const unsigned char* data_of(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Digest hmac(const OpenSsl& ssl, std::string_view key, std::string_view text) {
  Digest digest{};
  ssl.HMAC(ssl.EVP_sha256(), key.data(), static_cast<int>(key.size()), data_of(text), text.size(),
           digest.data(), nullptr);
  return digest;
}

std::string_view view(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// HKDF (RFC 5869) of one block.
Secret derive(const OpenSsl& ssl, std::string_view secret, const std::string& run_id) {
  Digest extracted = hmac(ssl, "ddprun", secret);
  using namespace std::string_literals;
  Digest key = hmac(ssl, view(extracted), "control line, agent to master\0"s + run_id + '\x01');
  Secret derived(view(key));
  explicit_bzero(extracted.data(), extracted.size());
  explicit_bzero(key.data(), key.size());
  return derived;
}

/// Whom a master met, by the name of the other side's key.
enum class Met { stranger, another_version, another_job, ours };

/// The state of a line for OpenSSL's callbacks.
struct Meeting {
  const LineKey& key;
  Met met = Met::stranger;
};

Met met_with(std::string_view name, const LineKey& key) {
  if (name == key.name) return Met::ours;
  if (name.starts_with(kVersionName)) return Met::another_job;
  return name.starts_with(kKeyName) ? Met::another_version : Met::stranger;
}

const OpenSsl& functions() {
  return **OpenSsl::load();  // every caller has loaded it
}

Meeting& meeting_on(SSL* line) {
  return *static_cast<Meeting*>(functions().SSL_get_ex_data(line, 0));
}

/// The key as an object of OpenSSL; nullptr: out of memory.
SSL_SESSION* session_of(SSL* line, const LineKey& key) {
  constexpr std::array<unsigned char, 2> kAes128Sha256 = {0x13, 0x01};
  const OpenSsl& ssl = functions();
  SSL_SESSION* session = ssl.SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const std::string_view bytes = key.bytes.view();
  const bool complete =
      ssl.SSL_SESSION_set1_master_key(session, data_of(bytes), bytes.size()) == 1 &&
      ssl.SSL_SESSION_set_cipher(session, ssl.SSL_CIPHER_find(line, kAes128Sha256.data())) == 1 &&
      ssl.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  if (complete) return session;
  ssl.SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* line, const EVP_MD*, const unsigned char** name, size_t* size,
              SSL_SESSION** session) {
  const LineKey& key = meeting_on(line).key;
  *session = session_of(line, key);
  *name = data_of(key.name);
  *size = key.name.size();
  return *session == nullptr ? 0 : 1;
}

int find_key(SSL* line, const unsigned char* name, size_t size, SSL_SESSION** session) {
  Meeting& meeting = meeting_on(line);
  meeting.met = met_with({reinterpret_cast<const char*>(name), size}, meeting.key);
  *session = meeting.met == Met::ours ? session_of(line, meeting.key) : nullptr;
  return 1;
}

bool configure(const OpenSsl& ssl, SSL_CTX* context) {
  std::string group = "X25519";
  ssl.SSL_CTX_set_psk_use_session_callback(context, offer_key);
  ssl.SSL_CTX_set_psk_find_session_callback(context, find_key);
  ssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, nullptr);
  ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  return ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
         ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
         ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_GROUPS_LIST, 0, group.data()) == 1 &&
         ssl.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
         ssl.SSL_CTX_set_num_tickets(context, 0) == 1;
}

struct TlsRefusal {
  TlsAlert alert;
  const char* sentence;
};

TlsRefusal refusal_of(Met met) {
  switch (met) {
    case Met::ours:
      return {TlsAlert::wrong_secret, kWrongSecret};
    case Met::another_job:
      return {TlsAlert::another_job, "it belongs to another job (--rdzv_id)"};
    case Met::another_version:
      return {TlsAlert::wrong_version, kWrongVersion};
    case Met::stranger:
      break;
  }
  return {TlsAlert::no_secret, ""};
}

/// The alert that the other side sent, if that ended the handshake.
TlsAlert alert_received(const OpenSsl& ssl) {
  return static_cast<TlsAlert>(ERR_GET_REASON(ssl.ERR_peek_error()) - SSL_AD_REASON_OFFSET);
}

}  // namespace

struct Security::Library : TlsSettings {
  using TlsSettings::TlsSettings;
};

Security::Security(LineKey key, std::unique_ptr<Library> library)
    : key_(std::move(key)), library_(std::move(library)) {}

Security::~Security() = default;

Result<std::shared_ptr<const Security>> Security::of_job(const Secret& secret,
                                                         const std::string& run_id) {
  const Result<const OpenSsl*> ssl = OpenSsl::load();
  if (!ssl) return ssl.error();
  return with_key({std::string(kVersionName) + run_id, derive(**ssl, secret.view(), run_id)});
}

Result<std::shared_ptr<const Security>> Security::with_key(LineKey key) {
  const Result<const OpenSsl*> ssl = OpenSsl::load();
  if (!ssl) return ssl.error();
  auto library = std::make_unique<Library>(**ssl);
  if (!configure(**ssl, library->context)) {
    return Error{Errc::system, "OpenSSL here cannot do TLS 1.3 with X25519 and AES-128-GCM"};
  }
  return std::shared_ptr<const Security>(new Security(std::move(key), std::move(library)));
}

struct SecureChannel::Session : TlsLine {
  explicit Session(const Security& security)
      : TlsLine(*security.library_, &meeting), meeting{security.key()} {}

  Meeting meeting;
};

SecureChannel::SecureChannel(std::shared_ptr<const Security> security, Role role)
    : security_(std::move(security)), role_(role), session_(std::make_unique<Session>(*security_)) {
  const OpenSsl& ssl = session_->ssl;
  SSL* const line = session_->line;
  if (role_ == Role::master) {
    ssl.SSL_set_accept_state(line);
  } else {
    ssl.SSL_set_verify(line, SSL_VERIFY_PEER, nullptr);  // no certificate can replace the key
    ssl.SSL_set_connect_state(line);
    ssl.SSL_do_handshake(line);  // an agent speaks first
  }
}

SecureChannel::~SecureChannel() = default;

Result<> SecureChannel::receive(std::string_view records) {
  const OpenSsl& ssl = session_->ssl;
  SSL* const line = session_->line;
  session_->feed(records);
  if (proven_) return read();
  unproven_bytes_ += records.size();
  const int done = ssl.SSL_do_handshake(line);
  const bool needs_more = done != 1 && ssl.SSL_get_error(line, done) == SSL_ERROR_WANT_READ;
  if (needs_more && unproven_bytes_ <= kMaxUnproven) return {};
  // The other side has the key: only the key's session leads here.
  if (done != 1 || ssl.SSL_session_reused(line) != 1) return refusal();
  proven_ = true;
  send(std::exchange(unsent_, {}));
  return read();
}

/// The bytes that the handshake did not read are the other side's first message.
Result<> SecureChannel::read() {
  if (session_->read(received_) == SSL_ERROR_WANT_READ) return {};
  return Error{Errc::unreachable, "received data was altered in transit"};
}

void SecureChannel::send(std::string_view bytes) {
  if (!proven_) {
    unsent_.append(bytes);
  } else if (!bytes.empty()) {
    session_->write(bytes);
  }
}

std::string SecureChannel::take_output() {
  if (!alert_.empty()) return std::exchange(alert_, {});
  std::string output = session_->take_output();
  answered_ = answered_ || !output.empty();
  return output;
}

std::string SecureChannel::take_received() {
  return std::exchange(received_, {});
}

Error SecureChannel::refusal() {
  return {Errc::usage, role_ == Role::master ? refuse() : refused_because()};
}

/// The reason for a master's log. A first answer may be an alert that says more than OpenSSL's.
std::string SecureChannel::refuse() {
  if (answered_) return "";  // it replays another agent's bytes, and cannot continue
  const auto [alert, sentence] = refusal_of(session_->meeting.met);
  alert_ = alert_record(alert);
  return sentence;
}

/// Why a master refused this agent, to follow "refused this node: ".
std::string SecureChannel::refused_because() const {
  switch (alert_received(session_->ssl)) {
    case TlsAlert::wrong_secret:
      return kWrongSecret;
    case TlsAlert::another_job:
      return "it serves another job (--rdzv_id)";
    case TlsAlert::wrong_version:
      return kWrongVersion;
    case TlsAlert::no_secret:
      return kNoSecretThere;
  }
  return "it does not answer as a master with a secret does; does another program use that port?";
}

}  // namespace ddprun::rendezvous

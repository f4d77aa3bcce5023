// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/tls.h"

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <unistd.h>
#include <utility>

#include "rendezvous/secret/openssl.h"

namespace ddprun::rendezvous::etcd {
namespace {

std::string option(const char* key, const std::string& file) {
  return "--rdzv_conf " + std::string(key) + "=" + file;
}

/// OpenSSL's last error about a file, in words.
std::string why(const OpenSsl& ssl) {
  const char* reason = ssl.ERR_reason_error_string(ssl.ERR_peek_last_error());
  return reason == nullptr ? "" : " (" + std::string(reason) + ")";
}

/// Reports errors of the system, for which OpenSSL has no words.
Result<> check_readable(const char* key, const std::string& file) {
  const int opened = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return Error{Errc::usage, os_error(option(key, file), errno).message};
  close(opened);
  return {};
}

/// Gives no password: OpenSSL would ask for a key's password at the terminal.
int no_password(char*, int, int, void*) {
  return -1;
}

Result<> load_authority(const OpenSsl& ssl, SSL_CTX* context, const std::string& file) {
  if (const Result<> readable = check_readable("cacert", file); !readable) return readable;
  ssl.ERR_clear_error();
  if (ssl.SSL_CTX_load_verify_file(context, file.c_str()) == 1) return {};
  return Error{Errc::usage,
               option("cacert", file) + ": the file holds no certificate in PEM" + why(ssl)};
}

Result<> load_identity(const OpenSsl& ssl, SSL_CTX* context, const TlsFiles& files) {
  if (const Result<> readable = check_readable("cert", files.certificate); !readable) {
    return readable;
  }
  if (const Result<> readable = check_readable("key", files.key); !readable) return readable;
  ssl.ERR_clear_error();
  if (ssl.SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return Error{Errc::usage, option("cert", files.certificate) +
                                  ": the file holds no certificate in PEM" + why(ssl)};
  }
  if (ssl.SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) == 1) return {};
  return Error{Errc::usage, option("key", files.key) +
                                ": the file holds no private key in PEM, without a password, that "
                                "belongs to the certificate of cert=" +
                                files.certificate + why(ssl)};
}

/// The fault of a server's certificate, by OpenSSL's number.
std::string distrust(const OpenSsl& ssl, long verdict, const std::string& host) {
  switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "its certificate is not one of '" + host +
             "': give --rdzv_endpoint a name or address that the certificate has";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "its certificate, or one that signed it, has expired: renew it, or correct the clock "
             "of this host";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "its certificate, or one that signed it, is not valid yet: correct the clock of this "
             "host";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "its certificate is not signed by one of --rdzv_conf cacert: give the file with the "
             "certificate of the authority that signed it";
    default:
      return std::string("its certificate is not accepted: ") +
             ssl.X509_verify_cert_error_string(verdict);
  }
}

const char* certificate_refused(bool has_certificate) {
  return has_certificate
             ? "it does not accept the certificate of --rdzv_conf cert: is it signed by an "
               "authority that etcd trusts (--trusted-ca-file), for clients, and has it not "
               "expired?"
             : "it asks for a certificate of this client: give --rdzv_conf cert=FILE,key=FILE";
}

/// Whether an alert that the server sent is about this client's certificate.
bool is_about_certificate(int alert) {
  switch (alert) {
    case SSL_AD_CERTIFICATE_REQUIRED:
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
      return true;
    default:
      return false;
  }
}

/// OpenSSL calls this when the server asks for a certificate of this client.
int note_question(SSL* line, void*) {
  *static_cast<bool*>((*OpenSsl::load())->SSL_get_ex_data(line, 0)) = true;
  return 1;
}

}  // namespace

struct TlsClient::Library : TlsSettings {
  using TlsSettings::TlsSettings;

  bool has_certificate = false;
};

TlsClient::TlsClient(std::unique_ptr<Library> library) : library_(std::move(library)) {}

TlsClient::~TlsClient() = default;

Result<std::shared_ptr<const TlsClient>> TlsClient::load(const TlsFiles& files) {
  const Result<const OpenSsl*> ssl = OpenSsl::load();
  if (!ssl) return ssl.error();
  auto library = std::make_unique<Library>(**ssl);
  SSL_CTX* const context = library->context;
  (*ssl)->SSL_CTX_set_default_passwd_cb(context, no_password);
  (*ssl)->SSL_CTX_set_cert_cb(context, note_question, nullptr);
  (*ssl)->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr);
  (*ssl)->SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  if (const Result<> loaded = load_authority(**ssl, context, files.authority); !loaded) {
    return loaded.error();
  }
  library->has_certificate = !files.certificate.empty();
  if (library->has_certificate) {
    if (const Result<> loaded = load_identity(**ssl, context, files); !loaded)
      return loaded.error();
  }
  return std::shared_ptr<const TlsClient>(new TlsClient(std::move(library)));
}

struct TlsChannel::Session : TlsLine {
  explicit Session(const TlsClient::Library& library)
      : TlsLine(library, &asked_for_certificate), has_certificate(library.has_certificate) {}

  const bool has_certificate;
  bool asked_for_certificate = false;
};

TlsChannel::TlsChannel(std::shared_ptr<const TlsClient> client, const std::string& host)
    : client_(std::move(client)),
      host_(host),
      session_(std::make_unique<Session>(*client_->library_)) {
  const OpenSsl& ssl = session_->ssl;
  SSL* const line = session_->line;
  ssl.SSL_set_verify(line, SSL_VERIFY_PEER, nullptr);
  if (ssl.SSL_set1_host(line, host_.c_str()) != 1) throw std::bad_alloc();
  // A server with several certificates needs the name. In TLS an address is no name.
  const bool is_address = host_.find(':') != std::string::npos ||
                          host_.find_first_not_of("0123456789.") == std::string::npos;
  if (!is_address) {
    ssl.SSL_ctrl(line, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host_.data());
  }
  ssl.SSL_set_connect_state(line);
  ssl.SSL_do_handshake(line);  // a client speaks first
}

TlsChannel::~TlsChannel() = default;

Result<> TlsChannel::receive(std::string_view records) {
  session_->feed(records);
  const std::size_t had = received_.size();
  const int state = session_->read(received_);
  if (received_.size() > had) session_->asked_for_certificate = false;  // the answer is accepted
  ended_ = state == SSL_ERROR_ZERO_RETURN;
  if (!ended_ && state != SSL_ERROR_WANT_READ) return failure();
  advance();
  return {};
}

void TlsChannel::send(std::string_view bytes) {
  unsent_.append(bytes);
  advance();
}

void TlsChannel::advance() {
  if (unsent_.empty() || session_->ssl.SSL_is_init_finished(session_->line) != 1) return;
  session_->write(std::exchange(unsent_, {}));
}

std::string TlsChannel::take_output() {
  return session_->take_output();
}

Error TlsChannel::failure() const {
  const OpenSsl& ssl = session_->ssl;
  const long verdict = ssl.SSL_get_verify_result(session_->line);
  if (verdict != X509_V_OK) return {Errc::usage, distrust(ssl, verdict, host_)};
  const unsigned long error = ssl.ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  if (is_about_certificate(reason - SSL_AD_REASON_OFFSET)) {
    return {Errc::usage, certificate_refused(session_->has_certificate)};
  }
  if (reason == SSL_R_WRONG_VERSION_NUMBER) {
    return {Errc::usage, "it does not speak TLS: leave out --rdzv_conf protocol=https"};
  }
  const char* words = ssl.ERR_reason_error_string(error);
  return {Errc::unreachable, std::string("TLS failed: ") + (words ? words : "no reason is known")};
}

Error TlsChannel::lost(const std::string& reason) const {
  if (!session_->asked_for_certificate) return {Errc::unreachable, reason};
  return {Errc::unreachable,
          reason + "; perhaps " + certificate_refused(session_->has_certificate)};
}

}  // namespace ddprun::rendezvous::etcd

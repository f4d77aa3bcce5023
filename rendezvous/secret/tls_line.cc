// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret/tls_line.h"

#include <array>
#include <new>

namespace ddprun::rendezvous {

TlsSettings::TlsSettings(const OpenSsl& functions)
    : ssl(functions), context(ssl.SSL_CTX_new(ssl.TLS_method())) {
  if (context == nullptr) throw std::bad_alloc();
}

TlsSettings::~TlsSettings() {
  ssl.SSL_CTX_free(context);
}

TlsLine::TlsLine(const TlsSettings& settings, void* state)
    : ssl(settings.ssl),
      line(ssl.SSL_new(settings.context)),
      in_(ssl.BIO_new(ssl.BIO_s_mem())),
      out_(ssl.BIO_new(ssl.BIO_s_mem())) {
  if (line == nullptr || in_ == nullptr || out_ == nullptr) throw std::bad_alloc();
  ssl.SSL_set_bio(line, in_, out_);
  ssl.SSL_set_ex_data(line, 0, state);
}

TlsLine::~TlsLine() {
  ssl.SSL_free(line);  // frees in_ and out_, too
}

void TlsLine::feed(std::string_view records) const {
  ssl.BIO_write(in_, records.data(), static_cast<int>(records.size()));
  ssl.ERR_clear_error();
}

int TlsLine::read(std::string& text) const {
  std::array<char, 4096> buffer;
  int size = 0;
  while ((size = ssl.SSL_read(line, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return ssl.SSL_get_error(line, size);
}

void TlsLine::write(std::string_view bytes) const {
  ssl.SSL_write(line, bytes.data(), static_cast<int>(bytes.size()));
}

std::string TlsLine::take_output() const {
  std::string output;
  std::array<char, 4096> buffer;
  int size = 0;
  while ((size = ssl.BIO_read(out_, buffer.data(), buffer.size())) > 0) {
    output.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return output;
}

}  // namespace ddprun::rendezvous

// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret/munge.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <string_view>
#include <sys/types.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"

namespace ddprun::rendezvous {
namespace {

constexpr const char* kLibmunge = "libmunge.so.2";

constexpr std::size_t kSecretSize = 32;

// The numbers of munge.h, which are part of the library's ABI.
enum MungeStatus {
  kMungeSuccess = 0,
  kMungeNoMemory = 5,
  kMungeNoSocket = 6,
  kMungeTimedOut = 7,
  kMungeExpired = 15,
  kMungeRewound = 16,
  kMungeReplayed = 17
};
enum MungeOption { kMungeCipher = 0, kMungeMac = 1, kMungeZip = 2, kMungeUidRestriction = 9 };
constexpr int kMungeNoZip = 0;
constexpr int kMungeAes256 = 5;
constexpr int kMungeSha256 = 5;

struct MungeContext;  // munge_ctx

struct Libmunge {
  MungeContext* (*ctx_create)() = nullptr;
  void (*ctx_destroy)(MungeContext*) = nullptr;
  int (*ctx_set)(MungeContext*, int option, ...) = nullptr;
  const char* (*ctx_strerror)(MungeContext*) = nullptr;
  const char* (*strerror)(int) = nullptr;
  int (*encode)(char** credential, MungeContext*, const void* bytes, int size) = nullptr;
  int (*decode)(const char* credential, MungeContext*, void** bytes, int* size, uid_t*,
                gid_t*) = nullptr;
};

template <class Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<Libmunge> load_libmunge() {
  void* library = dlopen(kLibmunge, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{Errc::unreachable, std::string(kLibmunge) + " is not installed here"};
  }
  Libmunge munge;
  const bool complete = find_symbol(library, "munge_ctx_create", munge.ctx_create) &&
                        find_symbol(library, "munge_ctx_destroy", munge.ctx_destroy) &&
                        find_symbol(library, "munge_ctx_set", munge.ctx_set) &&
                        find_symbol(library, "munge_ctx_strerror", munge.ctx_strerror) &&
                        find_symbol(library, "munge_strerror", munge.strerror) &&
                        find_symbol(library, "munge_encode", munge.encode) &&
                        find_symbol(library, "munge_decode", munge.decode);
  if (!complete) return Error{Errc::unreachable, std::string(kLibmunge) + " here is another one"};
  return munge;
}

const Result<Libmunge>& libmunge() {
  static const Result<Libmunge> loaded = load_libmunge();
  return loaded;
}

/// The settings of one request to munge, and the reason of its failure.
class MungeQuestion {
 public:
  explicit MungeQuestion(const Libmunge& munge)
      : munge_(munge), context_(munge.ctx_create(), munge.ctx_destroy) {}

  MungeContext* get() const { return context_.get(); }

  /// Sets strong encryption, as the payload is a key.
  bool restrict_to(uid_t user) const {
    return context_ && munge_.ctx_set(get(), kMungeCipher, kMungeAes256) == kMungeSuccess &&
           munge_.ctx_set(get(), kMungeMac, kMungeSha256) == kMungeSuccess &&
           munge_.ctx_set(get(), kMungeZip, kMungeNoZip) == kMungeSuccess &&
           munge_.ctx_set(get(), kMungeUidRestriction, user) == kMungeSuccess;
  }

  Error error(int status) const {
    const char* detail = context_ ? munge_.ctx_strerror(get()) : nullptr;
    const char* text = detail != nullptr ? detail : munge_.strerror(status);
    const bool may_pass =
        status == kMungeNoMemory || status == kMungeNoSocket || status == kMungeTimedOut;
    return {may_pass ? Errc::unreachable : Errc::usage, "munge: " + printable(text)};
  }

 private:
  const Libmunge& munge_;
  std::unique_ptr<MungeContext, void (*)(MungeContext*)> context_;
};

/// Memory that munge_decode() allocated; overwritten at the end.
struct MungePayload {
  MungePayload() = default;
  MungePayload(const MungePayload&) = delete;
  ~MungePayload() {
    if (bytes != nullptr) explicit_bzero(bytes, static_cast<std::size_t>(size));
    std::free(bytes);
  }

  std::string_view view() const {
    if (bytes == nullptr || size <= 0) return {};
    return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
  }

  void* bytes = nullptr;
  int size = 0;
};

/// Whether the payload is there, and munge says who sealed it.
bool is_opened(int status) {
  return status == kMungeSuccess || status == kMungeExpired || status == kMungeRewound ||
         status == kMungeReplayed;
}

/// An id has no line break, which therefore ends it.
std::string head_of(const std::string& run_id) {
  return "ddprun secret 1 of job " + run_id + "\n";
}

}  // namespace

Secret sealed_bytes(const Secret& secret, const std::string& run_id) {
  std::string bytes = head_of(run_id);
  bytes.reserve(bytes.size() + secret.view().size());  // leaves no copy behind
  bytes += secret.view();
  Secret sealed(bytes);
  explicit_bzero(bytes.data(), bytes.size());
  return sealed;
}

Result<Secret> secret_in(std::string_view sealed_bytes, const std::string& run_id) {
  const std::string head = head_of(run_id);
  if (!sealed_bytes.starts_with(head) || sealed_bytes.size() != head.size() + kSecretSize) {
    return Error{Errc::usage, "munge: it is not the secret of job '" + run_id + "' (--rdzv_id)"};
  }
  return Secret(sealed_bytes.substr(head.size()));
}

Result<Secret> munge_open(const std::string& credential, const std::string& run_id) {
  const Result<Libmunge>& munge = libmunge();
  if (!munge) return munge.error();
  const MungeQuestion question(*munge);
  MungePayload payload;
  uid_t user = 0;
  gid_t group = 0;
  const int status = munge->decode(credential.c_str(), question.get(), &payload.bytes,
                                   &payload.size, &user, &group);
  if (!is_opened(status)) return question.error(status);
  if (user != geteuid()) {
    return Error{Errc::usage, "munge: it was sealed by another user (uid " + std::to_string(user) +
                                  ", and this is uid " + std::to_string(geteuid()) + ")"};
  }
  return secret_in(payload.view(), run_id);
}

Result<std::string> munge_seal(const Secret& secret, const std::string& run_id) {
  const Result<Libmunge>& munge = libmunge();
  if (!munge) return munge.error();
  const MungeQuestion question(*munge);
  if (!question.restrict_to(geteuid())) {
    return Error{Errc::unreachable, "munge here has no AES-256 and SHA-256"};
  }
  char* text = nullptr;
  const Secret bytes = sealed_bytes(secret, run_id);
  const int status = munge->encode(&text, question.get(), bytes.view().data(),
                                   static_cast<int>(bytes.view().size()));
  const std::unique_ptr<char, void (*)(void*)> credential(text, std::free);
  if (status != kMungeSuccess) return question.error(status);
  std::string sealed = credential.get();
  const Result<Secret> opened = munge_open(sealed, run_id);
  if (!opened) return opened.error();
  return sealed;
}

}  // namespace ddprun::rendezvous

// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/key_request.h"

#include <chrono>
#include <utility>
#include <variant>

#include "base/text.h"
#include "rendezvous/wire/protocol.h"

namespace ddprun::rendezvous {
namespace {

/// A master takes its time if thousands of nodes connect at once; a lost one is given up.
constexpr std::chrono::seconds kLimit{30};

}  // namespace

KeyRequest::KeyRequest(boost::asio::any_io_executor executor, Open open, std::string run_id)
    : open_(std::move(open)), run_id_(std::move(run_id)), limit_(executor), jobs_(executor) {}

void KeyRequest::ask(boost::asio::ip::tcp::socket socket, Done done) {
  cancel();
  done_ = std::move(done);
  asking_ = std::make_shared<char>();
  limit_.expires_after(kLimit);
  limit_.async_wait([this, asking = std::weak_ptr(asking_)](boost::system::error_code) {
    if (!asking.expired()) end(Error{Errc::unreachable, "it does not answer"});
  });
  connection_ = std::make_unique<ControlConnection>(
      std::move(socket), std::string_view(),
      ControlConnection::Hooks{.received = [this](std::string_view body) { on_answer(body); },
                               .lost = [this](Error error) { end(std::move(error)); }},
      kMaxFirstFrame);
  connection_->send(greeting() + encode(Message(message::GetSecret{})));
}

void KeyRequest::cancel() {
  asking_.reset();
  limit_.cancel();
  connection_.reset();
  done_ = nullptr;
}

void KeyRequest::on_answer(std::string_view body) {
  Result<Reply> reply = decode_reply(body);
  if (!reply) return end(reply.error());
  if (auto* sealed = std::get_if<reply::SealedSecret>(&*reply)) {
    return open(std::move(sealed->credential));
  }
  const auto* notification = std::get_if<Notification>(&*reply);
  const auto* refused = notification ? std::get_if<Refused>(notification) : nullptr;
  if (refused == nullptr) return end(Error{Errc::protocol, "it answers another question"});
  end(Error{Errc::usage, "refused this node: " + printable(refused->sentence)});
}

void KeyRequest::open(std::string sealed) {
  connection_.reset();  // no other message follows
  jobs_.run([open = open_, sealed = std::move(sealed)] { return open(sealed); },
            [this, asking = std::weak_ptr(asking_)](const Result<Secret>& secret) {
              if (!asking.expired()) on_opened(secret);
            });
}

/// Runs here and not on the thread: OpenSSL would keep data for each thread that calls it.
void KeyRequest::on_opened(const Result<Secret>& secret) {
  Result<Key> key = secret ? Security::of_job(*secret, run_id_) : Result<Key>(secret.error());
  if (!key) return end(Error(key.error()).in("has a secret that cannot be opened here"));
  end(std::move(key));
}

void KeyRequest::end(Result<Key> key) {
  const Done done = std::exchange(done_, nullptr);
  cancel();
  done(std::move(key));
}

}  // namespace ddprun::rendezvous

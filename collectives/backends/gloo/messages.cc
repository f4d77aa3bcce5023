// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/messages.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/fd.h"
#include "collectives/backends/gloo/agreed_error.h"
#include "collectives/errors.h"
#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

/// How many may be connected who have yet to say who they are, beside two connections of every
/// rank: those say it at once.
constexpr std::size_t kStrangers = 64;

}  // namespace

GlooMessages::GlooMessages(GroupContext& context, GlooMesh& mesh,
                           std::function<void(const Error& error)> broke)
    : context_(context),
      token_(mesh.token()),
      broke_(std::move(broke)),
      acceptor_(io_context_),
      clock_(io_context_) {
  mesh.hand_listener_to(acceptor_);
  const Enter enter = [this](const std::function<void()>& work) { this->enter(work); };
  for (int other = 0; other < context_.size; ++other) {
    if (other == context_.rank) {
      peers_.push_back(nullptr);
      continue;
    }
    const GlooMesh::Neighbour& there = mesh.neighbour(other);
    const Frame first{.kind = Frame::Kind::hello, .tag = context_.rank, .number = there.token};
    peers_.push_back(std::make_unique<GlooPeer>(io_context_, enter, there.endpoint, first,
                                                context_.named(context_.rank), events_with(other)));
  }
  accept();
  thread_ = signal_masked_thread([this] { io_context_.run(); });
}

GlooMessages::~GlooMessages() {
  fail(Error(ErrorKind::system, "ddp: rank " + std::to_string(context_.named(context_.rank)) +
                                    " gives up its messages: the group ends"));
  thread_.join();
}

GlooPeer::Events GlooMessages::events_with(int other) {
  return {
      [this](MessageAt message) { done(message); },
      [this](MessageAt message, const std::string& theirs) { differ(message, theirs); },
      [this, other](const std::string& reason) { lose(other, reason); },
      [this, other](std::size_t held, std::int32_t tag) { overrun(other, held, tag); },
  };
}

/// Does `work`, and what it found to be wrong ends the group: without the lock, as the store is
/// asked.
template <class F>
void GlooMessages::enter(const F& work) {
  std::unique_lock lock(mutex_);
  if (failure_ || breaks_) return;
  try {
    work();
  } catch (const std::bad_alloc&) {
    trouble_ = [this] {
      return agree_on(context_, "in a message", ErrorKind::system,
                      "has no memory left for messages");
    };
  }
  if (!trouble_) return;
  breaks_ = true;
  const auto ask = std::exchange(trouble_, {});
  lock.unlock();
  const Error error = ask();
  fail(error);
  broke_(error);
}

void GlooMessages::fail(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = error;
  for (const Message& message : open_) {
    if (message.call->open > 0) message.call->fail(error);
    message.call->open = 0;
  }
  open_.clear();
  changed_.notify_all();
  for (Guest& guest : guests_) guest.inlet->close();
  for (const auto& peer : peers_) {
    if (peer) peer->close();
  }
  error_code ignored;
  acceptor_.close(ignored);
  clock_.cancel();
}

std::shared_ptr<AsyncCall> GlooMessages::begin(const Task& task) {
  auto call = std::make_shared<BegunMessages>();
  call->open = task.transfers.size();
  if (task.transfers.empty()) call->succeed();
  std::vector<MessageAt> begun;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) {
      call->fail(*failure_);
      return call;
    }
    for (const Transfer& transfer : task.transfers) {
      begun.push_back(open_.insert(open_.end(), {transfer, call, Clock::now()}));
    }
  }
  enter([&] {
    if (!watches_) watch_the_clock();
    for (const MessageAt message : begun) peer(message->transfer.peer).begin(message);
  });
  return call;
}

void GlooMessages::finish() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_.empty(); });
  }
  enter([&] {
    for (const auto& peer : peers_) {
      if (peer) peer->say_bye();
    }
  });
}

void GlooMessages::done(MessageAt message) {
  const auto call = std::move(message->call);
  open_.erase(message);
  if (--call->open == 0) call->succeed();
  if (open_.empty()) changed_.notify_all();
}

void GlooMessages::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    enter([&] {
      if (error) return lose_listener(error.message());
      welcome(std::move(socket));
      accept();
    });
  });
}

/// The stranger who has been here longest goes.
void GlooMessages::make_room() {
  std::erase_if(guests_, [](const Guest& guest) { return guest.inlet->is_closed(); });
  const auto is_stranger = [](const Guest& guest) {
    return guest.peer == nullptr && !guest.watches;
  };
  const auto strangers = std::ranges::count_if(guests_, is_stranger);
  if (static_cast<std::size_t>(strangers) < 2 * peers_.size() + kStrangers) return;
  const auto oldest = std::ranges::find_if(guests_, is_stranger);
  oldest->inlet->close();
  guests_.erase(oldest);
}

void GlooMessages::welcome(tcp::socket socket) {
  make_room();
  prepare(socket);
  Guest& guest = guests_.emplace_back();
  guest.inlet = std::make_shared<RecvConnection>(
      std::move(socket), [this](const std::function<void()>& work) { enter(work); },
      FrameReader::Events{
          [this, &guest](const Frame& frame, const char* data) {
            return heard(guest, frame, data);
          },
          [&guest](std::uint64_t number, std::size_t bytes) -> std::optional<char*> {
            return guest.peer != nullptr ? guest.peer->place(number, bytes) : std::nullopt;
          },
          [&guest](std::uint64_t number, std::size_t bytes) { guest.peer->came(number, bytes); },
      },
      [&guest](const std::string& reason) {
        if (guest.peer != nullptr) guest.peer->ended(reason);
      });
  guest.inlet->open();
}

/// Whoever connects says first which rank it is, once, and what only ranks of this group know.
bool GlooMessages::heard(Guest& guest, const Frame& frame, const char* data) {
  if (guest.peer != nullptr) return guest.peer->heard(frame, data);
  const bool is_rank = frame.tag >= 0 && frame.tag < context_.size && frame.tag != context_.rank;
  if (guest.watches || frame.number != token_ || !is_rank) return false;
  if (frame.kind == Frame::Kind::watch) return guest.watches = true;
  if (frame.kind != Frame::Kind::hello) return false;
  GlooPeer& who = peer(frame.tag);
  if (std::ranges::count(guests_, &who, &Guest::peer) > 0) return false;
  guest.peer = &who;
  who.come();
  return true;
}

std::optional<MessageAt> GlooMessages::oldest_with(int other) {
  const auto found =
      std::ranges::find(open_, other, [](const Message& message) { return message.transfer.peer; });
  return found == open_.end() ? std::nullopt : std::optional(found);
}

std::string GlooMessages::named(MessageAt message) const {
  return describe(message->transfer, context_.named(message->transfer.peer));
}

std::string GlooMessages::rank_of(MessageAt message) const {
  return name_ranks({context_.named(message->transfer.peer)});
}

/// The first thing that goes wrong is what the group is told.
void GlooMessages::stop(std::function<Error()> ask) {
  if (!trouble_) trouble_ = std::move(ask);
}

void GlooMessages::differ(MessageAt message, const std::string& theirs) {
  const std::string ours = named(message);
  stop([this, ours, sentence = "is at " + ours + ", but " + rank_of(message) + " is at " + theirs] {
    return agree_on(context_, "in " + ours, ErrorKind::mismatch, sentence);
  });
}

void GlooMessages::lose(int other, const std::string& reason) {
  const auto message = oldest_with(other);
  if (!message) return;  // the next message with it is told
  stop([this, other, reason, where = "in " + named(*message)] {
    return agree_on_loss(context_, where, other, reason);
  });
}

void GlooMessages::lose_listener(const std::string& reason) {
  stop([this, sentence = "cannot accept a connection for messages: " + reason] {
    return agree_on(context_, "in a message", ErrorKind::system, sentence);
  });
}

void GlooMessages::overrun(int other, std::size_t held, std::int32_t tag) {
  stop([this, sentence = "holds " + std::to_string(held) + " messages of " +
                         name_ranks({context_.named(other)}) +
                         " that it does not receive, and one more comes, tag " +
                         std::to_string(tag)] {
    return agree_on(context_, "in a message", ErrorKind::mismatch, sentence);
  });
}

/// What the other sent to no receive of ours may be what was meant.
void GlooMessages::time_out(MessageAt message) {
  const std::string where = "in " + named(message);
  const std::string what = "waited " + name_time(context_.timeout) + " in vain for " +
                           rank_of(message) + " " + where + "; " + rank_of(message) + " " +
                           peer(message->transfer.peer).unreceived();
  stop([this, where, what] { return agree_on(context_, where, ErrorKind::timed_out, what); });
}

/// Until no message is open; then the next one begins it again.
void GlooMessages::watch_the_clock() {
  const auto oldest = std::ranges::min_element(open_, {}, &Message::waits_since);
  watches_ = oldest != open_.end();
  if (!watches_) return;
  const auto deadline = oldest->waits_since + context_.timeout;
  if (deadline <= Clock::now()) return time_out(oldest);
  clock_.expires_at(deadline);
  clock_.async_wait([this](const error_code&) { enter([&] { watch_the_clock(); }); });
}

}  // namespace ddp::internal

// SPDX-License-Identifier: Apache-2.0
#include "store/session.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/byte_order.h"

namespace ddprun::store {
namespace {

// From this size on, holding a value is cheaper than copying it.
constexpr std::size_t kHeldFrom = 4 << 10;

// An idle client keeps so much for its next reply.
constexpr std::size_t kKeptForReply = 4 << 10;

// Copied bytes go into pieces of about this size. Each is freed once it is sent, even if the client
// never reads the rest.
constexpr std::size_t kPiece = 64 << 10;

// When so many pieces are sent, they are removed from the list at once.
constexpr std::size_t kSentPieces = 64;

}  // namespace

void Outbox::append(std::string_view bytes) {
  if (bytes.empty()) return;
  if (pieces_.empty() || pieces_.back().value || pieces_.back().bytes.size() >= kPiece) {
    pieces_.emplace_back();
  }
  pieces_.back().bytes.append(bytes);
  size_ += bytes.size();
  copied_ += bytes.size();
}

void Outbox::append(const std::shared_ptr<const std::string>& value) {
  if (value->size() < kHeldFrom) return append(std::string_view(*value));
  pieces_.push_back({{}, value});
  size_ += value->size();
  held_ += value->size();
}

void Outbox::append(Outbox&& later) {
  for (Piece& piece : later.pieces_) {
    size_ += piece.view().size();
    count(piece);
    pieces_.push_back(std::move(piece));
  }
  later = {};
}

std::size_t Outbox::pieces(std::string_view* pieces, std::size_t most) const {
  const std::size_t count = std::min(most, pieces_.size() - first_);
  for (std::size_t i = 0; i < count; ++i) pieces[i] = pieces_[first_ + i].view();
  if (count > 0) pieces[0].remove_prefix(sent_);
  return count;
}

void Outbox::drop(std::size_t count) {
  size_ -= count;
  if (size_ == 0) return clear();
  sent_ += count;
  while (sent_ >= pieces_[first_].view().size()) {
    sent_ -= pieces_[first_].view().size();
    discount(pieces_[first_]);
    pieces_[first_++] = {};
  }
  if (first_ < kSentPieces) return;
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
}

void Outbox::clear() {
  if (pieces_.size() > 1 || pieces_[0].value || pieces_[0].bytes.capacity() > kKeptForReply) {
    pieces_ = {};
  } else {
    pieces_[0].bytes.clear();
  }
  first_ = sent_ = copied_ = held_ = 0;
}

namespace {

constexpr std::uint8_t kWatching = 3;  // the reply to a watch

// An idle client keeps so much for its next request.
constexpr std::size_t kKeptForRequest = 4 << 10;

std::vector<std::string_view> keys_of(const Request& request) {
  std::vector<std::string_view> keys(request.fields.size());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = request.field(i);
  return keys;
}

void put_byte(Outbox& outbox, std::uint8_t byte) {
  const char character = static_cast<char>(byte);
  outbox.append(std::string_view(&character, 1));
}

void put_integer(Outbox& outbox, std::size_t number) {
  std::string bytes;  // 8 of them, which need no memory of their own
  append_little_endian(bytes, number, 8);
  outbox.append(bytes);
}

void put_bytes(Outbox& outbox, std::string_view bytes) {
  put_integer(outbox, bytes.size());
  outbox.append(bytes);
}

void put_value(Outbox& outbox, const Value& value) {
  put_integer(outbox, value ? value->size() : 0);
  if (value) outbox.append(value);
}

std::size_t size_of(const Value& value) {
  return value ? value->size() : 0;
}

}  // namespace

void Session::feed(std::string_view bytes) {
  if (kept_.empty()) {
    rest_ = bytes;
  } else {
    kept_.append(bytes);
    rest_ = kept_;
  }
}

// The fed bytes are gone after this step, so the unused ones move to kept_.
void Session::keep() {
  if (rest_.empty()) {
    kept_.clear();
    if (kept_.capacity() > kKeptForRequest) std::string().swap(kept_);
  } else if (kept_.empty()) {
    kept_.assign(rest_);
  } else {
    kept_.erase(0, kept_.size() - rest_.size());
  }
  rest_ = kept_;
}

Session::Step Session::step(bool pressed) {
  // A legacy client cannot cancel. If it sends again, it has stopped waiting, and would take a late
  // wake-up for the reply to its next request.
  if (waits_ && parser_.dialect() == Dialect::legacy && !rest_.empty()) {
    store_.cancel_wait(self_);
    waits_ = false;
  }
  const std::size_t most = pressed ? 0 : limits_.busy_bytes;
  if (outbox_.size() > most) return pause(), Step::busy;
  if (!long_reply_) {
    switch (parser_.next(rest_)) {
      case RequestParser::Status::malformed:
        return broken(parser_.error());
      case RequestParser::Status::incomplete:
        keep();
        return Step::idle;
      case RequestParser::Status::complete:
        break;
    }
    known_ = true;
    if (const auto done = run(parser_.request()); !done) return broken(done.error());
  }
  if (long_reply_) {
    if (const auto done = continue_reply(most); !done) return broken(done.error());
    if (long_reply_) return pause(), Step::busy;
  }
  rest_.remove_prefix(parser_.request().bytes.size());
  return Step::ran;
}

void Session::pause() {
  if (kept_.empty()) keep();
}

std::size_t Session::unfinished_bytes() const {
  return kept_.capacity() > kKeptForRequest ? kept_.capacity() : 0;
}

Session::Step Session::broken(Error error) {
  error_ = std::move(error);
  rest_ = {};
  return Step::broken;
}

void Session::wake() {
  waits_ = false;
  put_byte(long_reply_ ? later_ : outbox_, kStopWaiting);
}

bool Session::send_change(const WatchEvent& event) {
  const std::size_t values = size_of(event.before) + size_of(event.after);
  if (!has_room_for(25 + event.key.size() + values)) return false;
  Outbox& outbox = long_reply_ ? later_ : outbox_;
  put_byte(outbox, static_cast<std::uint8_t>(event.change));
  put_bytes(outbox, event.key);
  put_value(outbox, event.before);
  put_value(outbox, event.after);
  return true;
}

Result<> Session::run(const Request& request) {
  switch (request.op) {
    case RequestType::validate:
      return {};
    case RequestType::ping: {
      std::string nonce;
      append_little_endian(nonce, static_cast<std::uint64_t>(request.number), 4);
      outbox_.append(nonce);
      return {};
    }
    case RequestType::get_num_keys:
      put_integer(outbox_, store_.key_count());
      return {};
    case RequestType::cancel_wait:
      store_.cancel_wait(self_);
      waits_ = false;
      put_byte(outbox_, kWaitCanceled);
      return {};
    case RequestType::list_keys:
      begin_keys();
      return {};
    case RequestType::check:
    case RequestType::wait:
    case RequestType::multi_get:
    case RequestType::multi_set:
      return run_on_list(request);
    case RequestType::queue_push:
    case RequestType::queue_pop:
    case RequestType::queue_len:
      return run_on_queue(request);
    default:
      return run_on_key(request);
  }
}

Result<> Session::run_on_key(const Request& request) {
  const auto key = request.field(0);
  switch (request.op) {
    case RequestType::set:
      return store_.set(key, request.field(1));
    case RequestType::append:
      return store_.append(key, request.field(1));
    case RequestType::get:
      put_value(outbox_, store_.get(key));
      return {};
    case RequestType::add: {
      const auto count = store_.add(key, request.number);
      if (!count) return count.error();
      put_integer(outbox_, static_cast<std::size_t>(*count));
      return {};
    }
    case RequestType::compare_set: {
      const auto now = store_.compare_set(key, request.field(1), request.field(2));
      if (!now) return now.error();
      put_bytes(outbox_, *now);
      return {};
    }
    case RequestType::delete_key:
      put_integer(outbox_, store_.remove(key) ? 1 : 0);
      return {};
    case RequestType::barrier:
      return reply_stop(store_.barrier(self_, key, request.number));
    default: {  // watch
      const auto watching = store_.watch(self_, key);
      if (watching) put_byte(outbox_, kWatching);
      return watching;
    }
  }
}

Result<> Session::run_on_list(const Request& request) {
  const std::size_t count = request.fields.size();
  if (request.op == RequestType::wait) return reply_stop(store_.wait(self_, keys_of(request)));
  if (request.op == RequestType::multi_get) {
    begin_values(request);
    return {};
  }
  if (request.op == RequestType::multi_set) {
    for (std::size_t i = 0; i < count; i += 2) {
      const auto stored = store_.set(request.field(i), request.field(i + 1));
      if (!stored) return stored;
    }
    return {};
  }
  bool all = true;
  for (std::size_t i = 0; i < count && all; ++i) all = store_.has(request.field(i));
  put_byte(outbox_, all ? kAllPresent : kSomeMissing);
  return {};
}

Result<> Session::run_on_queue(const Request& request) {
  const auto queue = request.field(0);
  if (request.op == RequestType::queue_push) return store_.push(queue, request.field(1));
  put_integer(outbox_, store_.queue_length(queue));
  if (request.op == RequestType::queue_len) return {};
  if (auto value = store_.pop(queue)) {
    put_value(outbox_, std::make_shared<std::string>(std::move(*value)));
  }
  return {};
}

void Session::begin_values(const Request& request) {
  long_reply_ = std::make_unique<LongReply>();
  long_reply_->request = request;
}

void Session::begin_keys() {
  long_reply_ = std::make_unique<LongReply>();
  long_reply_->keys = std::make_unique<Listing>(store_.key_list(), store_.key_count());
  put_integer(outbox_, store_.key_count());
}

// Adds to the reply until it has more than `most` bytes, but at least one value or key.
Result<> Session::continue_reply(std::size_t most) {
  // Its bytes may have moved since the last piece.
  long_reply_->request.bytes = rest_.substr(0, long_reply_->request.bytes.size());
  if (long_reply_->keys && long_reply_->keys->revoked()) {
    return Error{Errc::protocol, "it read a list of keys too slowly"};
  }
  while (long_reply_->keys ? reply_key() : reply_value()) {
    if (outbox_.size() > most) return {};
  }
  long_reply_.reset();
  outbox_.append(std::exchange(later_, {}));
  return {};
}

// False: no value was left.
bool Session::reply_value() {
  const Request& request = long_reply_->request;
  if (long_reply_->value == request.fields.size()) return false;
  put_value(outbox_, store_.get(request.field(long_reply_->value++)));
  return true;
}

// False: no key was left.
bool Session::reply_key() {
  if (long_reply_->keys->left() == 0) return false;
  put_bytes(outbox_, long_reply_->keys->next());
  return true;
}

Result<> Session::reply_stop(const Result<bool>& at_once) {
  if (!at_once) return at_once.error();
  waits_ = !*at_once;
  if (*at_once) put_byte(outbox_, kStopWaiting);
  return {};
}

bool Session::has_room_for(std::size_t reply) const {
  return outbox_.size() + later_.size() + reply <= limits_.unread_bytes;
}

}  // namespace ddprun::store

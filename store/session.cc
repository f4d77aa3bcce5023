// SPDX-License-Identifier: Apache-2.0
#include "store/session.h"

#include <vector>

namespace ddprun::store {
namespace {

constexpr std::uint8_t kWatching = 3;  // the reply to a watch

// Kept by an idle client for its next request.
constexpr std::size_t kKeptForRequest = 4 << 10;

std::vector<std::string_view> keys_of(const Request& request) {
  std::vector<std::string_view> keys(request.fields.size());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = request.field(i);
  return keys;
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

// The bytes that were fed are gone after this step, so the unused ones move to kept_.
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

Session::Step Session::step() {
  // A legacy client cannot cancel. When it sends again it has stopped waiting, and a late wake-up
  // would be taken for the reply to its next request.
  if (waits_ && parser_.dialect() == Dialect::legacy && !rest_.empty()) {
    store_.cancel_wait(self_);
    waits_ = false;
  }
  if (outbox_.size() > limits_.busy_bytes) {
    if (kept_.empty()) keep();
    return Step::busy;
  }
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
  const auto done = run(parser_.request());
  if (!done) return broken(done.error());
  rest_.remove_prefix(parser_.request().bytes.size());
  return Step::ran;
}

Session::Step Session::broken(Error error) {
  error_ = std::move(error);
  rest_ = {};
  return Step::broken;
}

void Session::wake() {
  waits_ = false;
  reply_byte(kStopWaiting);
}

bool Session::send_change(const WatchEvent& event) {
  static const Value nothing = std::make_shared<std::string>();
  const Value& before = event.before ? event.before : nothing;
  const Value& after = event.after ? event.after : nothing;
  if (!room_for(25 + event.key.size() + before->size() + after->size())) return false;
  reply_byte(static_cast<std::uint8_t>(event.change));
  reply_bytes(event.key);
  reply_value(before);
  reply_value(after);
  return true;
}

Result<> Session::run(const Request& request) {
  switch (request.op) {
    case RequestType::validate:
      return {};
    case RequestType::ping: {
      std::string nonce;
      append_integer(nonce, static_cast<std::uint64_t>(request.number), 4);
      outbox_.append(nonce);
      return {};
    }
    case RequestType::get_num_keys:
      reply_integer(static_cast<std::int64_t>(store_.key_count()));
      return {};
    case RequestType::cancel_wait:
      store_.cancel_wait(self_);
      waits_ = false;
      reply_byte(kWaitCanceled);
      return {};
    case RequestType::list_keys:
      return reply_keys();
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
    case RequestType::get: {
      const Value value = store_.get(key);
      const auto room = room_for(value ? 8 + value->size() : 8);
      if (!room) return room;
      value ? reply_value(value) : reply_bytes("");
      return {};
    }
    case RequestType::add: {
      const auto count = store_.add(key, request.number);
      if (!count) return count.error();
      reply_integer(*count);
      return {};
    }
    case RequestType::compare_set: {
      const auto now = store_.compare_set(key, request.field(1), request.field(2));
      if (!now) return now.error();
      const auto room = room_for(8 + now->size());
      if (!room) return room;
      reply_bytes(*now);
      return {};
    }
    case RequestType::delete_key:
      reply_integer(store_.remove(key) ? 1 : 0);
      return {};
    case RequestType::barrier:
      return reply_stop(store_.barrier(self_, key, request.number));
    default: {  // watch
      const auto watching = store_.watch(self_, key);
      if (watching) reply_byte(kWatching);
      return watching;
    }
  }
}

Result<> Session::run_on_list(const Request& request) {
  const std::size_t count = request.fields.size();
  if (request.op == RequestType::wait) return reply_stop(store_.wait(self_, keys_of(request)));
  if (request.op == RequestType::multi_get) return reply_values(request);
  if (request.op == RequestType::multi_set) {
    for (std::size_t i = 0; i < count; i += 2) {
      const auto stored = store_.set(request.field(i), request.field(i + 1));
      if (!stored) return stored;
    }
    return {};
  }
  bool all = true;
  for (std::size_t i = 0; i < count && all; ++i) all = store_.has(request.field(i));
  reply_byte(all ? kAllPresent : kSomeMissing);
  return {};
}

Result<> Session::run_on_queue(const Request& request) {
  const auto queue = request.field(0);
  if (request.op == RequestType::queue_push) return store_.push(queue, request.field(1));
  reply_integer(static_cast<std::int64_t>(store_.queue_length(queue)));
  if (request.op == RequestType::queue_len) return {};
  if (const auto value = store_.pop(queue)) reply_bytes(*value);
  return {};
}

Result<> Session::reply_values(const Request& request) {
  std::size_t size = 8 * request.fields.size();
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    if (const Value value = store_.get(request.field(i))) size += value->size();
  }
  const auto room = room_for(size);
  if (!room) return room;
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    const Value value = store_.get(request.field(i));
    value ? reply_value(value) : reply_bytes("");
  }
  return {};
}

Result<> Session::reply_keys() {
  std::size_t size = 8;
  store_.for_each_key([&](std::string_view key) { size += 8 + key.size(); });
  const auto room = room_for(size);
  if (!room) return room;
  reply_integer(static_cast<std::int64_t>(store_.key_count()));
  store_.for_each_key([&](std::string_view key) { reply_bytes(key); });
  return {};
}

Result<> Session::reply_stop(const Result<bool>& at_once) {
  if (!at_once) return at_once.error();
  waits_ = !*at_once;
  if (*at_once) reply_byte(kStopWaiting);
  return {};
}

Result<> Session::room_for(std::size_t reply) const {
  if (outbox_.size() + reply <= limits_.unread_bytes) return {};
  return Error{Errc::protocol,
               "more than " + std::to_string(limits_.unread_bytes) + " bytes of unread replies"};
}

void Session::reply_byte(std::uint8_t byte) {
  const char character = static_cast<char>(byte);
  outbox_.append(std::string_view(&character, 1));
}

void Session::reply_integer(std::int64_t number) {
  std::string bytes;  // 8 of them, which need no memory of their own
  append_integer(bytes, static_cast<std::uint64_t>(number));
  outbox_.append(bytes);
}

void Session::reply_value(const Value& value) {
  reply_integer(static_cast<std::int64_t>(value->size()));
  outbox_.append(value);
}

void Session::reply_bytes(std::string_view bytes) {
  reply_integer(static_cast<std::int64_t>(bytes.size()));
  outbox_.append(bytes);
}

}  // namespace ddprun::store

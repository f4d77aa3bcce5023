// SPDX-License-Identifier: Apache-2.0
#include "store/wire.h"

#include <algorithm>
#include <array>

#include "base/byte_order.h"

namespace ddprun::store {
namespace {

// The fields after the type byte. k: key, v: value, 4 and 8: number of that many bytes, *: a count,
// and the fields after it that many times.
const char* layout(RequestType op) {
  switch (op) {
    case RequestType::validate:
    case RequestType::ping:
      return "4";
    case RequestType::set:
    case RequestType::append:
    case RequestType::queue_push:
      return "kv";
    case RequestType::compare_set:
      return "kvv";
    case RequestType::get:
    case RequestType::delete_key:
    case RequestType::queue_pop:
    case RequestType::queue_len:
    case RequestType::watch_key:
      return "k";
    case RequestType::add:
    case RequestType::barrier:
      return "k8";
    case RequestType::check:
    case RequestType::wait:
    case RequestType::multi_get:
      return "*k";
    case RequestType::multi_set:
      return "*kv";
    case RequestType::get_num_keys:
    case RequestType::cancel_wait:
    case RequestType::list_keys:
      return "";
  }
  return "";
}

constexpr std::size_t kUsualFields = 64;

constexpr std::size_t kCurrentTypes = static_cast<std::size_t>(RequestType::barrier) + 1;

// 0 to 8 as 1.13 and 2.0 number them. 9 to 11 as an interim numbering between 2.0 and 2.2 did;
// starting a process group needs only numbers on which the two agree.
constexpr std::array kLegacyTypes = {
    RequestType::set,          RequestType::compare_set, RequestType::get,
    RequestType::add,          RequestType::check,       RequestType::wait,
    RequestType::get_num_keys, RequestType::watch_key,   RequestType::delete_key,
    RequestType::multi_get,    RequestType::multi_set,   RequestType::cancel_wait};

}  // namespace

RequestParser::Status RequestParser::next(std::string_view bytes) {
  if (step_ == nullptr) {
    if (found_.capacity() > kUsualFields) found_ = {};  // idle connections cost nothing
    const Status begun = begin(bytes);
    if (begun != Status::complete) return begun;
  }
  const Status parsed = fields(bytes);
  if (parsed != Status::complete) return parsed;
  request_.bytes = bytes.substr(0, position_);
  request_.fields = found_;
  step_ = nullptr;
  return Status::complete;
}

// False: undecided; the next byte may decide it.
bool RequestParser::decide_dialect(std::string_view bytes) {
  const auto length = std::min(bytes.size(), kStoreGreeting.size());
  // To look like the greeting, a legacy set would have to announce a key of gigabytes.
  if (bytes.substr(0, length) != kStoreGreeting.substr(0, length)) {
    dialect_ = Dialect::legacy;
  } else if (length == kStoreGreeting.size()) {
    dialect_ = Dialect::current;
  }
  return dialect_ != Dialect::undecided;
}

RequestParser::Status RequestParser::begin(std::string_view bytes) {
  if (bytes.empty()) return Status::incomplete;
  const bool first = dialect_ == Dialect::undecided;
  if (first && !decide_dialect(bytes)) return Status::incomplete;

  const auto type = static_cast<unsigned char>(bytes[0]);
  const bool current = dialect_ == Dialect::current;
  if (type >= (current ? kCurrentTypes : kLegacyTypes.size())) {
    return refuse("unknown request (type " + std::to_string(type) + ")");
  }
  const RequestType op = current ? static_cast<RequestType>(type) : kLegacyTypes[type];
  if (op == RequestType::validate && !first) return refuse("a second greeting");

  found_.clear();
  request_ = {op, 0, {}, {}};
  step_ = layout(op);
  begin_repeat_ = nullptr;
  position_ = 1;
  return Status::complete;
}

RequestParser::Status RequestParser::fields(std::string_view bytes) {
  for (;;) {
    if (*step_ == '\0') {
      if (begin_repeat_ == nullptr || --repeats_ == 0) return Status::complete;
      step_ = begin_repeat_;
    }
    Status status = Status::complete;
    switch (*step_) {
      case 'k':
        status = read_string(bytes, limits_.key_bytes, "key");
        break;
      case 'v':
        status = read_string(bytes, limits_.value_bytes, "value");
        break;
      case '*':
        status = read_length(bytes, limits_.keys, "list", repeats_);
        if (status == Status::complete && repeats_ == 0) return status;
        begin_repeat_ = step_ + 1;
        break;
      default:
        status = read_number(bytes, *step_ == '4' ? 4 : 8);
    }
    if (status != Status::complete) return status;
    ++step_;
  }
}

RequestParser::Status RequestParser::read_number(std::string_view bytes, std::size_t width) {
  if (bytes.size() - position_ < width) return Status::incomplete;
  request_.number = static_cast<std::int64_t>(little_endian(bytes.substr(position_, width)));
  position_ += width;
  return Status::complete;
}

// The low bytes come first, so a length over the limit shows before it is complete.
RequestParser::Status RequestParser::read_length(std::string_view bytes, std::size_t limit,
                                                 const char* what, std::uint64_t& length) {
  const auto rest = bytes.substr(position_);
  length = little_endian(rest.substr(0, 8));  // or its minimum so far
  if (length > limit) {
    return refuse(std::string("a ") + what + " of " + (rest.size() < 8 ? "at least " : "") +
                  std::to_string(length) + ", the limit is " + std::to_string(limit));
  }
  if (rest.size() < 8) return Status::incomplete;
  position_ += 8;
  return Status::complete;
}

RequestParser::Status RequestParser::read_string(std::string_view bytes, std::size_t limit,
                                                 const char* what) {
  std::uint64_t length = 0;
  const std::size_t start = position_;
  const Status status = read_length(bytes, limit, what, length);
  if (status != Status::complete) return status;
  if (position_ + length > limits_.request_bytes) {
    return refuse("a request of more than " + std::to_string(limits_.request_bytes) + " bytes");
  }
  if (bytes.size() - position_ < length) {
    position_ = start;  // its length is read again when more has come
    return Status::incomplete;
  }
  found_.push_back({static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(length)});
  position_ += length;
  return Status::complete;
}

RequestParser::Status RequestParser::refuse(std::string sentence) {
  error_ = {Errc::protocol, std::move(sentence)};
  return Status::malformed;
}

void append_bytes(std::string& out, std::string_view bytes) {
  append_little_endian(out, bytes.size(), 8);
  out.append(bytes);
}

}  // namespace ddprun::store

// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/messages.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "collectives/agreement/agreed_error.h"
#include "collectives/call/call.h"
#include "collectives/errors.h"
#include "collectives/signal_masked_thread.h"

namespace ddp::internal {

using Clock = std::chrono::steady_clock;

/// The messages of one task. Each test, in any thread, makes progress.
class MpiMessages::MessageCall : public AsyncCall {
 public:
  MessageCall(MpiMessages& all, Task task, std::uint64_t number)
      : all_(all), task_(std::move(task)), number_(number) {
    try {
      if (task_.on_device) {
        all_.device_.record_ready(task_);
        staged_ = all_.device_.stage(task_);
      }
      requests_ = all_.group_.begin({task_.transfers.data(), task_.transfers.size()});
    } catch (const std::exception& failure) {
      end(agree_on_failure(0, ErrorKind::system, failure.what()));
    }
  }

  bool is_completed() override { return advance(); }

  std::optional<Error> error() override {
    const std::lock_guard lock(mutex_);
    return error_;
  }

  void wait() override {
    while (!advance()) continue;
    if (const auto error = this->error()) throw Error(*error);
  }

  bool completes_until(Clock::time_point deadline) override {
    while (!advance()) {
      if (Clock::now() > deadline) return false;
    }
    return true;
  }

  /// Returns whether the call is complete or has failed.
  bool advance() {
    const std::lock_guard lock(mutex_);
    if (over_) return true;
    if (all_.failed_) {
      end(all_.failure());
      return true;
    }
    try {
      if (requests_->test()) {
        const auto error = difference();
        if (staged_ && !error) staged_->copy_back();
        end(error);
      }
    } catch (const std::exception& failure) {
      const std::size_t last = task_.transfers.size() - 1;
      end(agree_on_failure(std::min(requests_->first_open(), last), ErrorKind::system,
                           failure.what()));
    }
    return over_;
  }

 private:
  void end(const std::optional<Error>& error) {
    over_ = true;
    if (error) error_ = all_.fail(*error);
    if (error) static_cast<void>(staged_.release());  // MPI may still write there
    requests_.reset();
    staged_.reset();
  }

  /// Describes one of the messages, for errors.
  Call call(std::size_t index) const {
    const Transfer& each = task_.transfers[index];
    return {.number = number_,
            .count = each.count,
            .root = all_.context_.named(each.peer),
            .tag = each.tag,
            .operation = each.sends ? Operation::send : Operation::recv,
            .type = static_cast<std::uint8_t>(each.type)};
  }

  Error agree_on_failure(std::size_t index, ErrorKind kind, const std::string& reason) const {
    const std::string where = "in " + describe(call(index));
    return agree_on(all_.context_, where, kind, "failed " + where + ": " + reason);
  }

  /// Returns an error if a message and its receive have different lengths.
  std::optional<Error> difference() const {
    for (std::size_t i = 0; i < task_.transfers.size(); ++i) {
      const Transfer& each = task_.transfers[i];
      const std::size_t width = size_of(each.type);
      if (each.sends || requests_->received(i) == each.count * width) continue;
      const std::string ours = describe(call(i));
      return agree_on(all_.context_, "in " + ours, ErrorKind::mismatch,
                      "is at " + ours + ", but the message has " +
                          std::to_string(requests_->received(i)) + " bytes, not " +
                          std::to_string(each.count * width));
    }
    return std::nullopt;
  }

  MpiMessages& all_;
  Task task_;
  const std::uint64_t number_;
  std::mutex mutex_;
  std::unique_ptr<MpiDevice::StagedMessages> staged_;
  std::unique_ptr<MpiRequests> requests_;
  bool over_ = false;
  std::optional<Error> error_;
};

MpiMessages::~MpiMessages() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (open_.empty()) return;
  fail(own_error(context_, ErrorKind::system, " aborted its messages"));
  for (const auto& message : open_) message->advance();  // a Work may outlive the group
}

std::shared_ptr<MpiMessages::MessageCall> MpiMessages::post(const Task& task) {
  return std::make_shared<MessageCall>(*this, task, ++number_);
}

std::shared_ptr<AsyncCall> MpiMessages::begin(const Task& task) {
  auto message = post(task);
  if (message->advance()) return message;
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = signal_masked_thread([this] { progress_in_background(); });
  open_.push_back(message);
  changed_.notify_all();
  return message;
}

void MpiMessages::run(const Task& task) {
  post(task)->wait();
}

/// MPI has no descriptor to wait for. So this thread polls, less often while nothing completes. A
/// thread that waits for a message polls without a pause, in wait().
void MpiMessages::progress_in_background() {
  using std::chrono::microseconds;
  constexpr microseconds kShort{20};
  constexpr microseconds kLong{1000};
  microseconds pause = kShort;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto tested = open_;
    lock.unlock();
    for (const auto& message : tested) message->advance();
    lock.lock();
    const std::size_t done =
        open_.remove_if([](const auto& message) { return message->is_completed(); });
    if (done > 0) changed_.notify_all();
    pause = done > 0 ? kShort : std::min(2 * pause, kLong);
    if (open_.empty()) {
      changed_.wait(lock, [&] { return stopping_ || !open_.empty(); });
      pause = kShort;
    } else {
      changed_.wait_for(lock, pause, [&] { return stopping_; });
    }
  }
}

void MpiMessages::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return open_.empty(); });
}

Error MpiMessages::fail(const Error& error) {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = error;
  failed_ = true;
  return *failure_;
}

std::optional<Error> MpiMessages::failure() const {
  if (!failed_) return std::nullopt;
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

}  // namespace ddp::internal

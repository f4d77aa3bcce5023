// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/backend.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/agreement/agreed_error.h"
#include "collectives/agreement/comparison.h"
#include "collectives/agreement/joined.h"
#include "collectives/agreement/rank_status.h"
#include "collectives/backends/call_queue.h"
#include "collectives/backends/cuda/host_calls.h"
#include "collectives/backends/mpi/agreement.h"
#include "collectives/backends/mpi/combine.h"
#include "collectives/backends/mpi/device.h"
#include "collectives/backends/mpi/library.h"
#include "collectives/backends/mpi/messages.h"
#include "collectives/backends/mpi/process.h"
#include "collectives/call/call.h"
#include "collectives/call/route.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

class MpiBackend : public Backend {
 public:
  explicit MpiBackend(GroupContext context);

  void check(const Task& task) const override;
  void run(const Task& task) override;
  std::shared_ptr<AsyncCall> begin(const Task& task) override;
  void abort() noexcept override;
  void leave() noexcept override;

 private:
  void perform(const Task& task);
  void compare_counts(const Task& task, const Call& call);
  void move(const Task& task);
  [[noreturn]] void refuse(const Task& task, const std::string& why) const;

  GroupContext context_;
  MpiLibrary& library_;
  int greatest_tag_ = 0;
  std::unique_ptr<MpiGroup> group_;
  std::unique_ptr<MpiAgreement> agreement_;
  MpiDevice device_;
  std::unique_ptr<MpiMessages> messages_;
  MpiCombine combine_;
  std::uint64_t calls_ = 0;
  // The last member, so that it is destroyed first: it uses the others.
  CallQueue queue_{[this](const Task& task) { perform(task); }};
};

MpiLibrary& join_and_start(const GroupContext& context) {
  publish_joined(context, "mpi");
  std::vector<int> ranks(static_cast<std::size_t>(context.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  // MPI_Init would wait forever for a rank that does not call it.
  wait_for_all_ranks(context, kJoined,
                     {.judge = [&] { return judge_joined(joined_lines(context, ranks)); }});
  return start_mpi(context);
}

/// Whether each element is independent, so that the call can be made in pieces.
bool is_elementwise(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::reduce ||
         operation == Operation::all_reduce;
}

MpiBackend::MpiBackend(GroupContext context)
    : context_(std::move(context)),
      library_(join_and_start(context_)),
      device_(library_.is_cuda_aware()) {
  std::vector<int> ranks(static_cast<std::size_t>(context_.size));
  for (int rank = 0; rank < context_.size; ++rank) {
    ranks[static_cast<std::size_t>(rank)] = context_.named(rank);
  }
  try {
    constexpr std::size_t kTags = 32'768;
    const auto tag = static_cast<int>(std::hash<std::string>()(context_.prefix) % kTags);
    group_ = library_.make_group(ranks, tag);
    greatest_tag_ = library_.greatest_tag();
  } catch (const std::exception& failure) {
    throw own_error(context_, ErrorKind::system,
                    std::string(": MPI cannot make a group: ") + failure.what());
  }
  agreement_ = std::make_unique<MpiAgreement>(context_, *group_);
  messages_ = std::make_unique<MpiMessages>(context_, *group_, device_);
  begin_mpi_group();
}

void MpiBackend::refuse(const Task& task, const std::string& why) const {
  throw own_error(context_, ErrorKind::usage,
                  std::string(": ") + name(task.operation) + ": " + why);
}

/// Refuses what MPI cannot do: its counts are of type int.
void MpiBackend::check(const Task& task) const {
  if (task.on_device) {
    at_rank(context_.named(context_.rank),
            [&] { check_host_call(name(task.operation), task.stream); });
  }
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  const auto check_count = [&](std::size_t count) {
    if (count <= kMost) return;
    refuse(task, "backend mpi moves at most " + std::to_string(kMost) + " elements, not " +
                     std::to_string(count));
  };
  for (const Transfer& transfer : task.transfers) {
    check_count(transfer.count);
    if (transfer.tag <= greatest_tag_ && transfer.tag >= ~greatest_tag_) continue;
    refuse(task, "tag " + std::to_string(transfer.tag) + ", but with this MPI tags are from " +
                     std::to_string(~greatest_tag_) + " to " + std::to_string(greatest_tag_));
  }
  if (is_elementwise(task.operation)) return;
  const auto ranks = static_cast<std::size_t>(is_unequal(task.operation) ? 1 : context_.size);
  check_count(task.count * ranks);
  check_count(std::reduce(task.send_counts.begin(), task.send_counts.end()));
  check_count(std::reduce(task.recv_counts.begin(), task.recv_counts.end()));
}

void MpiBackend::run(const Task& task) {
  is_point_to_point(task.operation) ? messages_->run(task) : queue_.run(task);
}

std::shared_ptr<AsyncCall> MpiBackend::begin(const Task& task) {
  if (is_point_to_point(task.operation)) return messages_->begin(task);
  if (!task.on_device) return queue_.begin(task);
  Task recorded = task;
  try {
    device_.record_ready(recorded);
  } catch (...) {
    const std::string where = std::string("in ") + name(task.operation);
    return failed_call(messages_->fail(agree_on_exception(context_, where)));
  }
  return queue_.begin(recorded);
}

void MpiBackend::perform(const Task& task) {
  if (const auto failure = messages_->failure()) throw Error(*failure);
  const Call call = collective_call(context_, task, ++calls_);
  try {
    agreement_->run(call);
    if (is_unequal(task.operation)) compare_counts(task, call);
    move(task);
  } catch (...) {
    throw messages_->fail(agree_on_exception(context_, "in " + describe(call)));
  }
}

/// Each rank sends every other their counts. Then all ranks agree whether those fit.
void MpiBackend::compare_counts(const Task& task, const Call& call) {
  const std::vector<Counts> ours = counts_of(task, context_.rank, context_.size);
  std::vector<Counts> theirs(ours.size());
  group_->run({.operation = Operation::all_to_all,
               .type = DataType::int64,
               .count = sizeof(Counts) / sizeof(std::int64_t),
               .in = ours.data(),
               .out = theirs.data()});
  bool fit = true;
  try {
    for (int rank = 0; rank < context_.size; ++rank) {
      const auto place = static_cast<std::size_t>(rank);
      check_fits(context_, call, {call, ours[place]}, {call, theirs[place]}, rank);
    }
  } catch (const Error&) {
    fit = false;
  }
  agreement_->run(call, fit);
}

bool is_long(const Task& task, std::size_t piece_bytes) {
  return is_elementwise(task.operation) && task.count > piece_bytes / size_of(task.type);
}

/// Cuts a task: copies of the data, on the host or in wider types, are as large as a piece.
std::vector<Task> split_into_pieces(const Task& task, std::size_t piece_bytes) {
  const std::size_t width = size_of(task.type);
  const std::size_t most = piece_bytes / width;
  if (!is_long(task, piece_bytes)) return {task};
  std::vector<Task> pieces;
  for (std::size_t begin = 0; begin < task.count; begin += most) {
    Task& piece = pieces.emplace_back(task);
    piece.count = std::min(most, task.count - begin);
    if (task.in != nullptr) piece.in = static_cast<const char*>(task.in) + begin * width;
    if (task.out != nullptr) piece.out = static_cast<char*>(task.out) + begin * width;
  }
  return pieces;
}

/// A task that is not long is not copied.
void MpiBackend::move(const Task& task) {
  constexpr std::size_t kPieceBytes = std::size_t{16} << 20U;
  if (is_elementwise(task.operation) && task.count == 0) return;
  const auto with_mpi = [this](const Task& reachable) {
    if (!reduces(reachable.operation)) return group_->run(reachable);
    combine_.run(*group_, reachable, context_.rank, context_.size);
  };
  if (!task.on_device) {
    if (!is_long(task, kPieceBytes)) return with_mpi(task);
    for (const Task& piece : split_into_pieces(task, kPieceBytes)) with_mpi(piece);
    return;
  }
  device_.run(split_into_pieces(task, device_.piece_bytes()), context_.rank, context_.size,
              with_mpi);
}

void MpiBackend::abort() noexcept {
  agreement_->abort();
  messages_->fail(own_error(context_, ErrorKind::system, " aborted its messages"));
}

/// MPI ends only when all ranks end it, so this waits for the others, too.
void MpiBackend::leave() noexcept {
  if (!library_.runs()) return;
  try {
    messages_->finish();
    queue_.finish();
    if (messages_->failure()) return;
    say_goodbye(context_);
    if (!agreement_->leave()) return;
  } catch (const std::exception&) {
    return;  // the others may still need MPI's group
  }
  group_->free();
  end_mpi_group();
}

}  // namespace

std::unique_ptr<Backend> make_mpi_backend(GroupContext context) {
  return std::make_unique<MpiBackend>(std::move(context));
}

}  // namespace ddp::internal

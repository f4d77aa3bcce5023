// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/published_calls.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/hash.h"

namespace ddp::internal {
namespace {

using ddprun::CallBoard;
using ddprun::CallSlot;

constexpr std::uint64_t kMostOfGroup = (std::uint64_t{1} << 48) - 1;
constexpr std::uint64_t kMostOfCount = (std::uint64_t{1} << CallBoard::kOperationShift) - 1;
constexpr auto kOperations = static_cast<std::size_t>(kLastOperation) + 1;
static_assert(kOperations <= std::tuple_size_v<decltype(CallBoard::operation_names)>);

constexpr rlim_t kSpareFiles = 32;

/// The kernel gives the lowest free number, so a high one shows that few are left.
bool is_among_last_files(int file) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
         static_cast<rlim_t>(file) + kSpareFiles >= limit.rlim_cur;
}

/// Returns nullptr if there is no memory, or connections need the last descriptors more.
CallBoard* make_board() {
  const int file = memfd_create(ddprun::kCallBoardName, MFD_CLOEXEC);
  if (file < 0) return nullptr;
  if (is_among_last_files(file)) return close(file), nullptr;
  void* memory = MAP_FAILED;
  if (ftruncate(file, CallBoard::kSize) == 0) {
    memory = mmap(nullptr, CallBoard::kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (memory == MAP_FAILED) return close(file), nullptr;
  auto* const board = static_cast<CallBoard*>(memory);  // zeros: all slots are free
  for (std::size_t i = 0; i < kOperations; ++i) {
    auto& place = board->operation_names[i];
    const std::string_view text = name(static_cast<Operation>(i));
    std::memcpy(place.data(), text.data(), std::min(text.size(), place.size() - 1));
  }
  board->pid = static_cast<std::uint64_t>(getpid());
  board->magic = CallBoard::kMagic;
  return board;  // the file stays open: a reader finds it there
}

std::mutex& slots_mutex() {
  static std::mutex mutex;
  return mutex;
}

pid_t maker = 0;  // of the board

/// A forked child has a board of its own, as its parent continues to write to this one.
CallBoard* board_of_process() {
  static CallBoard* board = nullptr;
  if (maker != getpid()) {
    maker = getpid();
    board = make_board();
  }
  return board;
}

/// Never returns 0, which is a free slot.
std::uint64_t group_number(const GroupContext& context) {
  ddprun::Fnv64 hash;
  hash.add(context.prefix);
  return std::max<std::uint64_t>(hash.value() & kMostOfGroup, 1);
}

CallSlot* take_slot(const GroupContext& context) {
  if (context.size < 2) return nullptr;
  const std::lock_guard lock(slots_mutex());
  CallBoard* const board = board_of_process();
  if (board == nullptr) return nullptr;
  auto* const free = std::ranges::find_if(board->slots, [](const CallSlot& slot) {
    return slot.group.load(std::memory_order_relaxed) == 0;
  });
  if (free == board->slots.end()) return nullptr;
  free->rank.store(static_cast<std::uint64_t>(context.named(context.rank)));
  free->group.store(group_number(context));
  return free;
}

}  // namespace

PublishedCalls::PublishedCalls(const GroupContext& context) : slot_(take_slot(context)) {
  publish(0, nullptr, nullptr);
}

PublishedCalls::~PublishedCalls() {
  const std::lock_guard lock(slots_mutex());
  if (slot_ == nullptr || maker != getpid()) return;  // a forked child leaves its parent's alone
  publish(0, nullptr, nullptr);
  slot_->group.store(0);
}

// Release and acquire as in FlightRecorder: on x86 it costs nothing.
void PublishedCalls::publish(std::uint64_t begun, const Call* open, const Call* last) noexcept {
  if (slot_ == nullptr) return;
  constexpr auto kRelease = std::memory_order_release;
  const Call* const shown = open != nullptr ? open : last;
  const std::uint64_t version = slot_->version.load(std::memory_order_relaxed);
  slot_->version.store(version + 1, std::memory_order_relaxed);
  slot_->begun.store(begun, kRelease);
  slot_->open.store(open != nullptr ? open->number : 0, kRelease);
  slot_->number.store(shown != nullptr ? shown->number : 0, kRelease);
  if (shown != nullptr) {
    const auto operation = static_cast<std::uint64_t>(shown->operation);
    slot_->shown.store(operation << CallBoard::kOperationShift | (shown->count & kMostOfCount),
                       kRelease);
  }
  slot_->version.store(version + 2, kRelease);
}

}  // namespace ddp::internal

// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/worker_calls.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <unistd.h>

#include "base/call_board.h"
#include "base/fd.h"

namespace ddprun::launcher {
namespace {

constexpr std::uint64_t kMostNumber = std::uint64_t{1} << 48;  // no count of calls is greater
using Page = std::array<unsigned char, CallBoard::kSize>;

/// A copy of a slot.
struct Slot {
  std::uint64_t version, group, rank, begun, open, shown, number, unused;
  bool operator==(const Slot&) const = default;
};
static_assert(sizeof(Slot) == sizeof(CallSlot));

bool is_board(int folder, const char* name) {
  std::array<char, 64> target{};
  const ssize_t size = readlinkat(folder, name, target.data(), target.size() - 1);
  return size > 0 &&
         std::string(target.data()) == std::string("/memfd:") + kCallBoardName + " (deleted)";
}

/// Whether it is the process's own: a forked child has its parent's board, too.
bool is_of(const Page& page, pid_t pid) {
  CallBoard const* const board = reinterpret_cast<const CallBoard*>(page.data());
  return board->magic == CallBoard::kMagic && board->pid == static_cast<std::uint64_t>(pid);
}

bool read_page(const Fd& file, Page& page) {
  return pread(file.get(), page.data(), page.size(), 0) == static_cast<ssize_t>(page.size());
}

/// Empty: there is no board. The file is not mapped, because its owner could shorten it.
Fd open_board(pid_t pid, const std::string& proc, Page& page) {
  const std::string path = proc + "/" + std::to_string(pid) + "/fd";
  const Directory folder = open_directory(path.c_str());
  if (!folder) return {};
  while (const dirent* entry = readdir(folder.get())) {
    const int at = dirfd(folder.get());
    if (!is_board(at, entry->d_name)) continue;
    Fd file(openat(at, entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file && read_page(file, page) && is_of(page, pid)) return file;
  }
  return {};
}

Slot slot_in(const Page& page, size_t index) {
  Slot slot{};
  std::memcpy(&slot, page.data() + offsetof(CallBoard, slots) + index * sizeof slot, sizeof slot);
  return slot;
}

std::string shown_text(const Page& page, const Slot& slot) {
  const auto* const board = reinterpret_cast<const CallBoard*>(page.data());
  const size_t operation = slot.shown >> CallBoard::kOperationShift;
  const std::uint64_t count = slot.shown & ((std::uint64_t{1} << CallBoard::kOperationShift) - 1);
  if (slot.number == 0 || operation >= board->operation_names.size()) return "";
  const auto& name = board->operation_names[operation];
  std::string text(name.data(), strnlen(name.data(), name.size()));
  const auto is_foreign = [](char c) { return (c < 'a' || c > 'z') && c != '_'; };
  std::ranges::replace_if(text, is_foreign, '?');
  if (count > 0) text += "[" + std::to_string(count) + "]";
  return "#" + std::to_string(slot.number) + " " + text;
}

}  // namespace

std::vector<WorkerCall> calls_of(pid_t pid, int rank, const std::string& proc) {
  Page first{}, page{};
  const Fd file = open_board(pid, proc, first);
  std::vector<WorkerCall> calls;
  if (!file || !read_page(file, page)) return calls;
  constexpr size_t kSlots = std::tuple_size_v<decltype(CallBoard::slots)>;
  for (size_t i = 0; i < kSlots; ++i) {
    const Slot slot = slot_in(page, i);
    if (slot.group == 0) continue;
    if (slot.rank != static_cast<std::uint64_t>(rank)) return {};  // the program has its own ranks
    const bool is_whole = slot == slot_in(first, i) && slot.version % 2 == 0;
    if (!is_whole || std::max({slot.group, slot.begun, slot.open, slot.number}) >= kMostNumber)
      continue;
    calls.push_back({slot.group, slot.begun, slot.open, shown_text(page, slot)});
  }
  return calls;
}

std::string call_text(const std::vector<WorkerCall>& calls) {
  for (const WorkerCall& call : calls) {
    if (call.open > 0) return "in " + call.shown;
  }
  const auto has_calls = [](const WorkerCall& call) { return !call.shown.empty(); };
  if (std::ranges::count_if(calls, has_calls) != 1) return "";
  return "after " + std::ranges::find_if(calls, has_calls)->shown;
}

}  // namespace ddprun::launcher

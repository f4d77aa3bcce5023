// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/other_memory.h"

#include <array>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collectives/backends/shm/fence.h"
#include "collectives/backends/shm/layout.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kMarkPage = 4096;  // or the page that contains these bytes
constexpr int kCallsPerAnswer = 32;

/// PAGEMAP_SCAN of <linux/fs.h>, which older headers do not have.
struct PageMapScan {
  std::uint64_t size = sizeof(PageMapScan);
  std::uint64_t flags = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t walked_to = 0;
  std::uint64_t found = 0;
  std::uint64_t room_for_found = 1;
  std::uint64_t most_found = 0;
  std::uint64_t inverted = 0;
  std::uint64_t wanted = 0;
  std::uint64_t wanted_any = 0;
  std::uint64_t reported = 0;

  static constexpr std::uint64_t kHuge = 1 << 6;
  static constexpr unsigned long kRequest = _IOC(_IOC_READ | _IOC_WRITE, 'f', 16, 96);
};
static_assert(sizeof(PageMapScan) == 96);

iovec part_at(std::uint64_t address, std::size_t bytes) {
  return {reinterpret_cast<void*>(address), bytes};  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

MemoryMark::MemoryMark(std::uint64_t token) {
  void* const page =
      ::mmap(nullptr, kMarkPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, kMarkPage, MADV_WIPEONFORK) != 0) {
    ::munmap(page, kMarkPage);
    return;
  }
  mark_ = static_cast<std::atomic<std::uint64_t>*>(page);
  mark_->store(token);
}

MemoryMark::~MemoryMark() {
  if (mark_ != nullptr) ::munmap(mark_, kMarkPage);
}

MemoryPlace MemoryMark::place_of(const void* data) const {
  return {.data = reinterpret_cast<std::uintptr_t>(data),
          .mark = reinterpret_cast<std::uintptr_t>(mark_),
          .process = ::getpid()};
}

std::optional<bool> MemoryMark::is_in_huge_page(const void* byte) const {
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(byte);
  const std::uint64_t page = address / kHugePage;
  Answer& known = answers_[page % answers_.size()];
  if (known.page != page || known.calls == 0) known = {page, kCallsPerAnswer, ask_kernel(address)};
  --known.calls;
  return known.is_huge;
}

std::optional<bool> MemoryMark::ask_kernel(std::uint64_t address) const {
  if (!page_map_) page_map_.emplace(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const std::uint64_t page = address / kMarkPage * kMarkPage;
  std::array<std::uint64_t, 3> found{};
  PageMapScan scan{.begin = page,
                   .end = page + kMarkPage,
                   .found = reinterpret_cast<std::uintptr_t>(found.data()),
                   .most_found = 1,
                   .wanted = PageMapScan::kHuge,
                   .reported = PageMapScan::kHuge};
  const int count = ::ioctl(page_map_->get(), PageMapScan::kRequest, &scan);
  return count < 0 ? std::nullopt : std::optional(count > 0);
}

/// The fence is for what the caller then writes to its data.
void MemoryMark::remove() noexcept {
  if (mark_ != nullptr) mark_->store(0);
  fence(std::memory_order_seq_cst);
}

bool is_marked(const MemoryPlace& place, std::uint64_t token) {
  return read_memory(place, token, 0, {});
}

/// The kernel finds the process once for both parts, and copies the mark after the data. Between
/// the two it gives the data's pages back, an ordered access to memory on every processor.
bool read_memory(const MemoryPlace& place, std::uint64_t token, std::size_t at,
                 std::span<char> to) {
  std::uint64_t mark = 0;
  const std::array<iovec, 2> here = {{{to.data(), to.size()}, {&mark, sizeof(mark)}}};
  const std::array<iovec, 2> there = {part_at(place.data + at, to.size()),
                                      part_at(place.mark, sizeof(mark))};
  const ssize_t read = ::process_vm_readv(static_cast<pid_t>(place.process), here.data(),
                                          here.size(), there.data(), there.size(), 0);
  return read == static_cast<ssize_t>(to.size() + sizeof(mark)) && mark == token;
}

}  // namespace ddp::internal

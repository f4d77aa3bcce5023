// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/worker_calls.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "base/call_board.h"
#include "base/fd.h"
#include "tests/catch.h"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

constexpr std::uint64_t kBarrier = std::uint64_t{1} << CallBoard::kOperationShift;
constexpr std::uint64_t kAllReduce = 0;

/// A board of this process, made as `ddp` does.
class TestBoard {
 public:
  TestBoard() : file_(memfd_create(kCallBoardName, MFD_CLOEXEC)) {
    REQUIRE(ftruncate(file_.get(), CallBoard::kSize) == 0);
    void* const memory =
        mmap(nullptr, CallBoard::kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    REQUIRE(memory != MAP_FAILED);
    board_ = static_cast<CallBoard*>(memory);
    std::strcpy(board_->operation_names[0].data(), "all_reduce");
    std::strcpy(board_->operation_names[1].data(), "barrier");
    board_->pid = static_cast<std::uint64_t>(getpid());
    board_->magic = CallBoard::kMagic;
  }
  ~TestBoard() { munmap(board_, CallBoard::kSize); }

  void shorten() { REQUIRE(ftruncate(file_.get(), 100) == 0); }
  CallBoard& board() { return *board_; }
  CallSlot& slot(size_t index, int rank, std::uint64_t begun, std::uint64_t open,
                 std::uint64_t shown) {
    CallSlot& slot = board_->slots[index];
    slot.group = index + 1;
    slot.rank = static_cast<std::uint64_t>(rank);
    slot.begun = begun;
    slot.open = open;
    slot.number = open > 0 ? open : begun;
    slot.shown = shown;
    return slot;
  }

 private:
  Fd file_;
  CallBoard* board_ = nullptr;
};

}  // namespace

TEST_CASE("a worker's collective calls are read from outside") {
  TestBoard board;
  board.slot(0, 3, 121, 120, kAllReduce | 8);
  CHECK(calls_of(getpid(), 3) == std::vector<WorkerCall>{{1, 121, 120, "#120 all_reduce[8]"}});
  CHECK(call_text(calls_of(getpid(), 3)) == "in #120 all_reduce[8]");
  board.slot(0, 3, 121, 0, kBarrier);
  CHECK(call_text(calls_of(getpid(), 3)) == "after #121 barrier");
  board.slot(5, 3, 0, 0, 0);
  CHECK(calls_of(getpid(), 3).size() == 2);
  CHECK(call_text(calls_of(getpid(), 3)) == "after #121 barrier");  // the other has made none
  board.slot(5, 3, 7, 0, kBarrier);
  CHECK(call_text(calls_of(getpid(), 3)).empty());  // after which of the two is not known
  board.slot(5, 3, 7, 7, kBarrier);
  CHECK(call_text(calls_of(getpid(), 3)) == "in #7 barrier");
}

TEST_CASE("a board that is not the worker's own is ignored") {
  CHECK(calls_of(getpid(), 3).empty());
  CHECK(calls_of(0, 3).empty());
  TestBoard board;
  board.slot(0, 3, 121, 120, kAllReduce);
  CHECK(calls_of(getpid(), 2).empty());  // it counts ranks of its own
  board.board().pid = 1;                 // its parent's board
  CHECK(calls_of(getpid(), 3).empty());
  board.board().pid = static_cast<std::uint64_t>(getpid());
  board.board().magic = 7;
  CHECK(calls_of(getpid(), 3).empty());
}

TEST_CASE("a board with nonsense is bounded, and a board that is too short is ignored") {
  TestBoard board;
  board.slot(0, 3, 121, 120, kAllReduce).version = 7;  // it is being written
  CHECK(calls_of(getpid(), 3).empty());
  board.slot(0, 3, ~std::uint64_t{0}, 120, kAllReduce).version = 8;
  CHECK(calls_of(getpid(), 3).empty());
  std::memset(board.board().operation_names.data(), '\x1b', sizeof(CallBoard::operation_names));
  board.slot(0, 3, 121, 120, kAllReduce);
  CHECK(calls_of(getpid(), 3).at(0).shown == "#120 " + std::string(24, '?'));
  board.slot(0, 3, 121, 120, std::uint64_t{200} << CallBoard::kOperationShift);
  CHECK(calls_of(getpid(), 3).at(0).shown.empty());
  board.shorten();
  CHECK(calls_of(getpid(), 3).empty());
}

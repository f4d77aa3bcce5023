// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "tests/collectives/fake_gpu/communicator.h"

namespace fake_gpu {

/// FAKE_NCCL_TELL
bool tells();

[[noreturn]] void die(const char* why);

/// Refuses a call, and with it all of the group that is open.
ncclResult_t refuse(const char* why);

/// Does `work` as NCCL does what takes the other ranks: in a thread.
ncclResult_t do_with_others(Communicator& self, std::function<void()> work);

/// Forgets the memory that is registered with the communicator, which ends.
void forget_registered(ncclComm_t by);

/// Whether a communicator of this process has registered it as a window.
bool is_in_window(const void* memory);

}  // namespace fake_gpu

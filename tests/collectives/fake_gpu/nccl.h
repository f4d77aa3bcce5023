// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "tests/collectives/fake_gpu/communicator.h"

namespace fake_gpu {

/// Whether FAKE_NCCL_TELL is set.
bool tells();

[[noreturn]] void die(const char* why);

/// Refuses a call, and with it the whole open group.
ncclResult_t refuse(const char* why);

/// Does `work` in a thread, as NCCL does work with the other ranks.
ncclResult_t do_with_others(Communicator& self, std::function<void()> work);

/// Forgets the memory registered with the communicator, which ends.
void forget_registered(ncclComm_t by);

/// Whether a communicator of this process has registered the memory as a window.
bool is_in_window(const void* memory);

}  // namespace fake_gpu

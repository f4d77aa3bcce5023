// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cuda.h>
#include <functional>
#include <memory>
#include <nccl.h>
#include <string>
#include <thread>
#include <vector>

namespace fake_gpu {

/// Data for, or from, another rank.
struct Part {
  int peer;
  std::vector<char> data;
};

/// What a call sends. `read` does so in the stream's turn.
struct Outgoing {
  std::vector<int> peers;
  std::function<std::vector<Part>()> read;
};

/// One call. `finish` gets what came, in the order of `from`.
struct Call {
  Outgoing to;
  std::vector<Part> from;  // sizes count
  std::function<void(const std::vector<Part>& came)> finish;
  CUstream stream;
};

/// One rank's end of a communicator: two sockets to each other rank, and the calls it was given.
struct Communicator {
  int rank = 0;
  int size = 1;
  ncclUniqueId id = {};
  int splits = 0;
  bool is_blocking = false;
  std::vector<int> sockets;   // by rank
  std::vector<int> greeters;  // by rank: what tells another one that a call with it is made
  std::vector<char> met;      // by rank: whether both have made one
  std::atomic<bool> is_aborted = false;
  std::atomic<ncclResult_t> state = ncclInProgress;
  CUcontext context = nullptr;             // where calls were made
  std::vector<Call> calls;                 // launched, but not yet in the stream
  std::vector<std::vector<char>> factors;  // of reductions that were created; empty: destroyed
  std::atomic<int> questions = 0;          // until they are
  int launches = 0;
  int asked = 0;                     // calls, also those that were refused
  std::atomic<int> open_groups = 0;  // that have calls of it, in any thread
  std::atomic<int> under_way = 0;
  std::atomic<int> graphs = 0;  // that have calls of it
  std::atomic<bool> is_finalized = false;
  std::thread connector;
  std::atomic<Communicator*> connecting_part = nullptr;  // is aborted with this

  ~Communicator();

  /// Meets the others, who have the same id. Blocks.
  void connect(const ncclUniqueId& of);

  /// The ranks that call it with this color, in the order of their keys. Blocks. Empty: one is
  /// gone.
  std::vector<int> find_part(int color, int key);

  /// The other ranks in calls that are made, with which none was made before: the real one connects
  /// to them only now.
  std::vector<int> find_unmet() const;

  /// Waits until they make such a call, too. Blocks. False: one is gone.
  bool meet(const std::vector<int>& others);

  /// Does calls that were started together, in a stream. After a failure it blocks until the
  /// communicator is aborted.
  void perform(const std::vector<Call>& started, bool fails);

  /// The others see it.
  void hang_up();

 private:
  bool exchange(const std::vector<std::vector<char>>& out, std::vector<std::vector<char>>& in);
};

/// Whether a call of any communicator of this process runs on a device now. To free what NCCL has
/// there, as an abort does, waits for all of them.
bool is_busy();

/// Puts the communicator's calls into their stream.
void put_into_stream(const std::shared_ptr<Communicator>& self);

/// Adds a call to the thread's group of calls; what ncclAllReduce and the like return.
ncclResult_t add(ncclComm_t handle, Call call);

/// The text of ncclGetLastError() from now on.
void tell(const std::string& text);

}  // namespace fake_gpu

struct ncclComm {
  std::shared_ptr<fake_gpu::Communicator> self;
};

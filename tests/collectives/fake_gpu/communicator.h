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

/// The data that a call sends. `read` reads it in the stream's turn.
struct Outgoing {
  std::vector<int> peers;
  std::function<std::vector<Part>()> read;
};

/// One call. `finish` gets the received data, in the order of `from`.
struct Call {
  Outgoing to;
  std::vector<Part> from;  // only the sizes matter
  std::function<void(const std::vector<Part>& came)> finish;
  CUstream stream;
};

/// One rank's end of a communicator: two sockets to each other rank, and the calls that it got.
struct Communicator {
  int rank = 0;
  int size = 1;
  ncclUniqueId id = {};
  int splits = 0;
  bool is_blocking = false;
  std::vector<int> sockets;   // by rank
  std::vector<int> greeters;  // by rank: announces a call with that rank
  std::vector<char> met;      // by rank: whether both have made a call with the other
  std::atomic<bool> is_aborted = false;
  std::atomic<ncclResult_t> state = ncclInProgress;
  CUcontext context = nullptr;             // where calls were made
  std::vector<Call> calls;                 // launched, but not yet in the stream
  std::vector<std::vector<char>> factors;  // of created reductions; empty: destroyed
  std::atomic<int> questions = 0;          // until they are in the stream
  int launches = 0;
  int asked = 0;                     // calls, also refused ones
  std::atomic<int> open_groups = 0;  // with calls of it, in any thread
  std::atomic<int> under_way = 0;
  std::atomic<int> graphs = 0;  // with calls of it
  std::atomic<bool> is_finalized = false;
  std::thread connector;
  std::atomic<Communicator*> connecting_part = nullptr;  // aborted with this

  ~Communicator();

  /// Meets the others, who have the same id. Blocks.
  void connect(const ncclUniqueId& of);

  /// Returns the ranks that call it with this color, in the order of their keys; empty if one is
  /// gone. Blocks.
  std::vector<int> find_part(int color, int key);

  /// The other ranks of calls that are made, if none was made with them before: the real NCCL only
  /// connects to them now.
  std::vector<int> find_unmet() const;

  /// Waits until they make such a call, too. Returns false if one is gone.
  bool meet(const std::vector<int>& others);

  /// Does calls that were started together, in a stream. After a failure, blocks until the
  /// communicator is aborted.
  void perform(const std::vector<Call>& started, bool fails);

  /// Closes the connections, which the others notice.
  void hang_up();

 private:
  bool exchange(const std::vector<std::vector<char>>& out, std::vector<std::vector<char>>& in);
};

/// Whether a call of any communicator of this process runs on a device now. Freeing NCCL's memory
/// there, as an abort does, waits for all of them.
bool is_busy();

/// Puts the communicator's calls into their stream.
void put_into_stream(const std::shared_ptr<Communicator>& self);

/// Adds a call to the thread's group of calls. Returns the result of ncclAllReduce and the like.
ncclResult_t add(ncclComm_t handle, Call call);

/// Sets the text of ncclGetLastError().
void tell(const std::string& text);

}  // namespace fake_gpu

struct ncclComm {
  std::shared_ptr<fake_gpu::Communicator> self;
};

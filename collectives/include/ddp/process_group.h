// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/error.h"
#include "ddp/export.h"
#include "ddp/options.h"
#include "ddp/types.h"
#include "ddp/work.h"

namespace ddp {

namespace internal {
struct GroupAccess;
}  // namespace internal

/// The workers of a job, each a process with a rank from 0 to size() - 1, that compute together.
///
/// Every rank makes the same calls in the same order, with the same type, count, operation and
/// root. Each call blocks until this rank's part is done; its twin with an i in front, as MPI and
/// torch.distributed have it, only begins, and gives a Work to wait for. Calls of both kinds are
/// done in the order in which they are made, all but messages between two ranks: these go on beside
/// them. A group of one rank uses no network.
///
/// Buffers: any range of elements (a std::vector, std::array, std::span, ...) is a Buffer to be
/// written or a ConstBuffer to be read. Where a buffer holds a block of every rank, these lie one
/// after the other in the order of ranks. Counts are elements. `out` may be `in` itself, or, where
/// one of them holds a block of every rank, this rank's block of it: in place. Otherwise they may
/// not overlap. Where only one rank gets (or gives) a result, the others' `out` (or `in`) is not
/// looked at and may be `{}`.
///
/// Buffers on a device (DeviceSpan) need backend nccl or mpi. Calls with them come after what their
/// stream was given before, and before what it is given after. With mpi they are as those in host
/// memory otherwise: the host waits for their stream and for their end (a message that is begun:
/// for its stream), and they cannot be captured into a graph. With nccl they do not hold up the
/// host. The first such call of a group connects it, on the device that is current, and waits for
/// every rank; it may not be captured into a graph, later ones may. Their order among calls in host
/// memory, and barrier(), is of no matter to the device. NCCL does not compare the ranks' calls,
/// ignores the tags of messages, which match in the order of the calls, and rounds 16-bit sums at
/// each step. A failure ends all calls on the device: streams go on, with unspecified contents, and
/// every wait for a Work and every later call throws it.
///
/// Errors are thrown as ddp::Error. After the first that is not of kind `usage` the group is
/// broken for good: every later call throws that same error, and the contents of the buffer of the
/// failed call are unspecified. The first rank to fail tells the others through the store, so that
/// all of them name the same cause. Ranks compare their calls before any large data moves, so a
/// call that differs on one of them is an error that names both, never a wrong result or a hang.
/// (In all_to_all_v a rank whose own counts fit may get its result, and the error in its next
/// call.) A rank whose process dies is seen at once, in every call and while the ranks connect.
/// A call that takes longer than the timeout fails, and so do all calls of all groups of its ranks,
/// those of other threads included: the sentence says at which call each rank is. If calls cannot
/// be made to end, the process does, with exit code 124 and the sentence on stderr.
///
/// Thread: any, one call at a time.
class DDP_EXPORT ProcessGroup {
 public:
  /// How many elements the blocks of ranks have, by rank.
  using Counts = std::span<const std::size_t>;

  /// `other` may only be destroyed or assigned to afterwards. What is assigned to leaves first, as
  /// at its end.
  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&& other) noexcept;

  /// Leaves, in the background: the connections last until every rank is done with its last call,
  /// at most the timeout, and the process does not end before. So ranks may destroy their groups in
  /// any order. Calls that were begun are done first. While an exception is on its way, or after a
  /// failure, it waits for nobody: calls under way are given up, and the others' next call fails.
  ~ProcessGroup();

  /// This process's number in the group, and how many there are.
  int rank() const noexcept;
  int size() const noexcept;

  /// The name of what moves the data.
  const std::string& backend() const noexcept;

  /// How long each call may take that is made from now on, in this group and in those that are made
  /// of it later: ranks may have different ones. Its time begins when the calls that were begun
  /// before it are over. Errors: usage (not more than 0).
  void set_timeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeout() const noexcept;

  /// Returns once every rank has called it.
  void barrier();
  [[nodiscard]] Work ibarrier();

  /// Overwrites `data` on every rank with what `root` has.
  void broadcast(Buffer data, int root = 0);
  [[nodiscard]] Work ibroadcast(Buffer data, int root = 0);

  /// `out` on `root`: the combination of all ranks' `in`, element by element.
  void reduce(ConstBuffer in, Buffer out, int root, ReduceOp op = ReduceOp::sum);
  /// In place: `data` on the other ranks stays as it is.
  void reduce(Buffer data, int root, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work ireduce(ConstBuffer in, Buffer out, int root, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work ireduce(Buffer data, int root, ReduceOp op = ReduceOp::sum);

  /// `out` on every rank: the combination of all ranks' `in`, element by element. Every rank ends
  /// with the same bits.
  void all_reduce(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  void all_reduce(Buffer data, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work iall_reduce(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work iall_reduce(Buffer data, ReduceOp op = ReduceOp::sum);

  /// `out` on `root`: every rank's `in`. The _v form: of `counts` elements, which only `root` has
  /// to give.
  void gather(ConstBuffer in, Buffer out, int root);
  void gather_v(ConstBuffer in, Buffer out, Counts counts, int root);
  [[nodiscard]] Work igather(ConstBuffer in, Buffer out, int root);
  [[nodiscard]] Work igather_v(ConstBuffer in, Buffer out, Counts counts, int root);

  /// `out` on every rank: every rank's `in`. The _v form: of `counts` elements.
  void all_gather(ConstBuffer in, Buffer out);
  void all_gather_v(ConstBuffer in, Buffer out, Counts counts);
  [[nodiscard]] Work iall_gather(ConstBuffer in, Buffer out);
  [[nodiscard]] Work iall_gather_v(ConstBuffer in, Buffer out, Counts counts);

  /// `out` on every rank: its block of `in` on `root`. The _v form: of `counts` elements, which
  /// only `root` has to give.
  void scatter(ConstBuffer in, Buffer out, int root);
  void scatter_v(ConstBuffer in, Counts counts, Buffer out, int root);
  [[nodiscard]] Work iscatter(ConstBuffer in, Buffer out, int root);
  [[nodiscard]] Work iscatter_v(ConstBuffer in, Counts counts, Buffer out, int root);

  /// `out` on every rank: its block of the combination of all ranks' `in`. The _v form: of `counts`
  /// elements.
  void reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  void reduce_scatter_v(ConstBuffer in, Buffer out, Counts counts, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work ireduce_scatter(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work ireduce_scatter_v(ConstBuffer in, Buffer out, Counts counts,
                                       ReduceOp op = ReduceOp::sum);

  /// Block r of `out` on rank q: block q of `in` on rank r. The _v form: `send_counts` elements for
  /// each rank, and `recv_counts` of each. In place in the _v form only where these are equal.
  void all_to_all(ConstBuffer in, Buffer out);
  void all_to_all_v(ConstBuffer in, Counts send_counts, Buffer out, Counts recv_counts);
  [[nodiscard]] Work iall_to_all(ConstBuffer in, Buffer out);
  [[nodiscard]] Work iall_to_all_v(ConstBuffer in, Counts send_counts, Buffer out,
                                   Counts recv_counts);

  /// One message between two ranks, which the others do not take part in: one calls send, the other
  /// recv, with the same type and count. Of one rank, the first message with a tag goes to the
  /// first receive with it, the second to the second; messages of other tags and calls of all ranks
  /// may come in any order between them, and be under way at the same time. recv returns when the
  /// data is there; send when `data` may be written again, which for up to 64 KiB can be before the
  /// other calls recv. The timeout counts from the call, and for longer data again from each piece.
  /// Errors: usage (the other rank is this one), mismatch (both calls are named, once both are
  /// made; the other rank has left), timed_out (names the tags that came instead), peer_lost.
  void send(ConstBuffer data, int to, int tag = 0);
  void recv(Buffer data, int from, int tag = 0);
  [[nodiscard]] Work isend(ConstBuffer data, int to, int tag = 0);
  [[nodiscard]] Work irecv(Buffer data, int from, int tag = 0);

  /// Many messages at once, with any number of ranks: as if each was begun alone, in the order of
  /// `ops`. Over when all are.
  void batch_send_recv(std::span<const P2POp> ops);
  [[nodiscard]] Work batch_isend_irecv(std::span<const P2POp> ops);

  /// Byte strings of any length, which may differ: `object` becomes that of `root`;
  /// every rank's object, by rank, on `root` (nothing on the others) or on every rank.
  void broadcast_object(std::string& object, int root = 0);
  std::vector<std::string> gather_object(std::string_view object, int root);
  std::vector<std::string> all_gather_object(std::string_view object);

  /// A group of some ranks of this one, which all call it with the same list: ranks[r] is rank r
  /// there. Nothing on the ranks that are not in the list. Errors: usage (the list is empty, names
  /// a rank twice or one that is none).
  /// Messages of such a group name ranks by their number in the first group.
  std::optional<ProcessGroup> new_group(std::span<const int> ranks);

  /// Parts this group, whose ranks all call it: those with the same `color`, from 0, make a group,
  /// in the order of their `key` and, where that is the same, of their rank here. Nothing where
  /// `color` is below 0.
  std::optional<ProcessGroup> split(int color, int key = 0);

  /// Parts this group, whose ranks all call it, by machine: those that run where this rank does
  /// make a group, in the order of their ranks here. Machines differ where their host name or their
  /// boot differs, as for NCCL, so containers with names of their own are machines.
  ProcessGroup split_by_node();

 private:
  friend ProcessGroup init_process_group(const Options& options);
  friend struct internal::GroupAccess;
  friend std::vector<ProcessGroup> init_local_devices(const std::vector<int>& devices,
                                                      std::chrono::milliseconds timeout);
  struct Impl;
  explicit ProcessGroup(std::unique_ptr<Impl> impl);
  std::optional<ProcessGroup> make_subgroup(const std::vector<int>& members, int color);

  std::unique_ptr<Impl> impl_;
};

/// Joins the group that `options` describe, and waits until every rank has. A process may join
/// several times, with every rank in the same order; each group is separate.
///
/// env:// reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which ddprun and torchrun set; the
/// store there is the launcher's when TORCHELASTIC_USE_AGENT_STORE is "True", else rank 0 serves
/// it. Other launchers say their own variables: OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and
/// _SIZE, SLURM_PROCID and SLURM_STEP_NUM_TASKS. They name no store. So without MASTER_ADDR rank
/// 0 serves it on this host if all ranks run here, and on the first node under srun; without
/// MASTER_PORT at a port made of the job's name. For more nodes under mpirun set MASTER_ADDR.
///
/// Errors: usage (an option or a variable is missing or wrong), unreachable, timed_out (names the
/// ranks that did not come), peer_lost (a rank ended after it had come).
DDP_EXPORT ProcessGroup init_process_group(const Options& options = {});

}  // namespace ddp

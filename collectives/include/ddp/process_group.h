// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/error.h"
#include "ddp/export.h"
#include "ddp/options.h"
#include "ddp/serializer.h"
#include "ddp/types.h"
#include "ddp/work.h"

namespace ddp {

namespace internal {
struct GroupAccess;
struct GroupMember;
}  // namespace internal

/// A group of processes, each with a rank from 0 to size() - 1, and their collective calls.
///
/// Every rank makes the same calls in the same order, with the same type, count, operation and
/// root. A call blocks until this rank's part is done. The call of the same name with an i in front
/// returns at once a Work to wait for. Calls of both kinds are done in the order in which they are
/// made; only messages between two ranks may overlap with other calls.
///
/// Buffers: any range of elements converts to a Buffer, which is written, or a ConstBuffer, which
/// is read. A buffer with a block for every rank holds the blocks in the order of ranks. Counts are
/// in elements. `out` may be `in` itself or, if one of them has a block for every rank, this rank's
/// block of it; otherwise they must not overlap. Ranks that receive (or provide) no data may pass
/// `{}`. Most calls also take a single value and return the result. For buffers on a device
/// (DeviceSpan), docs/gpu.md has what differs.
///
/// Errors are thrown as ddp::Error. After the first that is not of kind `usage`, the group is
/// broken for good: every later call throws the same error, on every rank, and the buffers that the
/// failed call writes have unspecified contents. Different calls of ranks, a rank that dies and a
/// call that takes longer than the timeout are such errors; a rank that does not wait in that call
/// throws in a later one (docs/collectives.md, Failures).
///
/// Thread: any, one call at a time.
class DDP_EXPORT ProcessGroup {
 public:
  /// The number of elements of each rank's block, by rank.
  using Counts = internal::List<std::size_t>;

  /// `other` may only be destroyed or assigned to afterwards. Assignment first leaves the group
  /// that was held here, as the destructor does.
  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&& other) noexcept;

  /// Leaves the group without blocking. A background thread finishes the calls that were begun, and
  /// notifies the other ranks. The process exits after that, and waits for no later call of theirs
  /// (mpi, and nccl after calls on a device: it waits until they leave, too; likewise rank 0 if it
  /// serves the store). So ranks may destroy their groups in any order. Data that this rank sent is
  /// received after its end, too. Other ranks' calls that wait for this one throw an error of kind
  /// left. After a failure, during an exception, or when the process exits with another code than
  /// 0, it aborts instead: calls under way are given up. In a child that fork() made since this
  /// process joined, it does nothing: the group is the parent's, and the child must not make its
  /// calls.
  ~ProcessGroup();

  /// This process's rank in the group, and the number of ranks.
  int rank() const noexcept;
  int size() const noexcept;

  /// The backend's name: cpu, mpi or nccl.
  const std::string& backend() const noexcept;

  /// Sets the longest time of each later call, in this group and in subgroups made later. Ranks may
  /// set different times. The time of a call begins when the calls before it have ended. Errors:
  /// usage (not above 0).
  void set_timeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeout() const noexcept;

  /// Returns when every rank has called it.
  void barrier();
  [[nodiscard]] Work ibarrier();

  /// Overwrites `data` on every rank with what `root` has.
  void broadcast(Buffer data, int root = 0);
  [[nodiscard]] Work ibroadcast(Buffer data, int root = 0);
  /// Returns the `value` of `root`.
  template <Value T>
  [[nodiscard]] T broadcast(T value, int root = 0) {
    broadcast(Buffer(std::span(&value, 1)), root);
    return value;
  }

  /// Combines all ranks' `in`, element by element, in `out` on `root`.
  void reduce(ConstBuffer in, Buffer out, int root, ReduceOp op = ReduceOp::sum);
  /// Works in place; `data` of the other ranks is unchanged.
  void reduce(Buffer data, int root, ReduceOp op = ReduceOp::sum);
  /// Returns the combination of all ranks' `value` on `root`, and `value` on the others.
  template <Value T>
    requires Element<T>
  [[nodiscard]] T reduce(T value, int root, ReduceOp op) {
    reduce(Buffer(std::span(&value, 1)), root, op);
    return value;
  }
  template <Summable T>
  [[nodiscard]] T reduce(T value, int root) {
    return reduce(value, root, ReduceOp::sum);
  }
  [[nodiscard]] Work ireduce(ConstBuffer in, Buffer out, int root, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work ireduce(Buffer data, int root, ReduceOp op = ReduceOp::sum);

  /// Combines all ranks' `in`, element by element, in `out` on every rank, to the same bits.
  void all_reduce(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  void all_reduce(Buffer data, ReduceOp op = ReduceOp::sum);
  /// Returns the combination of all ranks' `value`.
  template <Value T>
    requires Element<T>
  [[nodiscard]] T all_reduce(T value, ReduceOp op) {
    all_reduce(Buffer(std::span(&value, 1)), op);
    return value;
  }
  template <Summable T>
  [[nodiscard]] T all_reduce(T value) {
    return all_reduce(value, ReduceOp::sum);
  }
  [[nodiscard]] Work iall_reduce(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work iall_reduce(Buffer data, ReduceOp op = ReduceOp::sum);

  /// Collects every rank's `in` in `out` on `root`. The _v form takes blocks of `counts` elements;
  /// only `root` has to pass `counts`.
  void gather(ConstBuffer in, Buffer out, int root);
  void gather_v(ConstBuffer in, Buffer out, Counts counts, int root);
  /// Returns every rank's `value`, by rank, on `root`; nothing on the others.
  template <Value T>
  [[nodiscard]] std::vector<T> gather(T value, int root) {
    return collect(value, rank() == root ? size() : 0,
                   [&](ConstBuffer in, Buffer out) { gather(in, out, root); });
  }
  /// Returns every rank's elements, by rank, on `root`; nothing on the others. Ranks may have
  /// different numbers of elements, which a gather collects first.
  template <internal::Collectable R>
  [[nodiscard]] std::vector<std::ranges::range_value_t<R>> gather_v(const R& in, int root) {
    const std::vector<std::size_t> counts = gather(std::size_t{std::ranges::size(in)}, root);
    auto all = internal::room_for<R>(counts);
    gather_v(in, all, counts, root);
    return all;
  }
  [[nodiscard]] Work igather(ConstBuffer in, Buffer out, int root);
  [[nodiscard]] Work igather_v(ConstBuffer in, Buffer out, Counts counts, int root);

  /// Collects every rank's `in` in `out` on every rank. The _v form: blocks of `counts` elements.
  void all_gather(ConstBuffer in, Buffer out);
  void all_gather_v(ConstBuffer in, Buffer out, Counts counts);
  /// Returns every rank's `value`, by rank.
  template <Value T>
  [[nodiscard]] std::vector<T> all_gather(T value) {
    return collect(value, size(), [&](ConstBuffer in, Buffer out) { all_gather(in, out); });
  }
  /// Returns every rank's elements, by rank. Ranks may have different numbers of elements, which an
  /// all_gather collects first.
  template <internal::Collectable R>
  [[nodiscard]] std::vector<std::ranges::range_value_t<R>> all_gather_v(const R& in) {
    const std::vector<std::size_t> counts = all_gather(std::size_t{std::ranges::size(in)});
    auto all = internal::room_for<R>(counts);
    all_gather_v(in, all, counts);
    return all;
  }
  [[nodiscard]] Work iall_gather(ConstBuffer in, Buffer out);
  [[nodiscard]] Work iall_gather_v(ConstBuffer in, Buffer out, Counts counts);

  /// Copies each rank's block of `in` on `root` to its `out`. The _v form takes blocks of `counts`
  /// elements; only `root` has to pass `counts`.
  void scatter(ConstBuffer in, Buffer out, int root);
  void scatter_v(ConstBuffer in, Counts counts, Buffer out, int root);
  /// Returns this rank's value of the `values` on `root`, one for each rank:
  /// `group.scatter<int>(values, 0)`.
  template <Value T>
    requires std::default_initializable<T>
  [[nodiscard]] T scatter(ConstBuffer values, int root) {
    T value{};
    scatter(values, Buffer(std::span(&value, 1)), root);
    return value;
  }
  [[nodiscard]] Work iscatter(ConstBuffer in, Buffer out, int root);
  [[nodiscard]] Work iscatter_v(ConstBuffer in, Counts counts, Buffer out, int root);

  /// Combines all ranks' `in`, and gives each rank its block of the result in `out`. The _v form
  /// takes blocks of `counts` elements.
  void reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  void reduce_scatter_v(ConstBuffer in, Buffer out, Counts counts, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work ireduce_scatter(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work ireduce_scatter_v(ConstBuffer in, Buffer out, Counts counts,
                                       ReduceOp op = ReduceOp::sum);

  /// Combines the `in` of this rank and of those before it, element by element, in `out`. It is an
  /// all_gather, of whose result each rank combines its part: it needs memory for the `in` of all
  /// ranks, and errors and traces show it as one. Buffers: in host memory. Errors: usage (on a
  /// device).
  void scan(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  /// The same without this rank's own `in`. On rank 0 `out` remains as it is.
  void exscan(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum);
  /// Return that of `value`; exscan returns `first` on rank 0.
  template <Value T>
    requires Element<T>
  [[nodiscard]] T scan(T value, ReduceOp op) {
    const std::span one(&value, 1);
    scan(one, one, op);
    return value;
  }
  template <Summable T>
  [[nodiscard]] T scan(T value) {
    return scan(value, ReduceOp::sum);
  }
  template <Value T>
    requires Element<T>
  [[nodiscard]] T exscan(T value, ReduceOp op, T first) {
    exscan(std::span(&value, 1), std::span(&first, 1), op);
    return first;
  }
  template <Summable T>
  [[nodiscard]] T exscan(T value) {
    return exscan(value, ReduceOp::sum, T{});
  }

  /// Exchanges blocks: block r of `out` on rank q is block q of `in` on rank r. The _v form sends
  /// `send_counts` elements and receives `recv_counts` from each; in place only if they are equal.
  void all_to_all(ConstBuffer in, Buffer out);
  void all_to_all_v(ConstBuffer in, Counts send_counts, Buffer out, Counts recv_counts);
  [[nodiscard]] Work iall_to_all(ConstBuffer in, Buffer out);
  [[nodiscard]] Work iall_to_all_v(ConstBuffer in, Counts send_counts, Buffer out,
                                   Counts recv_counts);

  /// Refuse, where a program is compiled, two buffers with different types of elements, or one on a
  /// device and one in host memory; the sum of bool; and structs that are combined. If a type is
  /// known only at run time, the call throws an error of kind usage.
  void scan(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void exscan(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void reduce(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void ireduce(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void all_reduce(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void iall_reduce(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void reduce_scatter(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void ireduce_scatter(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void reduce_scatter_v(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void ireduce_scatter_v(auto&&... all)
    requires internal::NotCombinable<decltype(all)...>
  = delete;
  void gather(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out, auto&&...) = delete;
  void igather(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out, auto&&...) = delete;
  void gather_v(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out,
                auto&&...) = delete;
  void igather_v(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out,
                 auto&&...) = delete;
  void all_gather(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out,
                  auto&&...) = delete;
  void iall_gather(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out,
                   auto&&...) = delete;
  void all_gather_v(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out,
                    auto&&...) = delete;
  void iall_gather_v(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out,
                     auto&&...) = delete;
  void scatter(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out, auto&&...) = delete;
  void iscatter(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out,
                auto&&...) = delete;
  void all_to_all(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out,
                  auto&&...) = delete;
  void iall_to_all(const auto& in, internal::UnlikeBuffer<decltype(in)> auto&& out,
                   auto&&...) = delete;
  void scatter_v(const auto& in, const auto& counts,
                 internal::UnlikeBuffer<decltype(in)> auto&& out, auto&&...) = delete;
  void iscatter_v(const auto& in, const auto& counts,
                  internal::UnlikeBuffer<decltype(in)> auto&& out, auto&&...) = delete;
  void all_to_all_v(const auto& in, const auto& counts,
                    internal::UnlikeBuffer<decltype(in)> auto&& out, auto&&...) = delete;
  void iall_to_all_v(const auto& in, const auto& counts,
                     internal::UnlikeBuffer<decltype(in)> auto&& out, auto&&...) = delete;

  /// Move one message between two ranks: one calls send, the other recv, with the same type and
  /// count. Messages from one rank with the same tag are received in the order in which they are
  /// sent. Messages with other tags and collective calls may come in any order between them and be
  /// under way at the same time. recv returns when the data has arrived, send when `data` may be
  /// written again. Messages up to 192 KiB are buffered: send may return before recv is called, and
  /// then a later death of the receiver goes unnoticed, unless this rank makes another call that
  /// waits for it. The timeout begins with the call and, for longer data, again with each piece.
  /// Errors: usage (the other rank is this one), mismatch (names both calls, when both are made; or
  /// the other rank has left the group), timed_out (names the tags that arrived instead),
  /// peer_lost.
  void send(ConstBuffer data, int to, int tag = 0);
  void recv(Buffer data, int from, int tag = 0);
  /// Move one value: `group.send(3.5, 1)` on one rank, `group.recv<double>(0)` on the other.
  template <Value T>
  void send(T value, int to, int tag = 0) {
    send(ConstBuffer(std::span(&value, 1)), to, tag);
  }
  template <Value T>
    requires std::default_initializable<T>
  [[nodiscard]] T recv(int from, int tag = 0) {
    T value{};
    recv(Buffer(std::span(&value, 1)), from, tag);
    return value;
  }
  [[nodiscard]] Work isend(ConstBuffer data, int to, int tag = 0);
  [[nodiscard]] Work irecv(Buffer data, int from, int tag = 0);

  /// Waits until a message with this tag has come from any rank, for which this rank has begun no
  /// recv, and returns its sender: `group.recv(data, group.probe(tag), tag)` receives from the rank
  /// that sends first. A time-out breaks nothing: the group stays usable. Backend: cpu. Errors:
  /// usage (another backend), timed_out, left (all others have left), peer_lost (a rank that it is
  /// connected to died); those of other calls.
  int probe(int tag = 0);

  /// Move several messages, to and from any ranks, as if each was begun alone in the order of
  /// `ops`. The call is done when all messages are.
  void batch_send_recv(internal::List<P2POp> ops);
  [[nodiscard]] Work batch_isend_irecv(internal::List<P2POp> ops);

  /// Move byte strings, whose lengths may differ between ranks. broadcast_object sets `object` to
  /// that of `root`. gather_object returns every rank's object, by rank, on `root`, and nothing on
  /// the other ranks. all_gather_object returns it on every rank.
  void broadcast_object(std::string& object, int root = 0);
  std::vector<std::string> gather_object(std::string_view object, int root);
  std::vector<std::string> all_gather_object(std::string_view object);

  /// The same for objects of a type with a Serializer. Errors: also what it throws: to_bytes before
  /// this rank's part begins, from_bytes when it is done.
  template <Serializable T>
  void broadcast_object(T& object, int root = 0) {
    const bool is_root = rank() == root;
    std::string bytes = is_root ? Serializer<T>::to_bytes(object) : std::string();
    broadcast_object(bytes, root);
    if (!is_root) object = Serializer<T>::from_bytes(bytes);
  }
  template <Serializable T>
  std::vector<T> gather_object(const T& object, int root) {
    const std::string bytes = Serializer<T>::to_bytes(object);
    return objects_of<T>(gather_object(std::string_view(bytes), root));
  }
  template <Serializable T>
  std::vector<T> all_gather_object(const T& object) {
    const std::string bytes = Serializer<T>::to_bytes(object);
    return objects_of<T>(all_gather_object(std::string_view(bytes)));
  }

  /// Makes a group of some ranks of this one; all ranks of this group call it with the same list.
  /// ranks[r] becomes rank r. Returns nothing on ranks that are not in the list. Error messages of
  /// subgroups name ranks by their rank in the first group. Errors: usage (the list is empty, or
  /// names a rank twice or one that does not exist).
  std::optional<ProcessGroup> new_group(internal::List<int> ranks);

  /// Splits this group; all of its ranks call it. Ranks with the same `color` become a group, in
  /// the order of their `key`, then of their rank here. Returns nothing if `color` is below 0.
  std::optional<ProcessGroup> split(int color, int key = 0);

  /// The same where every rank has a color. Errors: usage (`color` is below 0).
  ProcessGroup split_by_color(int color, int key = 0);

  /// Splits this group by machine; all of its ranks call it. The ranks on this rank's machine
  /// become a group, in the order of their ranks here. Machines have different host names or boot
  /// ids, as for NCCL; so a container with a host name of its own counts as a machine.
  ProcessGroup split_by_node();

  /// Allocates memory in which the group's calls are fastest, zeroed and aligned for any element.
  /// All ranks call it, with the same number of bytes. A call is fastest if it uses the same offset
  /// on every rank. Free the memory when the calls that use it are done. Errors: as other calls.
  /// - cpu: host memory that the ranks which share memory map from each other. all_reduce,
  ///   broadcast, reduce, all_gather, reduce_scatter and all_to_all of 64 KiB and more (reduce of
  ///   more than two ranks: 256 KiB) use data where it lies. A process that this one forks shares
  ///   the memory, too. After a failure of the group, use other memory: other ranks may still write
  ///   to what the failed call wrote to.
  /// - mpi: host memory like any other.
  /// - nccl: memory of this rank's GPU. NCCL allocates it (ncclMemAlloc) and registers it for this
  ///   group, from NCCL 2.27 on as a symmetric window, else by ncclCommRegister. The call connects
  ///   the ranks as a first call with buffers on a device does. Free it before the group ends.
  ///   Errors: also usage (in a group call).
  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes);

  /// Aborts the group on this rank: calls under way end soon, and these and all later ones throw
  /// that this rank aborted it. Calls of other ranks fail when they find that this one is gone;
  /// over nccl that may be at their timeout. If calls cannot be ended, the process exits with code
  /// 124. Errors: none. Thread: any, also while another one is in a call.
  void abort();

  /// Makes a group of this one's ranks without `excluded` (by their ranks here), in their order.
  /// The excluded ranks take no part, so it also works after a failure, when they are dead. All
  /// other ranks call it with the same list, and no thread of theirs is in another call of this
  /// group. They meet through the store, which has to be alive. Aborts this group. If shrink()
  /// fails, all ranks may call it again. With nccl, Options::device and NCCL 2.27, ncclCommShrink
  /// makes the rest of a group that has not failed, when its calls are done; else the rest connects
  /// again. Under ddprun this is for ranks that leave: ddprun stops all workers when one fails.
  /// Errors: usage (a rank that does not exist, twice the same, this one; ranks of
  /// init_local_devices), timed_out (names the ranks that did not call it), peer_lost, unreachable.
  [[nodiscard]] ProcessGroup shrink(internal::List<int> excluded);

  /// The same without the ranks that the group's failure names as lost (Error::lost_ranks()). All
  /// ranks have agreed on that failure, so they exclude the same ones. Errors: also usage (the
  /// group has not failed, or its failure names no rank).
  [[nodiscard]] ProcessGroup shrink();

 private:
  friend ProcessGroup init_process_group(const Options& options);
  friend struct internal::GroupAccess;
  friend std::vector<ProcessGroup> init_local_devices(const std::vector<int>& devices,
                                                      std::chrono::milliseconds timeout);
  explicit ProcessGroup(std::unique_ptr<internal::GroupMember> member);
  std::optional<ProcessGroup> make_subgroup(const std::vector<int>& members, int color);

  /// Returns what `call` writes to its second buffer. (A std::vector<bool> is no buffer.)
  template <class T, class Call>
  static std::vector<T> collect(const T& value, int count, Call call) {
    if constexpr (std::same_as<T, bool>) {
      const auto bytes = collect(static_cast<unsigned char>(value), count, call);
      return {bytes.begin(), bytes.end()};
    } else {
      std::vector<T> all(static_cast<std::size_t>(count), value);
      call(std::span(&value, 1), all);
      return all;
    }
  }

  template <class T>
  static std::vector<T> objects_of(const std::vector<std::string>& all) {
    std::vector<T> objects;
    for (const std::string& bytes : all) objects.push_back(Serializer<T>::from_bytes(bytes));
    return objects;
  }

  std::unique_ptr<internal::GroupMember> member_;
};

/// Joins the group that `options` describe, and waits for every rank. A process may join several
/// groups, in the same order on every rank; the groups are separate.
///
/// env:// reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which ddprun and torchrun set. If
/// TORCHELASTIC_USE_AGENT_STORE is "True" the launcher serves the store at that address, else rank
/// 0 does. Other launchers set OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and _SIZE, or SLURM_PROCID
/// and SLURM_STEP_NUM_TASKS, and no address. Without MASTER_ADDR, rank 0 serves the store on this
/// host if all ranks run here, and on the first node under srun; without MASTER_PORT, at a port
/// that is a hash of the job's id. For several nodes under mpirun, set MASTER_ADDR.
///
/// Errors: usage (an option or a variable is missing or wrong), unreachable, timed_out (names the
/// ranks that did not join), peer_lost (a rank died after it had joined).
DDP_EXPORT ProcessGroup init_process_group(const Options& options = {});

}  // namespace ddp

// SPDX-License-Identifier: Apache-2.0
// Groups and their calls in the C interface.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "collectives/c/handles.h"
#include "ddp/device_mesh.h"

using namespace ddp::c;
using std::chrono::milliseconds;

namespace {

using Group = ddp::ProcessGroup;

/// Returns the options with zeros for fields that a caller of an older version does not know.
ddp_options whole_options(const ddp_options* given) {
  ddp_options options{};
  if (given == nullptr) return options;
  if (given->size < sizeof(given->size) || given->size > sizeof(options)) {
    refuse("ddp_options.size is " + std::to_string(given->size) + ", and not up to " +
           std::to_string(sizeof(options)));
  }
  std::memcpy(&options, given, given->size);
  return options;
}

ddp::Options options_of(const ddp_options* given) {
  const ddp_options options = whole_options(given);
  ddp::Options result;
  if (options.backend != nullptr) result.backend = options.backend;
  if (options.init_method != nullptr) result.init_method = options.init_method;
  if (options.store != nullptr) result.store = options.store->store;
  if (options.world_size != 0) {
    result.rank = options.rank;
    result.world_size = options.world_size;
  }
  if (options.timeout_ms != 0) result.timeout = milliseconds(options.timeout_ms);
  if (options.device != nullptr) result.device = *options.device;
  if (options.names != nullptr) {
    result.names.assign(options.names, options.names + std::max(options.world_size, 0));
  }
  return result;
}

ddp::ReduceOp op_of(ddp_op op) {
  const auto number = static_cast<int>(op);
  if (number < 0 || number > DDP_BXOR) refuse("there is no operation " + std::to_string(number));
  return static_cast<ddp::ReduceOp>(number);
}

/// Makes a group of ranks of `from` by `make`; NULL where `make` returns none.
template <class Make>
ddp_error* make_group(ddp_group* from, ddp_group** made, Make make) {
  return guarded(rank_of(from), [&] {
    need(made, "the result");
    std::optional<Group> group = make(need(from, "the group").group);
    *made = group ? new_handle<ddp_group>(std::move(*group), from->first_rank) : nullptr;
  });
}

/// Makes a call by `blocking`, or begins it by `begin` if `work` is given.
template <class Blocking, class Begin>
ddp_error* call(ddp_group* group, ddp_work** work, Blocking blocking, Begin begin) {
  return guarded(rank_of(group), [&] {
    Group& own = need(group, "the group").group;
    if (work == nullptr) return blocking(own);
    *work = new_handle<ddp_work>(begin(own), group->first_rank);
  });
}

/// Calls `name`, or `iname` if `work` is given. A macro, as the two are names of overloads.
#define CALL(name, ...)                                    \
  call(                                                    \
      group, work, [&](Group& g) { g.name(__VA_ARGS__); }, \
      [&](Group& g) { return g.i##name(__VA_ARGS__); })

/// One count for each rank; none of NULL.
Group::Counts counts_of(const Group& group, const std::size_t* counts) {
  if (counts == nullptr) return {};
  return {counts, static_cast<std::size_t>(group.size())};
}

std::vector<ddp::P2POp> messages_of(const ddp_message* messages, std::size_t count) {
  std::vector<ddp::P2POp> ops;
  for (const ddp_message& each : std::span(messages, count)) {
    ops.push_back({.sends = each.sends != 0,
                   .buffer = buffer_of(&each.buffer),
                   .peer = each.peer,
                   .tag = each.tag});
  }
  return ops;
}

}  // namespace

ddp_error* ddp_init_process_group(const ddp_options* options, ddp_group** group) {
  return guarded(kNoRank, [&] {
    need(group, "the result");
    const ddp::Options own = options_of(options);
    Group made = ddp::init_process_group(own);
    const int rank = made.rank();
    const int name = own.names.empty() ? rank : own.names[static_cast<std::size_t>(rank)];
    *group = new_handle<ddp_group>(std::move(made), name);
  });
}

void ddp_group_free(ddp_group* group) {
  delete group;
}

void ddp_group_abandon(ddp_group* group) {
  try {
    const std::unique_ptr<ddp_group> owned(group);
    throw 0;       // the destructor runs during an exception
  } catch (int) {  // NOLINT(bugprone-empty-catch)
  }
}

int ddp_rank(const ddp_group* group) {
  return group->group.rank();
}

int ddp_size(const ddp_group* group) {
  return group->group.size();
}

const char* ddp_backend(const ddp_group* group) {
  return group->group.backend().c_str();
}

int64_t ddp_timeout(const ddp_group* group) {
  return group->group.timeout().count();
}

ddp_error* ddp_set_timeout(ddp_group* group, int64_t timeout_ms) {
  return guarded(rank_of(group),
                 [&] { need(group, "the group").group.set_timeout(milliseconds(timeout_ms)); });
}

ddp_error* ddp_new_group(ddp_group* group, const int* ranks, size_t count, ddp_group** made) {
  return make_group(group, made, [&](Group& g) { return g.new_group({ranks, count}); });
}

ddp_error* ddp_split(ddp_group* group, int color, int key, ddp_group** made) {
  return make_group(group, made, [&](Group& g) { return g.split(color, key); });
}

ddp_error* ddp_split_by_node(ddp_group* group, ddp_group** made) {
  return make_group(group, made, [](Group& g) { return g.split_by_node(); });
}

ddp_error* ddp_shrink(ddp_group* group, const int* excluded, size_t count, ddp_group** made) {
  return make_group(group, made, [&](Group& g) {
    return excluded == nullptr ? g.shrink() : g.shrink({excluded, count});
  });
}

ddp_error* ddp_mesh(ddp_group* group, const char* const* names, const int* sizes, size_t count,
                    ddp_group** groups) {
  return guarded(rank_of(group), [&] {
    Group& own = need(group, "the group").group;
    std::vector<ddp::MeshDimension> dimensions;
    for (std::size_t i = 0; i < count; ++i) {
      dimensions.push_back({.name = &need(names[i], "a name"), .size = sizes[i]});
    }
    std::vector<int> all(static_cast<std::size_t>(own.size()));
    std::iota(all.begin(), all.end(), 0);
    // A mesh owns its whole group: here it is one of its own.
    ddp::DeviceMesh mesh = ddp::mesh(std::move(*own.new_group(all)), dimensions);
    std::vector<std::unique_ptr<ddp_group>> made;
    for (const ddp::MeshDimension& each : dimensions) {
      made.emplace_back(new_handle<ddp_group>(std::move(mesh.group(each.name)), group->first_rank));
    }
    for (std::size_t i = 0; i < count; ++i) groups[i] = made[i].release();
  });
}

ddp_error* ddp_abort(ddp_group* group) {
  return guarded(rank_of(group), [&] { need(group, "the group").group.abort(); });
}

ddp_error* ddp_allocate(ddp_group* group, size_t size, ddp_memory** memory, void** data) {
  return guarded(rank_of(group), [&] {
    auto made = std::make_unique<ddp_memory>(need(group, "the group").group.allocate(size));
    need(data, "data") = made->memory.get();
    need(memory, "memory") = made.release();
  });
}

void ddp_memory_free(ddp_memory* memory) {
  delete memory;
}

ddp_error* ddp_barrier(ddp_group* group, ddp_work** work) {
  return CALL(barrier);
}
ddp_error* ddp_broadcast(ddp_group* group, ddp_buffer* data, int root, ddp_work** work) {
  return CALL(broadcast, buffer_of(data), root);
}
ddp_error* ddp_reduce(ddp_group* group, const ddp_buffer* in, ddp_buffer* out, int root, ddp_op op,
                      ddp_work** work) {
  return CALL(reduce, buffer_of(in), buffer_of(out), root, op_of(op));
}
ddp_error* ddp_all_reduce(ddp_group* group, const ddp_buffer* in, ddp_buffer* out, ddp_op op,
                          ddp_work** work) {
  return CALL(all_reduce, buffer_of(in), buffer_of(out), op_of(op));
}
ddp_error* ddp_gather(ddp_group* group, const ddp_buffer* in, ddp_buffer* out, int root,
                      ddp_work** work) {
  return CALL(gather, buffer_of(in), buffer_of(out), root);
}
ddp_error* ddp_gather_v(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                        const size_t* counts, int root, ddp_work** work) {
  return CALL(gather_v, buffer_of(in), buffer_of(out), counts_of(g, counts), root);
}
ddp_error* ddp_all_gather(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                          ddp_work** work) {
  return CALL(all_gather, buffer_of(in), buffer_of(out));
}
ddp_error* ddp_all_gather_v(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                            const size_t* counts, ddp_work** work) {
  return CALL(all_gather_v, buffer_of(in), buffer_of(out), counts_of(g, counts));
}
ddp_error* ddp_scatter(ddp_group* group, const ddp_buffer* in, ddp_buffer* out, int root,
                       ddp_work** work) {
  return CALL(scatter, buffer_of(in), buffer_of(out), root);
}
ddp_error* ddp_scatter_v(ddp_group* group, const ddp_buffer* in, const size_t* counts,
                         ddp_buffer* out, int root, ddp_work** work) {
  return CALL(scatter_v, buffer_of(in), counts_of(g, counts), buffer_of(out), root);
}
ddp_error* ddp_reduce_scatter(ddp_group* group, const ddp_buffer* in, ddp_buffer* out, ddp_op op,
                              ddp_work** work) {
  return CALL(reduce_scatter, buffer_of(in), buffer_of(out), op_of(op));
}
ddp_error* ddp_reduce_scatter_v(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                                const size_t* counts, ddp_op op, ddp_work** work) {
  return CALL(reduce_scatter_v, buffer_of(in), buffer_of(out), counts_of(g, counts), op_of(op));
}
ddp_error* ddp_all_to_all(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                          ddp_work** work) {
  return CALL(all_to_all, buffer_of(in), buffer_of(out));
}
ddp_error* ddp_all_to_all_v(ddp_group* group, const ddp_buffer* in, const size_t* send_counts,
                            ddp_buffer* out, const size_t* recv_counts, ddp_work** work) {
  return CALL(all_to_all_v, buffer_of(in), counts_of(g, send_counts), buffer_of(out),
              counts_of(g, recv_counts));
}
ddp_error* ddp_send(ddp_group* group, const ddp_buffer* data, int to, int tag, ddp_work** work) {
  return CALL(send, buffer_of(data), to, tag);
}
ddp_error* ddp_recv(ddp_group* group, ddp_buffer* data, int from, int tag, ddp_work** work) {
  return CALL(recv, buffer_of(data), from, tag);
}

#undef CALL

ddp_error* ddp_probe(ddp_group* group, int tag, int* from) {
  return guarded(rank_of(group),
                 [&] { need(from, "from") = need(group, "the group").group.probe(tag); });
}

ddp_error* ddp_batch_send_recv(ddp_group* group, const ddp_message* messages, size_t count,
                               ddp_work** work) {
  return call(
      group, work, [&](Group& g) { g.batch_send_recv(messages_of(messages, count)); },
      [&](Group& g) { return g.batch_isend_irecv(messages_of(messages, count)); });
}

ddp_error* ddp_broadcast_object(ddp_group* group, const ddp_bytes* object, int root,
                                ddp_list** result) {
  return guarded(rank_of(group), [&] {
    Group& own = need(group, "the group").group;
    std::string bytes;
    if (own.rank() == root) bytes = view_of(object, "object");
    own.broadcast_object(bytes, root);
    need(result, "the result") = make_list(bytes);
  });
}

ddp_error* ddp_gather_object(ddp_group* group, const ddp_bytes* object, int root, ddp_list** all) {
  return guarded(rank_of(group), [&] {
    Group& own = need(group, "the group").group;
    need(all, "the result") = make_list(own.gather_object(view_of(object, "object"), root));
  });
}

ddp_error* ddp_all_gather_object(ddp_group* group, const ddp_bytes* object, ddp_list** all) {
  return guarded(rank_of(group), [&] {
    Group& own = need(group, "the group").group;
    need(all, "the result") = make_list(own.all_gather_object(view_of(object, "object")));
  });
}

void ddp_work_free(ddp_work* work) {
  delete work;
}

int ddp_work_is_completed(const ddp_work* work) {
  return work->work.is_completed() ? 1 : 0;
}

ddp_error* ddp_work_error(const ddp_work* work) {
  return guarded(rank_of(work), [&] {
    if (const auto error = need(work, "work").work.error()) throw ddp::Error(*error);
  });
}

ddp_error* ddp_work_wait(const ddp_work* work, int64_t timeout_ms) {
  return guarded(rank_of(work), [&] {
    need(work, "work");
    if (timeout_ms < 0) return work->work.wait();
    work->work.wait(milliseconds(timeout_ms));
  });
}

int64_t ddp_work_duration(const ddp_work* work) {
  const auto duration = work->work.duration();
  return duration ? duration->count() : -1;
}

ddp_error* ddp_work_then(const ddp_work* work, ddp_function next, void* context, ddp_work** done) {
  return guarded(rank_of(work), [&] {
    need(next, "next");
    need(done, "the result");
    ddp::Work both = need(work, "work").work.then([=] { throw_error(next(context)); });
    *done = new_handle<ddp_work>(std::move(both), work->first_rank);
  });
}

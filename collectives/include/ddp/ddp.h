// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The C interface of libddp, for C11 and for the foreign functions of other languages. It has the
/// calls of the C++ headers, under their names: process_group.h, store.h and the others describe
/// what a call does. This header says what is different.
///
///     ddp_group* group = NULL;
///     ddp_error* error = ddp_init_process_group(NULL, &group);
///     float sum = 1;
///     ddp_buffer data = {.data = &sum, .count = 1, .type = DDP_FLOAT32};
///     if (error == NULL) error = ddp_all_reduce(group, &data, &data, DDP_SUM, NULL);
///     if (error != NULL) fprintf(stderr, "%s\n", error->text);
///     ddp_error_free(error);
///     ddp_group_free(group);
///
/// Errors: a function that can fail returns NULL, or an error that the caller frees. If it returns
/// an error, its results are unchanged. No C++ exception leaves the library.
///
/// Ownership: a pointer to a pointer is a result. The caller frees it with the function that its
/// type names. Arguments are the caller's, and are used during the call alone, except the memory of
/// buffers: it must exist until the call is done. Each `_free` takes NULL; no other function takes
/// a handle that is NULL.
///
/// Units: times are milliseconds (`_ms`), counts are elements, sizes are bytes.
///
/// Threads: any, and any number at once, except one call at a time for a group and a checkpoint.
///
/// Version: the numbers of constants and the functions stay. Structs that may grow begin with
/// `size`. DDP_C_VERSION counts the changes that break this rule.

#include <stddef.h>
#include <stdint.h>

#include "ddp/export.h"

#ifdef __cplusplus
/// Gives enumerations a fixed type in C++, so that a value without a name is defined there, too.
#define DDP_C_ENUM : int
extern "C" {
#else
/// Nothing: C needs no more.
#define DDP_C_ENUM
#endif
// NOLINTBEGIN(readability-identifier-naming): names of C

/// The version of this interface.
#define DDP_C_VERSION 1

/// Returns the version of the interface of the loaded library. A program that loads the library by
/// itself compares it with DDP_C_VERSION.
DDP_EXPORT int ddp_c_version(void);

/// Kinds of failures: ErrorKind of error.h.
typedef enum ddp_error_kind DDP_C_ENUM {
  DDP_USAGE = 1,    ///< wrong argument or environment: nothing was sent, the group stays usable
  DDP_UNREACHABLE,  ///< the store cannot be reached, or was lost
  DDP_TIMED_OUT,    ///< a deadline passed
  DDP_PEER_LOST,    ///< a rank died
  DDP_MISMATCH,     ///< ranks made different calls
  DDP_SYSTEM,       ///< another failure of the operating system or of the backend
  DDP_LEFT          ///< a rank has left the group, and this one waits for it
} ddp_error_kind;

/// Why a call failed.
typedef struct ddp_error {
  ddp_error_kind kind;    ///< for programs
  int rank;               ///< this process's rank, as `text` names it; -1 if the call is no group's
  const int* lost_ranks;  ///< Error::lost_ranks(): by their numbers in the first group
  size_t lost_count;      ///< how many; 0 if none is known
  const char* text;       ///< one sentence for users
} ddp_error;

/// Frees an error.
DDP_EXPORT void ddp_error_free(ddp_error* error);

/// Makes an error of the program's own, for what a ddp_function returns.
DDP_EXPORT ddp_error* ddp_error_make(ddp_error_kind kind, const char* text);

/// A function of the program: returns NULL, or an error that the library frees.
typedef ddp_error* (*ddp_function)(void* context);

/// A group of ranks. ddp_group_free() leaves it.
typedef struct ddp_group ddp_group;
/// An asynchronous call. It continues when ddp_work_free() frees the handle.
typedef struct ddp_work ddp_work;
/// A store. ddp_store_free() closes it, when no group uses it any more.
typedef struct ddp_store ddp_store;
/// Memory of ddp_allocate().
typedef struct ddp_memory ddp_memory;
/// A checkpoint's file. ddp_checkpoint_free() frees the handle.
typedef struct ddp_checkpoint ddp_checkpoint;

/// Types of elements: DataType of types.h.
typedef enum ddp_type DDP_C_ENUM {
  DDP_FLOAT16,
  DDP_BFLOAT16,
  DDP_FLOAT32,
  DDP_FLOAT64,
  DDP_INT8,
  DDP_UINT8,
  DDP_INT32,
  DDP_INT64,
  DDP_INT16,
  DDP_UINT16,
  DDP_UINT32,
  DDP_UINT64,
  DDP_BOOL,  ///< of one byte
  DDP_FLOAT8_E4M3,
  DDP_FLOAT8_E5M2,
  DDP_COMPLEX64,   ///< two float32
  DDP_COMPLEX128,  ///< two float64
  DDP_OPAQUE       ///< structs of ddp_buffer.width bytes, which are moved and not combined
} ddp_type;

/// How elements are combined: ReduceOp of types.h.
typedef enum ddp_op DDP_C_ENUM {
  DDP_SUM,
  DDP_AVG,
  DDP_PRODUCT,
  DDP_MIN,
  DDP_MAX,
  DDP_BAND,
  DDP_BOR,
  DDP_BXOR
} ddp_op;

/// Elements of one type, side by side. A call only reads the elements of a const ddp_buffer. Pass
/// NULL where a rank's buffer is ignored. A call works in place if `in` and `out` are the same.
typedef struct ddp_buffer {
  void* data;     ///< the caller's
  size_t count;   ///< elements
  ddp_type type;  ///< of each element
  int on_device;  ///< 1: in the memory of the current GPU; 0: in host memory
  void* stream;   ///< CUDA's stream (cudaStream_t) that the elements belong to; ignored if 0 is
                  ///< on_device
  size_t width;   ///< bytes of each element, if `type` is DDP_OPAQUE
} ddp_buffer;

/// Makes a buffer of a tensor of another library, a DLTensor of dlpack.h, whose owner must keep the
/// elements until the call is done. Errors: usage (as of ddp::view() in dlpack.h).
DDP_EXPORT ddp_error* ddp_view(const void* tensor, void* stream, ddp_buffer* buffer);

/// A byte string.
typedef struct ddp_bytes {
  const void* data;  ///< may be NULL if there are none
  size_t size;       ///< bytes
} ddp_bytes;

/// Byte strings. As a result it is one block of memory, with all strings.
typedef struct ddp_list {
  const ddp_bytes* items;  ///< `count` strings
  size_t count;            ///< how many
} ddp_list;

/// Frees a list that is a result.
DDP_EXPORT void ddp_list_free(ddp_list* list);

// Groups.

/// Options of ddp_init_process_group(): Options of options.h. Zeros stand for the defaults.
typedef struct ddp_options {
  size_t size;              ///< sizeof(ddp_options)
  const char* backend;      ///< cpu, mpi or nccl
  const char* init_method;  ///< env://, tcp://HOST:PORT or file:///PATH
  ddp_store* store;         ///< instead of init_method's; shared with the caller
  int rank;                 ///< this process's, if `world_size` is not 0
  int world_size;           ///< the number of ranks
  int64_t timeout_ms;       ///< of joining, and of each call
  const int* device;        ///< the GPU of this process's buffers
  const int* names;         ///< `world_size` numbers by which messages name the ranks; with `store`
} ddp_options;

/// Joins a group. `options` may be NULL.
DDP_EXPORT ddp_error* ddp_init_process_group(const ddp_options* options, ddp_group** group);

/// Leaves the group, as ~ProcessGroup() does, and frees the handle.
DDP_EXPORT void ddp_group_free(ddp_group* group);

/// Leaves the group as ~ProcessGroup() does during an exception: calls under way are given up, and
/// calls of ranks that wait for this one fail. For a rank that ends because of a failure.
DDP_EXPORT void ddp_group_abandon(ddp_group* group);

/// Returns this process's rank in the group.
DDP_EXPORT int ddp_rank(const ddp_group* group);
/// Returns the number of ranks.
DDP_EXPORT int ddp_size(const ddp_group* group);
/// Returns the backend's name, which lives as long as the group.
DDP_EXPORT const char* ddp_backend(const ddp_group* group);
/// Returns the longest time of each call.
DDP_EXPORT int64_t ddp_timeout(const ddp_group* group);
/// Sets the longest time of each later call.
DDP_EXPORT ddp_error* ddp_set_timeout(ddp_group* group, int64_t timeout_ms);

/// Makes a group of some ranks; NULL on the other ranks.
DDP_EXPORT ddp_error* ddp_new_group(ddp_group* group, const int* ranks, size_t count,
                                    ddp_group** made);
/// Makes a group of the ranks with the same `color`; NULL if it is below 0.
DDP_EXPORT ddp_error* ddp_split(ddp_group* group, int color, int key, ddp_group** made);
/// Makes a group of the ranks on this machine.
DDP_EXPORT ddp_error* ddp_split_by_node(ddp_group* group, ddp_group** made);
/// Makes a group of the ranks that are not `excluded`, and aborts this one. With NULL, excludes the
/// ranks that the group's failure names as lost.
DDP_EXPORT ddp_error* ddp_shrink(ddp_group* group, const int* excluded, size_t count,
                                 ddp_group** made);
/// Arranges the ranks as ddp::mesh() does, and stores the group of this rank along each of `count`
/// dimensions in `groups`. `group` itself stays as it is.
DDP_EXPORT ddp_error* ddp_mesh(ddp_group* group, const char* const* names, const int* sizes,
                               size_t count, ddp_group** groups);
/// Aborts the group on this rank. Thread: any, also while another one is in a call.
DDP_EXPORT ddp_error* ddp_abort(ddp_group* group);

/// Allocates memory in which the group's calls are fastest, at `data`.
DDP_EXPORT ddp_error* ddp_allocate(ddp_group* group, size_t size, ddp_memory** memory, void** data);
/// Frees such memory, when the calls that use it are done.
DDP_EXPORT void ddp_memory_free(ddp_memory* memory);

// Calls of a group. If `work` is NULL, a call waits until this rank's part is done. Else it only
// begins, and stores its handle in `work`, as the C++ call with an i in front does.

/// Waits for every rank.
DDP_EXPORT ddp_error* ddp_barrier(ddp_group* group, ddp_work** work);
/// Overwrites `data` with what `root` has.
DDP_EXPORT ddp_error* ddp_broadcast(ddp_group* group, ddp_buffer* data, int root, ddp_work** work);
/// Combines all ranks' `in` in `out` of `root`.
DDP_EXPORT ddp_error* ddp_reduce(ddp_group* group, const ddp_buffer* in, ddp_buffer* out, int root,
                                 ddp_op op, ddp_work** work);
/// Combines all ranks' `in` in `out`.
DDP_EXPORT ddp_error* ddp_all_reduce(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                                     ddp_op op, ddp_work** work);
/// Collects all ranks' `in` in `out` of `root`.
DDP_EXPORT ddp_error* ddp_gather(ddp_group* group, const ddp_buffer* in, ddp_buffer* out, int root,
                                 ddp_work** work);
/// Collects blocks of `counts` elements, one count for each rank; NULL except on `root`.
DDP_EXPORT ddp_error* ddp_gather_v(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                                   const size_t* counts, int root, ddp_work** work);
/// Collects all ranks' `in` in `out`.
DDP_EXPORT ddp_error* ddp_all_gather(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                                     ddp_work** work);
/// Collects blocks of `counts` elements, one count for each rank.
DDP_EXPORT ddp_error* ddp_all_gather_v(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                                       const size_t* counts, ddp_work** work);
/// Copies this rank's block of `in` of `root` to `out`.
DDP_EXPORT ddp_error* ddp_scatter(ddp_group* group, const ddp_buffer* in, ddp_buffer* out, int root,
                                  ddp_work** work);
/// Copies blocks of `counts` elements, one count for each rank; NULL except on `root`.
DDP_EXPORT ddp_error* ddp_scatter_v(ddp_group* group, const ddp_buffer* in, const size_t* counts,
                                    ddp_buffer* out, int root, ddp_work** work);
/// Copies this rank's block of the combination of all ranks' `in` to `out`.
DDP_EXPORT ddp_error* ddp_reduce_scatter(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                                         ddp_op op, ddp_work** work);
/// Combines blocks of `counts` elements, one count for each rank.
DDP_EXPORT ddp_error* ddp_reduce_scatter_v(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                                           const size_t* counts, ddp_op op, ddp_work** work);
/// Sends block r of `in` to rank r, and stores its block for this rank as block r of `out`.
DDP_EXPORT ddp_error* ddp_all_to_all(ddp_group* group, const ddp_buffer* in, ddp_buffer* out,
                                     ddp_work** work);
/// Exchanges blocks of different sizes, one count for each rank.
DDP_EXPORT ddp_error* ddp_all_to_all_v(ddp_group* group, const ddp_buffer* in,
                                       const size_t* send_counts, ddp_buffer* out,
                                       const size_t* recv_counts, ddp_work** work);
/// Sends a message to rank `to`.
DDP_EXPORT ddp_error* ddp_send(ddp_group* group, const ddp_buffer* data, int to, int tag,
                               ddp_work** work);
/// Receives a message from rank `from`.
DDP_EXPORT ddp_error* ddp_recv(ddp_group* group, ddp_buffer* data, int from, int tag,
                               ddp_work** work);

/// Waits for a message with this tag that this rank does not receive yet, and stores its sender in
/// `from`.
DDP_EXPORT ddp_error* ddp_probe(ddp_group* group, int tag, int* from);

/// One message of a batch: P2POp of types.h.
typedef struct ddp_message {
  int sends;          ///< 1: sends; 0: receives
  ddp_buffer buffer;  ///< only read if it sends
  int peer;           ///< the rank that receives or sends it
  int tag;            ///< the same on both sides
} ddp_message;

/// Moves several messages at once.
DDP_EXPORT ddp_error* ddp_batch_send_recv(ddp_group* group, const ddp_message* messages,
                                          size_t count, ddp_work** work);

/// Returns the byte string of `root`, as a list of one. Other ranks' `object` is ignored.
DDP_EXPORT ddp_error* ddp_broadcast_object(ddp_group* group, const ddp_bytes* object, int root,
                                           ddp_list** result);
/// Returns all ranks' byte strings on `root`; none on the others.
DDP_EXPORT ddp_error* ddp_gather_object(ddp_group* group, const ddp_bytes* object, int root,
                                        ddp_list** all);
/// Returns all ranks' byte strings.
DDP_EXPORT ddp_error* ddp_all_gather_object(ddp_group* group, const ddp_bytes* object,
                                            ddp_list** all);

// Asynchronous calls: work.h.

/// Frees the handle.
DDP_EXPORT void ddp_work_free(ddp_work* work);
/// Returns 1 if this rank's part has ended, with or without an error; else 0. Never blocks.
DDP_EXPORT int ddp_work_is_completed(const ddp_work* work);
/// Returns the error of the call; NULL while it runs and if it succeeded. Never blocks.
DDP_EXPORT ddp_error* ddp_work_error(const ddp_work* work);
/// Waits for this rank's part as Work::wait() does; at most for `timeout_ms`, if that is not below
/// 0.
DDP_EXPORT ddp_error* ddp_work_wait(const ddp_work* work, int64_t timeout_ms);
/// Returns how many nanoseconds this rank's part took; -1 if that is not known.
DDP_EXPORT int64_t ddp_work_duration(const ddp_work* work);
/// Calls `next` when this rank's part is done, in a thread of its own. `done` ends with it.
DDP_EXPORT ddp_error* ddp_work_then(const ddp_work* work, ddp_function next, void* context,
                                    ddp_work** done);

// Stores: store.h. A key ends with a zero byte; in a list it may contain zero bytes. A timeout
// below 0 stands for the store's.

/// Connects to a store over TCP. With `is_master`, first serves it. With `world_size` above 0,
/// waits for so many stores. A `timeout_ms` of 0 stands for the default.
DDP_EXPORT ddp_error* ddp_tcp_store(const char* host, uint16_t port, int is_master, int world_size,
                                    int64_t timeout_ms, ddp_store** store);
/// Opens a store in a file. With `world_size` above 0, the last of so many processes removes the
/// file. A `timeout_ms` of 0 stands for the default.
DDP_EXPORT ddp_error* ddp_file_store(const char* path, int world_size, int64_t timeout_ms,
                                     ddp_store** store);
/// Makes a store in this process's memory.
DDP_EXPORT ddp_error* ddp_hash_store(ddp_store** store);
/// Makes a namespace in `underlying`, which it shares with the caller.
DDP_EXPORT ddp_error* ddp_prefix_store(const char* prefix, const ddp_store* underlying,
                                       ddp_store** store);
/// Frees the handle.
DDP_EXPORT void ddp_store_free(ddp_store* store);

/// Sets a value.
DDP_EXPORT ddp_error* ddp_store_set(ddp_store* store, const char* key, const ddp_bytes* value);
/// Waits for a key, and returns its value, as a list of one.
DDP_EXPORT ddp_error* ddp_store_get(ddp_store* store, const char* key, int64_t timeout_ms,
                                    ddp_list** value);
/// Adds to a counter, and returns the sum.
DDP_EXPORT ddp_error* ddp_store_add(ddp_store* store, const char* key, int64_t amount,
                                    int64_t* sum);
/// Waits until all keys exist.
DDP_EXPORT ddp_error* ddp_store_wait(ddp_store* store, const ddp_list* keys, int64_t timeout_ms);
/// Tests whether all keys exist: 1 or 0.
DDP_EXPORT ddp_error* ddp_store_check(ddp_store* store, const ddp_list* keys, int* exist);
/// Sets the value to `desired` if it is `expected`; returns the value afterwards, as a list of one.
DDP_EXPORT ddp_error* ddp_store_compare_set(ddp_store* store, const char* key,
                                            const ddp_bytes* expected, const ddp_bytes* desired,
                                            ddp_list** value);
/// Deletes a key, and returns whether it existed: 1 or 0.
DDP_EXPORT ddp_error* ddp_store_delete_key(ddp_store* store, const char* key, int* existed);
/// Returns the number of keys.
DDP_EXPORT ddp_error* ddp_store_num_keys(ddp_store* store, int64_t* count);
/// Appends to a value.
DDP_EXPORT ddp_error* ddp_store_append(ddp_store* store, const char* key, const ddp_bytes* suffix);
/// Waits until all keys exist, and returns their values.
DDP_EXPORT ddp_error* ddp_store_multi_get(ddp_store* store, const ddp_list* keys,
                                          int64_t timeout_ms, ddp_list** values);
/// Sets a value for each key. Both lists have the same length.
DDP_EXPORT ddp_error* ddp_store_multi_set(ddp_store* store, const ddp_list* keys,
                                          const ddp_list* values);
/// Returns the default timeout.
DDP_EXPORT int64_t ddp_store_timeout(const ddp_store* store);
/// Sets the default timeout.
DDP_EXPORT ddp_error* ddp_store_set_timeout(ddp_store* store, int64_t timeout_ms);
/// Returns the store's name in messages, as a list of one.
DDP_EXPORT ddp_error* ddp_store_name(const ddp_store* store, ddp_list** name);
/// Returns the port of a store over TCP; 0 for others.
DDP_EXPORT uint16_t ddp_store_port(const ddp_store* store);

// Training: sampler.h and checkpoint.h.

/// Computes this rank's samples of an epoch, as a DistributedSampler does: `count` of them, of
/// which the last `padding` are repeated ones. Stores them in `indices`, which has `count` uint64;
/// NULL: only counts.
DDP_EXPORT ddp_error* ddp_sample(size_t dataset_size, int replicas, int rank, int shuffle,
                                 uint64_t seed, int drop_last, uint64_t epoch, ddp_buffer* indices,
                                 size_t* count, size_t* padding);

/// Makes a handle for the checkpoint at `path`.
DDP_EXPORT ddp_error* ddp_checkpoint_make(const char* path, ddp_checkpoint** checkpoint);
/// Frees the handle.
DDP_EXPORT void ddp_checkpoint_free(ddp_checkpoint* checkpoint);
/// Saves `count` parts, as Checkpoint::save() and, if `work` is not NULL, isave() do.
DDP_EXPORT ddp_error* ddp_checkpoint_save(ddp_checkpoint* checkpoint, ddp_group* group,
                                          uint64_t version, const ddp_buffer* state, size_t count,
                                          ddp_work** work);
/// Loads `count` parts, and their version. Stores 0 in `found` if there is no file.
DDP_EXPORT ddp_error* ddp_checkpoint_load(ddp_checkpoint* checkpoint, ddp_group* group,
                                          ddp_buffer* state, size_t count, uint64_t* version,
                                          int* found);

// The process: spawn.h, record.h, heartbeat.h, trace.h and local_devices.h.

/// How processes of ddp_spawn() start: StartMethod of spawn.h.
typedef enum ddp_start_method DDP_C_ENUM {
  DDP_FORK,  ///< each is a fork of this process
  DDP_EXEC   ///< each runs this program again
} ddp_start_method;

/// Runs `function(context)` in `count` processes, which have their ranks' variables. `grace_ms` is
/// the time between SIGTERM and SIGKILL; below 0: 30 seconds.
DDP_EXPORT ddp_error* ddp_spawn(int count, ddp_function function, void* context, int64_t grace_ms,
                                ddp_start_method method);
/// Calls `main(context)`, and reports the error that it returns, or the signal of which the process
/// dies, to the launcher. Returns the exit code.
DDP_EXPORT int ddp_record(ddp_function main, void* context);
/// Reports to the launcher that this rank makes progress.
DDP_EXPORT void ddp_heartbeat(int64_t step);
/// Writes this process's last calls to a file.
DDP_EXPORT ddp_error* ddp_write_trace(const char* path);
/// Returns the number of this process's GPU.
DDP_EXPORT ddp_error* ddp_local_device(int* device);

// NOLINTEND(readability-identifier-naming)
#ifdef __cplusplus
}  // extern "C"
#endif

// SPDX-License-Identifier: Apache-2.0
// The C interface, from C: `c_interface WHAT` is one rank, and exits 1 at the first value that is
// not as expected.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddp/ddp.h"

enum { kMostRanks = 4 };

static ddp_group* group;
static int rank;
static int size;

static void require(int holds, const char* text, int line) {
  if (holds) return;
  fprintf(stderr, "rank %d, line %d: %s\n", rank, line, text);
  exit(1);
}
#define REQUIRE(condition) require(condition, #condition, __LINE__)

static void require_success(ddp_error* error, int line) {
  if (error != NULL) require(0, error->text, line);
}
#define MUST(call) require_success(call, __LINE__)

/// The call fails with this kind, and with `words` in its text.
static void require_error(ddp_error* error, ddp_error_kind kind, const char* words, int line) {
  require(error != NULL, "no error", line);
  if (error->kind != kind || strstr(error->text, words) == NULL) require(0, error->text, line);
  ddp_error_free(error);
}
#define FAILS(call, kind, words) require_error(call, kind, words, __LINE__)

static ddp_buffer floats(float* data, size_t count) {
  return (ddp_buffer){.data = data, .count = count, .type = DDP_FLOAT32};
}
#define FLOATS(array) floats(array, sizeof(array) / sizeof(*(array)))

static int is_text(const ddp_list* list, size_t at, const char* text) {
  return list->count > at && list->items[at].size == strlen(text) &&
         memcmp(list->items[at].data, text, strlen(text)) == 0;
}

static ddp_bytes bytes(const char* text) {
  return (ddp_bytes){.data = text, .size = strlen(text)};
}

/// Waits for a call that was begun, if one was.
static void finish(ddp_work* work) {
  if (work == NULL) return;
  MUST(ddp_work_wait(work, -1));
  REQUIRE(ddp_work_is_completed(work));
  MUST(ddp_work_error(work));
  ddp_work_free(work);
}

/// Each rank contributes its rank + 1, so that sums tell who took part.
static void reductions(int begins) {
  ddp_work* work = NULL;
  ddp_work** begun = begins ? &work : NULL;
  const float total = (float)(size * (size + 1)) / 2;

  float in[2] = {(float)rank + 1, 10};
  float out[2] = {0, 0};
  ddp_buffer from = FLOATS(in);
  ddp_buffer to = FLOATS(out);
  MUST(ddp_all_reduce(group, &from, &to, DDP_SUM, begun));
  finish(work);
  REQUIRE(out[0] == total && out[1] == 10 * (float)size);
  MUST(ddp_all_reduce(group, &from, &to, DDP_MAX, begun));
  finish(work);
  REQUIRE(out[0] == (float)size && in[0] == (float)rank + 1);
  MUST(ddp_reduce(group, &from, &to, size - 1, DDP_MIN, begun));
  finish(work);
  REQUIRE(rank != size - 1 || out[0] == 1);
  MUST(ddp_all_reduce(group, &from, &from, DDP_AVG, begun));
  finish(work);
  REQUIRE(in[0] == total / (float)size);

  float blocks[kMostRanks];
  for (int i = 0; i < size; ++i) blocks[i] = (float)i;
  ddp_buffer all = floats(blocks, (size_t)size);
  to = floats(out, 1);
  MUST(ddp_reduce_scatter(group, &all, &to, DDP_SUM, begun));
  finish(work);
  REQUIRE(out[0] == (float)(rank * size));
  size_t counts[kMostRanks] = {0};  // all for the last rank
  counts[size - 1] = (size_t)size;
  float whole[kMostRanks];
  to = floats(whole, counts[rank]);
  MUST(ddp_reduce_scatter_v(group, &all, &to, counts, DDP_SUM, begun));
  finish(work);
  for (size_t i = 0; i < counts[rank]; ++i) REQUIRE(whole[i] == (float)i * (float)size);
}

static void moves(int begins) {
  ddp_work* work = NULL;
  ddp_work** begun = begins ? &work : NULL;
  MUST(ddp_barrier(group, begun));
  finish(work);

  float own[1] = {(float)rank};
  float all[kMostRanks] = {-1, -1, -1, -1};
  ddp_buffer from = FLOATS(own);
  ddp_buffer to = floats(all, (size_t)size);
  MUST(ddp_all_gather(group, &from, &to, begun));
  finish(work);
  for (int i = 0; i < size; ++i) REQUIRE(all[i] == (float)i);
  MUST(ddp_all_to_all(group, &to, &to, begun));
  finish(work);
  for (int i = 0; i < size; ++i) REQUIRE(all[i] == (float)rank);
  memset(all, 0, sizeof(all));
  MUST(ddp_gather(group, &from, rank == 0 ? &to : NULL, 0, begun));
  finish(work);
  for (int i = 0; i < size && rank == 0; ++i) REQUIRE(all[i] == (float)i);
  own[0] = -1;
  MUST(ddp_scatter(group, rank == 0 ? &to : NULL, &from, 0, begun));
  finish(work);
  REQUIRE(own[0] == (float)rank);
  own[0] = (float)rank;
  MUST(ddp_broadcast(group, &from, size - 1, begun));
  finish(work);
  REQUIRE(own[0] == (float)size - 1);
}

/// Rank r has r + 1 elements of its own number.
static void moves_of_unequal_blocks(int begins) {
  ddp_work* work = NULL;
  ddp_work** begun = begins ? &work : NULL;
  float own[kMostRanks];
  float all[kMostRanks * (kMostRanks + 1) / 2];
  size_t counts[kMostRanks];
  size_t total = 0;
  for (int i = 0; i < size; ++i) {
    own[i] = (float)rank;
    counts[i] = (size_t)i + 1;
    total += counts[i];
  }
  ddp_buffer from = floats(own, counts[rank]);
  ddp_buffer to = floats(all, total);
  MUST(ddp_all_gather_v(group, &from, &to, counts, begun));
  finish(work);
  REQUIRE(all[0] == 0 && all[total - 1] == (float)size - 1);
  memset(all, 0, sizeof(all));
  MUST(ddp_gather_v(group, &from, &to, rank == 0 ? counts : NULL, 0, begun));
  finish(work);
  REQUIRE(rank != 0 || all[total - 1] == (float)size - 1);
  memset(own, -1, sizeof(own));
  MUST(ddp_scatter_v(group, &to, rank == 0 ? counts : NULL, &from, 0, begun));
  finish(work);
  REQUIRE(own[rank] == (float)rank);

  // Rank r sends r + 1 elements to each, and gets i + 1 from rank i.
  float each[kMostRanks * kMostRanks];
  size_t sent[kMostRanks];
  for (int i = 0; i < size; ++i) sent[i] = counts[rank];
  for (size_t i = 0; i < counts[rank] * (size_t)size; ++i) each[i] = (float)rank;
  from = floats(each, counts[rank] * (size_t)size);
  MUST(ddp_all_to_all_v(group, &from, sent, &to, counts, begun));
  finish(work);
  REQUIRE(all[0] == 0 && all[total - 1] == (float)size - 1);
}

static void messages(int begins) {
  ddp_work* work = NULL;
  ddp_work** begun = begins ? &work : NULL;
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;
  float out[1] = {(float)rank};
  float in[1] = {-1};
  const ddp_message ring[] = {{.sends = 1, .buffer = FLOATS(out), .peer = next, .tag = 3},
                              {.sends = 0, .buffer = FLOATS(in), .peer = previous, .tag = 3}};
  if (size == 1) return;
  MUST(ddp_batch_send_recv(group, ring, 2, begun));
  finish(work);
  REQUIRE(in[0] == (float)previous);
  ddp_buffer from = FLOATS(out);
  ddp_buffer to = FLOATS(in);
  int sender = -1;
  MUST(ddp_send(group, &from, next, 6, NULL));
  MUST(ddp_probe(group, 6, &sender));
  REQUIRE(sender == previous);
  MUST(ddp_recv(group, &to, sender, 6, NULL));
  in[0] = -1;
  MUST(ddp_send(group, &from, next, 7, begun));
  ddp_work* received = NULL;
  MUST(ddp_recv(group, &to, previous, 7, begins ? &received : NULL));
  finish(received);
  finish(work);
  REQUIRE(in[0] == (float)previous);
}

static void types(void) {
  uint8_t bits[1] = {(uint8_t)(1 << rank)};
  ddp_buffer data = {.data = bits, .count = 1, .type = DDP_UINT8};
  MUST(ddp_all_reduce(group, &data, &data, DDP_BOR, NULL));
  REQUIRE(bits[0] == (1 << size) - 1);
  struct {
    int rank;
    char name[4];
  } one = {rank, "abc"}, all[kMostRanks];
  ddp_buffer from = {.data = &one, .count = 1, .type = DDP_OPAQUE, .width = sizeof(one)};
  ddp_buffer to = {.data = all, .count = (size_t)size, .type = DDP_OPAQUE, .width = sizeof(one)};
  MUST(ddp_all_gather(group, &from, &to, NULL));
  REQUIRE(all[size - 1].rank == size - 1 && strcmp(all[size - 1].name, "abc") == 0);

  struct {  // DLTensor
    void* data;
    int32_t device[2], dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
  } tensor = {bits, {1, 0}, 1, 1, 8, 1, (int64_t[]){1}, NULL, 0};
  MUST(ddp_view(&tensor, NULL, &data));
  REQUIRE(data.data == bits && data.count == 1 && data.type == DDP_UINT8 && data.on_device == 0);
  tensor.bits = 9;
  FAILS(ddp_view(&tensor, NULL, &data), DDP_USAGE, "9 bits");

  ddp_memory* memory = NULL;
  void* place = NULL;
  MUST(ddp_allocate(group, 4096, &memory, &place));
  REQUIRE(((char*)place)[4095] == 0);
  ddp_memory_free(memory);
}

static void objects(void) {
  const char* const names[kMostRanks] = {"zero", "", "two", "three"};
  const ddp_bytes own = bytes(names[rank]);
  ddp_list* list = NULL;
  MUST(ddp_all_gather_object(group, &own, &list));
  for (int i = 0; i < size; ++i) REQUIRE(is_text(list, (size_t)i, names[i]));
  ddp_list_free(list);
  MUST(ddp_gather_object(group, &own, 0, &list));
  REQUIRE(list->count == (rank == 0 ? (size_t)size : 0));
  ddp_list_free(list);
  MUST(ddp_broadcast_object(group, rank == 0 ? &own : NULL, 0, &list));
  REQUIRE(list->count == 1 && is_text(list, 0, "zero"));
  ddp_list_free(list);
}

static void groups(void) {
  ddp_group* made = NULL;
  MUST(ddp_new_group(group, (int[]){0}, 1, &made));
  REQUIRE((made != NULL) == (rank == 0));
  ddp_group_free(made);
  MUST(ddp_split(group, rank % 2, -rank, &made));  // the highest rank first
  REQUIRE(ddp_size(made) == (size + 1 - rank % 2) / 2);
  REQUIRE(ddp_rank(made) == ddp_size(made) - 1 - rank / 2);
  ddp_group_free(made);
  MUST(ddp_split_by_node(group, &made));
  REQUIRE(ddp_size(made) == size && strcmp(ddp_backend(made), "cpu") == 0);
  MUST(ddp_set_timeout(made, 5000));
  REQUIRE(ddp_timeout(made) == 5000);
  FAILS(ddp_set_timeout(made, 0), DDP_USAGE, "more than 0");

  ddp_group* lines[2] = {NULL, NULL};
  const char* const names[2] = {"dp", "tp"};
  MUST(ddp_mesh(made, names, (int[]){1, size}, 2, lines));
  REQUIRE(ddp_size(lines[0]) == 1 && ddp_size(lines[1]) == size && ddp_rank(lines[1]) == rank);
  FAILS(ddp_mesh(made, names, (int[]){2, size}, 2, lines), DDP_USAGE, "the product of the sizes");
  MUST(ddp_barrier(made, NULL));
  for (int i = 0; i < 2; ++i) ddp_group_free(lines[i]);

  ddp_group* rest = NULL;
  if (size > 1 && rank < size - 1) {
    MUST(ddp_shrink(made, (int[]){size - 1}, 1, &rest));
    REQUIRE(ddp_size(rest) == size - 1);
    FAILS(ddp_barrier(made, NULL), DDP_SYSTEM, "");
  }
  ddp_group_free(rest);
  MUST(ddp_abort(made));
  ddp_group_free(made);
}

static ddp_error* count_call(void* context) {
  ++*(int*)context;
  return NULL;
}
static ddp_error* fail_with(void* context) {
  return ddp_error_make(DDP_MISMATCH, context);
}

static void works(void) {
  int calls = 0;
  ddp_work* work = NULL;
  ddp_work* done = NULL;
  MUST(ddp_barrier(group, &work));
  MUST(ddp_work_then(work, count_call, &calls, &done));
  MUST(ddp_work_wait(done, 60000));
  REQUIRE(calls == 1);
  REQUIRE(size == 1 || ddp_work_duration(work) >= 0);
  ddp_work_free(done);
  MUST(ddp_work_then(work, fail_with, "no luck", &done));
  FAILS(ddp_work_wait(done, -1), DDP_MISMATCH, "no luck");
  FAILS(ddp_work_error(done), DDP_MISMATCH, "no luck");
  ddp_work_free(done);
  ddp_work_free(work);
  if (size == 1) return;
  float in[1];
  ddp_buffer to = FLOATS(in);
  if (rank == 0) {
    MUST(ddp_recv(group, &to, 1, 0, &work));
    FAILS(ddp_work_wait(work, 1), DDP_TIMED_OUT, "not done after 1 ms");
    REQUIRE(!ddp_work_is_completed(work));
  }
  MUST(ddp_barrier(group, NULL));
  if (rank == 0) finish(work);
  if (rank == 1) MUST(ddp_send(group, &to, 0, 0, NULL));
}

static void stores(const char* file) {
  ddp_store* memory = NULL;
  ddp_store* store = NULL;
  ddp_list* list = NULL;
  int64_t sum = 0;
  int exists = 1;
  MUST(ddp_hash_store(&memory));
  MUST(ddp_prefix_store("here", memory, &store));
  const ddp_bytes one = bytes("one");
  const ddp_bytes two = bytes("two");
  MUST(ddp_store_set(store, "k", &one));
  MUST(ddp_store_get(memory, "here/k", -1, &list));
  REQUIRE(is_text(list, 0, "one"));
  ddp_list_free(list);
  MUST(ddp_store_compare_set(store, "k", &one, &two, &list));
  REQUIRE(is_text(list, 0, "two"));
  ddp_list_free(list);
  MUST(ddp_store_append(store, "k", &one));
  MUST(ddp_store_add(store, "n", 40, &sum));
  MUST(ddp_store_add(store, "n", 2, &sum));
  REQUIRE(sum == 42);
  const ddp_bytes names[2] = {bytes("k"), bytes("n")};
  const ddp_list keys = {.items = names, .count = 2};
  MUST(ddp_store_wait(store, &keys, 1000));
  MUST(ddp_store_multi_get(store, &keys, 1000, &list));
  REQUIRE(is_text(list, 0, "twoone") && is_text(list, 1, "42"));
  ddp_list_free(list);
  MUST(ddp_store_delete_key(store, "n", &exists));
  REQUIRE(exists == 1);
  MUST(ddp_store_check(store, &keys, &exists));
  REQUIRE(exists == 0);
  MUST(ddp_store_multi_set(store, &keys, &keys));
  MUST(ddp_store_num_keys(store, &sum));
  REQUIRE(sum == 2);
  FAILS(ddp_store_get(store, "missing", 0, &list), DDP_TIMED_OUT, "missing");
  FAILS(ddp_store_set_timeout(store, -1), DDP_USAGE, "");
  MUST(ddp_store_set_timeout(store, 1234));
  REQUIRE(ddp_store_timeout(store) == 1234 && ddp_store_port(store) == 0);
  MUST(ddp_store_name(memory, &list));
  REQUIRE(list->count == 1 && list->items[0].size > 0);
  ddp_list_free(list);
  ddp_store_free(memory);  // the other one shares it
  MUST(ddp_store_set(store, "k", &one));
  ddp_store_free(store);

  MUST(ddp_file_store(file, 0, 0, &store));
  MUST(ddp_store_add(store, "ranks", 1, &sum));
  ddp_store_free(store);
  ddp_store* client = NULL;
  MUST(ddp_tcp_store("127.0.0.1", 0, 1, 0, 0, &store));
  MUST(ddp_tcp_store("127.0.0.1", ddp_store_port(store), 0, 0, 60000, &client));
  MUST(ddp_store_set(store, "k", &one));
  MUST(ddp_store_get(client, "k", -1, &list));
  REQUIRE(is_text(list, 0, "one"));
  ddp_list_free(list);
  ddp_store_free(client);

  ddp_group* alone = NULL;
  const ddp_options options = {.size = sizeof(options),
                               .backend = "cpu",
                               .store = store,
                               .rank = 0,
                               .world_size = 1,
                               .timeout_ms = 7000};
  MUST(ddp_init_process_group(&options, &alone));
  REQUIRE(ddp_size(alone) == 1 && ddp_timeout(alone) == 7000);
  ddp_group_free(alone);
  ddp_store_free(store);
}

static void training(const char* path) {
  uint64_t indices[5];
  ddp_buffer samples = {.data = indices, .count = 5, .type = DDP_UINT64};
  size_t count = 0;
  size_t padding = 0;
  MUST(ddp_sample(9, 2, 1, 0, 0, 0, 0, NULL, &count, &padding));
  REQUIRE(count == 5 && padding == 1);
  MUST(ddp_sample(9, 2, 1, 0, 0, 0, 0, &samples, NULL, NULL));
  REQUIRE(indices[0] == 1 && indices[3] == 7 && indices[4] == 0);
  samples.count = 4;
  FAILS(ddp_sample(9, 2, 1, 0, 0, 0, 0, &samples, NULL, NULL), DDP_USAGE, "5 elements");

  ddp_checkpoint* checkpoint = NULL;
  float weights[2] = {1, 2};
  double bias[1] = {3};
  ddp_buffer state[2] = {FLOATS(weights), {.data = bias, .count = 1, .type = DDP_FLOAT64}};
  uint64_t version = 0;
  int found = 1;
  MUST(ddp_checkpoint_make(path, &checkpoint));
  MUST(ddp_checkpoint_load(checkpoint, group, state, 2, &version, &found));
  REQUIRE(found == 0);
  MUST(ddp_checkpoint_save(checkpoint, group, 3, state, 2, NULL));
  ddp_work* work = NULL;
  weights[1] = 4;
  MUST(ddp_checkpoint_save(checkpoint, group, 4, state, 2, &work));
  finish(work);
  memset(weights, 0, sizeof(weights));
  MUST(ddp_checkpoint_load(checkpoint, group, state, 2, &version, &found));
  REQUIRE(found == 1 && version == 4 && weights[1] == 4 && bias[0] == 3);
  ddp_checkpoint_free(checkpoint);
}

static void bad_arguments(void) {
  float one[1] = {1};
  float two[2] = {1, 2};
  ddp_buffer data = FLOATS(one);
  ddp_buffer other = FLOATS(two);
  FAILS(ddp_all_reduce(NULL, &data, &data, DDP_SUM, NULL), DDP_USAGE, "the group is NULL");
  FAILS(ddp_all_reduce(group, &data, &data, (ddp_op)99, NULL), DDP_USAGE, "no operation 99");
  FAILS(ddp_all_reduce(group, &data, &other, DDP_SUM, NULL), DDP_USAGE, "");
  FAILS(ddp_broadcast(group, &data, size, NULL), DDP_USAGE, "");
  data.type = (ddp_type)77;
  FAILS(ddp_broadcast(group, &data, 0, NULL), DDP_USAGE, "no type 77");
  data = (ddp_buffer){.count = 1};
  FAILS(ddp_broadcast(group, &data, 0, NULL), DDP_USAGE, "NULL");
  data = (ddp_buffer){.data = one, .count = 1, .type = DDP_OPAQUE};
  FAILS(ddp_broadcast(group, &data, 0, NULL), DDP_USAGE, "width 0");
  const ddp_options options = {.size = sizeof(options) + 8};
  ddp_group* made = NULL;
  FAILS(ddp_init_process_group(&options, &made), DDP_USAGE, "ddp_options.size");
  FAILS(ddp_error_make((ddp_error_kind)50, "text"), DDP_USAGE, "no kind of errors 50");
  FAILS(ddp_write_trace("/no/such/folder/trace"), DDP_SYSTEM, "/no/such/folder");
  FAILS(ddp_spawn(0, count_call, NULL, -1, DDP_FORK), DDP_USAGE, "nprocs");
  REQUIRE(made == NULL);
}

static void all(const char* folder) {
  char path[4096];
  for (int begins = 0; begins < 2; ++begins) {
    reductions(begins);
    moves(begins);
    moves_of_unequal_blocks(begins);
    messages(begins);
  }
  types();
  objects();
  groups();
  works();
  snprintf(path, sizeof(path), "%s/store", folder);
  stores(path);
  snprintf(path, sizeof(path), "%s/checkpoint", folder);
  training(path);
  bad_arguments();
  snprintf(path, sizeof(path), "%s/trace_%d", folder, rank);
  MUST(ddp_write_trace(path));
  ddp_heartbeat(1);
  REQUIRE(ddp_c_version() == DDP_C_VERSION);
}

/// Prints the error that the program expects, in pieces that the test compares.
static ddp_error* report(ddp_error* error) {
  if (error == NULL) return ddp_error_make(DDP_SYSTEM, "the call did not fail");
  printf("kind %d on rank %d: %s\n", (int)error->kind, error->rank, error->text);
  fflush(stdout);
  ddp_error_free(error);
  return NULL;
}

/// Rank 1 makes another call, in a group in which ranks have other numbers.
static ddp_error* mismatch(void) {
  float one[1] = {1};
  ddp_buffer data = FLOATS(one);
  ddp_group* reversed = NULL;
  MUST(ddp_split(group, 0, -rank, &reversed));
  ddp_error* const error =
      report(rank == 1 ? ddp_barrier(reversed, NULL)
                       : ddp_all_reduce(reversed, &data, &data, DDP_SUM, NULL));
  ddp_group_free(reversed);
  return error;
}

/// Rank 1 dies, and the launcher stops the others, which first see the loss.
static ddp_error* lost(void) {
  signal(SIGTERM, SIG_IGN);
  MUST(ddp_barrier(group, NULL));
  if (rank == 1) raise(SIGKILL);
  return report(ddp_barrier(group, NULL));
}

static ddp_error* rank_main(void* context) {
  char** const arguments = context;
  ddp_error* error = ddp_init_process_group(NULL, &group);
  if (error != NULL) return error;
  rank = ddp_rank(group);
  size = ddp_size(group);
  if (strcmp(arguments[1], "all") == 0) all(arguments[2]);
  if (strcmp(arguments[1], "mismatch") == 0) error = mismatch();
  if (strcmp(arguments[1], "lost") == 0) error = lost();
  if (strcmp(arguments[1], "fail") == 0) {
    error = rank == 1 ? ddp_error_make(DDP_SYSTEM, "bad luck") : ddp_barrier(group, NULL);
  }
  (error == NULL ? ddp_group_free : ddp_group_abandon)(group);
  return error;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (strcmp(argv[1], "spawn") != 0) return ddp_record(rank_main, argv);
  argv[1] = "fail";
  FAILS(ddp_spawn(3, rank_main, argv, -1, DDP_FORK), DDP_PEER_LOST, "rank 1 failed: bad luck");
  argv[1] = "all";
  MUST(ddp_spawn(2, rank_main, argv, 1000, DDP_FORK));
  return 0;
}

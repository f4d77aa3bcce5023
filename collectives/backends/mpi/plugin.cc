// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <dlfcn.h>
#include <memory>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/backends/mpi/library.h"
#include "collectives/backends/mpi/plugin_calls.h"
#include "ddp/export.h"

namespace ddp::internal {
namespace {

constexpr int kExchangeTag = 0;  // the only tag in the communicator calls_

class Requests : public MpiRequests {
 public:
  explicit Requests(std::size_t count) : requests_(count, MPI_REQUEST_NULL), statuses_(count) {}
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  ~Requests() override {
    for (std::size_t i = open_; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&requests_[i]);
      MPI_Request_free(&requests_[i]);
    }
  }

  MPI_Request* request(std::size_t index) { return &requests_[index]; }

  bool test() override {
    for (int done = 1; open_ < requests_.size(); ++open_) {
      must(MPI_Test(&requests_[open_], &done, &statuses_[open_]));
      if (done == 0) return false;
    }
    return true;
  }

  std::size_t first_open() const override { return open_; }

  std::size_t received(std::size_t index) const override {
    MPI_Count bytes = 0;
    must(MPI_Get_elements_x(&statuses_[index], MPI_BYTE, &bytes));
    return static_cast<std::size_t>(bytes);
  }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::size_t open_ = 0;
};

class Group : public MpiGroup {
 public:
  /// MPI has no negative tags: `negative` carries messages with such tags.
  Group(MPI_Comm calls, MPI_Comm messages, MPI_Comm negative)
      : calls_(calls), messages_(messages), negative_tags_(negative) {}

  bool exchange(int to, const void* out, int from, void* in, std::size_t bytes,
                const std::function<bool()>& goes_on) override {
    const int count = static_cast<int>(bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    must(MPI_Irecv(in, count, MPI_BYTE, from, kExchangeTag, calls_, &request));
    // So short that MPI sends it eagerly, without waiting for the receiver.
    must(MPI_Send(out, count, MPI_BYTE, to, kExchangeTag, calls_));
    for (int done = 0; done == 0;) {
      must(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      if (done != 0 || goes_on()) continue;
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);  // `in` is the caller's again
      return false;
    }
    return true;
  }

  void run(const Task& task) override { run_call(task, calls_); }

  std::unique_ptr<MpiRequests> begin(std::span<const Transfer> transfers) override {
    auto requests = std::make_unique<Requests>(transfers.size());
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const Transfer& each = transfers[i];
      const int count = static_cast<int>(each.count);
      const MPI_Datatype type = mpi_type(each.type);
      const MPI_Comm comm = each.tag < 0 ? negative_tags_ : messages_;
      const int tag = each.tag < 0 ? ~each.tag : each.tag;
      MPI_Request* const request = requests->request(i);
      must(each.sends ? MPI_Isend(each.data, count, type, each.peer, tag, comm, request)
                      : MPI_Irecv(each.data, count, type, each.peer, tag, comm, request));
    }
    return requests;
  }

  void free() noexcept override {
    MPI_Comm_free(&calls_);
    MPI_Comm_free(&messages_);
    MPI_Comm_free(&negative_tags_);
  }

 private:
  MPI_Comm calls_;
  MPI_Comm messages_;
  MPI_Comm negative_tags_;
};

/// MPI_Finalize calls this first: a callback of MPI_COMM_SELF's attribute (MPI 3.1, 8.7.1).
int call_before_end(MPI_Comm /*self*/, int /*key*/, void* before_end, void* /*state*/) {
  (*reinterpret_cast<void (**)()>(before_end))();
  return MPI_SUCCESS;
}

class Library : public MpiLibrary {
 public:
  World start(void (*before_end)()) override {
    World world;
    int initialized = 0;
    int level = MPI_THREAD_SINGLE;
    must(MPI_Initialized(&initialized));
    if (initialized != 0) {
      must(MPI_Query_thread(&level));
    } else {
      must(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level));
      world.ours = true;
    }
    if (level != MPI_THREAD_MULTIPLE) {
      throw std::runtime_error(world.ours ? "this MPI has no MPI_THREAD_MULTIPLE"
                                          : "the program started MPI without MPI_THREAD_MULTIPLE: "
                                            "it has to ask MPI_Init_thread for it, or leave it to "
                                            "init_process_group to start MPI");
    }
    if (!world.ours) call_at_finalize(before_end);
    must(MPI_Comm_rank(MPI_COMM_WORLD, &world.rank));
    must(MPI_Comm_size(MPI_COMM_WORLD, &world.size));
    return world;
  }

  bool runs() noexcept override {
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    return initialized != 0 && finalized == 0;
  }

  void end() noexcept override { MPI_Finalize(); }

  std::unique_ptr<MpiGroup> make_group(std::span<const int> ranks, int tag) override {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group part = MPI_GROUP_NULL;
    MPI_Comm calls = MPI_COMM_NULL;
    MPI_Comm messages = MPI_COMM_NULL;
    MPI_Comm negative = MPI_COMM_NULL;
    must(MPI_Comm_group(MPI_COMM_WORLD, &world));
    must(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &part));
    must(MPI_Comm_create_group(MPI_COMM_WORLD, part, tag, &calls));
    must(MPI_Comm_set_errhandler(calls, MPI_ERRORS_RETURN));
    must(MPI_Comm_dup(calls, &messages));  // with the same error handler
    must(MPI_Comm_dup(calls, &negative));
    MPI_Group_free(&part);
    MPI_Group_free(&world);
    return std::make_unique<Group>(calls, messages, negative);
  }

  /// Asks an extension of Open MPI, MPICH and their derivatives.
  bool is_cuda_aware() noexcept override {
    void* const found = ::dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    return found != nullptr && reinterpret_cast<int (*)()>(found)() == 1;
  }

  int greatest_tag() override {
    void* greatest = nullptr;
    int found = 0;
    must(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&greatest), &found));
    return found != 0 ? *static_cast<int*>(greatest) : 32767;  // the least that MPI guarantees
  }

 private:
  void call_at_finalize(void (*before_end)()) {
    if (before_end_ != nullptr) return;
    before_end_ = before_end;
    int key = MPI_KEYVAL_INVALID;
    must(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &call_before_end, &key, nullptr));
    must(MPI_Comm_set_attr(MPI_COMM_SELF, key, static_cast<void*>(&before_end_)));
    must(MPI_Comm_free_keyval(&key));
  }

  void (*before_end_)() = nullptr;
};

}  // namespace

extern "C" DDP_EXPORT MpiLibrary* ddp_mpi_library() {
  static Library library;
  return &library;
}

}  // namespace ddp::internal

// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/local/backend.h"

#include <cstring>
#include <utility>

#include "collectives/backends/cuda/host_calls.h"
#include "collectives/backends/host_memory.h"
#include "collectives/call/call.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

class LocalBackend : public Backend {
 public:
  explicit LocalBackend(std::string name) : name_(std::move(name)) {}

  void check(const Task& task) const override {
    if (task.on_device && name_ == "mpi") {
      return at_rank(0, [&] { check_host_call(internal::name(task.operation), task.stream); });
    }
    check_in_host_memory(task, name_, 0);
  }
  void run(const Task& task) override {
    // all_to_all_v has its count in the lists by rank.
    const std::size_t count = task.send_counts.empty() ? task.count : task.send_counts.front();
    if (count == 0 || task.in == task.out) return;
    const std::size_t bytes = count * size_of(task.type);
    if (task.on_device) return copy_in_stream(task.out, task.in, bytes, task.stream);
    std::memmove(task.out, task.in, bytes);
  }
  std::shared_ptr<AsyncCall> begin(const Task& task) override {
    auto done = std::make_shared<Completion>();
    run(task);
    done->succeed();
    return done;
  }
  void abort() noexcept override {}
  void leave() noexcept override {}

 private:
  std::string name_;
};

}  // namespace

std::unique_ptr<Backend> make_local_backend(std::string name) {
  return std::make_unique<LocalBackend>(std::move(name));
}

}  // namespace ddp::internal

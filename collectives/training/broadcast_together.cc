// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/broadcast_together.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "collectives/backends/nccl/backend.h"
#include "collectives/group/group_member.h"
#include "collectives/training/packing.h"
#include "collectives/training/wait_for_end.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kShort = std::size_t{1} << 20;
constexpr std::size_t kTogether = std::size_t{25} << 20;

/// Short buffers whose bytes are sent together.
struct Package {
  std::vector<Buffer> buffers;
  std::vector<std::byte> bytes;
};

class Broadcasts {
 public:
  Broadcasts(GroupMember& group, int root) : group_(group), root_(root) {}
  Broadcasts(const Broadcasts&) = delete;
  Broadcasts& operator=(const Broadcasts&) = delete;

  /// Waits: the calls use the packages, even after one has failed.
  ~Broadcasts() {
    for (const Work& work : works_) wait_for_end(work);
  }

  void add(const Buffer& buffer) {
    if (buffer.on_device) return on_device_.push_back(buffer);
    const std::size_t bytes = packed_bytes({&buffer, 1});
    if (bytes >= kShort) return begin(buffer);
    if (packages_.empty() || packed_bytes(packages_.back().buffers) + bytes > kTogether) {
      packages_.emplace_back();
    }
    packages_.back().buffers.push_back(buffer);
  }

  void finish() {
    begin_on_device();
    for (Package& package : packages_) begin(package);
    for (const Work& work : works_) work.wait();
    if (is_root()) return;
    for (const auto& [buffers, bytes] : packages_) unpack(buffers, bytes.data());
  }

 private:
  bool is_root() const { return group_.context.rank == root_; }

  /// Begins the first call apart: a group's first call connects it, which a group call cannot do.
  void begin_on_device() {
    const std::span<const Buffer> all = on_device_;
    const std::size_t apart =
        group_.backend_name == "nccl" ? std::min<std::size_t>(1, all.size()) : all.size();
    for (const Buffer& buffer : all.first(apart)) begin(buffer);
    if (apart == all.size()) return;
    run_nccl_group([&] {
      for (const Buffer& buffer : all.subspan(apart)) begin(buffer);
    });
  }

  void begin(Package& package) {
    package.bytes.resize(packed_bytes(package.buffers));
    if (is_root()) pack(package.buffers, package.bytes.data());
    begin(Buffer(package.bytes));
  }

  void begin(const Buffer& buffer) {
    works_.push_back(group_.begin(group_.make.broadcast(buffer, root_)));
  }

  GroupMember& group_;
  const int root_;
  std::vector<Buffer> on_device_;
  std::deque<Package> packages_;
  std::vector<Work> works_;
};

}  // namespace

void broadcast_together(GroupMember& group, std::span<const Buffer> buffers, int root) {
  Broadcasts broadcasts(group, root);
  for (const Buffer& buffer : buffers) broadcasts.add(buffer);
  broadcasts.finish();
}

}  // namespace ddp::internal

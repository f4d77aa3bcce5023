// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/scan.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/agreement/agreed_error.h"
#include "collectives/call/call.h"
#include "collectives/call/reduction.h"

namespace ddp::internal {
namespace {

/// A rank's call, in front of its elements: all_gather compares only how many bytes there are.
struct Head {
  std::uint64_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  std::uint64_t is_exclusive = 0;

  bool operator==(const Head&) const = default;
  std::string text() const {
    return std::string(is_exclusive != 0 ? "exscan " : "scan ") + name(op) + " " + name(type) +
           "[" + std::to_string(count) + "]";
  }
};
constexpr std::size_t kHead = 32;  ///< keeps elements aligned
static_assert(sizeof(Head) <= kHead);

void check(const GroupMember& group, const Head& head, const ConstBuffer& in, const Buffer& out) {
  const auto refuse = [&](const std::string& what) {
    throw own_error(group.context, ErrorKind::usage, ": " + head.text() + what);
  };
  if (in.on_device || out.on_device) refuse(" of a buffer on a device");
  if (in.type != out.type || in.width != out.width) refuse(": in and out must be of one type");
  if (!allows(in.type, head.op)) {
    refuse(std::string(": ") + name(head.op) + " is only of " + types_with(head.op));
  }
  if (in.count != out.count) {
    refuse(" needs as many elements in out, which has " + std::to_string(out.count));
  }
  if (in.count > 0 && (in.data == nullptr || out.data == nullptr)) {
    refuse(" of a buffer whose address is null");
  }
}

}  // namespace

void scan(GroupMember& group, const ConstBuffer& in, const Buffer& out, ReduceOp op,
          bool is_exclusive) {
  const Head head = {
      .count = in.count, .type = in.type, .op = op, .is_exclusive = is_exclusive ? 1U : 0U};
  check(group, head, in, out);
  const std::size_t bytes = in.count * size_of(in.type);
  const std::size_t length = kHead + (bytes + kHead - 1) / kHead * kHead;
  std::vector<std::byte> own(length);
  std::memcpy(own.data(), &head, sizeof(head));
  if (bytes > 0) std::memcpy(own.data() + kHead, in.data, bytes);
  std::vector<std::byte> all(length * static_cast<std::size_t>(group.context.size));
  group.run(group.make.all_gather(own, all));

  Head first;
  std::memcpy(&first, all.data(), sizeof(first));
  std::vector<const void*> parts;
  for (int rank = 0; rank < group.context.size; ++rank) {
    const std::byte* const block = all.data() + static_cast<std::size_t>(rank) * length;
    Head other;
    std::memcpy(&other, block, sizeof(other));
    if (other != first) {
      throw Error(group.calls->fail(
          Error(ErrorKind::mismatch, "ddp: rank " + std::to_string(group.context.named(0)) +
                                         " is at " + first.text() + ", but rank " +
                                         std::to_string(group.context.named(rank)) + " is at " +
                                         other.text())));
    }
    parts.push_back(block + kHead);
  }
  const int ranks = group.context.rank + (is_exclusive ? 0 : 1);
  if (ranks == 0 || in.count == 0) return;
  reduction(in.type, op).combine(out.data, parts.data(), ranks, in.count);
}

}  // namespace ddp::internal

// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/checkpoint_writer.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <span>

#include "base/error.h"
#include "collectives/background.h"
#include "collectives/call/async_call.h"
#include "collectives/group/agreement.h"
#include "collectives/group/group_access.h"
#include "collectives/group/group_member.h"
#include "collectives/training/checkpoint_disk.h"
#include "collectives/training/packing.h"
#include "collectives/training/wait_for_end.h"

namespace ddp::internal {
namespace {

/// "ddp: rank 0: ".
std::string name_own(const ProcessGroup& group) {
  return "ddp: rank " + std::to_string(GroupAccess::named(group, group.rank())) + ": ";
}

/// A copy of the parts, in its own memory.
struct Copy {
  explicit Copy(const std::vector<Buffer>& of) : memory(packed_bytes(of)), parts(of) {
    pack(of, memory.data());
    std::byte* at = memory.data();
    for (Buffer& part : parts) {
      part.data = at;
      at += packed_bytes(std::span(&part, 1));
    }
  }

  std::vector<std::byte> memory;
  std::vector<Buffer> parts;
};

}  // namespace

void CheckpointWriter::settle() {
  if (last_) wait_for_end(*last_);
  last_.reset();
}

void CheckpointWriter::found_generation(std::uint64_t generation) {
  generation_ = std::max(generation_, generation);
}

/// Returns what failed; empty if nothing did.
std::string CheckpointWriter::write_file(const std::string& here, std::uint64_t version,
                                         const std::vector<Buffer>& parts) {
  try {
    if (!is_whole_) {
      const auto there = CheckpointReader::open(path_);
      is_whole_ = there && *there && (*there)->check();
    }
    const auto done =
        write_checkpoint(path_, {.version = version, .generation = generation_}, parts, is_whole_);
    is_whole_ = done || is_whole_;
    return done ? "" : here + done.error().message;
  } catch (const std::bad_alloc&) {  // the others wait for an answer
    return here + "has no memory left to write " + path_;
  } catch (const std::exception& thrown) {
    return here + "cannot write " + path_ + ": " + thrown.what();
  }
}

void CheckpointWriter::write(ProcessGroup& group, std::uint64_t version,
                             const std::vector<Buffer>& parts) {
  found_generation(GroupAccess::formed(group));
  std::string failed;
  if (group.rank() == 0) failed = write_file(name_own(group), version, parts);
  check_succeeded(group, ErrorKind::system, failed, 0);
}

/// The group for calls beside the program's. If it has failed, perhaps not on every rank, a new one
/// is made.
ProcessGroup& CheckpointWriter::own_group(ProcessGroup& of) {
  const auto& calls = GroupAccess::member(of).calls;
  const bool is_usable =
      own_ && own_of_.lock() == calls && !GroupAccess::member(*own_).calls->has_failed();
  if (of.all_reduce(is_usable, ReduceOp::min)) return *own_;
  own_ = of.split(0);
  own_of_ = calls;
  return *own_;
}

Work CheckpointWriter::write_later(ProcessGroup& group, std::uint64_t version,
                                   const std::vector<Buffer>& parts) {
  found_generation(GroupAccess::formed(group));
  ProcessGroup& own = own_group(group);
  std::shared_ptr<Copy> copy;
  std::string failed;
  try {
    if (group.rank() == 0) copy = std::make_shared<Copy>(parts);
  } catch (const std::bad_alloc&) {
    failed = name_own(group) + "has no memory left for a copy of what " + path_ +
             " is to hold: " + std::to_string(packed_bytes(parts)) + " bytes";
  }
  const auto written = std::make_shared<Completion>();
  const auto write = [self = shared_from_this(), &own, version, copy, failed, written] {
    try {
      const std::string why = copy ? self->write_file(name_own(own), version, copy->parts) : failed;
      check_succeeded(own, ErrorKind::system, why, 0);
      written->succeed();
    } catch (const Error& error) {
      written->fail(error);
    }
  };
  run_in_background(write);
  last_.emplace(written);
  return *last_;
}

}  // namespace ddp::internal

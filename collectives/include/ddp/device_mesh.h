// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddp/export.h"
#include "ddp/options.h"
#include "ddp/process_group.h"

namespace ddp {

/// One dimension of a DeviceMesh.
struct MeshDimension {
  std::string name;  ///< such as "dp"
  int size = 1;      ///< ranks along it
};

/// The ranks of a group as an array of several dimensions, with a group for each line of ranks
/// along a dimension; the counterpart of torch.distributed.device_mesh. With {"dp", 2} and
/// {"tp", 4} rank r is at r / 4 along dp and at r % 4 along tp: ranks of one line of the last
/// dimension are neighbours, as a rule on one node.
///
///     ddp::DeviceMesh mesh = ddp::mesh({{"dp", 2}, {"tp", 4}});
///     mesh.group("tp").all_reduce(activations);
///     mesh.group("dp").all_reduce(gradients);
///
/// Thread: any, one at a time; its groups as those of new_group().
class DDP_EXPORT DeviceMesh {
 public:
  /// The group of the ranks that differ from this one along `dimension` alone, in their order. Its
  /// rank() is this rank's position along `dimension`. Errors: usage (there is no such dimension).
  ProcessGroup& group(std::string_view dimension);

  /// The group of all ranks of the mesh.
  ProcessGroup& whole() noexcept { return whole_; }

  /// The dimensions as passed to mesh().
  const std::vector<MeshDimension>& dimensions() const noexcept { return dimensions_; }

 private:
  friend DeviceMesh mesh(ProcessGroup whole, const std::vector<MeshDimension>& dimensions);
  DeviceMesh(ProcessGroup whole, const std::vector<MeshDimension>& dimensions);

  ProcessGroup whole_;
  std::vector<MeshDimension> dimensions_;
  std::vector<ProcessGroup> groups_;  // by dimension
};

/// Arranges the ranks of a group, and splits the group along each dimension. All ranks call it with
/// the same dimensions. Errors: usage (a size is not above 0, a name is empty or used twice, the
/// product of the sizes is not the number of ranks), mismatch (ranks pass different dimensions).
DDP_EXPORT DeviceMesh mesh(ProcessGroup whole, const std::vector<MeshDimension>& dimensions);

/// The same with the group that init_process_group(options) joins.
DDP_EXPORT DeviceMesh mesh(const std::vector<MeshDimension>& dimensions,
                           const Options& options = {});

}  // namespace ddp

// SPDX-License-Identifier: Apache-2.0
#include "ddp/device_mesh.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "collectives/group/agreement.h"
#include "collectives/group/group_access.h"

namespace ddp {
namespace {

/// "dp 2 x tp 4".
std::string describe_mesh(const std::vector<MeshDimension>& dimensions) {
  std::string text;
  for (const MeshDimension& each : dimensions) {
    text += (text.empty() ? "" : " x ") + each.name + " " + std::to_string(each.size);
  }
  return text.empty() ? "no dimensions" : text;
}

[[noreturn]] void refuse_mesh(const ProcessGroup& group, const std::string& what) {
  throw Error(ErrorKind::usage,
              "ddp: rank " + std::to_string(internal::GroupAccess::named(group, group.rank())) +
                  ": a mesh of " + what);
}

/// Returns the product of the sizes, or the first partial product above `enough`.
std::int64_t count_ranks(const std::vector<MeshDimension>& dimensions, std::int64_t enough) {
  std::int64_t ranks = 1;
  for (const MeshDimension& each : dimensions) {
    ranks *= each.size;
    if (ranks > enough) break;
  }
  return ranks;
}

void check_dimensions(const ProcessGroup& group, const std::vector<MeshDimension>& dimensions) {
  const std::string all = describe_mesh(dimensions);
  for (const MeshDimension& each : dimensions) {
    if (each.name.empty()) refuse_mesh(group, all + ": each dimension needs a name");
    if (each.size < 1) refuse_mesh(group, all + ": sizes must be above 0");
    if (std::ranges::count(dimensions, each.name, &MeshDimension::name) > 1) {
      refuse_mesh(group, all + ": " + each.name + " is named twice");
    }
  }
  if (count_ranks(dimensions, group.size()) != group.size()) {
    refuse_mesh(group, all + ": the product of the sizes must be the number of ranks, " +
                           std::to_string(group.size()));
  }
}

}  // namespace

DeviceMesh::DeviceMesh(ProcessGroup whole, const std::vector<MeshDimension>& dimensions)
    : whole_(std::move(whole)), dimensions_(dimensions) {
  check_dimensions(whole_, dimensions_);
  internal::check_same_lines(whole_, "the dimensions of a mesh", {describe_mesh(dimensions_)});
  int stride = whole_.size();  // between neighbours along a dimension
  for (const MeshDimension& each : dimensions_) {
    stride /= each.size;
    const int at = whole_.rank() / stride % each.size;
    groups_.push_back(whole_.split_by_color(whole_.rank() - at * stride, at));
  }
}

ProcessGroup& DeviceMesh::group(std::string_view dimension) {
  const auto found = std::ranges::find(dimensions_, dimension, &MeshDimension::name);
  if (found == dimensions_.end()) {
    refuse_mesh(whole_, describe_mesh(dimensions_) + " has no dimension " + std::string(dimension));
  }
  return groups_[static_cast<std::size_t>(found - dimensions_.begin())];
}

DeviceMesh mesh(ProcessGroup whole, const std::vector<MeshDimension>& dimensions) {
  return {std::move(whole), dimensions};
}

DeviceMesh mesh(const std::vector<MeshDimension>& dimensions, const Options& options) {
  return mesh(init_process_group(options), dimensions);
}

}  // namespace ddp

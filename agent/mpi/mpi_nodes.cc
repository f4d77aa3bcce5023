// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_nodes.h"

#include <algorithm>
#include <cstddef>
#include <sstream>

#include "base/hash.h"
#include "base/text.h"

namespace ddprun::agent {

std::string row_of(const rendezvous::Layout& layout, const std::string& host,
                   const std::string& token) {
  return std::to_string(layout.node_rank) + ' ' + std::to_string(layout.first_rank) + ' ' +
         std::to_string(layout.local_size) + ' ' + host + ' ' + token + '\n';
}

Result<MpiNodes> parse_rows(std::string_view rows, const rendezvous::Layout& layout) {
  struct Row {
    int node_rank = 0, first_rank = 0, local_size = 0;
    std::string host, token;
  };
  std::istringstream text{std::string(rows)};
  std::vector<Row> all;
  for (Row row;
       text >> row.node_rank >> row.first_rank >> row.local_size >> row.host >> row.token;) {
    all.push_back(row);
  }
  std::ranges::sort(all, {}, &Row::node_rank);
  MpiNodes nodes;
  int next = 0;
  for (const Row& row : all) {
    const bool is_next = row.node_rank == std::ssize(nodes.local_sizes) && row.first_rank == next;
    if (!is_next || row.local_size < 1 || row.local_size > layout.world_size - next) break;
    if (row.node_rank == 0) {
      nodes.name = "ddprun_" + row.token + '_' + std::to_string(layout.round);
    }
    nodes.local_sizes.push_back(row.local_size);
    const bool is_only = std::ranges::count(all, row.host, &Row::host) == 1;
    nodes.hosts.push_back(row.host + (is_only ? "" : "_" + std::to_string(row.node_rank)));
    next += row.local_size;
  }
  const bool is_whole = next == layout.world_size && std::ssize(all) == layout.node_count &&
                        std::ssize(nodes.local_sizes) == layout.node_count;
  if (!is_whole)
    return Error{Errc::protocol, "the nodes' numbers of MPI ranks do not fit together"};
  return nodes;
}

std::string pmi1_mapping(const MpiNodes& nodes) {
  std::string text = "(vector";
  const auto& sizes = nodes.local_sizes;
  for (size_t first = 0, end = 0; first < sizes.size(); first = end) {
    while (end < sizes.size() && sizes[end] == sizes[first]) ++end;
    text += ",(" + std::to_string(first) + ',' + std::to_string(end - first) + ',' +
            std::to_string(sizes[first]) + ')';
  }
  return text + ')';
}

/// They are named by a hash (FNV-1a) of the round's name.
std::vector<std::string> mpich_files(const MpiNodes& nodes, int node_rank) {
  Fnv32 hash;
  hash.add(nodes.name);
  const std::string rest = hex_text(hash.value()) + '_' + std::to_string(node_rank);
  return {"mpich_shm_" + rest, "mpich_vci_" + rest};
}

}  // namespace ddprun::agent

// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/config.h"

#include "ddp/error.h"

namespace ddp::internal {
namespace {

/// A setting that older releases lack.
struct LateSetting {
  const char* name;
  bool is_set;
  int since;
};

/// Up to so many ranks, one thread of rank 0's process soon introduces them all to each other.
constexpr int kMostRanksOfOneId = 256;
constexpr int kRanksPerId = 128;

void set(int& setting, const std::optional<int>& value) {
  if (value) setting = *value;
}

[[maybe_unused]] void set(int& setting, const std::optional<bool>& value) {
  if (value) setting = *value ? 1 : 0;
}

void set(const char*& setting, const std::string& value) {
  if (!value.empty()) setting = value.c_str();
}

}  // namespace

void check_settings(const NcclOptions& options, int loaded) {
  const LateSetting settings[] = {
      {"traffic_class", options.traffic_class.has_value(), NCCL_VERSION(2, 26, 0)},
      {"name", !options.name.empty(), NCCL_VERSION(2, 27, 0)},
      {"collnet", options.collnet.has_value(), NCCL_VERSION(2, 27, 0)},
      {"cta_policy", options.cta_policy.has_value(), NCCL_VERSION(2, 27, 0)},
      {"nvls_ctas", options.nvls_ctas.has_value(), NCCL_VERSION(2, 27, 0)},
      {"channels_per_net_peer", options.channels_per_net_peer.has_value(), NCCL_VERSION(2, 28, 0)},
      {"nvlink_centric", options.nvlink_centric.has_value(), NCCL_VERSION(2, 28, 0)},
      {"shrink_share", options.shrink_share.has_value(), NCCL_VERSION(2, 27, 0)},
      {"graph_usage_mode", options.graph_usage_mode.has_value(), NCCL_VERSION(2, 29, 0)},
      {"max_p2p_peers", options.max_p2p_peers.has_value(), NCCL_VERSION(2, 30, 0)},
      {"graph_stream_ordering", options.graph_stream_ordering.has_value(), NCCL_VERSION(2, 30, 0)},
  };
  const bool header_is_older = NCCL_VERSION_CODE < loaded;
  const int version = header_is_older ? NCCL_VERSION_CODE : loaded;
  for (const LateSetting& setting : settings) {
    if (!setting.is_set || setting.since <= version) continue;
    throw Error(ErrorKind::usage,
                std::string("ddp: Options::nccl.") + setting.name + " needs NCCL " +
                    name_nccl_version(setting.since) + " or later, but this is " +
                    (header_is_older ? "a libddp built for " : "") + name_nccl_version(version));
  }
  if (options.ranks_per_id.value_or(1) < 1) {
    throw Error(ErrorKind::usage, "ddp: Options::nccl.ranks_per_id " +
                                      std::to_string(*options.ranks_per_id) + " is not above 0");
  }
}

ncclConfig_t make_config(const NcclOptions& options) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  set(config.cgaClusterSize, options.cga_cluster_size);
  set(config.minCTAs, options.min_ctas);
  set(config.maxCTAs, options.max_ctas);
  set(config.netName, options.net_name);
  set(config.splitShare, options.split_share);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 0)
  set(config.trafficClass, options.traffic_class);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  set(config.commName, options.name);
  set(config.collnetEnable, options.collnet);
  set(config.CTAPolicy, options.cta_policy);
  set(config.nvlsCTAs, options.nvls_ctas);
  set(config.shrinkShare, options.shrink_share);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  set(config.nChannelsPerNetPeer, options.channels_per_net_peer);
  set(config.nvlinkCentricSched, options.nvlink_centric);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
  set(config.graphUsageMode, options.graph_usage_mode);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0)
  set(config.maxP2pPeers, options.max_p2p_peers);
  set(config.graphStreamOrdering, options.graph_stream_ordering);
#endif
  return config;
}

int ranks_per_id(const NcclOptions& options, int size) {
  return options.ranks_per_id.value_or(size <= kMostRanksOfOneId ? size : kRanksPerId);
}

std::string name_nccl_version(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace ddp::internal

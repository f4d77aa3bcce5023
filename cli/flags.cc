// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/log.h"

namespace ddprun::cli {
namespace {

constexpr int kMostWorkers = 65'536;
constexpr double kMostSeconds = 1e9;

template <class Number>
std::optional<Number> parse_number(std::string_view text, Number least, Number most) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const bool good = error == std::errc() && rest == end && number >= least && number <= most;
  return good ? std::optional(number) : std::nullopt;
}

bool take_switch(std::string_view value, bool& target) {
  target = value == "1";
  return value == "0" || value == "1";
}

bool take_count(std::string_view value, int& target) {
  const auto number = parse_number(value, 0, std::numeric_limits<int>::max());
  if (number) target = *number;
  return number.has_value();
}

bool take_local_size(std::string_view value, Choices& choices) {
  choices.local_size = value;
  return value == "auto" || value == "gpu" || value == "cpu" ||
         parse_number(value, 1, kMostWorkers).has_value();
}

bool take_nodes(std::string_view value, Choices& choices) {
  const size_t colon = value.find(':');
  const auto least = parse_number(value.substr(0, colon), 1, kMostWorkers);
  const auto most = colon == std::string_view::npos
                        ? least
                        : parse_number(value.substr(colon + 1), 1, kMostWorkers);
  if (!least || !most || *least > *most) return false;
  choices.nodes = value;
  choices.job.min_nodes = *least;
  choices.job.max_nodes = *most;
  return true;
}

bool take_node_rank(std::string_view value, Choices& choices) {
  choices.job.node_rank = parse_number(value, 0, std::numeric_limits<int>::max());
  return choices.job.node_rank.has_value();
}

bool take_master_addr(std::string_view value, Choices& choices) {
  if (value.starts_with('[') && value.ends_with(']')) {  // an IPv6 address as URLs write it
    value = value.substr(1, value.size() - 2);
  } else if (std::count(value.begin(), value.end(), ':') == 1) {
    return false;
  }
  choices.job.master_addr = value;
  return !value.empty() && value.find_first_of(" \t[]") == std::string_view::npos;
}

bool take_master_port(std::string_view value, Choices& choices) {
  const auto port = parse_number(value, 0, 65'535);
  if (port) choices.job.master_port = static_cast<std::uint16_t>(*port);
  return port.has_value();
}

bool take_shutdown_timeout(std::string_view value, Choices& choices) {
  const auto seconds = parse_number(value, 0.0, kMostSeconds);
  if (!seconds) return false;
  // Rounded up, so that a tiny grace does not become none.
  choices.job.stop_grace = std::chrono::milliseconds(std::llround(std::ceil(*seconds * 1000)));
  return true;
}

bool take_gpu_bind(std::string_view value, Choices& choices) {
  choices.job.gpu_bind = value == "isolate" ? agent::GpuBind::isolate : agent::GpuBind::all;
  return value == "all" || value == "isolate";
}

bool take_store(std::string_view value, Choices& choices) {
  choices.job.store = value == "worker" ? agent::StoreHost::worker : agent::StoreHost::agent;
  return value == "agent" || value == "worker";
}

bool take_prefix(std::string_view value, Choices& choices) {
  choices.prefix = value;
  choices.no_prefix = false;
  return true;
}

bool take_log_level(std::string_view value, Choices& choices) {
  const Result<log::Level> level = log::parse_level(value);
  if (level) choices.job.log_level = *level;
  return level.has_value();
}

bool take_events(std::string_view value, Choices& choices) {
  choices.job.events_file = value;
  return !value.empty();
}

bool take_nothing(std::string_view, Choices&) {
  return true;
}

// clang-format off
constexpr std::array<Flag, 17> kFlags = {{
    {Group::workers, "nproc_per_node", "N|auto|gpu|cpu", "PET_NPROC_PER_NODE", "1",
     "a number of workers (1 to 65536), auto, gpu or cpu",
     "Workers on this node. gpu: one for each GPU; cpu: one for each CPU this process may run on; "
     "auto: one for each GPU, without GPUs one for each CPU.",
     take_local_size},
    {Group::workers, "gpu_bind", "all|isolate", "DDPRUN_GPU_BIND", "all",
     "all or isolate",
     "GPUs each worker sees. all: every GPU of the node, so that cuda:LOCAL_RANK works; isolate: a "
     "block of its own, the node's GPUs divided evenly. The node's GPUs are those of "
     "CUDA_VISIBLE_DEVICES where it is set, else all there are.",
     take_gpu_bind},
    {Group::rendezvous, "nnodes", "N|MIN:MAX", "PET_NNODES", "1",
     "a number of nodes, or the least and the most as MIN:MAX",
     "Nodes of the job. This version runs on one.",
     take_nodes},
    {Group::rendezvous, "node_rank", "N", "PET_NODE_RANK", "0",
     "a number, 0 or more",
     "Which of the nodes this one is.",
     take_node_rank},
    {Group::rendezvous, "master_addr", "HOST", "PET_MASTER_ADDR", "127.0.0.1",
     "a host name or an IP address, without a port",
     "Where the nodes meet, and MASTER_ADDR of the workers.",
     take_master_addr},
    {Group::rendezvous, "master_port", "PORT", "PET_MASTER_PORT", "a free port",
     "a port number, 0 to 65535 (0: a free one)",
     "TCP port of the master: agents and the workers' store share it.",
     take_master_port},
    {Group::rendezvous, "standalone", "", "PET_STANDALONE", "",
     "0 or 1",
     "Meet on 127.0.0.1 at a free port, whatever --master_addr and --master_port say.",
     [](std::string_view value, Choices& c) { return take_switch(value, c.standalone); }},
    {Group::rendezvous, "store", "agent|worker", "DDPRUN_STORE", "agent",
     "agent or worker",
     "Who serves the workers' key-value store. agent: ddprun does, every rank is a client; worker: "
     "rank 0, for programs that listen on MASTER_PORT themselves.",
     take_store},
    {Group::failures, "max_restarts", "N", "PET_MAX_RESTARTS", "0",
     "a number, 0 or more",
     "How often the workers are started again after one of them failed, counted once for the whole "
     "job.",
     [](std::string_view value, Choices& c) { return take_count(value, c.job.max_restarts); }},
    {Group::failures, "shutdown_timeout", "SECONDS", "PET_SHUTDOWN_TIMEOUT", "30",
     "a number of seconds, 0 or more, such as 2.5",
     "How long a worker may take to end after the first signal; then it is killed. 0: at once.",
     take_shutdown_timeout},
    {Group::output, "prefix", "TEMPLATE", "DDPRUN_PREFIX", "'[${rank}] ' for several workers",
     "a template such as '[${rank}] '",
     "What stands before each line of a worker's output. Replaced are ${rank}, ${local_rank}, "
     "${node_rank}, ${world_size}, ${restart}, ${host} and ${role_name}.",
     take_prefix},
    {Group::output, "no_prefix", "", "DDPRUN_NO_PREFIX", "",
     "0 or 1",
     "Leave the workers' lines as they are.",
     [](std::string_view value, Choices& c) { return take_switch(value, c.no_prefix); }},
    {Group::output, "log_level", "LEVEL", "DDPRUN_LOG_LEVEL", "info",
     "debug, info, warning, error or off",
     "Which of ddprun's own lines are shown: debug, info, warning, error or off.",
     take_log_level},
    {Group::output, "events", "FILE", "DDPRUN_EVENTS", "",
     "the name of a file",
     "Append one JSON object a line to FILE for each thing that happens.",
     take_events},
    {Group::information, "dry_run", "", "", "",
     "0 or 1",
     "Print what would be run with which environment, and run nothing.",
     [](std::string_view value, Choices& c) { return take_switch(value, c.dry_run); }},
    {Group::information, kHelp, "", "", "", "", "Print this text.", take_nothing},
    {Group::information, kVersion, "", "", "", "", "Print the version.", take_nothing},
}};
// clang-format on

}  // namespace

std::span<const Flag> flags() {
  return kFlags;
}

const Flag* find_flag(std::string_view word) {
  if (word == "-h") word = "--help";
  if (!word.starts_with("--")) return nullptr;
  std::string name(word.substr(2, word.find('=') - 2));
  std::replace(name.begin(), name.end(), '-', '_');
  const auto flag = std::find_if(kFlags.begin(), kFlags.end(),
                                 [&name](const Flag& candidate) { return candidate.name == name; });
  return flag == kFlags.end() ? nullptr : &*flag;
}

}  // namespace ddprun::cli

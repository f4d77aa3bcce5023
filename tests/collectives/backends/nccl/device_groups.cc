// SPDX-License-Identifier: Apache-2.0
// One rank of a group on devices that is made, changed or given up: device_groups SCENARIO. The
// exit code is as device_worker's.

#include <algorithm>
#include <ddp/local_devices.h>
#include <ddp/process_group.h>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/collectives/backends/nccl/device_floats.h"
#include "tests/collectives/stores/job_store.h"

using namespace ddp_tests;
using ddp::DeviceSpan;
using ddp::ProcessGroup;
using ddprun::tests::check;

namespace {

constexpr std::chrono::minutes kPatience(1);

ProcessGroup join_on(std::optional<int> device) {
  return ddp::init_process_group({.backend = "nccl", .timeout = kPatience, .device = device});
}

/// Ranks may share a device; NCCL 2.30 allows that.
int own_device() {
  return std::atoi(std::getenv("RANK")) % std::max(count_devices(), 1);
}

void configured() {
  ddp::NcclOptions settings = {.cga_cluster_size = 2, .min_ctas = 3, .max_ctas = 4};
  settings.net_name = "Socket";
  auto group = ddp::init_process_group(
      {.backend = "nccl", .timeout = kPatience, .device = own_device(), .nccl = settings});
}

/// Uses all settings of later releases.
void configured_late() {
  const ddp::NcclOptions settings = {.split_share = true,
                                     .traffic_class = 5,
                                     .name = "weights",
                                     .collnet = false,
                                     .cta_policy = 1,
                                     .nvls_ctas = 6,
                                     .channels_per_net_peer = 2,
                                     .nvlink_centric = true,
                                     .shrink_share = true};
  auto group = ddp::init_process_group(
      {.backend = "nccl", .timeout = kPatience, .device = own_device(), .nccl = settings});
}

/// Uses the settings of NCCL 2.29 and 2.30.
void configured_latest() {
  const ddp::NcclOptions settings = {
      .graph_usage_mode = 1, .max_p2p_peers = 1, .graph_stream_ordering = false};
  auto group = ddp::init_process_group(
      {.backend = "nccl", .timeout = kPatience, .device = own_device(), .nccl = settings});
}

/// Ranks connect with several ids, one of which may be of a single rank.
void many_ids() {
  const bool are_two = std::string(std::getenv("WORLD_SIZE")) == "2";
  ProcessGroup group = ddp::init_process_group(
      {.backend = "nccl", .timeout = kPatience, .nccl = {.ranks_per_id = are_two ? 1 : 2}});
  use_device(own_device());
  Floats data(make_stream(), own(group));
  group.all_reduce(data.span());
  data.expect(sum_of_ranks(group), "a sum of ranks with several ids");
}

/// NCCL has other kernels for memory that it knows on all ranks.
void average_in_memory(ProcessGroup& group) {
  const std::size_t count = kCount * static_cast<std::size_t>(group.size());
  const CUstream stream = make_stream();
  const auto memory = group.allocate(count * sizeof(float));
  auto* const data = static_cast<float*>(memory.get());
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  std::vector<float> host(count, own(group));
  DRIVER(cuMemcpyHtoDAsync, address, host.data(), count * sizeof(float), stream);
  const DeviceSpan<float> all{data, count, stream};
  const DeviceSpan<float> part{data + static_cast<std::size_t>(group.rank()) * kCount, kCount,
                               stream};
  group.all_reduce(all, ddp::ReduceOp::avg);
  group.all_reduce(DeviceSpan<float>{data, count - 1, stream}, ddp::ReduceOp::avg);
  group.reduce_scatter(all, part, ddp::ReduceOp::avg);
  group.all_gather(part, all);
  DRIVER(cuMemcpyDtoHAsync, host.data(), address, count * sizeof(float), stream);
  DRIVER(cuStreamSynchronize, stream);
  const float average = sum_of_ranks(group) / static_cast<float>(group.size());
  check(host == std::vector<float>(count, average), "averages in the group's memory");
}

/// Memory of the group, which outlives its calls; some of it also outlives the group.
void memory() {
  std::optional<ProcessGroup> group = join_on({});
  use_device(own_device());
  const CUstream stream = make_stream();
  std::shared_ptr<void> longer;
  for (const std::size_t count : {kCount, 3 * kCount}) {
    const auto memory = group->allocate(count * sizeof(float));
    const auto address = reinterpret_cast<CUdeviceptr>(memory.get());
    std::vector<float> host(count, -1);
    DRIVER(cuMemcpyDtoHAsync, host.data(), address, count * sizeof(float), stream);
    DRIVER(cuStreamSynchronize, stream);
    check(host == std::vector<float>(count), "memory that is not zeroed");
    host.assign(count, own(*group));
    DRIVER(cuMemcpyHtoDAsync, address, host.data(), count * sizeof(float), stream);
    group->all_reduce(DeviceSpan<float>{static_cast<float*>(memory.get()), count, stream});
    DRIVER(cuMemcpyDtoHAsync, host.data(), address, count * sizeof(float), stream);
    DRIVER(cuStreamSynchronize, stream);
    check(host == std::vector<float>(count, sum_of_ranks(*group)), "a sum in the group's memory");
    longer = memory;
  }
  average_in_memory(*group);
  refused([&] { ddp::group_call([&] { (void)group->allocate(1); }); });
  group.reset();
}

/// The last rank is excluded; later the first has no other rank left.
void shrink() {
  ProcessGroup group = join_on(own_device());
  use_device(own_device());
  Floats data(make_stream(), own(group));
  group.all_reduce(data.span());
  data.expect(sum_of_ranks(group), "a sum before the rest");
  group.barrier();
  if (group.rank() == group.size() - 1) return;
  const std::vector<int> last = {group.size() - 1};
  ProcessGroup rest = group.shrink(last);
  data.write(own(rest));
  rest.all_reduce(data.span());
  data.expect(sum_of_ranks(rest), "a sum of the rest");
  rest.barrier();
  auto part = rest.split(rest.rank());
  part->all_reduce(data.span());
  data.expect(sum_of_ranks(rest), "what one rank has");
}

/// Returns when all ranks have come to this place. It is not a call: a call that returns on one
/// rank may still fail on another if the first rank ends then.
void meet(const ProcessGroup& group, const std::string& place) {
  const auto store = ddprun::tests::job_store();
  store->set(place + "/" + std::to_string(group.rank()), "");
  for (int rank = 0; rank < group.size(); ++rank) store->get(place + "/" + std::to_string(rank));
}

/// Rank 1 dies; the others continue.
void survive() {
  ProcessGroup group = join_on(own_device());
  use_device(own_device());
  Floats data(make_stream(), own(group));
  group.all_reduce(data.span());
  DRIVER(cuStreamSynchronize, data.span().stream);
  meet(group, "all have the first sum");
  group.set_timeout(std::chrono::seconds(40));          // a real NCCL may not notice it
  if (group.rank() == 1) ::syscall(SYS_exit_group, 0);  // a sanitizer's _exit() looks for leaks
  try {
    group.iall_reduce(data.span()).wait(std::chrono::minutes(1));
    wrong("summed without rank 1");
  } catch (const ddp::Error& error) {
    const bool is_late = error.kind() == ddp::ErrorKind::timed_out;
    check(is_late || error.kind() == ddp::ErrorKind::peer_lost, error.what());
  }
  const std::vector<int> lost = {1};
  ProcessGroup rest = group.shrink(lost);
  DRIVER(cuStreamSynchronize, data.span().stream);
  data.write(own(rest));
  rest.all_reduce(data.span());
  data.expect(sum_of_ranks(rest), "a sum of the survivors");
}

/// All ranks abort; the first waits for the others in a call on the device. The first rank to abort
/// may end any call of the others, also the sum that it already has.
void give_up() {
  ProcessGroup group = join_on({});
  use_device(own_device());
  const Floats data(make_stream(), own(group));
  try {
    group.all_reduce(data.span());
    DRIVER(cuStreamSynchronize, data.span().stream);
    if (group.rank() == 0 && group.size() > 1) group.all_reduce(data.span());
  } catch (const ddp::Error& error) {
    std::printf("%s\n", error.what());
  }
  group.abort();
  DRIVER(cuStreamSynchronize, data.span().stream);
  try {
    group.all_reduce(data.span());
    wrong("summed by a group that was aborted");
  } catch (const ddp::Error& error) {
    const std::string text = error.what();
    check(text.find(" aborted the group") != std::string::npos, text);
  }
}

/// Rank 0 waits in its first call for a rank that makes none; with `aborts`, that rank gives the
/// group up.
void wait_for_first_call(bool aborts) {
  ProcessGroup group = join_on({});
  use_device(own_device());
  const Floats data(make_stream(), own(group));
  const auto store = ddprun::tests::job_store();
  if (group.rank() == 0) {
    store->set("waits", "");
    return group.all_reduce(data.span());
  }
  if (!aborts) ::pause();
  store->wait({"waits"});
  group.abort();
  store->wait({"has-failed"});
}

void abort_before_first_call() {
  try {
    wait_for_first_call(true);
  } catch (const ddp::Error&) {
    ddprun::tests::job_store()->set("has-failed", "");
    throw;
  }
}

void lost_before_first_call() {
  wait_for_first_call(false);
}

/// This process's sockets, as the kernel numbers them.
std::set<std::string> sockets() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:")) found.insert(std::move(target));
  }
  return found;
}

/// The number of the sockets `now` that were not open `before`.
std::ptrdiff_t count_opened(const std::set<std::string>& before, const std::set<std::string>& now) {
  return std::ranges::count_if(now, [&](const auto& each) { return !before.contains(each); });
}

/// A group that moves nothing in host memory has no connections for that. A message connects its
/// two ranks; a collective call connects all.
void lazy_host() {
  const auto before = sockets();
  ProcessGroup group = join_on({});
  const auto joined = sockets();
  meet(group, "all have joined");
  if (group.rank() < 2) {
    std::vector<float> data(100'000, 1);
    if (group.rank() == 0) group.send(data, 1);
    if (group.rank() == 1) group.recv(data, 0);
    check(data == std::vector<float>(data.size(), 1), "a message");
  }
  const auto opened_for_messages = count_opened(joined, sockets());
  meet(group, "all have counted");
  std::vector<float> data = {own(group)};
  group.all_reduce(data);
  check(data.front() == sum_of_ranks(group), "a sum in host memory");
  const auto opened = count_opened(joined, sockets());
  const auto of_joined = count_opened(before, joined);
  check(of_joined <= 5, std::to_string(of_joined) + " sockets of a rank that has joined");
  check(group.rank() < 2 || opened_for_messages <= 1, "sockets for messages of others");
  check(opened >= group.size() - 1, "no sockets to others");
}

/// Only sends messages; then ranks leave at different times.
void only_messages() {
  ProcessGroup group = join_on({});
  std::vector<float> data(1000, own(group));
  const int next = (group.rank() + 1) % group.size();
  const int last = (group.rank() + group.size() - 1) % group.size();
  if (group.rank() == 0) {
    for (int i = 0; i < 2000; ++i) group.send(data, next);  // more than are kept at once
    return;
  }
  for (int i = 0; i < 2000; ++i) group.recv(data, last);
  check(data.front() == 1, "what rank 0 has");
  if (next == 0) return;
  for (int i = 0; i < 2000; ++i) group.send(data, next);
}

/// Rank 1 dies before its first call in host memory, while the others wait there.
void lost_before_host() {
  ProcessGroup group = join_on({});
  if (group.rank() == 1) ::_exit(0);
  group.barrier();
}

/// Rank 1 makes no call in host memory.
void late_host() {
  ProcessGroup group = join_on({});
  group.set_timeout(std::chrono::milliseconds(1500));
  if (group.rank() == 1) ::pause();
  group.barrier();
}

using Scenario = void (*)();
const std::map<std::string, Scenario> kScenarios = {
    {"configured", configured},
    {"configured-late", configured_late},
    {"configured-latest", configured_latest},
    {"many-ids", many_ids},
    {"memory", memory},
    {"give-up", give_up},
    {"shrink", shrink},
    {"survive", survive},
    {"abort-before-first-call", abort_before_first_call},
    {"lost-before-first-call", lost_before_first_call},
    {"lazy-host", lazy_host},
    {"only-messages", only_messages},
    {"late-host", late_host},
    {"lost-before-host", lost_before_host},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "";
  return ddprun::tests::exit_code_of([&] { kScenarios.at(scenario)(); });
}

// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>

#include "base/blocking_io.h"
#include "cli/doctor/job.h"
#include "cli/doctor/json.h"
#include "cli/doctor/node.h"
#include "cli/doctor/probe.h"
#include "cli/doctor/read_facts.h"
#include "tests/cli/command_line.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun;
using namespace ddprun::doctor;
using tests::contains;
using tests::fake_nvml_path;
namespace fs = std::filesystem;

namespace {

/// A temporary folder with the files that a test writes.
class Root {
 public:
  Root() : path_(mkdtemp(name_)) {}
  ~Root() { fs::remove_all(path_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text;
  }
  const std::string& path() const { return path_; }

 private:
  char name_[32] = "/tmp/ddprun_doctor_test_XXXXXX";
  std::string path_;
};

doctor::Job doctor_of(const Words& words, const cli::Host& on) {
  return std::get<doctor::Job>(must(cli::parse(words, on)));
}

cli::Host host_with_path(std::vector<std::string> environment = {}) {
  cli::Host with = host(std::move(environment));
  with.executable = [] { return std::string("/bin/ddprun"); };
  return with;
}

}  // namespace

TEST_CASE("doctor: limits are read from control groups of both versions and their parents") {
  const Root two;
  two.write("/proc/self/cgroup", "0::/job/step\n");
  two.write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  two.write("/sys/fs/cgroup/job/memory.max", "1000\n");
  two.write("/sys/fs/cgroup/job/step/cpu.max", "150000 100000\n");
  two.write("/sys/fs/cgroup/job/cpu.max", "max 100000\n");
  CHECK(read_control_group(two.path()).memory == 1000);
  CHECK(read_control_group(two.path()).cpus == 1.5);

  const Root one;
  one.write("/proc/self/cgroup", "4:memory:/docker/1\n3:cpu,cpuacct:/\n");
  one.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n");  // as a container sees it
  one.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  one.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(read_control_group(one.path()).memory == 2000);
  CHECK(read_control_group(one.path()).cpus == 0.5);

  const Root none;
  none.write("/proc/self/cgroup", "4:memory:/\n3:cpu:/\n");
  none.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  none.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  CHECK(read_control_group(none.path()).memory == -1);
  CHECK(read_control_group(none.path()).cpus == -1);
  CHECK(read_control_group("/nowhere").memory == -1);
}

TEST_CASE("doctor: GPUs, driver and InfiniBand are read from the kernel's files") {
  const Root root;
  root.write("/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5\n");
  root.write("/proc/driver/nvidia/gpus/0000:17:00.0/information",
             "Model: \t\t NVIDIA H100\nIRQ: 5");
  root.write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  root.write("/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  Order order;
  order.devices = {"0", "1"};
  Facts facts;
  read_devices(facts, order, root.path());
  CHECK(facts.gpus == 2);
  CHECK(facts.traits["GPUs"] == "2 NVIDIA H100");
  CHECK(facts.traits["driver"] == "550.54.15");
  CHECK(facts.has_fabric);
  CHECK(facts.inactive_ports == std::vector<std::string>{"mlx5_1/1 (DOWN)"});

  Facts none;
  read_devices(none, Order(), "/nowhere");
  CHECK(none.traits.empty());
  CHECK_FALSE(none.has_fabric);
}

TEST_CASE("doctor: NVML reports the health of GPUs") {
  const Root root;
  root.write("/proc/driver/nvidia/version", "NVRM version: ...\n");
  const std::string fell = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
  root.write("/dev/kmsg", "4,1,10,-;" + fell);
  setenv("FAKE_NVML", "gpu lost worn pending ecc full denied unlinked hot", 1);
  Facts facts;
  read_gpus(facts, root.path(), fake_nvml_path());
  REQUIRE(facts.gpu_health.size() == 9);
  const std::vector<Gpu>& gpus = facts.gpu_health;
  CHECK_FALSE((gpus[0].is_lost || gpus[0].is_worn_out || gpus[0].needs_reset));
  CHECK(gpus[1].is_lost);
  CHECK(gpus[2].is_worn_out);
  CHECK(gpus[3].needs_reset);
  CHECK(gpus[4].uncorrected_errors == 2);
  CHECK(gpus[5].memory_used == 0.5);
  CHECK_FALSE(gpus[6].is_lost);
  CHECK((gpus[0].links_up == 0 && gpus[0].links_down == 0));
  CHECK((gpus[7].links_up == 3 && gpus[7].links_down == 1));
  CHECK(gpus[7].slowed.empty());
  CHECK(gpus[8].slowed == "too hot");
  CHECK(facts.gpu_errors ==
        std::vector<std::string>{"0000:3b:00: Xid 79 (the GPU fell off the bus)"});

  setenv("FAKE_NVML", "broken", 1);
  Facts broken;
  read_gpus(broken, root.path(), fake_nvml_path());
  CHECK(broken.driver_differs);
  CHECK(broken.gpu_health.empty());
  Facts none;
  read_gpus(none, "/nowhere", fake_nvml_path());
  CHECK_FALSE(none.driver_differs);
  read_gpus(none, root.path(), "libnowhere.so");
  CHECK(none.gpu_health.empty());
  unsetenv("FAKE_NVML");
}

TEST_CASE("doctor: a host's resources are read, and missing ones are noted") {
  const Root root;
  root.write("/proc/sys/kernel/yama/ptrace_scope", "3\n");
  Facts facts;
  read_resources(facts, root.path());
  CHECK(facts.ptrace_scope == 3);
  CHECK(facts.shared_memory == -1);
  read_resources(facts);
  CHECK(facts.shared_memory >= 0);
  CHECK(facts.open_files != 0);
}

TEST_CASE("doctor: a missing folder is judged without making it, and a file is no folder") {
  const Root root;
  root.write("/file", "");
  const Folder missing = try_folder(root.path() + "/a/b");
  CHECK(missing.error.empty());
  CHECK(missing.free > 0);
  CHECK(try_folder(root.path() + "/file/a").error == "Not a directory");
  CHECK(try_folder(root.path() + "/file").error == "Not a directory");
  CHECK(std::distance(fs::directory_iterator(root.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("doctor: a program's content identifies it") {
  const Root root;
  root.write("/a", "one");
  root.write("/b", "one");
  root.write("/c", "two");
  const auto digest = [&](const std::string& file) {
    Facts facts;
    Order order;
    order.program = root.path() + file;
    read_software(facts, order);
    return facts.traits["program"];
  };
  CHECK(digest("/a").size() == 16);
  CHECK(digest("/a") == digest("/b"));
  CHECK(digest("/a") != digest("/c"));
  CHECK(digest("/nowhere").empty());
}

TEST_CASE("doctor: other hosts do not reach this one by a loopback address") {
  Facts facts;
  read_network(facts, "127.0.0.1");
  CHECK(facts.way.empty());
  read_network(facts, "192.0.2.1");
  CHECK(facts.way == "192.0.2.1");
  CHECK(facts.interface.empty());  // no interface has this address
}

TEST_CASE("doctor: a probe checks who answers, and measures the connection") {
  const Answerer answerer = must(Answerer::listen());
  Facts facts;
  facts.port = answerer.port();
  facts.token = answerer.token();
  const Target target{1, "ddprun", "127.0.0.1"};
  const Link found = probe(0, target, facts);
  CHECK(found.error.empty());
  CHECK(found.from == 0);
  CHECK(found.to == 1);
  CHECK(found.round_trip > 0);
  CHECK(found.path_mtu > 0);
  const Link fast = measure(0, target, facts);
  CHECK(fast.is_measured);
  CHECK_FALSE(fast.lost_large);
  CHECK(fast.mbits_per_second > 0);
  CHECK_FALSE(probe(0, {1, "ddprun", "nowhere.invalid"}, facts).error.empty());  // unresolved

  facts.token.back() = facts.token.back() == 'a' ? 'b' : 'a';
  CHECK(probe(0, target, facts).error == "another program answers there");
  CHECK_FALSE(measure(0, target, facts).is_measured);
}

TEST_CASE("doctor: a connection that breaks is reported as an error of that link") {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  REQUIRE(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(listen(listener.get(), 1) == 0);
  REQUIRE(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  Facts facts;
  facts.port = ntohs(address.sin_port);
  facts.token = std::string(32, 'a');
  std::thread breaks_off([&] {
    const Fd guest(accept(listener.get(), nullptr, nullptr));
    std::string token(32, 0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    if (receive_all(guest, token, deadline) == 0) send_all(guest, token, deadline);
  });
  const Link broken = probe(0, {1, "ddprun", "127.0.0.1"}, facts);
  breaks_off.join();
  CHECK(contains(broken.error, "Connection reset"));
  const auto told = decode_links(encode(std::vector<Link>{broken}), 0, 2);
  REQUIRE(told);
  CHECK(told->size() == 1);
}

TEST_CASE("doctor: a probe of a closed port is refused") {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  Facts facts;
  facts.port = ntohs(address.sin_port);
  CHECK(probe(0, {1, "ddprun", "127.0.0.1"}, facts).error == "Connection refused");
}

TEST_CASE("doctor: the command line of a job becomes a job that runs ddprun itself") {
  const doctor::Job job =
      doctor_of({"doctor", "--nnodes", "2", "--rdzv_endpoint", "node1", "--nproc_per_node", "3",
                 "--log_dir", "/logs", "--max_restarts", "2", "--hang_timeout", "5", "--web",
                 "--json", "train.py", "--lr", "1"},
                host_with_path());
  CHECK(job.spec.max_nodes == 2);
  CHECK(job.spec.master_addr == "node1");
  CHECK(job.spec.local_size == 1);
  CHECK(job.spec.max_restarts == 0);
  CHECK(job.spec.hang_timeout.count() == 0);
  CHECK(job.spec.log_dir.empty());
  CHECK_FALSE(job.spec.web);
  CHECK(job.spec.join_timeout == std::chrono::seconds(60));
  CHECK(job.spec.program == "/bin/ddprun");
  CHECK(job.spec.workers_report);
  CHECK(job.order.program == "train.py");
  CHECK(job.order.python == "/bin/python3");
  CHECK(job.order.workers == 3);
  CHECK(job.order.folders == std::vector<std::string>{"/tmp", "/logs"});
  CHECK(job.order.json);
  REQUIRE(is_node({job.spec.command.begin() + 1, job.spec.command.end()}));
  CHECK(decode_order(job.spec.command[2])->program == "train.py");
}

TEST_CASE("doctor: a node that could not run the program takes part and says so") {
  cli::Host without = host_with_path();
  without.check_script = [](const std::string& name) -> Result<> {
    return Error{Errc::not_found, "cannot run " + name + ": no such file"};
  };
  CHECK(doctor_of({"doctor", "train.py"}, without).order.problem ==
        "cannot run train.py: no such file");
  cli::Host no_gpus = host({}, {});
  no_gpus.executable = [] { return std::string("/bin/ddprun"); };
  const Order order = doctor_of({"doctor", "--nproc_per_node", "gpu"}, no_gpus).order;
  CHECK(contains(order.workers_problem, "needs a GPU"));
  CHECK(order.problem.empty());
}

TEST_CASE("doctor: the interface that ddprun itself sets for Gloo is not compared between nodes") {
  setenv("GLOO_SOCKET_IFNAME", "eth7", 1);
  setenv("GLOO_DEVICE_TRANSPORT", "TCP", 1);
  Order order;
  CHECK_FALSE(read_facts(order, "").variables.contains("GLOO_SOCKET_IFNAME"));
  CHECK(read_facts(order, "").variables.at("GLOO_DEVICE_TRANSPORT") == "TCP");
  order.gives_gloo_interface = true;
  CHECK(read_facts(order, "").variables.at("GLOO_SOCKET_IFNAME") == "eth7");
  unsetenv("GLOO_SOCKET_IFNAME");
  unsetenv("GLOO_DEVICE_TRANSPORT");
  cli::Host user = host_with_path();
  CHECK_FALSE(doctor_of({"doctor", "train.py"}, user).order.gives_gloo_interface);
  user.environment.emplace_back("GLOO_SOCKET_IFNAME=eth0");
  CHECK(doctor_of({"doctor", "train.py"}, user).order.gives_gloo_interface);
}

TEST_CASE("doctor: it refuses --dry_run, and only it takes --json") {
  CHECK(contains(refusal({"--json", "train"}), "--json is for ddprun doctor alone"));
  CHECK(contains(refusal({"serve", "--rdzv_endpoint", ":1", "--json"}), "--json is not for"));
  CHECK(contains(refusal({"doctor", "--dry_run"}), "--dry_run is not for ddprun doctor"));
  CHECK(contains(printed({"doctor", "--help"}), "Usage: ddprun doctor"));
  CHECK(contains(printed({"doctor", "--help"}), "--json"));
  CHECK_FALSE(contains(printed({"--help"}), "--json"));
  CHECK(job({"./doctor"}).command == std::vector<std::string>{"./doctor"});
  CHECK(job({"--", "doctor"}).command == std::vector<std::string>{"doctor"});
}

TEST_CASE("doctor: with --hosts, one command checks several hosts") {
  cli::Host with = host_with_path();
  with.directory = [] { return std::string("/home"); };
  const auto job =
      std::get<remote::Job>(must(cli::parse(Words{"doctor", "--hosts", "a,b", "--json"}, with)));
  REQUIRE(job.hosts.size() == 2);
  CHECK(job.hosts[1].order.arguments.front() == "doctor");
  CHECK(job.hosts[1].order.arguments.back() == "--json");
  CHECK(contains(refusal({"--hosts", "a,b"}, with), "no program to run"));
}

// SPDX-License-Identifier: Apache-2.0
// Every way in which ranks find each other.

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "ddp/process_group.h"
#include "ddp/tcp_store.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/group/two_groups.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"
#include "tests/unused_port.h"

using namespace std::chrono_literals;
using namespace ddprun::tests;
using ddp::ErrorKind;

namespace {

/// The variables of one launcher; the other launchers' variables are empty.
Variables only(Variables variables) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PMI_RANK",
                           "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMIX_NAMESPACE"}) {
    variables.emplace(name, "");
  }
  return variables;
}

/// From now on this process can make no Unix socket.
void refuse_unix_sockets() {
  std::array<sock_filter, 6> rules = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{rules.size(), rules.data()};
  check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  check(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0, "seccomp");
}

/// A rank that joins by `init_method`, and makes another group in the same way.
Rank start(const Variables& variables, const std::string& init_method = "env://") {
  Variables all = only(variables);
  all["DDP_TEST_INIT"] = init_method;
  return {rank_command([](ddp::ProcessGroup& group) { use_two_groups(group); }), all};
}

/// An interface of this host and its address; the loopback interface if there is no other.
std::pair<std::string, std::string> find_interface() {
  std::pair<std::string, std::string> found = {"lo", "127.0.0.1"};
  ifaddrs* first = nullptr;
  REQUIRE(::getifaddrs(&first) == 0);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    const bool is_v4 = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET;
    if (!is_v4 || (one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0) continue;
    const auto* const address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    found = {one->ifa_name, ::inet_ntoa(address->sin_addr)};
  }
  ::freeifaddrs(first);
  return found;
}

/// Limits this process to `left` more descriptors, by the hard limit, too: a group raises the soft
/// limit up to that.
void leave_descriptors(int left) {
  const int next = ::dup(0);
  ::close(next);
  const auto most = static_cast<rlim_t>(next) + static_cast<rlim_t>(left);
  const rlimit limit = {most, most};
  check(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

}  // namespace

TEST_CASE("ranks meet at a store that rank 0 serves, or in a file") {
  const Folder folder;
  const std::string method = GENERATE("tcp", "file");
  const std::string place = method == "tcp" ? "tcp://127.0.0.1:" + std::to_string(unused_port())
                                            : "file://" + (folder.path / "store").string();
  std::vector<Rank> ranks;
  for (const int rank : {2, 0, 1}) {
    const std::string query = "?rank=" + std::to_string(rank) + "&world_size=3";
    ranks.push_back(start({}, place + query));
  }
  check_success(ranks);
  CHECK(std::filesystem::is_empty(folder.path));  // the last rank removed the file
}

TEST_CASE("the launcher's rank and size work with every init_method") {
  const Folder folder;
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(start({{"PMI_RANK", std::to_string(rank)}, {"PMI_SIZE", "2"}},
                          "file://" + (folder.path / "store").string()));
  }
  check_success(ranks);
}

TEST_CASE("restarted ranks find each other in a store that outlived the ranks before") {
  const LiveStore store;
  const auto start_rank = [&](int rank, const Variables& more) {
    Variables variables = more;
    variables.merge(place(rank, 2, store.port()));
    return Rank(rank_command([](ddp::ProcessGroup& group) { use_two_groups(group); }), variables);
  };
  check_failure({start_rank(0, kImpatientToJoin).wait()}, ErrorKind::timed_out, {"rank 1"});
  const Variables restarted = {{"TORCHELASTIC_RESTART_COUNT", "1"}, {"DDP_TEST_JOIN_MS", "20000"}};
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) ranks.push_back(start_rank(rank, restarted));
  check_success(ranks);
}

TEST_CASE("ranks of other launchers find each other without MASTER_ADDR") {
  const auto [rank_name, more] = GENERATE(table<std::string, Variables>({
      {"OMPI_COMM_WORLD_RANK",
       {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}},
      {"PMI_RANK", {{"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}}},
      {"SLURM_PROCID",
       {{"SLURM_STEP_NUM_TASKS", "2"},
        {"SLURM_NTASKS", "9"},
        {"SLURM_STEP_NODELIST", "localhost"}}},
  }));
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    Variables variables = more;
    variables[rank_name] = std::to_string(rank);
    variables["PMIX_NAMESPACE"] = rank_name + std::to_string(::getpid());
    ranks.push_back(start(variables));
  }
  check_success(ranks);
}

TEST_CASE("a wrong environment of any launcher is refused with a hint") {
  const auto [variables, expected] = GENERATE(table<Variables, std::string>({
      {{{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       "MASTER_ADDR is not set, and OMPI_COMM_WORLD_RANK's launcher does not say where rank 0 "
       "runs: name its host (mpirun -x MASTER_ADDR=HOST"},
      {{{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}, "PMI_RANK=4 is not below PMI_SIZE=4"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "two"}}, "SLURM_NTASKS=two is not a number from 1"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NODELIST", "n[1"}},
       "SLURM_STEP_NODELIST=n[1 is no list of hosts"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NODELIST", "n[1-2"}},
       "SLURM_STEP_NODELIST=n[1-2 is no list of hosts"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_SIZE is not set"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "0"}},
       "MASTER_PORT=0 is not a number from 1 to 65535"},
  }));
  check_failure({start(variables).wait()}, ErrorKind::usage, {expected});
}

TEST_CASE("a wrong init_method is refused with the accepted forms") {
  const auto [method, expected] = GENERATE(table<std::string, std::string>({
      {"udp://h:1", "udp://h:1 is none of env://, tcp://HOST:PORT and file:///PATH"},
      {"file://relative", "is none of"},
      {"tcp://h", "tcp://h is not tcp://HOST:PORT"},
      {"tcp://:29500", "is not tcp://HOST:PORT"},
      {"tcp://h:70000", "is not tcp://HOST:PORT"},
      {"tcp://h:1?rank=0", "rank is given without world_size"},
      {"tcp://h:1?rank=x&world_size=2", "rank=x is no such number"},
      {"tcp://h:1?size=2", "size is neither rank nor world_size"},
      {"tcp://h:1?rank=2&world_size=2", "rank 2 is not from 0 to 1"},
  }));
  check_failure({start({}, method).wait()}, ErrorKind::usage, {expected});
}

TEST_CASE("threads of one process meet in a store they share") {
  const auto store = std::make_shared<ddp::HashStore>();
  std::vector<std::int64_t> sums(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto group =
          ddp::init_process_group({.timeout = 60s, .store = store, .rank = rank, .world_size = 3});
      std::vector<std::int64_t> data = {rank + 1};
      group.all_reduce(data);
      sums[rank] = data[0];
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(sums == std::vector<std::int64_t>{6, 6, 6});
}

TEST_CASE("messages name the ranks of a group by the names that they were given") {
  const auto store = std::make_shared<ddp::HashStore>();
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto group = ddp::init_process_group({.backend = "cpu",
                                            .timeout = 60s,
                                            .store = store,
                                            .rank = rank,
                                            .world_size = 2,
                                            .names = {7, 3}});
      try {
        rank == 0 ? group.barrier() : (void)group.all_reduce(1);
      } catch (const ddp::Error& error) {
        texts[rank] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(contains(texts[0], "rank 7"));
  CHECK(contains(texts[1], "rank 3"));

  const ddp::Options two{.store = store, .rank = 0, .world_size = 2, .names = {1}};
  CHECK_THROWS_WITH(ddp::init_process_group(two), "ddp: 1 names are given for 2 ranks");
}

TEST_CASE("rank 0 refuses another backend or version, and serves the store briefly for that rank") {
  const auto [library, difference] = GENERATE(table<std::string, std::string>({
      {"nccl/" DDPRUN_VERSION, "the backend: cpu on rank 0, nccl on rank 1; name one in "},
      {"cpu/0.0.9", "the version of ddp: " DDPRUN_VERSION " on rank 0, 0.0.9 on rank 1; install "},
      {"cpu", "the version of ddp: " DDPRUN_VERSION " on rank 0, an older one on rank 1; install "},
  }));
  const std::uint16_t port = unused_port();
  Rank rank(rank_command([](ddp::ProcessGroup& /*group*/) {}),
            only({{"RANK", "0"},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", std::to_string(port)},
                  {"DDP_TEST_BACKEND", "gloo"},
                  {"DDP_TEST_JOIN_MS", "3600000"}}));
  ddp::TcpStore store("127.0.0.1", port, {.timeout = 60s});
  store.set("ddp/0/pair/1/0", "an address");
  store.set("ddp/0/joined/1", "127.0.0.1 1 1 process " + library);  // then rank 1 hangs
  const Ended ended = rank.wait();
  CHECK(ended.code == failed(ErrorKind::mismatch));
  INFO(ended.output);
  CHECK(contains(ended.output, "ddp: rank 0: ranks do not agree on " + difference));
}

TEST_CASE("each rank's published data does not grow with the number of ranks") {
  const auto published = [](int size) {
    const auto store = std::make_shared<ddp::HashStore>();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        (void)ddp::init_process_group(
            {.backend = "cpu", .timeout = 60s, .store = store, .rank = rank, .world_size = size});
      });
    }
    for (auto& thread : threads) thread.join();
    return store->get("ddp/0/joined/0").size();
  };
  CHECK(published(6) <= published(2) + 10);  // numbers may get longer
}

TEST_CASE("GLOO_SOCKET_IFNAME names the interface by which ranks reach each other") {
  const auto [interface, address] = find_interface();
  const Words command = rank_command(
      [](ddp::ProcessGroup& group, const std::string& expected) {
        check(group.all_reduce(group.rank()) == 1, "sum");
        const auto line = job_store()->get("ddp/0/joined/" + std::to_string(group.rank()));
        check(line.starts_with(expected + " "), "a rank listens on " + line);
      },
      address);
  for (const std::string& names : {interface, "nosuch0," + interface}) {
    check_ranks(2, command, {{"GLOO_SOCKET_IFNAME", names}});
  }
  const auto ended = run_ranks(1, rank_command([](ddp::ProcessGroup& /*group*/) {}),
                               {{"GLOO_SOCKET_IFNAME", "nosuch0"}, {"WORLD_SIZE", "2"}});
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::usage));
  CHECK(contains(ended[0].output,
                 "ddp: rank 0: GLOO_SOCKET_IFNAME=nosuch0: this host has no such interface with an "
                 "IP address; it has "));
}

TEST_CASE("gloo is another name for backend cpu") {
  const auto name_of = [](const char* backend) {
    return ddp::init_process_group({.backend = backend, .rank = 0, .world_size = 1}).backend();
  };
  CHECK(name_of("gloo") == "cpu");
  CHECK(name_of("cpu") == "cpu");
}

TEST_CASE("ranks of a host share memory if all of them can, else none does", "[tcp]") {
  check_ranks(3, [](ddp::ProcessGroup& group) {
    const bool can = variable_or("DDP_TEST_WITHOUT_SHARED_MEMORY", "").empty();
    check(is_sharing_memory() == can, "whether memory is shared");
    {
      auto part = group.new_group(std::vector{2, 0});
      if (part) part->barrier();
    }
    std::vector<float> data(100'000, 1);
    group.all_reduce(data);
    check(data.front() == 3 && data.back() == 3, "sum");
  });
}

TEST_CASE("ranks share memory without a socket that others could write to") {
  check_ranks(2, rank_command([] {
                refuse_unix_sockets();
                ddp::ProcessGroup group = join();
                check(group.all_reduce(group.rank() + 1) == 3, "sum");
                check(is_sharing_memory(), "memory is shared");
              }));
}

TEST_CASE("if a rank has too few descriptors, memory is not shared, or no rank joins") {
  bool is_shared = false;
  bool joined_without = false;
  // UBSan reads objects through a pipe, which needs more descriptors than the memory does.
  const bool is_exact = variable_or("UBSAN_OPTIONS", "").empty();
  for (int left = 13; left < 40 && !is_shared; ++left) {
    CAPTURE(left);
    const auto ended = run_ranks(
        2,
        [](int descriptors) {
          const bool limited = variable_or("RANK", "") == "1";
          if (limited) leave_descriptors(descriptors);
          ddp::ProcessGroup group = join();
          check(group.all_reduce(group.rank() + 1) == 3, "sum");
          if (!limited) std::printf(is_sharing_memory() ? "shared" : "alone");
        },
        left);
    CAPTURE(ended[0].output, ended[1].output);
    // Rank 0 may be done when rank 1 has no descriptor for the connection by which it leaves.
    const bool lacks_last = contains(ended[1].output, "cannot accept a connection for messages") ||
                            (!is_exact && contains(ended[1].output, "invalid vptr"));
    CHECK(((ended[0].code == 0) == (ended[1].code == 0) || lacks_last));
    is_shared = ended[1].code == 0 && contains(ended[0].output, "shared");
    joined_without = joined_without || contains(ended[0].output, "alone");
  }
  CHECK(is_shared);
  if (is_exact) CHECK(joined_without);
}

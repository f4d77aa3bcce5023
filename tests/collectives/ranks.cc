// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/ranks.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "tests/catch.h"
#include "tests/contains.h"

extern char** environ;

int run_catch(int argc, char** argv);  // tests/catch.cc

namespace ddprun::tests {

using boost::asio::ip::make_address;
using boost::asio::ip::tcp;

LiveStore::LiveStore(const std::string& address)
    : acceptor_(context_, tcp::endpoint(make_address(address), 0)),
      server_(context_.get_executor()) {
  accept();
  thread_ = std::thread([this] { context_.run(); });
}

LiveStore::~LiveStore() {
  context_.stop();
  thread_.join();
}

void LiveStore::ring(const std::string& sentence) {
  boost::asio::post(context_, [this, sentence] { server_.notify_failure(sentence); });
}

void LiveStore::accept() {
  acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (!error) server_.adopt(std::move(socket), {});
    accept();
  });
}

Rank::Rank(const Words& command, const Variables& variables) {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  output_.reset(pipe[0]);
  const Fd write_end(pipe[1]);

  Variables all = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) lines.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (std::string& line : lines) envp.push_back(line.data());
  envp.push_back(nullptr);
  std::vector<char*> argv;
  for (const std::string& arg : command) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), 2);
  const int rc = ::posix_spawnp(&pid_.value, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  INFO("starting " << command.front());
  REQUIRE(rc == 0);
}

Rank::~Rank() {
  if (pid_.value == 0) return;
  kill();
  ::waitpid(pid_.value, nullptr, 0);
}

Ended Rank::wait() {
  Ended ended;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = ::read(output_.get(), buffer.data(), buffer.size());
    if (n <= 0) break;
    ended.output.append(buffer.data(), static_cast<std::size_t>(n));
  }
  int status = 0;
  ::waitpid(std::exchange(pid_.value, 0), &status, 0);
  ended.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return ended;
}

void Rank::kill() const {
  ::kill(pid_.value, SIGKILL);
}

namespace {

/// The store's address: if ranks run on several hosts, that of this one.
std::string store_address() {
  return variable_or("DDP_TEST_STORE_ADDRESS", "127.0.0.1");
}

/// The command on the rank's host: one of the network namespaces in DDP_TEST_NAMESPACES, if set.
Words on_host(int rank, const Words& command) {
  std::istringstream names(variable_or("DDP_TEST_NAMESPACES", ""));
  Words hosts;
  for (std::string host; std::getline(names, host, ':');) hosts.push_back(host);
  if (hosts.empty()) return command;
  Words all = {"nsenter", "--net=" + hosts[static_cast<std::size_t>(rank) % hosts.size()]};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

/// The variables by which the ranks of a launcher's job find its store.
Variables store_of_job(std::uint16_t port) {
  return {{"MASTER_ADDR", store_address()},
          {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

}  // namespace

Variables place(int rank, int size, std::uint16_t port) {
  Variables variables = store_of_job(port);
  variables.merge(Variables{{"RANK", std::to_string(rank)},
                            {"LOCAL_RANK", std::to_string(rank)},
                            {"WORLD_SIZE", std::to_string(size)},
                            {"TORCHELASTIC_RESTART_COUNT", "0"}});
  return variables;
}

bool is_over_mpi() {
  return backend_of_test() == "mpi";
}

std::vector<Ended> run_ranks_but(int idle, int size, const Words& command, const Variables& more) {
  const LiveStore store(store_address());
  if (is_over_mpi()) {
    Variables variables = more;
    variables.merge(store_of_job(store.port()));
    return {under_mpirun(size, command, variables)};
  }
  std::vector<Rank> ranks;
  for (int rank = 0; rank < size; ++rank) {
    Variables variables = more;
    variables.merge(place(rank, size, store.port()));
    ranks.emplace_back(on_host(rank, command), variables);
  }
  std::vector<Ended> ended;
  for (int rank = 0; rank < size; ++rank) {
    if (rank != idle) ended.push_back(ranks[static_cast<std::size_t>(rank)].wait());
  }
  return ended;
}

std::vector<Ended> run_ranks(int size, const Words& command, const Variables& more) {
  return run_ranks_but(-1, size, command, more);
}

void check_ranks(int size, const Words& command, const Variables& more) {
  const auto ended = run_ranks(size, command, more);
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    INFO("rank " << rank << " of " << size << ": " << ended[rank].output);
    CHECK(ended[rank].code == 0);
  }
}

void check_success(std::vector<Rank>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Ended ended = ranks[rank].wait();
    INFO("rank started as number " << rank << ": " << ended.output);
    CHECK(ended.code == 0);
  }
}

void check_failure(const std::vector<Ended>& ended, ddp::ErrorKind kind, const Words& texts) {
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == failed(kind));
    for (const std::string& text : texts) {
      INFO("expected: " << text);
      CHECK(contains(rank.output, text));
    }
  }
}

Variables over_mpi() {
  // Open MPI unloads its plug-ins before the process ends, so their leaks look like ours.
  const std::string sanitizer = variable_or("ASAN_OPTIONS", "");
  return {{"DDP_TEST_BACKEND", "mpi"},
          {"CUDA_VISIBLE_DEVICES", ""},
          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},  // these two for Open MPI 4
          {"OMPI_MCA_hwloc_base_binding_policy", "none"},
          {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},  // and these for 5
          {"PRTE_MCA_hwloc_default_binding_policy", "none"},
          {"ASAN_OPTIONS", sanitizer + ":detect_leaks=0"}};
}

Ended under_mpirun(int size, const Words& command, const Variables& more) {
  constexpr int kSkipped = 77;
  if (::access(MPIRUN, X_OK) != 0) {
    std::printf("skipped: there is no mpirun here, at " MPIRUN "\n");
    std::exit(kSkipped);
  }
  Words words = {MPIRUN, "-n", std::to_string(size)};
  words.insert(words.end(), command.begin(), command.end());
  Variables variables = more;
  variables.merge(over_mpi());
  return Rank(words, variables).wait();
}

namespace internal {
namespace {

constexpr std::string_view kCall = "--call";

/// A fixed address in the program; the loader may put the program anywhere.
std::uintptr_t origin() {
  return reinterpret_cast<std::uintptr_t>(&command_for);
}

/// Makes the call of PROGRAM --call PLACE ARGUMENTS...
int make_call(const Words& words) {
  const std::uintptr_t place = origin() + std::stoull(words.at(2));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): another process of this program counted it
  return reinterpret_cast<BodyCall>(place)({words.begin() + 3, words.end()});
}

}  // namespace

Words command_for(BodyCall call, const Words& arguments) {
  const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(call) - origin();
  Words command = {std::filesystem::read_symlink("/proc/self/exe"), std::string(kCall),
                   std::to_string(place)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace internal
}  // namespace ddprun::tests

int main(int argc, char** argv) {
  using namespace ddprun::tests::internal;
  if (argc > 2 && argv[1] == kCall) return make_call({argv, argv + argc});
  return run_catch(argc, argv);
}

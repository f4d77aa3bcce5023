// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/ranks.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "tests/catch.h"

extern char** environ;

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

Rank::Rank(const std::vector<std::string>& command, const Variables& variables) {
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
  const int rc = ::posix_spawn(&pid_.value, argv[0], &actions, nullptr, argv.data(), envp.data());
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

Variables place(int rank, int size, std::uint16_t port) {
  return {{"RANK", std::to_string(rank)},        {"LOCAL_RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},  {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)}, {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", "0"}};
}

std::vector<Ended> run_ranks(int size, const std::vector<std::string>& command,
                             const Variables& more) {
  const LiveStore store;
  std::vector<Rank> ranks;
  for (int rank = 0; rank < size; ++rank) {
    Variables variables = more;
    variables.merge(place(rank, size, store.port()));
    ranks.emplace_back(command, variables);
  }
  std::vector<Ended> ended;
  for (Rank& rank : ranks) ended.push_back(rank.wait());
  return ended;
}

}  // namespace ddprun::tests

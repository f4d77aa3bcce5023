// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server.h"

#include <deque>
#include <functional>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "rendezvous/client.h"
#include "rendezvous/store_client.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::chrono::seconds kDeadline{60};

/// A server and everybody who talks to it, in one thread.
struct World {
  asio::io_context io;
  std::unique_ptr<Server> server;

  explicit World(RoundSpec spec = {}) {
    server = must(Server::listen(io.get_executor(), {"127.0.0.1", 0}, {"job", spec}));
  }

  /// Turns the loop until `condition` holds.
  void until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (!condition()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      io.run_one_for(std::chrono::seconds(1));
    }
  }
};

/// An agent without workers.
struct Agent {
  World& world;
  std::deque<Letter> letters;
  std::optional<Error> lost;
  Client client;

  explicit Agent(World& w, const std::string& run_id = "job")
      : world(w),
        client(w.io.get_executor(), w.server->address(), run_id,
               {[this](Letter letter) { letters.push_back(std::move(letter)); },
                [this](Error error) { lost = std::move(error); }}) {}

  void join(int local_size) {
    JoinRequest request;
    request.local_size = local_size;
    request.host = "here";
    client.join(request);
  }

  template <class T>
  T next() {
    world.until([this] { return !letters.empty(); });
    const Letter letter = letters.front();
    letters.pop_front();
    REQUIRE(std::holds_alternative<T>(letter));
    return std::get<T>(letter);
  }
};

/// A connection that sends raw bytes.
struct Stranger {
  World& world;
  tcp::socket socket;
  std::array<char, 4096> buffer{};
  std::string received;
  bool closed = false;

  explicit Stranger(World& w) : world(w), socket(w.io) {
    socket.connect(w.server->address());
    read();
  }

  void read() {
    socket.async_read_some(asio::buffer(buffer), [this](boost::system::error_code e, size_t size) {
      closed = static_cast<bool>(e);
      received.append(buffer.data(), size);
      if (!closed) read();
    });
  }

  void send(const std::string& bytes) { asio::write(socket, asio::buffer(bytes)); }
};

}  // namespace

TEST_CASE("a single node gets its round, fails, restarts, fails again and is told the end") {
  RoundSpec spec;
  spec.max_restarts = 1;
  World world(spec);
  Agent agent(world);

  agent.join(4);
  CHECK(agent.next<Ready>().layout.world_size == 4);
  Failure failure;
  failure.rank = 2;
  failure.pid = 1;
  failure.wait_status = 3 << 8;
  agent.client.fail(0, failure);
  CHECK(agent.next<Broken>().root_cause->rank == 2);
  agent.join(4);
  const Layout second = agent.next<Ready>().layout;
  CHECK(second.round == 1);
  CHECK(second.restarts == 1);
  agent.client.fail(1, failure);
  CHECK(std::get<Failed>(agent.next<Closed>().ending).root_cause.wait_status == 3 << 8);
}

TEST_CASE("success of the only node ends the job") {
  World world;
  Agent agent(world);
  agent.join(1);
  agent.next<Ready>();
  agent.client.succeed(0);
  CHECK(std::holds_alternative<Succeeded>(agent.next<Closed>().ending));
}

TEST_CASE("two nodes share the ranks, and one whose connection breaks is gone at once") {
  RoundSpec spec;
  spec.min_nodes = spec.max_nodes = 2;
  World world(spec);
  Agent stays(world);
  {
    Agent goes(world);
    stays.join(2);
    goes.join(3);
    CHECK(stays.next<Ready>().layout.world_size == 5);
    CHECK(goes.next<Ready>().layout.world_size == 5);
  }
  CHECK(stays.next<Broken>().reason.find("connection closed") != std::string::npos);
}

TEST_CASE("nobody else comes: the join timeout ends the job and says who is missing") {
  RoundSpec spec;
  spec.min_nodes = spec.max_nodes = 2;
  spec.join_timeout = std::chrono::milliseconds(1);
  World world(spec);
  Agent agent(world);
  agent.join(1);
  const auto closed = agent.next<Closed>();
  CHECK(std::get<TimedOut>(closed.ending).sentence.find("here") != std::string::npos);
}

TEST_CASE("an agent of another job is refused, naming both") {
  World world;
  Agent agent(world, "other");
  agent.join(1);
  const std::string sentence = agent.next<Refused>().sentence;
  CHECK(sentence.find("'job'") != std::string::npos);
  CHECK(sentence.find("'other'") != std::string::npos);
}

TEST_CASE("another protocol version is refused, naming both versions") {
  World world;
  Stranger stranger(world);
  stranger.send(std::string("ddprun\x00\x63", 8));
  FrameReader frames;
  world.until([&] { return stranger.received.size() > 4; });
  frames.feed(stranger.received);
  const auto refused = std::get<Refused>(must(decode_letter(must(frames.next()).value())));
  CHECK(refused.sentence.find("version 1") != std::string::npos);
  CHECK(refused.sentence.find("version 99") != std::string::npos);
}

TEST_CASE("a peer that speaks nonsense is dropped and harms nobody") {
  World world;
  Agent agent(world);
  agent.join(1);
  agent.next<Ready>();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), greeting() + "\xff\xff\xff\xff",
        greeting() + std::string("\x00\x00\x00\x02{}", 6), std::string("ddprxx")}) {
    Stranger stranger(world);
    stranger.send(bytes);
    world.until([&] { return stranger.closed; });
  }
  agent.client.succeed(0);
  agent.next<Closed>();
}

TEST_CASE("the greeting may come one byte at a time") {
  World world;
  Stranger stranger(world);
  JoinRequest request;
  request.host = "slow";
  for (const char byte : greeting() + encode(Message(message::Join{"job", request}))) {
    stranger.send(std::string(1, byte));
    world.io.poll();
  }
  world.until([&] { return !stranger.received.empty(); });
  FrameReader frames;
  frames.feed(stranger.received);
  const Letter letter = must(decode_letter(must(frames.next()).value()));
  CHECK(std::holds_alternative<Ready>(letter));
}

TEST_CASE("workers find the store on the same port, empty again in each round") {
  RoundSpec spec;
  spec.max_restarts = 1;
  World world(spec);
  Agent agent(world);
  agent.join(1);
  agent.next<Ready>();

  const auto ask = [&](const std::function<void(StoreClient&)>& questions) {
    bool answered = false;
    std::thread worker([&] {
      StoreClient store = must(
          StoreClient::connect("127.0.0.1", world.server->address().port(), kDeadline, kDeadline));
      questions(store);
      asio::post(world.io, [&] { answered = true; });
    });
    world.until([&] { return answered; });
    worker.join();
  };
  std::int64_t first = 0, second = 0;
  ask([&](StoreClient& store) { first = must(store.add("/count", 5)); });
  Failure failure;
  failure.pid = 1;
  agent.client.fail(0, failure);
  agent.next<Broken>();
  agent.join(1);
  agent.next<Ready>();
  ask([&](StoreClient& store) { second = must(store.add("/count", 1)); });
  CHECK(first == 5);
  CHECK(second == 1);
}

TEST_CASE("a port that is taken is told with what to do") {
  World world;
  const auto second = Server::listen(world.io.get_executor(),
                                     {"127.0.0.1", world.server->address().port()}, {"job", {}});
  REQUIRE(second.has_error());
  CHECK(second.error().code == Errc::usage);
  CHECK(second.error().message.find("--master_port") != std::string::npos);
}

TEST_CASE("an address of another host cannot be listened on") {
  asio::io_context io;
  const auto server = Server::listen(io.get_executor(), {"192.0.2.1", 0}, {"job", {}});
  REQUIRE(server.has_error());
  CHECK(server.error().message.find("--master_addr") != std::string::npos);
}

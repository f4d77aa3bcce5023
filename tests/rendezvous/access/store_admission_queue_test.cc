// SPDX-License-Identifier: Apache-2.0
// Tests which connections the store accepts, with real sockets, and with processes of another user
// if the tests run as root.
#include <arpa/inet.h>
#include <csignal>
#include <functional>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/rendezvous/session/network.h"
#include "tests/rendezvous/session/world.h"
#include "tests/store/bytes.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
namespace asio = boost::asio;
namespace bytes = ddprun::store::bytes;

namespace {

constexpr unsigned kOtherUser = 54'321;
const std::string kCount = bytes::kHello + bytes::add("seen", 1);

/// A process of another user.
class Stranger {
 public:
  enum class End { reply, closed };
  enum class Then { waits, closes, resets };

  /// Connects from `address`, sends `request`, and then waits for a reply or ends the connection.
  Stranger(const World& world, const std::string& address, const std::string& request,
           Then then = Then::waits)
      : pid_(fork()) {
    if (pid_ == 0) _exit(run(world.port, address, request, then));
  }

  ~Stranger() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Stranger(const Stranger&) = delete;

  bool ended() {
    if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = 0;
    return pid_ == 0;
  }

  void wait() {
    REQUIRE(waitpid(pid_, &status_, 0) == pid_);
    pid_ = 0;
  }

  End end() const {
    REQUIRE(WIFEXITED(status_));
    REQUIRE(WEXITSTATUS(status_) <= 1);
    return WEXITSTATUS(status_) == 0 ? End::reply : End::closed;
  }

 private:
  static int run(std::uint16_t port, const std::string& address, const std::string& request,
                 Then then) {
    if (syscall(SYS_setresuid, kOtherUser, kOtherUser, kOtherUser) != 0) return 2;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    inet_pton(AF_INET, address.c_str(), &at.sin_addr);
    if (bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) return 3;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) return 4;
    const bool sent = send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0;
    const linger at_once{1, 0};
    if (then == Then::resets) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    char byte = 0;
    return then != Then::waits || (sent && recv(fd, &byte, 1, 0) == 1) ? 0 : 1;
  }

  pid_t pid_;
  int status_ = 0;
};

bool are_root(const char* test) {
  if (geteuid() == 0) return true;
  WARN(test << " needs root, to be another user");
  return false;
}

asio::ip::tcp::socket socket_at(World& world, const char* address) {
  asio::ip::tcp::socket socket(world.io);
  socket.open(asio::ip::tcp::v4());
  socket.bind({asio::ip::make_address(address), 0});
  socket.connect({asio::ip::address_v4::loopback(), world.port});
  return socket;
}

/// A socket of another user, as the kernel reports it.
asio::ip::tcp::socket socket_of_other_user(World& world, const char* address) {
  asio::ip::tcp::socket socket = socket_at(world, address);
  REQUIRE(fchown(socket.native_handle(), kOtherUser, kOtherUser) == 0);
  return socket;
}

/// The store's count of kCount requests, this one included.
std::int64_t count(World& world) {
  Peer own(world);
  own.send(kCount);
  world.until([&] { return own.received.size() >= 8; });
  return own.received.front();
}

Stranger::End end_of(World& world, Stranger& stranger) {
  world.until([&] { return stranger.ended(); });
  return stranger.end();
}

/// Two nodes and a secret.
struct ConfirmingWorld : World {
  ConfirmingWorld() {
    confirm_clients = true;
    start_server(nodes(2, 2));
  }
};

}  // namespace

TEST_CASE("one node: another user of the host is turned away from the store") {
  World world(nodes(1, 1));
  CHECK(count(world) == 1);
  if (!are_root("a stranger at the store")) return;
  for (const char* address : {"127.0.0.1", "127.0.0.2"}) {
    Stranger stranger(world, address, kCount);
    CHECK(end_of(world, stranger) == Stranger::End::closed);
  }
  CHECK(world.logged("it belongs to user 54321"));
  CHECK(count(world) == 2);
}

TEST_CASE("one node: another user's request does nothing if its connection is closed at once") {
  World world(nodes(1, 1));
  if (!are_root("a stranger that closes at once")) return;
  Stranger stranger(world, "127.0.0.1", kCount,
                    GENERATE(Stranger::Then::closes, Stranger::Then::resets));
  stranger.wait();
  CHECK(count(world) == 1);
  CHECK(count(world) == 2);
}

TEST_CASE("several nodes without a secret: everyone who reaches the store may use it") {
  World world(nodes(2, 2));
  if (!are_root("a stranger at the store")) return;
  Stranger stranger(world, "127.0.0.2", kCount);
  CHECK(end_of(world, stranger) == Stranger::End::reply);
}

TEST_CASE("with a secret the master asks a node about connections from its address") {
  ConfirmingWorld world;
  CHECK(count(world) == 1);
  if (!are_root("a node's connections")) return;
  Peer agent(world, socket_at(world, "127.0.0.2"));
  agent.introduce("s", 2);
  agent.next_reply<reply::Welcome>();

  Stranger worker(world, "127.0.0.2", kCount);
  const auto question = agent.next_reply<reply::Whose>().connections;
  REQUIRE(question.size() == 1);
  CHECK(question[0].from == "127.0.0.2");
  CHECK(question[0].to == "127.0.0.1");
  CHECK(question[0].to_port == world.port);
  CHECK(count(world) == 2);  // its request waits
  agent.say(message::Owned{{true}});
  CHECK(end_of(world, worker) == Stranger::End::reply);

  Stranger other(world, "127.0.0.2", kCount);
  agent.next_reply<reply::Whose>();
  agent.say(message::Owned{{false}});
  CHECK(end_of(world, other) == Stranger::End::closed);
  CHECK(world.logged("no process of the job's user there has this connection"));

  Stranger elsewhere(world, "127.0.0.3", kCount);
  CHECK(end_of(world, elsewhere) == Stranger::End::closed);
  CHECK(world.logged("no node of the job is at that address"));
  CHECK(count(world) == 4);
}

TEST_CASE("with a secret the master asks a node about connections from addresses that it reports") {
  ConfirmingWorld world;
  if (!are_root("a node's connections")) return;
  Peer agent(world, socket_at(world, "127.0.0.2"));
  message::Hello hello{"job", 2, 2, "peer", "s", 0};
  hello.addresses = {"127.0.0.2", "127.0.0.5"};
  agent.send(greeting() + encode(hello));
  agent.next_reply<reply::Welcome>();
  Stranger worker(world, "127.0.0.5", kCount);
  const auto question = agent.next_reply<reply::Whose>().connections;
  REQUIRE(question.size() == 1);
  CHECK(question[0].from == "127.0.0.5");
  agent.say(message::Owned{{true}});
  CHECK(end_of(world, worker) == Stranger::End::reply);
}

TEST_CASE("with a secret the master asks a reconnected node again") {
  ConfirmingWorld world;
  if (!are_root("a node's connections")) return;
  auto agent = std::make_unique<Peer>(world, socket_at(world, "127.0.0.2"));
  agent->introduce("s", 2);
  agent->next_reply<reply::Welcome>();
  Stranger worker(world, "127.0.0.2", kCount);
  agent->next_reply<reply::Whose>();
  agent = std::make_unique<Peer>(world, socket_at(world, "127.0.0.2"));
  agent->introduce("s", 2);
  agent->next_reply<reply::Welcome>();
  CHECK(agent->next_reply<reply::Whose>().connections.size() == 1);
  agent->say(message::Owned{{true}});
  CHECK(end_of(world, worker) == Stranger::End::reply);
}

TEST_CASE("with a secret a request does nothing if its connection was closed before the answer") {
  ConfirmingWorld world;
  if (!are_root("a node's connections")) return;
  Peer agent(world, socket_at(world, "127.0.0.2"));
  agent.introduce("s", 2);
  agent.next_reply<reply::Welcome>();
  for (const bool resets : {false, true}) {
    asio::ip::tcp::socket other = socket_of_other_user(world, "127.0.0.2");
    other.write_some(asio::buffer(kCount));
    agent.next_reply<reply::Whose>();
    other.set_option(asio::socket_base::linger(resets, 0));
    other.close();
    agent.say(message::Owned{{true}});  // its port may be a worker's by now
    Peer worker(world, socket_of_other_user(world, "127.0.0.2"));
    worker.send(bytes::kHello + bytes::add("worker", 1));
    agent.next_reply<reply::Whose>();
    agent.say(message::Owned{{true}});
    world.until([&] { return !worker.received.empty(); });
  }
  CHECK(count(world) == 1);
}

TEST_CASE("with a secret a round begins without connections that waited before it") {
  World world;
  world.confirm_clients = true;
  RoundSpec spec = nodes(1, 2);
  spec.max_restarts = 1;
  world.start_server(spec);
  if (!are_root("a node's connections")) return;
  Peer agent(world, socket_at(world, "127.0.0.2"));
  agent.send(greeting() + encode(message::Hello{"job", 1, 2, "peer", "s", 0}));
  agent.next_reply<reply::Welcome>();
  agent.join();
  agent.next_notification<Ready>();
  Stranger early(world, "127.0.0.2", kCount);
  agent.next_reply<reply::Whose>();
  Failure failure;
  failure.pid = 1;
  failure.wait_status = 256;
  agent.say(message::Fail{0, failure});
  agent.next_notification<Broken>();
  agent.join();
  agent.next_notification<Ready>();
  CHECK(end_of(world, early) == Stranger::End::closed);
  agent.say(message::Owned{{true}});
  CHECK(count(world) == 1);
}

TEST_CASE("an agent reports which connections are its user's") {
  World world;
  ListenSocket master(world);
  Member member(world, "a", master.endpoint());
  member.join();
  const auto agent = master.next();
  agent->greeted();
  agent->answer(reply::Welcome{"master", false, 0, World::kSoon, World::kNever, 0, "t"});
  agent->next_message<message::Join>();

  ListenSocket store(world);
  asio::ip::tcp::socket worker(world.io);
  worker.connect({asio::ip::address_v4::loopback(), store.endpoint().port});
  const SocketEnds ours = {"127.0.0.1", worker.local_endpoint().port(), "127.0.0.1",
                           store.endpoint().port};
  SocketEnds unknown = ours;
  unknown.from = "127.0.0.9";
  agent->answer(reply::Whose{{unknown, ours}});
  CHECK(agent->next_message<message::Owned>().ours == std::vector<bool>{false, true});
}

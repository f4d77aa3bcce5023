// SPDX-License-Identifier: Apache-2.0
// The connections of messages by themselves: the caller is the thread of the io_context, and the
// other rank.
#include "collectives/backends/cpu/connections.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "base/fd.h"
#include "collectives/backends/cpu/frame.h"
#include "collectives/backends/cpu/peer.h"
#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/other_memory.h"
#include "tests/catch.h"
#include "tests/collectives/backends/other_end.h"

using namespace ddp::internal;
using boost::asio::ip::tcp;
using ddprun::Fd;

namespace {

void run(const std::function<void()>& work) {
  work();
}

/// A listener, and sockets that connect to it.
struct Network {
  boost::asio::io_context io;
  tcp::acceptor acceptor{io, {boost::asio::ip::address_v4::loopback(), 0}};

  tcp::socket accept() {
    tcp::socket socket = acceptor.accept();
    set_socket_options(socket);
    return socket;
  }
};

/// Memory for a ring at its beginning.
Fd memory() {
  return Fd(::memfd_create("ddp test", MFD_CLOEXEC));
}

std::string bytes_of(const Frame& frame) {
  return {reinterpret_cast<const char*>(&frame), sizeof(frame)};
}

/// A frame of data for message 1 that keeps filling the ring's room.
class EndlessWriter {
 public:
  explicit EndlessWriter(ShmRing ring) : ring_(std::move(ring)) { fill(); }

  /// Writes more than a reader may take in one go, much more in total.
  void fill() {
    const Frame frame{.kind = Frame::Kind::data, .number = 1, .count = piece_.size()};
    const std::string head = bytes_of(frame);
    while (written_ < kMost) {
      if (rest_ == 0) rest_ = head.size() + piece_.size();
      const std::size_t done = head.size() + piece_.size() - rest_;
      const std::size_t of_head = std::min(done, head.size());
      const std::size_t bytes =
          ring_.write(std::span(head).subspan(of_head), std::span(piece_).subspan(done - of_head));
      if (bytes == 0) return;
      rest_ -= bytes;
      written_ += bytes;
    }
  }

  static constexpr std::size_t kMost = std::size_t{64} << 20;

 private:
  ShmRing ring_;
  std::vector<char> piece_ = std::vector<char>(1000);
  std::size_t rest_ = 0;  // of the current frame
  std::size_t written_ = 0;
};

CpuPeer::Events events_that_keep(std::vector<std::string>& lost) {
  return {
      .done = [](MessageAt) {},
      .mismatched = [](MessageAt, const std::string&) {},
      .left = [](MessageAt, const std::string&) {},
      .said_bye = [] {},
      .ended = [] {},
      .lost = [&lost](const std::string& reason) { lost.push_back(reason); },
      .overflowed = [](std::size_t, std::int32_t) {},
      .changed = [] {},
      .readable = [] {},
      .may_use_rings = [] {},
  };
}

}  // namespace

TEST_CASE("a reader of a ring gives others their turn while the ring does not become empty") {
  Network network;
  tcp::socket theirs(network.io);
  theirs.connect(network.acceptor.local_endpoint());
  const Fd shared = memory();
  auto ring = ShmRing::create(shared, 0);
  auto other_end = ShmRing::open(shared, 0);
  REQUIRE((ring && other_end));

  std::optional<EndlessWriter> writer;
  std::vector<char> place(1000);
  std::size_t read = 0;
  const FrameReader::Events events{
      .on_frame = [](const Frame&, const char*) { return true; },
      .destination = [&](std::uint64_t, std::size_t) { return std::optional(place.data()); },
      .on_data =
          [&](std::uint64_t, std::size_t bytes) {
            read += bytes;
            if (writer) writer->fill();
          }};
  const auto connection =
      std::make_shared<RecvConnection>(network.accept(), run, events, [](const std::string&) {});
  connection->set_ring(std::move(*ring));
  REQUIRE(connection->turn_to_ring());
  writer.emplace(std::move(*other_end));

  connection->set_awake(false);
  CHECK(read < 4 << 20);  // a few turns of 1 MiB
  bool had_turn = false;
  boost::asio::post(network.io, [&] { had_turn = true; });
  network.io.run_one();
  network.io.run_one();
  CHECK(had_turn);
  CHECK(read < 8 << 20);
  network.io.poll();
  CHECK(read > EndlessWriter::kMost / 2);  // it reaches the end without being woken
  connection->close();
}

TEST_CASE("if a connection ends at any byte, that is reported once, after whole frames") {
  const Frame message{.kind = Frame::Kind::message,
                      .type = static_cast<std::uint8_t>(ddp::DataType::uint8),
                      .is_short = 1,
                      .number = 1,
                      .count = 12};
  const Frame data{.kind = Frame::Kind::data, .number = 2, .count = 50};
  const std::string stream = bytes_of({.kind = Frame::Kind::hello}) + bytes_of(message) +
                             std::string(12, 'm') + bytes_of(data) + std::string(50, 'd');
  const bool is_reset = GENERATE(false, true);
  Network network;
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    std::vector<std::string> closed;
    std::size_t whole = 0;  // bytes
    std::array<char, 50> place{};
    const FrameReader::Events events{
        .on_frame =
            [&](const Frame& frame, const char*) {
              whole += sizeof(frame) + frame.follow();
              return true;
            },
        .destination = [&](std::uint64_t, std::size_t) { return std::optional(place.data()); },
        .on_data = [](std::uint64_t, std::size_t) {}};
    tcp::socket theirs(network.io);
    theirs.connect(network.acceptor.local_endpoint());
    const auto connection = std::make_shared<RecvConnection>(
        network.accept(), run, events,
        [&](const std::string& reason) { closed.push_back(reason); });
    connection->open();
    boost::asio::write(theirs, boost::asio::buffer(stream, cut));
    theirs.set_option(boost::asio::socket_base::linger(is_reset, 0));
    theirs.close();
    network.io.restart();  // it stops when everything is done
    while (closed.empty()) network.io.run_one();
    network.io.poll();
    INFO("after " << cut << " bytes");
    CHECK(closed.size() == 1);
    if (is_reset) continue;  // a reset may overtake data
    CHECK(closed.front() == "its connection ended");
    CHECK(whole == (cut < 24 ? 0 : cut < 60 ? 24 : 60));
  }
}

TEST_CASE("a byte that wakes the writer of a ring may be gone when it is looked for") {
  Network network;
  std::vector<std::string> closed;
  SendConnection connection(network.io, run,
                            [&](const std::string& reason) { closed.push_back(reason); });
  connection.open(network.acceptor.local_endpoint(), {});
  tcp::socket theirs = network.acceptor.accept();
  network.io.run_one();
  Frame first;
  boost::asio::read(theirs, boost::asio::buffer(&first, sizeof(first)));
  const Fd shared = memory();
  auto ring = ShmRing::create(shared, 0);
  REQUIRE(ring);
  connection.use_ring(std::move(*ring));

  boost::asio::write(theirs, boost::asio::buffer("x", 1));
  const int fd = ddprun::tests::other_end_of(theirs);
  ddprun::tests::wait_for_input(fd);
  // The first looks for readiness and finds it; posted work comes before work that waits for it.
  boost::asio::post(network.io, [&] {
    char byte = 0;
    CHECK(::recv(fd, &byte, 1, MSG_DONTWAIT) == 1);
  });
  network.io.poll();
  CHECK(closed.empty());
  connection.close();
}

TEST_CASE("the end of a connection is reported once, even if what came last is invalid") {
  Network network;
  tcp::socket theirs(network.io);
  theirs.connect(network.acceptor.local_endpoint());
  const Fd shared = memory();
  auto ring = ShmRing::create(shared, 0);
  auto other_end = ShmRing::open(shared, 0);
  REQUIRE((ring && other_end));
  std::vector<std::string> lost;
  const MemoryMark mark(1);
  int ended = 0;
  auto events = events_that_keep(lost);
  events.ended = [&] { ++ended; };
  CpuPeer peer(network.io, run, network.acceptor.local_endpoint(), {}, mark, 0,
               *std::pmr::get_default_resource(), events);
  std::vector<std::string> closed;
  peer.on_connected(std::make_shared<RecvConnection>(network.accept(), run, FrameReader::Events{},
                                                     [&](const std::string& reason) {
                                                       closed.push_back(reason);
                                                       peer.on_closed(reason);
                                                     }));
  peer.offer_ring(std::move(*ring), nullptr);
  REQUIRE(peer.on_frame({.kind = Frame::Kind::turn}, nullptr));
  other_end->write(std::string(sizeof(Frame), '\xff'), {});
  peer.on_closed("its connection ended");
  CHECK(closed == std::vector<std::string>{"it sent an invalid message"});
  CHECK(lost == std::vector<std::string>{"its connection ended"});
  CHECK(ended == 1);
  peer.close();
}

TEST_CASE("data read after its sender has given up is not taken for the message") {
  const bool is_mapped = GENERATE(true, false);  // otherwise the kernel reads it
  const bool gives_up = GENERATE(false, true);
  Network network;
  tcp::socket theirs(network.io);
  theirs.connect(network.acceptor.local_endpoint());
  const auto connection = std::make_shared<RecvConnection>(
      network.accept(), run, FrameReader::Events{}, [](const std::string&) {});
  const Fd shared = memory();
  auto ring = ShmRing::create(shared, 0);
  auto other_end = ShmRing::open(shared, 0);
  const auto arena = ShmArena::map(ShmArena::create(2), 2, 0);
  REQUIRE((ring && other_end && arena));

  constexpr std::size_t kBytes = 4;
  const auto heap = std::make_shared<ShmHeap>(*arena, 0);
  ShmHeap heap_of_sender(*arena, 1);
  const auto region = heap->take(kBytes);
  const auto same_of_sender = heap_of_sender.take(kBytes);
  REQUIRE((region && same_of_sender));
  const auto unused = heap->use(region);
  const auto sent = heap_of_sender.use(same_of_sender);
  std::memcpy(sent.get(), "sent", kBytes);

  int done = 0;
  std::vector<std::string> lost;
  auto events = events_that_keep(lost);
  events.done = [&](MessageAt) { ++done; };
  MemoryMark mark(4711);
  CpuPeer peer(network.io, run, network.acceptor.local_endpoint(), {.number = 4711}, mark, 0,
               *std::pmr::get_default_resource(), events);
  peer.on_connected(connection);
  peer.offer_ring(std::move(*ring), heap);
  std::string got(kBytes, ' ');
  Message message{};
  message.transfer = {.sends = false,
                      .peer = 1,
                      .tag = 5,
                      .type = ddp::DataType::uint8,
                      .count = kBytes,
                      .data = got.data()};
  Messages open = {message};
  peer.begin(open.begin());
  MemoryPlace place = mark.place_of(sent.get());
  if (is_mapped) place.shared = heap_of_sender.position_of(sent.get(), kBytes);
  const Frame frame{.kind = Frame::Kind::message,
                    .type = static_cast<std::uint8_t>(ddp::DataType::uint8),
                    .has_place = 1,
                    .tag = 5,
                    .number = 1,
                    .count = kBytes};
  REQUIRE(peer.on_frame(frame, reinterpret_cast<const char*>(&place)));
  REQUIRE(peer.is_reading());
  if (gives_up) {
    is_mapped ? other_end->give_up() : mark.remove();
    std::memcpy(sent.get(), "torn", kBytes);
  }
  CHECK(peer.read_memory());
  CHECK_FALSE(peer.is_reading());
  CHECK(done == (gives_up ? 0 : 1));
  if (!gives_up) CHECK(got == "sent");
  const auto rest = peer.destination(1, kBytes);  // data that was not read has to be sent
  CHECK(rest == (gives_up ? std::optional(got.data()) : std::nullopt));
  peer.close();
}

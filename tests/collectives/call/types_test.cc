// SPDX-License-Identifier: Apache-2.0
// Elements other than plain numbers, and values that need no buffer.

#include <array>
#include <climits>
#include <cmath>
#include <complex>
#include <cstdint>
#include <ddp/process_group.h>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/collectives/call/operations.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::float8_e4m3;
using ddp::float8_e5m2;
using ddp::ProcessGroup;
using ddp::ReduceOp;

template <>
struct ddp::Serializer<nlohmann::json> {
  static std::string to_bytes(const nlohmann::json& object) { return object.dump(); }
  static nlohmann::json from_bytes(std::string_view bytes) { return nlohmann::json::parse(bytes); }
};

namespace {

/// Has padding, which no test reads.
struct Reading {
  std::int16_t label = 0;
  double weight = 0;

  bool operator==(const Reading&) const = default;
};

enum class Phase : std::uint8_t { warm_up, steady };

Reading reading(int rank, int i) {
  return {static_cast<std::int16_t>(100 * rank + i), rank + i / 8.0};
}

std::vector<Reading> readings(int rank, std::size_t count, int first = 0) {
  std::vector<Reading> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(reading(rank, first + static_cast<int>(i)));
  return all;
}

void check_moves_with_blocks(ProcessGroup& group) {
  const int rank = group.rank();
  const auto size = static_cast<std::size_t>(group.size());
  std::vector<std::size_t> counts;
  std::vector<Reading> everyone;
  for (int other = 0; other < group.size(); ++other) {
    counts.push_back(static_cast<std::size_t>(other) % 2 * 3 + 1);
    for (const Reading& each : readings(other, counts.back())) everyone.push_back(each);
  }
  const auto own = readings(rank, counts[static_cast<std::size_t>(rank)]);
  std::vector<Reading> all(everyone.size());
  group.all_gather_v(own, all, counts);
  check(all == everyone, "all_gather_v");
  std::vector<Reading> gathered(rank == 0 ? everyone.size() : 0);
  group.gather_v(own, gathered, counts, 0);
  check(rank != 0 || gathered == everyone, "gather_v");
  std::vector<Reading> part(own.size());
  group.scatter_v(gathered, counts, part, 0);
  check(part == own, "scatter_v");

  std::vector<Reading> in;
  std::vector<Reading> expected;
  for (int other = 0; other < group.size(); ++other) {
    in.push_back(reading(rank, other));
    expected.push_back(reading(other, rank));
  }
  std::vector<Reading> out(size);
  group.all_to_all(in, out);
  check(out == expected, "all_to_all");
  const std::vector<std::size_t> ones(size, 1);
  std::fill(out.begin(), out.end(), Reading());
  group.all_to_all_v(in, ones, out, ones);
  check(out == expected, "all_to_all_v");
}

void check_moves_of_structs(ProcessGroup& group) {
  const int root = group.size() - 1;
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{9000}}) {
    auto data = readings(group.rank(), count);
    group.broadcast(data, root);
    check(data == readings(root, count), "broadcast");
  }
  check_moves_with_blocks(group);
  if (group.size() == 1) return;
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  const auto own = readings(group.rank(), 6000);
  std::vector<Reading> got(own.size());
  const std::array<ddp::P2POp, 2> ops = {ddp::P2POp::send(own, next),
                                         ddp::P2POp::recv(got, previous)};
  group.batch_send_recv(ops);
  check(got == readings(previous, own.size()), "batch_send_recv");
}

void check_bool(ProcessGroup& group) {
  const int ranks = group.size();
  // True on all ranks, only on rank 0, on none, on all but the last.
  const std::array own = {true, group.rank() == 0, false, group.rank() < ranks - 1};
  const bool alone = ranks == 1;
  const auto combined = [&](ReduceOp op) {
    auto data = own;
    group.all_reduce(data, op);
    return data;
  };
  const std::array every = {true, alone, false, false};
  const std::array any = {true, true, false, !alone};
  const std::array odd = {ranks % 2 == 1, true, false, (ranks - 1) % 2 == 1};
  check(combined(ReduceOp::min) == every && combined(ReduceOp::band) == every, "every");
  check(combined(ReduceOp::max) == any && combined(ReduceOp::bor) == any, "any");
  check(combined(ReduceOp::bxor) == odd, "bxor");
  std::vector<std::array<bool, 4>> all(static_cast<std::size_t>(ranks));
  group.all_gather(own, std::span(all.front().data(), 4 * all.size()));
  check(all.front()[1] && (alone || !all.back()[1]), "all_gather of bool");
  refused([&] { (void)group.all_reduce(true, ReduceOp::sum); });
}

void check_values(ProcessGroup& group) {
  const int rank = group.rank();
  const int size = group.size();
  const int root = size - 1;
  std::vector<int> squares;
  std::vector<Reading> everyone;
  std::vector<bool> evens;
  for (int other = 0; other < size; ++other) {
    squares.push_back(other * other);
    everyone.push_back(reading(other, 7));
    evens.push_back(other % 2 == 0);
  }
  check(group.broadcast(rank + 0.5, root) == root + 0.5, "broadcast of a number");
  check(group.broadcast(rank == root ? Phase::steady : Phase::warm_up, root) == Phase::steady,
        "broadcast of an enumerator");
  check(group.reduce(2, root) == (rank == root ? 2 * size : 2), "reduce");
  check(group.all_reduce(std::complex<float>(1, 2)) ==
            std::complex<float>(static_cast<float>(size), static_cast<float>(2 * size)),
        "all_reduce of a complex number");
  check(group.all_gather(rank * rank) == squares, "all_gather");
  check(group.all_gather(reading(rank, 7)) == everyone, "all_gather of a struct");
  check(group.all_gather(rank % 2 == 0) == evens, "all_gather of bool");
  check(group.gather(rank * rank, root) == (rank == root ? squares : std::vector<int>()), "gather");
  check(group.scatter<int>(rank == root ? ddp::ConstBuffer(squares) : ddp::ConstBuffer(), root) ==
            rank * rank,
        "scatter");
  if (rank == 0 && size > 1) group.send(reading(0, 1), 1, 5);
  if (rank == 1) check(group.recv<Reading>(0, 5) == reading(0, 1), "a message of one struct");
}

void check_objects(ProcessGroup& group) {
  using nlohmann::json;
  const auto object = [](int rank) {
    return json{{"rank", rank}, {"list", std::vector<int>(static_cast<std::size_t>(rank), 7)}};
  };
  std::vector<json> expected;
  for (int rank = 0; rank < group.size(); ++rank) expected.push_back(object(rank));
  json config = object(group.rank());
  group.broadcast_object(config, group.size() - 1);
  check(config == expected.back(), "broadcast_object");
  check(group.all_gather_object(object(group.rank())) == expected, "all_gather_object");
  const auto gathered = group.gather_object(object(group.rank()), 0);
  check(gathered == (group.rank() == 0 ? expected : std::vector<json>()), "gather_object");
}

/// Checks every value of the format, and that a float between two neighbours becomes the nearer or,
/// in the middle, the even one.
template <class T>
void check_float8(int fraction_bits, int bias, int greatest) {
  for (int bits = 0; bits <= greatest; ++bits) {
    const T element = T::from_bits(static_cast<std::uint8_t>(bits));
    const int fraction = bits % (1 << fraction_bits);
    const int exponent = bits >> fraction_bits;
    const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    const float value = element;
    REQUIRE(value ==
            std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - bias - fraction_bits));
    REQUIRE(T(value).bits() == bits);
    REQUIRE(T(-value).bits() == (0x80 | bits));
    REQUIRE(static_cast<float>(T::from_bits(static_cast<std::uint8_t>(0x80 | bits))) == -value);
    if (bits == greatest) return;
    const float next = T::from_bits(static_cast<std::uint8_t>(bits + 1));
    const float middle = (value + next) / 2;
    REQUIRE(T(middle).bits() == bits + bits % 2);
    REQUIRE(T(std::nextafter(middle, 0.0F)).bits() == bits);
    REQUIRE(T(std::nextafter(middle, next)).bits() == bits + 1);
  }
}

}  // namespace

TEST_CASE("complex numbers and floats of 8 bits are moved and combined like other types", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  if (is_over_mpi() && size > 3) return;
  const auto ended = run_ranks(size, [](ProcessGroup& group) {
    // Above 64 KiB calls are large.
    ddp_tests::check_type<std::complex<float>>(group, {0, 1, 8193});
    ddp_tests::check_type<std::complex<double>>(group, {101});
    ddp_tests::check_type<float8_e4m3>(group, {1001});
    ddp_tests::check_type<float8_e5m2>(group, {1001});
  });
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "all_reduce cannot take the min of complex64: only of real "));
  }
}

TEST_CASE("bool has min, max and the bitwise operations", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  for (const Ended& rank : run_ranks(size, [](ProcessGroup& group) { check_bool(group); })) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "all_reduce cannot take the sum of bool: only of numbers"));
  }
}

TEST_CASE("structs are moved by every call that only moves", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) { check_moves_of_structs(group); });
}

TEST_CASE("structs are not combined, nor moved into other structs") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    std::vector<Reading> data(4);
    std::vector<std::array<char, 3>> others(8);
    refused([&] { group.all_reduce(ddp::Buffer(data)); });
    refused([&] { group.all_gather(data, ddp::Buffer(others)); });
    refused([&] { group.broadcast(ddp::Buffer(data.data(), 4, ddp::DataType::opaque)); });
    refused([&] {
      ddp::Buffer huge = data;
      huge.count = SIZE_MAX / 64;
      group.broadcast(huge);
    });
    group.broadcast(data);
  });
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "all_reduce cannot take the sum of structs: only of numbers"));
    CHECK(contains(rank.output,
                   "all_gather cannot turn structs of 16 bytes into structs of 3 bytes"));
    CHECK(contains(rank.output, "broadcast of structs whose size is not set in Buffer::width"));
    CHECK(contains(rank.output, " structs of 16 bytes, which is more than memory holds"));
  }
}

TEST_CASE("a part of a span on a device has its stream, and converts to one of constant elements") {
  float data[8] = {};
  const ddp::DeviceSpan<float> all = {data, 8, reinterpret_cast<CUstream_st*>(16)};
  const ddp::DeviceSpan<const float> end = all.subspan(5);
  CHECK((end.data == data + 5 && end.count == 3 && end.stream == all.stream));
  const ddp::ConstBuffer middle = all.subspan(2, 4).first(3);
  CHECK((middle.data == data + 2 && middle.count == 3 && middle.on_device));
  CHECK(middle.stream == all.stream);
}

TEST_CASE("one value needs no buffer", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) { check_values(group); });
}

TEST_CASE("objects of a type with a serializer are broadcast and gathered", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) { check_objects(group); });
}

TEST_CASE("every float of 8 bits becomes its float, and the nearest float becomes it again") {
  check_float8<float8_e4m3>(3, 7, 0x7e);
  check_float8<float8_e5m2>(2, 15, 0x7b);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(static_cast<float>(float8_e4m3(464.0F)) == 448);
  CHECK(float8_e4m3(464.1F).bits() == 0x7f);
  CHECK(float8_e4m3(-kInfinity).bits() == 0xff);
  CHECK(std::isnan(static_cast<float>(float8_e4m3::from_bits(0xff))));
  CHECK(float8_e5m2(61439.0F).bits() == 0x7b);
  CHECK(float8_e5m2(61440.0F).bits() == 0x7c);
  CHECK(float8_e5m2(-1e30F).bits() == 0xfc);
  CHECK(static_cast<float>(float8_e5m2::from_bits(0x7c)) == kInfinity);
  for (const std::uint8_t bits : {0x7d, 0x7e, 0x7f, 0xff}) {
    CHECK(std::isnan(static_cast<float>(float8_e5m2::from_bits(bits))));
  }
  CHECK(std::isnan(static_cast<float>(float8_e4m3(std::nanf("")))));
  CHECK(std::isnan(static_cast<float>(float8_e5m2(-std::nanf("")))));
}

TEST_CASE("an element is a number, and movable types have no pointers") {
  using ddp::data_type;
  using ddp::DataType;
  STATIC_REQUIRE(data_type<bool>() == DataType::boolean);
  STATIC_REQUIRE(data_type<std::complex<double>>() == DataType::complex128);
  STATIC_REQUIRE(!ddp::Element<Reading>);
  STATIC_REQUIRE(!ddp::Element<long double>);
  STATIC_REQUIRE(ddp::Movable<Reading>);
  STATIC_REQUIRE(ddp::Movable<long double>);
  STATIC_REQUIRE(ddp::Movable<Phase>);
  STATIC_REQUIRE(!ddp::Movable<const Reading>);
  STATIC_REQUIRE(!ddp::Movable<Reading*>);
  STATIC_REQUIRE(!ddp::Movable<std::nullptr_t>);
  STATIC_REQUIRE(!ddp::Movable<std::string>);
  STATIC_REQUIRE(!ddp::Movable<std::string_view>);
  STATIC_REQUIRE(ddp::Value<Reading>);
  STATIC_REQUIRE(!ddp::Value<std::array<float, 3>>);
  STATIC_REQUIRE(!ddp::Value<ddp::Buffer>);
  STATIC_REQUIRE(!ddp::Value<ddp::DeviceSpan<float>>);
  STATIC_REQUIRE(!ddp::Serializable<std::string>);
}

// SPDX-License-Identifier: Apache-2.0
// The contents of a checkpoint's file.
#include <complex>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "collectives/little_endian.h"
#include "ddp/checkpoint.h"
#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/training/checkpoint_folder.h"
#include "tests/contains.h"

using namespace ddprun::tests;

namespace {

/// A checkpoint as ddp 0.1.0 wrote it.
std::string first_format(std::uint64_t version) {
  using ddp::internal::put_little_endian;
  std::string checked;
  constexpr std::uint64_t kParts[][2] = {{2, 1000}, {3, 300'001}, {7, 1}};
  put_little_endian(checked, version);
  put_little_endian(checked, std::uint64_t{3});
  for (const auto& [type, count] : kParts) {
    put_little_endian(checked, type);
    put_little_endian(checked, count);
  }
  checked += elements_of(version);
  ddprun::Fnv64 sum;
  sum.add(checked);
  std::string file = "ddp checkpoint 1";
  put_little_endian(file, sum.value());
  return file + checked;
}

/// The JSON at the start of a safetensors file, and the elements after it.
std::pair<nlohmann::json, std::string> safetensors(const std::string& file) {
  const auto size = ddp::internal::get_little_endian<std::uint64_t>(file, 0);
  REQUIRE(size + 8 <= file.size());
  return {nlohmann::json::parse(file.substr(8, size)), file.substr(8 + size)};
}

std::string safetensors(const std::string& head, const std::string& elements) {
  std::string file;
  ddp::internal::put_little_endian(file, std::uint64_t{head.size()});
  return file + head + elements;
}

constexpr auto kSystem = ddp::ErrorKind::system;

}  // namespace

TEST_CASE("a damaged checkpoint fails alike on all ranks, and the error names the version left") {
  const CheckpointFolder folder;
  folder.expect(1, "save:8 save:9", "");
  const std::string whole = read_file(folder.file);
  const std::string left =
      "; version 8 is whole, in " + folder.previous + ": rename it to go on from there";
  const std::string name = "rank 0: " + folder.file;
  const auto expect = [&](const std::string& bytes, const std::string& what) {
    write_file(folder.file, bytes);
    const auto ended = folder.run(2, "load load");
    const std::string line = error_line(kSystem, name + what + left);
    CHECK(ended[1].output == line + line);  // this rank has read nothing
    CHECK(contains(ended[0].output, line));
  };
  const auto flipped = [&](std::size_t at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  const std::size_t elements = whole.size() - elements_of(9).size();
  const std::string wrong_sum = " is damaged: its checksum is wrong";
  // In a decimal digit: a flipped 'f' would be no digit.
  const std::size_t sum = whole.find_first_of("0123456789", whole.find("xxh3:") + 5);
  for (const std::size_t at :
       {sum, whole.find("version\":\"9") + 10, elements, elements + 3000, whole.size() - 1}) {
    expect(flipped(at), wrong_sum);
  }
  const std::string other = " is not a checkpoint of ddp, or of a later version";
  for (const char* text : {"{", "__metadata__", "ddp.checksum", "xxh3:", "ddp.generation",
                           "ddp.version", "part_0", "dtype", "F32", "shape", "data_offsets"}) {
    INFO(text);
    expect(flipped(whole.find(text)), other);
  }
  // These digits may also occur in the checksum before it.
  expect(flipped(whole.find("1000", whole.find("shape"))), other);
  expect("x" + whole, other);
  expect("", " is damaged: it ends in its first lines");
  expect(whole.substr(0, 60), " is damaged: it ends in its first lines");
  const auto size = [](std::size_t bytes) { return std::to_string(bytes); };
  const std::string wanted = " bytes instead of " + size(whole.size());
  expect(whole.substr(0, whole.size() - 1),
         " is damaged: it has " + size(whole.size() - 1) + wanted);
  expect(whole + "x", " is damaged: it has " + size(whole.size() + 1) + wanted);

  write_file(folder.previous, whole.substr(0, 100));
  folder.expect(2, "load",
                error_line(kSystem, name + " is damaged: it has " + size(whole.size() + 1) +
                                        wanted + "; remove it to start over"));
}

TEST_CASE("the file of a checkpoint is a safetensors file") {
  const CheckpointFolder folder;
  folder.expect(1, "save:18446744073709551", "");
  const auto [head, elements] = safetensors(read_file(folder.file));
  CHECK(elements == elements_of(18446744073709551));
  CHECK((read_file(folder.file).size() - elements.size()) % 8 == 0);
  CHECK(head.size() == 4);
  CHECK(head["__metadata__"]["ddp.version"] == "18446744073709551");
  using nlohmann::json_literals::operator""_json;
  CHECK(head["part_0"] == R"({"dtype": "F32", "shape": [1000], "data_offsets": [0, 4000]})"_json);
  CHECK(head["part_1"] ==
        R"({"dtype": "F64", "shape": [300001], "data_offsets": [4000, 2404008]})"_json);
  CHECK(head["part_2"] ==
        R"({"dtype": "I64", "shape": [1], "data_offsets": [2404008, 2404016]})"_json);
}

TEST_CASE("a safetensors file of another program is loaded as version 0") {
  const CheckpointFolder folder;
  const std::string elements = elements_of(0);
  const std::string head = R"({"part_1": {"dtype": "F64", "shape": [1, 300001],
                                          "data_offsets": [0, 2400008]},
                               "part_2": {"dtype": "I64", "shape": [],
                                          "data_offsets": [2400008, 2400016]},
                               "part_0": {"dtype": "F32", "shape": [20, 50],
                                          "data_offsets": [2400016, 2404016]}}   )";
  const auto cut = [&](std::size_t from, std::size_t size) { return elements.substr(from, size); };
  write_file(folder.file,
             safetensors(head, cut(4000, 2'400'008) + cut(2'404'008, 8) + cut(0, 4000)));
  folder.expect(2, "load save:1 load", "loaded 0\nloaded 1\n");
}

TEST_CASE("a safetensors file whose elements end before they begin is refused") {
  const CheckpointFolder folder;
  // The sizes add up to 0 modulo 2^64.
  const std::string head = R"({"part_0": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
                               "part_1": {"dtype": "F64", "shape": [2305843009213693951],
                                          "data_offsets": [8, 0]}})";
  write_file(folder.file, safetensors(head, ""));
  CHECK(contains(folder.run(1, "load")[0].output,
                 folder.file + " is not a checkpoint of ddp, or of a later version"));
}

TEST_CASE("elements of every type, and structs, are saved and loaded") {
  const CheckpointFolder folder;
  const Words command = rank_command(
      [](ddp::ProcessGroup& group, const std::string& path) {
        struct Step {
          std::uint8_t phase;
          std::uint32_t number;
        };
        bool flags[] = {true, false, true};
        std::vector<ddp::float8_e4m3> small = {ddp::float8_e4m3(1.5F), ddp::float8_e4m3(-3.0F)};
        std::vector<std::complex<double>> waves = {{1, 2}, {3, -4}};
        std::vector<Step> steps = {{1, 70'000}};
        ddp::Checkpoint(path).save(group, 3, {flags, small, waves, steps});
        flags[2] = false;
        small[1] = ddp::float8_e4m3();
        waves[1] = 0;
        steps[0] = {};
        check(ddp::Checkpoint(path).load(group, {flags, small, waves, steps}) == 3, "version");
        check(flags[0] && !flags[1] && flags[2] && small[1] == -3, "bool and float8");
        check(waves[1] == std::complex<double>(3, -4), "complex");
        check(steps[0].phase == 1 && steps[0].number == 70'000, "structs");
        refused([&] {
          ddp::Checkpoint(path).save(group, 4, {{steps.data(), 1, ddp::DataType::opaque}});
        });
      },
      folder.file);
  for (const Ended& rank : run_ranks(2, command)) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output,
                   "a checkpoint of structs whose size is not set in Buffer::width (part 0)"));
  }
  const auto [head, elements] = safetensors(read_file(folder.file));
  using nlohmann::json_literals::operator""_json;
  CHECK(head["part_0"] == R"({"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]})"_json);
  CHECK(head["part_1"] == R"({"dtype": "F8_E4M3", "shape": [2], "data_offsets": [3, 5]})"_json);
  CHECK(head["part_2"] == R"({"dtype": "F64", "shape": [4], "data_offsets": [5, 37]})"_json);
  CHECK(head["part_3"] == R"({"dtype": "U8", "shape": [8], "data_offsets": [37, 45]})"_json);
}

TEST_CASE("a checkpoint of ddp 0.1.0 is loaded, kept as the previous one, and checked") {
  const CheckpointFolder folder;
  std::string old = first_format(6);
  write_file(folder.file, old);
  folder.expect(2, "load save:7 load", "loaded 6\nloaded 7\n");
  CHECK((read_file(folder.previous) == old));
  old.back() = static_cast<char>(old.back() ^ 1);
  write_file(folder.file, old);
  CHECK(contains(folder.run(1, "load")[0].output,
                 " is damaged: its checksum is wrong; version 6 is whole, in " + folder.previous));
}

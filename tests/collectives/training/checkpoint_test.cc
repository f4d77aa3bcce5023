// SPDX-License-Identifier: Apache-2.0
#include "ddp/checkpoint.h"

#include <algorithm>
#include <complex>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "collectives/fnv.h"
#include "collectives/little_endian.h"
#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"

using namespace ddprun::tests;
namespace fs = std::filesystem;

namespace {

/// The parts of a checkpoint, whose every element depends on the version that was saved.
struct State {
  std::vector<float> weights = std::vector<float>(1000, -1);
  std::vector<double> momentum = std::vector<double>(300'001, -1);
  std::vector<std::int64_t> steps = std::vector<std::int64_t>(1, -1);

  std::vector<ddp::Buffer> parts() { return {weights, momentum, steps}; }

  void fill(double version) {
    std::size_t at = 0;
    for (float& one : weights) one = static_cast<float>(version) + static_cast<float>(++at % 9);
    for (double& one : momentum) one = version + static_cast<double>(++at % 1000) / 1000;
    steps[0] = static_cast<std::int64_t>(version);
  }
  bool operator==(const State&) const = default;
};

void save(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint, std::uint64_t version) {
  State state;
  if (group.rank() == 0) state.fill(static_cast<double>(version));
  checkpoint.save(group, version, state.parts());
}

/// Changes the state at once.
ddp::Work begin_to_save(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint,
                        std::uint64_t version) {
  State state;
  if (group.rank() == 0) state.fill(static_cast<double>(version));
  const ddp::Work work = checkpoint.isave(group, version, state.parts());
  state.fill(-5);
  return work;
}

void load(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint) {
  State state;
  State expected;
  try {
    const auto version = checkpoint.load(group, state.parts());
    if (version) expected.fill(static_cast<double>(*version));
    if (state != expected) wrong("not what was saved");
    std::printf("%s\n", version ? ("loaded " + std::to_string(*version)).c_str() : "nothing");
  } catch (const ddp::Error&) {
    if (state != expected) std::printf("changed ");
    throw;
  }
}

void limit_files(const ddp::ProcessGroup& group, bool survives) {
  if (group.rank() != 0) return;
  if (survives) std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const rlimit most{4096, 4096};
  setrlimit(RLIMIT_FSIZE, &most);
}

/// Actions of a rank, by name:
///
///     save:V    saves version V
///     begin:V   begins to save version V, and goes on
///     end       waits for that
///     load      prints "loaded V", when all is as it was saved; "nothing", when there is no file
///     other     loads other parts than are saved
///     differ    loads other parts on each rank
///     device    saves what is said to be in device memory
///     limit     files of rank 0 cannot become longer than its header from now on: an error
///     kill      the same, and it dies of it
///
/// An error is printed on one line, and the rank goes on with the next action.
void act(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint, const std::string& action) {
  static std::optional<ddp::Work> begun;
  std::vector<float> small(static_cast<std::size_t>(group.rank()) + 1);
  if (action.starts_with("save:")) {
    save(group, checkpoint, std::strtoull(action.c_str() + 5, nullptr, 10));
  } else if (action.starts_with("begin:")) {
    begun = begin_to_save(group, checkpoint, std::strtoull(action.c_str() + 6, nullptr, 10));
  } else if (action == "end") {
    begun->wait();
  } else if (action == "load") {
    load(group, checkpoint);
  } else if (action == "other") {
    std::vector<float> weights(1000);
    std::vector<float> momentum(300'001);
    checkpoint.load(group, {weights, momentum});
  } else if (action == "differ") {
    checkpoint.load(group, {small});
  } else if (action == "device") {
    checkpoint.save(group, 1, {ddp::DeviceSpan<float>{small.data(), small.size()}});
  } else if (action == "limit" || action == "kill") {
    limit_files(group, action == "limit");
  } else {
    wrong("no action " + action);
  }
}

/// Of a rank: the actions one after the other. "%" in the path is the rank.
void act_all(ddp::ProcessGroup& group, std::string path, const std::string& actions) {
  const std::size_t at = path.find('%');
  if (at != std::string::npos) path.replace(at, 1, std::to_string(group.rank()));
  ddp::Checkpoint checkpoint(path);
  std::istringstream words(actions);
  for (std::string action; words >> action;) {
    try {
      act(group, checkpoint, action);
    } catch (const ddp::Error& error) {
      if (error.kind() == ddp::ErrorKind::peer_lost) throw;
      std::printf("error %d: %s\n", static_cast<int>(error.kind()), error.what());
    }
    std::fflush(stdout);
    group.barrier();  // it is usable
  }
}

struct Place : Folder {
  std::string file = path / "state.ckpt";
  std::string previous = file + ".previous";

  /// The other files in the folder.
  std::vector<std::string> others() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path() != file && entry.path() != previous) names.push_back(entry.path());
    }
    return names;
  }

  /// `actions` are separated by spaces.
  std::vector<Ended> run(int size, const std::string& actions,
                         const std::string& named = "") const {
    return run_ranks(
        size,
        [](ddp::ProcessGroup& group, const std::string& where, const std::string& all) {
          act_all(group, where, all);
        },
        named.empty() ? file : (path / named).string(), actions);
  }

  /// Runs actions that do nothing unexpected; every rank's output is this.
  void expect(int size, const std::string& actions, const std::string& output,
              const std::string& named = "") const {
    for (const Ended& rank : run(size, actions, named)) {
      CHECK(rank.output == output);
      CHECK(rank.code == 0);
    }
  }
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// The elements of a part, as they are in memory.
std::string bytes_of(const ddp::ConstBuffer& part, std::size_t size) {
  return {static_cast<const char*>(part.data), part.count * size};
}

/// The elements of all parts of version `version`.
std::string elements_of(std::uint64_t version) {
  State state;
  state.fill(static_cast<double>(version));
  return bytes_of(state.weights, 4) + bytes_of(state.momentum, 8) + bytes_of(state.steps, 8);
}

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
  ddp::internal::Fnv64 sum;
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

/// The line of an error that all ranks print.
std::string error(ddp::ErrorKind kind, const std::string& sentence) {
  return "error " + std::to_string(static_cast<int>(kind)) + ": ddp: " + sentence + "\n";
}

constexpr auto kSystem = ddp::ErrorKind::system;

}  // namespace

TEST_CASE("a saved checkpoint is loaded by any number of ranks") {
  const Place place;
  place.expect(3, "load save:1 load save:2 load", "nothing\nloaded 1\nloaded 2\n");
  for (const int size : {1, 2, 5}) place.expect(size, "load", "loaded 2\n");
  place.expect(1, "save:3", "");
  fs::rename(place.previous, place.file);
  place.expect(2, "load", "loaded 2\n");
}

TEST_CASE("ranks load over any backend what was saved over it", "[mpi]") {
  const Place place;
  const std::string lines[] = {"nothing\n", "loaded 2\n"};
  constexpr std::size_t kRanks = 3;
  const auto ended = place.run(kRanks, "load save:1 save:2 load");
  std::string all;
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    all += rank.output;
  }
  for (const std::string& line : lines) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = all.find(line, at)) != std::string::npos; ++at) ++count;
    CHECK(count == kRanks);
  }
}

TEST_CASE("ranks that find different files load the same one, the newest") {
  const Place place;
  place.expect(1, "save:3", "", "2.ckpt");
  place.expect(1, "save:4", "", "1.ckpt");
  place.expect(4, "load", "loaded 4\n", "%.ckpt");
}

TEST_CASE(
    "a damaged checkpoint is the same error on all ranks, which names the version that is left") {
  const Place place;
  place.expect(1, "save:8 save:9", "");
  const std::string whole = read(place.file);
  const std::string left =
      "; version 8 is whole, in " + place.previous + ": rename it to go on from there";
  const std::string name = "rank 0: " + place.file;
  const auto expect = [&](const std::string& bytes, const std::string& what) {
    write(place.file, bytes);
    const auto ended = place.run(2, "load load");
    const std::string line = error(kSystem, name + what + left);
    CHECK(ended[1].output == line + line);  // it has read nothing
    CHECK(contains(ended[0].output, line));
  };
  const auto flipped = [&](std::size_t at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  const std::size_t elements = whole.size() - elements_of(9).size();
  const std::string wrong_sum = " is damaged: its checksum is wrong";
  // Of a decimal digit, as a flipped 'f' would be no digit.
  const std::size_t sum = whole.find_first_of("0123456789", whole.find("xxh3:") + 5);
  for (const std::size_t at :
       {sum, whole.find("version\":\"9") + 10, elements, elements + 3000, whole.size() - 1}) {
    expect(flipped(at), wrong_sum);
  }
  const std::string other = " is not a checkpoint of ddp, or of a later version";
  for (const char* text :
       {"{", "__metadata__", "ddp.checksum", "xxh3:", "ddp.generation", "ddp.version", "part_0",
        "dtype", "F32", "shape", "1000", "data_offsets"}) {
    INFO(text);
    expect(flipped(whole.find(text)), other);
  }
  expect("x" + whole, other);
  expect("", " is damaged: it ends in its first lines");
  expect(whole.substr(0, 60), " is damaged: it ends in its first lines");
  const auto size = [](std::size_t bytes) { return std::to_string(bytes); };
  const std::string wanted = " bytes instead of " + size(whole.size());
  expect(whole.substr(0, whole.size() - 1),
         " is damaged: it has " + size(whole.size() - 1) + wanted);
  expect(whole + "x", " is damaged: it has " + size(whole.size() + 1) + wanted);

  write(place.previous, whole.substr(0, 100));
  place.expect(2, "load",
               error(kSystem, name + " is damaged: it has " + size(whole.size() + 1) + wanted +
                                  "; remove it to start over"));
}

TEST_CASE("a damaged checkpoint does not take the place of the one before") {
  const Place place;
  place.expect(1, "save:1 save:2", "");
  fs::resize_file(place.file, 1000);
  place.expect(2, "save:3 load", "loaded 3\n");
  fs::rename(place.previous, place.file);
  place.expect(2, "load", "loaded 1\n");
}

TEST_CASE("a checkpoint that cannot be written fails on every rank and leaves the old one") {
  const Place place;
  const std::string words =
      error(kSystem, "rank 0: cannot write " + place.file + ": File too large");
  place.expect(3, "save:1 limit save:2 load", words + "loaded 1\n");
  CHECK(place.others().empty());

  const Place nowhere;
  nowhere.expect(
      2, "save:1",
      error(kSystem, "rank 0: cannot create " + (nowhere.path / "no/such.ckpt").string() +
                         ": No such file or directory"),
      "no/such.ckpt");
}

TEST_CASE("a checkpoint is written while the training changes what it has") {
  const int size = GENERATE(1, 2, 4);
  const Place place;
  place.expect(size, "begin:1 end load begin:2 begin:3 load save:4 load begin:5 load",
               "loaded 1\nloaded 3\nloaded 4\nloaded 5\n");
  place.expect(size, "begin:6", "");  // the process ends with it
  place.expect(1, "load", "loaded 6\n");
  fs::rename(place.previous, place.file);
  place.expect(1, "load", "loaded 5\n");
  CHECK(place.others().empty());
}

TEST_CASE(
    "a checkpoint that cannot be written in the background is an error of every rank's Work") {
  const Place place;
  const std::string words =
      error(kSystem, "rank 0: cannot write " + place.file + ": File too large");
  place.expect(3, "save:1 limit begin:2 end load begin:3 load", words + "loaded 1\nloaded 1\n");
  CHECK(place.others().empty());
}

TEST_CASE(
    "a checkpoint that was written in the background goes on in the group after one that failed") {
  const Place place;
  check_ranks(
      3,
      [](const std::string& path) {
        const auto store = job_store();
        const int rank = std::stoi(variable_or("RANK", ""));
        const auto join_at = [&](const std::string& name, int size) {
          return ddp::init_process_group({.backend = "cpu",
                                          .timeout = std::chrono::minutes(1),
                                          .store = std::make_shared<ddp::PrefixStore>(name, store),
                                          .rank = rank,
                                          .world_size = size});
        };
        ddp::Checkpoint checkpoint(path);
        State state;
        {
          ddp::ProcessGroup three = join_at("three", 3);
          checkpoint.isave(three, 1, state.parts()).wait();
          if (rank == 2) return store->wait({"failed/0", "failed/1"});
          three.set_timeout(std::chrono::milliseconds(1500));
          try {
            three.barrier();
            wrong("a barrier without rank 2");
          } catch (const ddp::Error& error) {
            check(error.kind() == ddp::ErrorKind::timed_out, error.what());
          }
          store->set("failed/" + std::to_string(rank), "");
        }
        ddp::ProcessGroup two = join_at("two", 2);  // whose name in its store is that of the other
        checkpoint.isave(two, 2, state.parts()).wait();
        check(checkpoint.load(two, state.parts()) == 2, "another version");
      },
      place.file);
}

TEST_CASE("a rank that dies in the middle of writing leaves the old checkpoint") {
  const Place place;
  const auto ended = place.run(2, "save:1 kill save:2");
  CHECK(ended[0].code == 128 + SIGXFSZ);
  CHECK(ended[1].code == failed(ddp::ErrorKind::peer_lost));
  CHECK(place.others().size() == 1);
  place.expect(3, "load save:3 load", "loaded 1\nloaded 3\n");
  CHECK(place.others().empty());
}

TEST_CASE("what a writer that was cut off still writes changes nothing in a newer checkpoint") {
  const Place place;
  place.run(1, "save:1 kill save:2");
  REQUIRE(place.others().size() == 1);
  std::fstream cut_off(place.others().front(), std::ios::binary | std::ios::in | std::ios::out);
  place.expect(1, "save:3", "");
  cut_off << std::string(100'000, 'x') << std::flush;
  REQUIRE(cut_off);
  place.expect(1, "load", "loaded 3\n");
}

TEST_CASE("a group cannot replace the checkpoint of a group that was formed later") {
  const Place place;
  check_ranks(
      1,
      [](ddp::ProcessGroup& older, const std::string& path) {
        ddp::ProcessGroup newer = join();
        State state;
        ddp::Checkpoint(path).save(older, 1, state.parts());
        ddp::Checkpoint(path).save(newer, 2, state.parts());
        try {
          ddp::Checkpoint(path).save(older, 3, state.parts());
          wrong("saved");
        } catch (const ddp::Error& error) {
          check(error.kind() == ddp::ErrorKind::system, error.what());
          check(contains(error.what(), path + " is of a process group that was formed later"),
                error.what());
        }
        check(ddp::Checkpoint(path).load(newer, state.parts()) == 2, "replaced");
        // A process that has loaded a checkpoint goes on from it.
        ddp::Checkpoint continued(path);
        continued.load(older, state.parts());
        continued.save(older, 4, state.parts());
      },
      place.file);
  CHECK(place.others().empty());
}

TEST_CASE("the file of a checkpoint is a safetensors file") {
  const Place place;
  place.expect(1, "save:18446744073709551", "");
  const auto [head, elements] = safetensors(read(place.file));
  CHECK(elements == elements_of(18446744073709551));
  CHECK((read(place.file).size() - elements.size()) % 8 == 0);
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
  const Place place;
  const std::string elements = elements_of(0);
  const std::string head = R"({"part_1": {"dtype": "F64", "shape": [1, 300001],
                                          "data_offsets": [0, 2400008]},
                               "part_2": {"dtype": "I64", "shape": [],
                                          "data_offsets": [2400008, 2400016]},
                               "part_0": {"dtype": "F32", "shape": [20, 50],
                                          "data_offsets": [2400016, 2404016]}}   )";
  const auto cut = [&](std::size_t from, std::size_t size) { return elements.substr(from, size); };
  write(place.file, safetensors(head, cut(4000, 2'400'008) + cut(2'404'008, 8) + cut(0, 4000)));
  place.expect(2, "load save:1 load", "loaded 0\nloaded 1\n");
}

TEST_CASE("a safetensors file whose elements end before they begin is refused") {
  const Place place;
  // The sizes add up to 0, modulo 2^64.
  const std::string head = R"({"part_0": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
                               "part_1": {"dtype": "F64", "shape": [2305843009213693951],
                                          "data_offsets": [8, 0]}})";
  write(place.file, safetensors(head, ""));
  CHECK(contains(place.run(1, "load")[0].output,
                 place.file + " is not a checkpoint of ddp, or of a later version"));
}

TEST_CASE("elements of every type, and structs, are saved and loaded") {
  const Place place;
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
      place.file);
  for (const Ended& rank : run_ranks(2, command)) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output,
                   "a checkpoint of structs whose size is not set in Buffer::width (part 0)"));
  }
  const auto [head, elements] = safetensors(read(place.file));
  using nlohmann::json_literals::operator""_json;
  CHECK(head["part_0"] == R"({"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]})"_json);
  CHECK(head["part_1"] == R"({"dtype": "F8_E4M3", "shape": [2], "data_offsets": [3, 5]})"_json);
  CHECK(head["part_2"] == R"({"dtype": "F64", "shape": [4], "data_offsets": [5, 37]})"_json);
  CHECK(head["part_3"] == R"({"dtype": "U8", "shape": [8], "data_offsets": [37, 45]})"_json);
}

TEST_CASE("a checkpoint of ddp 0.1.0 is loaded, kept as the previous one, and checked") {
  const Place place;
  std::string old = first_format(6);
  write(place.file, old);
  place.expect(2, "load save:7 load", "loaded 6\nloaded 7\n");
  CHECK((read(place.previous) == old));
  old.back() = static_cast<char>(old.back() ^ 1);
  write(place.file, old);
  CHECK(contains(place.run(1, "load")[0].output,
                 " is damaged: its checksum is wrong; version 6 is whole, in " + place.previous));
}

TEST_CASE("parts that do not fit are named") {
  const Place place;
  place.expect(1, "save:1", "");
  place.expect(2, "other",
               error(ddp::ErrorKind::usage, "rank 0: " + place.file +
                                                " is of another program: part 1 is float64[300001] "
                                                "there and float32[300001] here"));
  place.expect(3, "differ",
               error(ddp::ErrorKind::mismatch,
                     "ranks do not agree on what to load from a checkpoint: "
                     "part 0 float32[1] on rank 0, part 0 float32[2] on rank 1"));
  for (const Ended& rank : place.run(2, "device")) {
    CHECK(rank.output.find("a checkpoint of device memory (part 0)") != std::string::npos);
  }
}

// SPDX-License-Identifier: Apache-2.0
// Random sequences of calls, messages, groups and ends of ranks, beside a plain model: what each
// call gives by its definition.
//
// All ranks draw the same steps from the same seed. Which rank blocks in a call or begins it, and
// when it waits for what it has begun, each rank draws for itself. DDP_TEST_RANDOM_RUNS sets how
// many sequences run, DDP_TEST_RANDOM_SEED the first one's seed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::P2POp;
using ddp::ProcessGroup;
using ddp::ReduceOp;

namespace random_calls {
namespace {

using Random = std::mt19937_64;

/// Returns a number below `end`, the same on all ranks that have drawn as often.
std::size_t draw(Random& random, std::size_t end) {
  return random() % end;
}
int draw_rank(Random& random, std::size_t end) {
  return static_cast<int>(draw(random, end));
}
bool draw_one_of(Random& random, std::size_t chances) {
  return draw(random, chances) == 0;
}

/// Many short lengths, and some on each side of the limits between ways to move data.
std::size_t draw_count(Random& random) {
  const std::size_t most = std::size_t{1} << draw(random, draw_one_of(random, 8) ? 18 : 14);
  return draw_one_of(random, 12) ? 0 : 1 + draw(random, most);
}

std::uint64_t mixed(std::uint64_t number) {
  number = (number ^ number >> 30U) * 0xBF58476D1CE4E5B9;
  number = (number ^ number >> 27U) * 0x94D049BB133111EB;
  return number ^ number >> 31U;
}

/// A type of the program, which calls only move.
struct Point {
  std::int32_t x = 0;
  std::int8_t y = 0;
  bool operator==(const Point&) const = default;
};

template <class T>
constexpr bool kIsComplex = false;
template <class T>
constexpr bool kIsComplex<std::complex<T>> = true;

/// The elements of a std::vector: std::vector<bool> has no bool.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

template <class T>
ddp::Buffer buffer_of(std::span<Stored<T>> elements) {
  if constexpr (std::is_same_v<T, bool>) {
    return {elements.data(), elements.size(), ddp::DataType::boolean};
  } else {
    return elements;
  }
}

/// The model's numbers.
template <class T>
using Number = std::conditional_t<kIsComplex<T>, std::complex<double>, std::int64_t>;

template <class T>
Stored<T> element_of(Number<T> number) {
  if constexpr (std::is_same_v<T, Point>) {
    return {.x = static_cast<std::int32_t>(number), .y = static_cast<std::int8_t>(-number)};
  } else if constexpr (kIsComplex<T>) {
    return static_cast<T>(number);
  } else if constexpr (std::is_same_v<T, bool>) {
    return number != 0 ? 1 : 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(number);
  } else {
    return static_cast<T>(static_cast<float>(number));
  }
}

template <class N>
N combine(ReduceOp op, N a, N b) {
  if (op == ReduceOp::sum || op == ReduceOp::avg) return a + b;
  if (op == ReduceOp::product) return a * b;
  if constexpr (std::is_integral_v<N>) {
    if (op == ReduceOp::min) return std::min(a, b);
    if (op == ReduceOp::max) return std::max(a, b);
    if (op == ReduceOp::band) return a & b;
    if (op == ReduceOp::bor) return a | b;
    if (op == ReduceOp::bxor) return a ^ b;
  }
  wrong("an operation that the type has not");
}

/// Calls `work` with an element of the type of this number. The last one cannot be combined.
constexpr std::size_t kTypes = 12;
template <class F>
void with_type(std::size_t type, const F& work) {
  switch (type) {
    case 0:
      return work(float());
    case 1:
      return work(double());
    case 2:
      return work(std::int8_t());
    case 3:
      return work(std::uint8_t());
    case 4:
      return work(std::int32_t());
    case 5:
      return work(std::int64_t());
    case 6:
      return work(ddp::float16());
    case 7:
      return work(ddp::bfloat16());
    case 8:
      return work(bool());
    case 9:
      return work(std::complex<float>());
    case 10:
      return work(std::complex<double>());
    default:
      return work(Point());
  }
}

/// The data of one call or message, of each rank.
struct Data {
  std::uint64_t salt = 0;
  bool is_combined = false;  ///< so small that no type rounds the result

  template <class T>
  Number<T> number(int rank, std::size_t at) const {
    const std::uint64_t place = static_cast<std::uint64_t>(rank) << 32U | at;
    const auto next = static_cast<std::int64_t>(mixed(salt + place * 0x9E3779B97F4A7C15) % 201);
    if constexpr (std::is_same_v<T, bool>) return next % 2;
    const std::int64_t middle = std::is_unsigned_v<T> ? 0 : is_combined ? 2 : 100;
    const std::int64_t real =
        (is_combined ? next % (std::is_unsigned_v<T> ? 3 : 5) : next) - middle;
    if constexpr (kIsComplex<T>) {
      return {static_cast<double>(real), static_cast<double>(next / 5 % 3 - 1)};
    } else {
      return real;
    }
  }
  template <class T>
  std::vector<Stored<T>> of(int rank, std::size_t count, std::size_t begin = 0) const {
    std::vector<Stored<T>> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = element_of<T>(number<T>(rank, begin + i));
    return all;
  }
  /// The elements of so many ranks, combined.
  template <class T>
  std::vector<Stored<T>> combined(int ranks, ReduceOp op, std::size_t count,
                                  std::size_t begin = 0) const {
    std::vector<Stored<T>> all(count);
    for (std::size_t i = 0; i < count; ++i) {
      Number<T> result = number<T>(0, begin + i);
      for (int rank = 1; rank < ranks; ++rank) {
        result = combine(op, result, number<T>(rank, begin + i));
      }
      if (op != ReduceOp::avg) {
        all[i] = element_of<T>(result);
      } else if constexpr (kIsComplex<T>) {
        all[i] = static_cast<T>(result / static_cast<double>(ranks));
      } else {
        all[i] = static_cast<Stored<T>>(static_cast<float>(result) / static_cast<float>(ranks));
      }
    }
    return all;
  }
};

template <class T>
bool are_alike(std::span<const T> got, const std::vector<T>& expected, bool is_rounded) {
  if constexpr (std::is_same_v<T, Point>) {
    return std::ranges::equal(got, expected);
  } else {
    using Wide = std::conditional_t<kIsComplex<T>, std::complex<double>, double>;
    return std::ranges::equal(got, expected, [&](T a, T b) {
      const auto first = static_cast<Wide>(a);
      const auto second = static_cast<Wide>(b);
      return is_rounded ? std::abs(first - second) <= 0.01 * std::abs(second) : first == second;
    });
  }
}

enum class Kind {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  gather,
  all_gather,
  scatter,
  reduce_scatter,
  all_to_all,
  scan,
  exscan,
};
constexpr std::size_t kKinds = 11;

struct Collective {
  Kind kind = Kind::barrier;
  bool is_unequal = false;  ///< the form with _v
  bool is_in_place = false;
  bool is_allocated = false;  ///< the data is in memory of allocate()
  std::size_t type = 0;
  std::size_t count = 0;  ///< the most of a block if is_unequal
  int root = 0;
  ReduceOp op = ReduceOp::sum;
  Data data = {};

  bool combines() const {
    return kind == Kind::reduce || kind == Kind::all_reduce || kind == Kind::reduce_scatter ||
           kind == Kind::scan || kind == Kind::exscan;
  }
  /// The length of the block of rank `of`, or of the one that it has for rank `to`.
  std::size_t length(int of, int to = 0) const {
    if (!is_unequal) return count;
    return mixed(data.salt + static_cast<std::uint64_t>(of * 64 + to)) % (count + 1);
  }
  std::string text() const {
    return "collective " + std::to_string(static_cast<int>(kind)) + (is_unequal ? " _v" : "") +
           (is_in_place ? " in place" : "") + (is_allocated ? " allocated" : "") + ", type " +
           std::to_string(type) + ", count " + std::to_string(count) + ", root " +
           std::to_string(root) + ", op " + std::to_string(static_cast<int>(op));
  }
};

Collective draw_collective(Random& random, int size) {
  Collective call;
  call.kind = static_cast<Kind>(draw(random, kKinds));
  const bool has_blocks = call.kind >= Kind::gather && call.kind <= Kind::all_to_all;
  call.is_unequal = draw_one_of(random, 3) && has_blocks;
  call.is_in_place = draw_one_of(random, 3) && !call.is_unequal;
  call.is_allocated = draw_one_of(random, 8) && !call.is_unequal;
  call.type = draw(random, call.combines() ? kTypes - 1 : kTypes);
  call.count = draw_count(random);
  call.root = draw_rank(random, static_cast<std::size_t>(size));
  using Ops = std::vector<ReduceOp>;
  static const Ops numbers = {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max};
  static const Ops bits = {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};
  static const Ops others = {ReduceOp::avg, ReduceOp::sum, ReduceOp::product};
  const bool is_whole = call.type >= 2 && call.type <= 5;
  const bool is_bool = call.type == 8;
  if (is_bool || (is_whole && draw_one_of(random, 2))) {
    call.op = is_bool && draw_one_of(random, 2) ? ReduceOp::max : bits[draw(random, bits.size())];
  } else if (call.type > 8 || (!is_whole && draw_one_of(random, 5))) {
    call.op = others[draw(random, others.size())];
  } else {
    call.op = numbers[draw(random, numbers.size())];
  }
  call.data = {.salt = random(), .is_combined = call.combines()};
  return call;
}

/// A group as all ranks of the first one know it.
struct Party {
  std::vector<int> members = {};  ///< ranks of the first group, by rank in this one
  std::optional<ProcessGroup> group = std::nullopt;  ///< on members
};

enum class Ending { none, killed, leaves, differs, is_late, aborts };
constexpr std::size_t kEndings = 6;

/// Makes the calls of one rank in a random sequence.
class Player {
 public:
  Player(ProcessGroup& whole, std::uint64_t seed)
      : whole_(whole),
        seed_(seed),
        common_(seed),
        own_(mixed(seed) + static_cast<std::uint64_t>(whole.rank())) {}

  /// Takes so many steps. In the middle the `victim`, if there is one, comes to its end, which then
  /// fails the others: returns the error.
  std::optional<ddp::Error> play(int steps, Ending ending, int victim) {
    const bool is_victim = whole_.rank() == victim;
    probes_ = ending != Ending::leaves;  // those that wait for a rank whose calls failed by the end
    try {
      for (step_ = 0; step_ < steps; ++step_) {
        if (step_ == steps / 2 && is_victim && ending == Ending::killed) ::raise(SIGKILL);
        if (step_ == steps / 2 && is_victim && ending == Ending::leaves) break;
        if (step_ == steps / 2 && is_victim && ending == Ending::aborts) abort_all();
        take_step();
        while (!begun_.empty() && draw_one_of(own_, 3)) wait_for_one();
      }
      while (!begun_.empty()) wait_for_one();
      if (ending == Ending::leaves && is_victim) return std::nullopt;
      whole_.barrier();
      if (ending == Ending::differs) differ(is_victim);
      if (ending == Ending::is_late) be_late(is_victim);
    } catch (const ddp::Error& error) {
      return error;
    }
    return std::nullopt;
  }

  /// After a failure: what was begun ends, and what succeeded is right.
  void end_all() {
    parties_.clear();
    while (!begun_.empty()) {
      try {
        wait_for_one();
      } catch (const ddp::Error&) {
        begun_.pop_back();
      }
    }
  }

 private:
  struct Begun {
    ddp::Work work;
    std::function<void()> check;
  };

  struct Mail {
    int from = 0;
    int to = 0;
    int tag = 0;
    std::size_t type = 0;
    std::size_t count = 0;
    Data data = {};
  };

  std::string where() const {
    return "seed " + std::to_string(seed_) + ", rank " + std::to_string(whole_.rank()) + ", step " +
           std::to_string(step_) + ": ";
  }

  /// Throws, as every later call does.
  void abort_all() {
    whole_.abort();
    all_.group->abort();
    for (Party& party : parties_) {
      if (party.group) party.group->abort();
    }
    whole_.barrier();
  }

  std::size_t choose_begun() {
    if (!draw_one_of(own_, 4)) return draw(own_, begun_.size());
    std::vector<ddp::Work> works;
    for (const Begun& each : begun_) works.push_back(each.work);
    return ddp::wait_any(works);
  }

  /// The last one is taken away when it has succeeded.
  void wait_for_one() {
    std::swap(begun_[choose_begun()], begun_.back());
    const ddp::Work& work = begun_.back().work;
    const bool looks = draw_one_of(own_, 4);
    if (!looks || !work.is_completed()) work.wait();
    if (const auto error = work.error()) throw ddp::Error(*error);
    begun_.back().check();
    begun_.pop_back();
  }

  void take_step() {
    const std::size_t at = draw(common_, parties_.size() + 1);
    Party& party = at == 0 ? all_ : *std::next(parties_.begin(), static_cast<long>(at - 1));
    const std::size_t what = draw(common_, 26);
    if (what < 13) return take_collective(party);
    if (what < 18) return take_messages(party);
    if (what == 18) return take_probe(party);
    if (what == 19) return take_objects(party);
    if (what == 20 && parties_.size() < 3) return take_new_group(party);
    if (what == 21 && parties_.size() < 3) return take_split(party);
    if (what == 22 && parties_.size() < 3) return take_split_by_node(party);
    if (what == 23 && at > 0)
      parties_.erase(std::next(parties_.begin(), static_cast<long>(at - 1)));
  }

  void take_collective(Party& party) {
    const Collective call = draw_collective(common_, static_cast<int>(party.members.size()));
    if (!party.group) return;
    with_type(call.type, [&](auto element) { collective<decltype(element)>(*party.group, call); });
  }

  /// Makes the call, or begins it.
  template <class Make, class Begin>
  void make(const Make& make_call, const Begin& begin_call, std::function<void()> check_result) {
    if (draw_one_of(own_, 8)) {
      begun_.push_back({begin_call().then(check_result), check_result});
    } else if (draw_one_of(own_, 2)) {
      begun_.push_back({begin_call(), std::move(check_result)});
    } else {
      make_call();
      check_result();
    }
  }

  template <class T>
  void collective(ProcessGroup& group, const Collective& call) {
    struct Buffers {
      std::vector<std::shared_ptr<void>> memory;
      std::span<Stored<T>> in;
      std::span<Stored<T>> out;
      std::vector<Stored<T>> expected;
      std::vector<std::size_t> counts;
      std::vector<std::size_t> other_counts;
    };
    const auto buffers = std::make_shared<Buffers>();
    const int size = group.size();
    const int rank = group.rank();
    const auto most = static_cast<std::size_t>(size) * call.count;
    const auto place = [&](std::size_t count) {
      if (call.is_allocated) {
        const auto memory = group.allocate(std::max(most, std::size_t{1}) * sizeof(T));
        buffers->memory.push_back(memory);
        return std::span(static_cast<Stored<T>*>(memory.get()), count);
      }
      const auto memory = std::make_shared<std::vector<Stored<T>>>(count, element_of<T>(77));
      buffers->memory.push_back(memory);
      return std::span(*memory);
    };
    const bool is_root = rank == call.root;
    auto& [memory, in, out, expected, counts, other_counts] = *buffers;
    const auto add_expected = [&](const std::vector<Stored<T>>& more) {
      expected.insert(expected.end(), more.begin(), more.end());
    };
    for (int of = 0; of < size; ++of) {
      const bool is_swap = call.kind == Kind::all_to_all;
      counts.push_back(is_swap ? call.length(rank, of) : call.length(of));
      other_counts.push_back(is_swap ? call.length(of, rank) : call.length(of));
    }
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const std::size_t came =
        std::accumulate(other_counts.begin(), other_counts.end(), std::size_t{0});
    const auto own = static_cast<std::size_t>(rank);
    const std::size_t length = counts[own];
    const std::size_t begin =
        std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
    const Data& data = call.data;

    // The buffers, with what this rank has, and what the call gives it.
    switch (call.kind) {
      case Kind::barrier:
        break;
      case Kind::broadcast:
        out = place(call.count);
        expected = data.of<T>(call.root, call.count);
        if (is_root) std::ranges::copy(expected, out.begin());
        break;
      case Kind::reduce:
      case Kind::all_reduce: {
        const bool gets = call.kind == Kind::all_reduce || is_root;
        in = place(call.count);
        std::ranges::copy(data.of<T>(rank, call.count), in.begin());
        out = call.is_in_place ? in : place(gets ? call.count : 0);
        if (gets) {
          expected = data.combined<T>(size, call.op, call.count);
        } else {
          expected = {out.begin(), out.end()};
        }
        break;
      }
      case Kind::gather:
      case Kind::all_gather: {
        const bool gets = call.kind == Kind::all_gather || is_root;
        out = place(gets ? total : 0);
        in = call.is_in_place && gets ? out.subspan(begin, length) : place(length);
        if (call.is_in_place && gets && call.is_allocated) place(0);  // all ranks allocate
        std::ranges::copy(data.of<T>(rank, length), in.begin());
        for (int from = 0; gets && from < size; ++from) {
          add_expected(data.of<T>(from, counts[static_cast<std::size_t>(from)]));
        }
        break;
      }
      case Kind::scatter:
        in = place(is_root ? total : 0);
        if (is_root) std::ranges::copy(data.of<T>(rank, total), in.begin());
        out = call.is_in_place && is_root ? in.subspan(begin, length) : place(length);
        if (call.is_in_place && is_root && call.is_allocated) place(0);
        expected = data.of<T>(call.root, length, begin);
        break;
      case Kind::reduce_scatter:
        in = place(total);
        std::ranges::copy(data.of<T>(rank, total), in.begin());
        out = call.is_in_place ? in.subspan(begin, length) : place(length);
        expected = data.combined<T>(size, call.op, length, begin);
        break;
      case Kind::all_to_all:
        in = place(total);
        std::ranges::copy(data.of<T>(rank, total), in.begin());
        out = call.is_in_place ? in : place(came);
        for (int from = 0; from < size; ++from) {
          std::size_t skipped = 0;
          for (int to = 0; to < rank; ++to) skipped += call.length(from, to);
          add_expected(data.of<T>(from, other_counts[static_cast<std::size_t>(from)], skipped));
        }
        break;
      case Kind::scan:
      case Kind::exscan: {
        in = place(call.count);
        std::ranges::copy(data.of<T>(rank, call.count), in.begin());
        out = call.is_in_place ? in : place(call.count);
        const int ranks = call.kind == Kind::scan ? rank + 1 : rank;
        expected = {out.begin(), out.end()};
        if (ranks > 0) expected = data.combined<T>(ranks, call.op, call.count);
        break;
      }
    }

    const auto check_result = [buffers, call, text = where()] {
      const bool is_rounded = call.combines() && call.op == ReduceOp::avg;
      check(are_alike<Stored<T>>(buffers->out, buffers->expected, is_rounded), text + call.text());
    };
    const auto& op = call.op;
    const int root = call.root;
    ProcessGroup& g = group;
    const ddp::Buffer from = buffer_of<T>(in);
    const ddp::Buffer to = buffer_of<T>(out);
    switch (call.kind) {
      case Kind::barrier:
        return make([&] { g.barrier(); }, [&] { return g.ibarrier(); }, check_result);
      case Kind::broadcast:
        return make([&] { g.broadcast(to, root); }, [&] { return g.ibroadcast(to, root); },
                    check_result);
      case Kind::reduce:
        if (call.is_in_place) {
          return make([&] { g.reduce(to, root, op); }, [&] { return g.ireduce(to, root, op); },
                      check_result);
        }
        return make([&] { g.reduce(from, to, root, op); },
                    [&] { return g.ireduce(from, to, root, op); }, check_result);
      case Kind::all_reduce:
        return make([&] { g.all_reduce(from, to, op); },
                    [&] { return g.iall_reduce(from, to, op); }, check_result);
      case Kind::gather:
        if (call.is_unequal) {
          return make([&] { g.gather_v(from, to, counts, root); },
                      [&] { return g.igather_v(from, to, counts, root); }, check_result);
        }
        return make([&] { g.gather(from, to, root); }, [&] { return g.igather(from, to, root); },
                    check_result);
      case Kind::all_gather:
        if (call.is_unequal) {
          return make([&] { g.all_gather_v(from, to, counts); },
                      [&] { return g.iall_gather_v(from, to, counts); }, check_result);
        }
        return make([&] { g.all_gather(from, to); }, [&] { return g.iall_gather(from, to); },
                    check_result);
      case Kind::scatter:
        if (call.is_unequal) {
          return make([&] { g.scatter_v(from, counts, to, root); },
                      [&] { return g.iscatter_v(from, counts, to, root); }, check_result);
        }
        return make([&] { g.scatter(from, to, root); }, [&] { return g.iscatter(from, to, root); },
                    check_result);
      case Kind::reduce_scatter:
        if (call.is_unequal) {
          return make([&] { g.reduce_scatter_v(from, to, counts, op); },
                      [&] { return g.ireduce_scatter_v(from, to, counts, op); }, check_result);
        }
        return make([&] { g.reduce_scatter(from, to, op); },
                    [&] { return g.ireduce_scatter(from, to, op); }, check_result);
      case Kind::all_to_all:
        if (call.is_unequal) {
          return make([&] { g.all_to_all_v(from, counts, to, other_counts); },
                      [&] { return g.iall_to_all_v(from, counts, to, other_counts); },
                      check_result);
        }
        return make([&] { g.all_to_all(from, to); }, [&] { return g.iall_to_all(from, to); },
                    check_result);
      case Kind::scan:
        g.scan(from, to, op);
        return check_result();
      case Kind::exscan:
        g.exscan(from, to, op);
        return check_result();
    }
  }

  /// A message's data, and its check; the sender has no check.
  template <class T>
  std::pair<std::shared_ptr<std::vector<Stored<T>>>, std::function<void()>> content(
      const Mail& mail, bool sends) const {
    auto data = std::make_shared<std::vector<Stored<T>>>(
        sends ? mail.data.of<T>(mail.from, mail.count)
              : std::vector<Stored<T>>(mail.count, element_of<T>(77)));
    return {data, [data, mail, sends, text = where()] {
              if (sends) return;
              check(are_alike<Stored<T>>(*data, mail.data.of<T>(mail.from, mail.count), false),
                    text + "tag " + std::to_string(mail.tag) + " from rank " +
                        std::to_string(mail.from) + ", count " + std::to_string(mail.count));
            }};
  }

  /// Some messages at once. Each rank begins its own in an order of its own, but those of one
  /// sender with one tag in theirs.
  void take_messages(Party& party) {
    const std::size_t size = party.members.size();
    std::vector<Mail> all(1 + draw(common_, 6));
    for (Mail& mail : all) {
      mail.from = draw_rank(common_, size);
      mail.to = (mail.from + 1 + draw_rank(common_, std::max<std::size_t>(size, 2) - 1)) %
                static_cast<int>(size);
      mail.tag = draw_rank(common_, 3);
      mail.type = draw(common_, kTypes);
      mail.count = draw_count(common_);
      mail.data = {.salt = common_()};
    }
    if (!party.group || size == 1) return;
    ProcessGroup& group = *party.group;
    std::erase_if(all, [&](const Mail& mail) {
      return mail.from != group.rank() && mail.to != group.rank();
    });
    shuffle(all);
    if (draw_one_of(own_, 4)) return make_batch(group, all);
    for (const Mail& mail : all) {
      const bool sends = mail.from == group.rank();
      with_type(mail.type, [&](auto element) {
        auto [data, check_data] = content<decltype(element)>(mail, sends);
        const ddp::Buffer elements = buffer_of<decltype(element)>(*data);
        begun_.push_back({sends ? group.isend(elements, mail.to, mail.tag)
                                : group.irecv(elements, mail.from, mail.tag),
                          check_data});
      });
    }
  }

  void shuffle(std::vector<Mail>& all) {
    const auto key = [](const Mail& mail) { return std::tuple(mail.from, mail.to, mail.tag); };
    std::map<std::tuple<int, int, int>, std::vector<Mail>> in_order;
    for (const Mail& mail : all) in_order[key(mail)].push_back(mail);
    std::ranges::shuffle(all, own_);
    std::map<std::tuple<int, int, int>, std::size_t> next;
    for (Mail& mail : all) {
      const auto place = key(mail);
      mail = in_order[place][next[place]++];
    }
  }

  void make_batch(ProcessGroup& group, const std::vector<Mail>& all) {
    std::vector<P2POp> ops;
    std::vector<std::function<void()>> checks;
    for (const Mail& mail : all) {
      const bool sends = mail.from == group.rank();
      with_type(mail.type, [&](auto element) {
        auto [data, check_data] = content<decltype(element)>(mail, sends);
        const ddp::Buffer elements = buffer_of<decltype(element)>(*data);
        ops.push_back(sends ? P2POp::send(elements, mail.to, mail.tag)
                            : P2POp::recv(elements, mail.from, mail.tag));
        checks.push_back(check_data);
      });
    }
    begun_.push_back({group.batch_isend_irecv(ops), [checks] {
                        for (const auto& each : checks) each();
                      }});
  }

  /// A blocking message, or one rank receives from several, whichever comes first.
  void take_probe(Party& party) {
    const std::size_t size = party.members.size();
    const int receiver = draw_rank(common_, size);
    const int tag = 1000 + step_;
    std::map<int, Mail> all;
    for (int from = 0; from < static_cast<int>(size); ++from) {
      const Mail mail = {.from = from,
                         .to = receiver,
                         .tag = tag,
                         .count = draw_count(common_),
                         .data = {.salt = common_()}};
      if (from != receiver && !draw_one_of(common_, 3)) all.emplace(from, mail);
    }
    if (!party.group || !probes_) return;
    ProcessGroup& group = *party.group;
    const auto own = all.find(group.rank());
    if (own != all.end()) {
      const auto sent = content<float>(own->second, true).first;
      if (draw_one_of(own_, 2)) return group.send(*sent, receiver, tag);
      begun_.push_back({group.isend(*sent, receiver, tag), [sent] {}});
    }
    while (group.rank() == receiver && !all.empty()) {
      const auto sender = all.find(group.probe(tag));
      check(sender != all.end(), where() + "a message of another rank");
      const auto [data, check_data] = content<float>(sender->second, false);
      group.recv(*data, sender->first, tag);
      check_data();
      all.erase(sender);
    }
  }

  void take_objects(Party& party) {
    const auto size = static_cast<int>(party.members.size());
    const int root = draw_rank(common_, party.members.size());
    const std::uint64_t salt = common_();
    if (!party.group) return;
    ProcessGroup& group = *party.group;
    const auto object = [&](int rank) {
      return std::string(mixed(salt + static_cast<std::uint64_t>(rank)) % 3000,
                         static_cast<char>('a' + rank));
    };
    std::vector<std::string> all;
    for (int rank = 0; rank < size; ++rank) all.push_back(object(rank));
    std::string own = object(group.rank());
    check(group.all_gather_object(own) == all, where() + "all_gather_object");
    const auto gathered = group.gather_object(own, root);
    check(gathered == (group.rank() == root ? all : std::vector<std::string>()),
          where() + "gather_object");
    group.broadcast_object(own, root);
    check(own == object(root), where() + "broadcast_object");
  }

  void take_new_group(Party& parent) {
    std::vector<int> ranks(parent.members.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    std::ranges::shuffle(ranks, common_);
    ranks.resize(1 + draw(common_, ranks.size()));
    Party party;
    for (const int rank : ranks) {
      party.members.push_back(parent.members[static_cast<std::size_t>(rank)]);
    }
    if (parent.group) party.group = parent.group->new_group(ranks);
    add(std::move(party));
  }

  void take_split(Party& parent) {
    std::vector<std::pair<int, int>> places;  // color and key
    for (std::size_t rank = 0; rank < parent.members.size(); ++rank) {
      places.emplace_back(draw_rank(common_, 3) - 1, draw_rank(common_, 3));
    }
    std::map<int, Party> parts;
    for (int key = 0; key < 3; ++key) {
      for (std::size_t rank = 0; rank < places.size(); ++rank) {
        const auto [color, own_key] = places[rank];
        if (color >= 0 && own_key == key) parts[color].members.push_back(parent.members[rank]);
      }
    }
    if (parent.group) {
      const auto [color, key] = places[static_cast<std::size_t>(parent.group->rank())];
      auto part = parent.group->split(color, key);
      check(part.has_value() == (color >= 0), where() + "who is in a part");
      if (part) parts[color].group = std::move(part);
    }
    for (auto& [color, part] : parts) add(std::move(part));
  }

  /// All ranks are on one machine, by its name.
  void take_split_by_node(Party& parent) {
    Party party = {.members = parent.members};
    if (parent.group) party.group = parent.group->split_by_node();
    add(std::move(party));
  }

  void add(Party party) {
    const auto own = std::ranges::find(party.members, whole_.rank());
    const bool is_member = own != party.members.end();
    check(party.group.has_value() == is_member, where() + "who is in the group");
    if (is_member) {
      check(party.group->rank() == own - party.members.begin(), where() + "the rank in a group");
      check(party.group->size() == std::ssize(party.members), where() + "the size of a group");
    }
    parties_.push_back(std::move(party));
  }

  void differ(bool is_odd) {
    std::vector<float> data(is_odd ? 101 : 100);
    whole_.all_reduce(data);
    whole_.barrier();
  }

  /// The late rank makes the call when it has failed on another one. If what that one sent is
  /// enough, the call may succeed on the rest, and the next one fails.
  void be_late(bool is_late) {
    const auto store = job_store();
    const std::string key = "late " + std::to_string(seed_);
    if (is_late) {
      store->wait({key}, std::chrono::minutes(1));
    } else {
      whole_.set_timeout(std::chrono::milliseconds(100));
    }
    try {
      whole_.barrier();
      whole_.barrier();
    } catch (const ddp::Error&) {
      store->set(key, "");
      throw;
    }
  }

  ProcessGroup& whole_;
  const std::uint64_t seed_;
  Random common_;
  Random own_;
  int step_ = 0;
  bool probes_ = true;
  Party all_ = [this] {
    Party party;
    party.members.resize(static_cast<std::size_t>(whole_.size()));
    std::iota(party.members.begin(), party.members.end(), 0);
    std::vector<int> same = party.members;
    party.group = whole_.new_group(same);
    return party;
  }();
  std::list<Party> parties_;
  std::vector<Begun> begun_;
};

constexpr int kSteps = 40;

/// Ranks continue without the one that was killed.
void continue_in_rest(ProcessGroup& whole, std::uint64_t seed, int killed) {
  try {
    whole.barrier();
    wrong("a barrier of a group that has lost a rank");
  } catch (const ddp::Error& error) {
    check(error.kind() == ErrorKind::peer_lost, error.what());
    check(error.lost_ranks() == std::vector{killed}, "the lost ranks");
  }
  ProcessGroup rest = whole.shrink();
  check(rest.size() == whole.size() - 1, "the size of the rest");
  Player player(rest, seed + 1'000'000);
  const auto error = player.play(kSteps / 4, Ending::none, -1);
  if (error) wrong(std::string("in the rest: ") + error->what());
}

void play(ProcessGroup& group, std::uint64_t seed, Ending ending) {
  constexpr ErrorKind kErrors[] = {ErrorKind::peer_lost, ErrorKind::left, ErrorKind::mismatch,
                                   ErrorKind::timed_out, ErrorKind::system};
  const int victim = static_cast<int>(mixed(seed) % static_cast<std::uint64_t>(group.size()));
  const bool has_left = ending == Ending::leaves && group.rank() == victim;
  Player player(group, seed);
  const auto error = player.play(kSteps, ending, victim);
  const bool must_fail = ending != Ending::none && !has_left;
  // Ranks that have failed by an abort leave groups without the rank that made it.
  const bool is_left_behind = ending == Ending::aborts && error && error->kind() == ErrorKind::left;
  const bool is_right =
      error ? must_fail && error->kind() == kErrors[static_cast<int>(ending) - 1] : !must_fail;
  if (!is_right && !is_left_behind) {
    wrong("seed " + std::to_string(seed) + ": " + (error ? error->what() : "no error"));
  }
  if (error) player.end_all();
  if (ending == Ending::killed) continue_in_rest(group, seed, victim);
}

}  // namespace

TEST_CASE("random sequences of calls, messages, groups and ends give what a plain model says",
          "[tcp][nodes]") {
  const std::uint64_t first = std::stoull(variable_or("DDP_TEST_RANDOM_SEED", "1"));
  const std::uint64_t runs = std::stoull(variable_or("DDP_TEST_RANDOM_RUNS", "12"));
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    const int size = static_cast<int>(1 + (seed + seed / kEndings) % 4);  // each with each ending
    const auto ending = size == 1 ? Ending::none : static_cast<Ending>(seed % kEndings);
    const auto ended = run_ranks(
        size,
        [](ProcessGroup& group, std::uint64_t number, Ending how) { play(group, number, how); },
        seed, ending);
    int killed = 0;
    for (const Ended& rank : ended) {
      INFO("seed " << seed << ", ending " << static_cast<int>(ending) << ": " << rank.output);
      const bool is_killed = ending == Ending::killed && rank.code == 128 + SIGKILL;
      killed += is_killed ? 1 : 0;
      CHECK((rank.code == 0 || is_killed));
    }
    CHECK(killed == (ending == Ending::killed ? 1 : 0));
  }
}

}  // namespace random_calls

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "agent/job_spec.h"

namespace ddprun::cli {

/// What a command line asks for.
enum class Mode {
  run,    ///< `ddprun program`: a node of a job
  serve,  ///< `ddprun serve`: the rendezvous alone
};

/// What the flags said, before the machine is asked what it means.
struct RawOptions {
  agent::JobSpec job;                        ///< what needs no more thought
  std::string local_size = "1";              ///< a number >= 1, "auto", "gpu" or "cpu"
  std::optional<std::string> master_addr;    ///< as --rdzv_endpoint or --master_addr says
  std::optional<std::uint16_t> master_port;  ///< likewise
  std::string port_said_by;                  ///< the flag that named the port, with its value
  bool endpoint = false;                     ///< --rdzv_endpoint was given
  bool standalone = false;
  std::optional<std::string> prefix;  ///< the template the user gave
  bool no_prefix = false;
  bool module = false;     ///< the program is the name of a Python module
  bool no_python = false;  ///< the program is executed, whatever its name
  bool dry_run = false;
  bool set_apart = false;  ///< "--" stood before the program: every word after it is the program's
  bool joining_order = false;  ///< the nodes' ranks are by order of joining, whatever is given
};

/// What became of a flag's value. Made from a bool: whether it was a right one.
class Taken {
 public:
  Taken(bool good) : good_(good) {}  // NOLINT(google-explicit-constructor)

  /// Refused for a reason that the flag's `wants` does not tell; follows the flag's name.
  static Taken refused(std::string reason) {
    Taken taken(false);
    taken.reason_ = std::move(reason);
    return taken;
  }

  explicit operator bool() const { return good_; }
  const std::string& reason() const { return reason_; }  ///< may be empty

 private:
  bool good_;
  std::string reason_;
};

/// Headings of --help, in its order.
enum class Group { program, workers, rendezvous, failures, output, torchrun, information };

/// One flag. Names are written with underscores; dashes mean the same.
struct Flag {
  enum Trait : unsigned {
    kServes = 1,  ///< `ddprun serve` takes it too
    kYields = 2,  ///< other flags say the same more exactly: taken before them, they count
  };

  Group group;
  std::string_view name;         ///< without the leading dashes
  std::string_view alias;        ///< means the same; empty: none
  std::string_view value;        ///< what follows it, in its unit; empty: nothing does
  std::string_view environment;  ///< the variable that gives its default; empty: none
  std::string_view fallback;     ///< the default without that variable, for --help
  std::string_view wants;        ///< what a right value is, for refusals
  std::string_view help;

  /// Takes the value into `raw`, a switch "0" or "1".
  Taken (*take)(std::string_view value, RawOptions& raw);
  unsigned traits = 0;
  char letter = '\0';                        ///< "-m" for short; '\0': there is none
  std::string_view second_environment = {};  ///< counts where the other variable is not set

  bool yields() const { return (traits & kYields) != 0; }
  bool in(Mode mode) const { return mode == Mode::run || (traits & kServes) != 0; }
};

/// Every flag there is, in the order of --help.
std::span<const Flag> flags();

/// A word of the command line that is a flag, and the value that may stand in it.
struct Said {
  const Flag* flag = nullptr;             ///< nullptr: the word is no flag
  std::optional<std::string_view> value;  ///< points into the word
};

/// Reads "--name", "--name=value", with dashes and underscores mixed at will, or "-r", "-r=3" and
/// "-r3", which is no flag where the letter takes no value.
Said read_flag(std::string_view word);

/// Its flag alone.
const Flag* find_flag(std::string_view word);

/// Flags that answer instead of running something.
constexpr std::string_view kHelp = "help";
constexpr std::string_view kVersion = "version";

/// The shortest time where none at all makes no sense; a heartbeat below it would only cost.
constexpr std::chrono::milliseconds kShortest{10};
constexpr std::string_view kWantsTime =
    "a time up to 1000d: seconds, or with a unit such as 500ms, 10min or 1h";
constexpr std::string_view kWantsSomeTime =
    "a time from 10ms to 1000d: seconds, or with a unit such as 500ms, 10min or 1h";

/// `ddprun --help`, or `ddprun serve --help`.
std::string help_text(Mode mode);

}  // namespace ddprun::cli

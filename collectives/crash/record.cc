// SPDX-License-Identifier: Apache-2.0
#include "ddp/record.h"

#include <cstdlib>
#include <cxxabi.h>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>

#include "base/text.h"
#include "collectives/crash/backtrace.h"
#include "collectives/crash/crash_report.h"
#include "collectives/crash/fatal_signal.h"
#include "collectives/crash/throw_backtrace.h"
#include "collectives/errors.h"
#include "ddp/error.h"

namespace ddp {
namespace {

using internal::Backtrace;

constexpr int kMostCauses = 16;                   // nested exceptions
constexpr std::size_t kLongestText = 8UL * 1024;  // of an exception; the launcher reads up to 1 MiB

std::terminate_handler previous_terminate = nullptr;

std::string type_of_current() {
  constexpr std::string_view kNested = "std::_Nested_exception<";
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception that is not of C++";
  const std::string name = ddprun::demangled(type->name());
  if (!name.starts_with(kNested)) return name;
  return name.substr(kNested.size(), name.size() - kNested.size() - 1);
}

std::string bounded(std::string_view text) {
  return ": " + ddprun::printable(
                    ddprun::cut(std::string(text.substr(0, kLongestText + 1)), kLongestText));
}

/// Describes the current exception: "std::runtime_error: step 3\ncaused by ...".
std::string describe_current(int causes = 0) {
  std::string text = type_of_current();
  try {
    throw;
  } catch (const std::exception& exception) {
    text += bounded(exception.what());
    if (causes == kMostCauses) return text;
    try {
      std::rethrow_if_nested(exception);
    } catch (...) {
      text += "\ncaused by " + describe_current(causes + 1);
    }
  } catch (const std::string& thrown) {
    text += bounded(thrown);
  } catch (const char* thrown) {
    text += bounded(thrown == nullptr ? "" : thrown);
  } catch (...) {  // only its type is known
  }
  return text;
}

/// Whether the frame belongs to record() or to what calls a function, not to the program.
bool is_record(std::string_view line) {
  return line.find("3ddp6record") != line.npos;
}

/// Whether the frame is a function that throws: further in are frames of the C++ runtime.
bool is_throw(std::string_view line) {
  for (const char* name : {"(__cxa_throw+", "(__cxa_rethrow+", "(_ZSt17rethrow_exception"}) {
    if (line.find(name) != line.npos) return true;
  }
  return false;
}

std::string text_of(const Backtrace& backtrace) {
  const auto raw = std::make_unique<internal::FixedString>();
  backtrace.append_to(*raw, 0);
  std::string_view rest = raw->view();
  std::string text;
  while (!rest.empty()) {
    const std::string_view line = ddprun::take_piece(rest, '\n');
    if (is_throw(line)) break;
    if (!is_record(line)) text += ddprun::with_cxx_name(std::string(line)) + "\n";
  }
  return text;
}

/// Whether another rank has failed: then the place where this one waited does not show the cause.
bool is_lost_peer() {
  try {
    throw;
  } catch (const Error& error) {
    return internal::is_loss(error);
  } catch (...) {
    return false;
  }
}

void report_current(const Backtrace& backtrace) {
  const bool is_first = internal::begin_crash_report();
  const std::string message = describe_current();
  const std::string calls =
      is_lost_peer() ? "" : "Traceback (most recent call last):\n" + text_of(backtrace);
  const std::string traceback = calls + message + "\n";
  if (is_first) internal::write_crash_report(message, traceback);
  internal::print(traceback);
  if (is_first) internal::finish_crash_report();
}

[[noreturn]] void on_terminate() {
  if (std::current_exception()) {
    static Backtrace backtrace;
    backtrace.capture();
    report_current(backtrace);
  }
  previous_terminate();
  std::abort();
}

}  // namespace

int record(const std::function<int()>& main) {
  internal::prepare_crash_report(std::getenv("TORCHELASTIC_ERROR_FILE"));
  internal::install_fatal_signal_handlers();
  previous_terminate = std::set_terminate(on_terminate);
  try {
    try {
      return main();
    } catch (const internal::ThrowBacktrace&) {  // never caught: see throw_backtrace.h
      return 1;
    }
  } catch (abi::__forced_unwind&) {  // the thread ends: pthread_exit(3)
    throw;
  } catch (...) {
    report_current(internal::last_throw_backtrace());
  }
  return 1;
}

}  // namespace ddp

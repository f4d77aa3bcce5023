// SPDX-License-Identifier: Apache-2.0
#include "ddp/record.h"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>

#include "base/text.h"
#include "collectives/crash/crash_report.h"
#include "collectives/crash/fatal_signal.h"
#include "collectives/crash/throw_backtrace.h"

namespace ddp {
namespace {

using internal::Calls;

constexpr int kMostCauses = 16;                   // of nested exceptions
constexpr std::size_t kLongestText = 8UL * 1024;  // of one; the launcher reads no huge file

std::terminate_handler terminate_before = nullptr;

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

/// The exception that is handled now: "std::runtime_error: step 3\ncaused by ...".
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
  } catch (...) {  // its type is all there is to say
  }
  return text;
}

/// Whether the call is the one that throws; further in are the runtime's own.
bool throws(std::string_view line) {
  for (const char* name : {"(__cxa_throw+", "(__cxa_rethrow+", "(_ZSt17rethrow_exception"}) {
    if (line.find(name) != line.npos) return true;
  }
  return false;
}

std::string text_of(const Calls& calls) {
  const auto raw = std::make_unique<internal::FixedText>();
  calls.describe(*raw, 0);
  std::string_view left = raw->view();
  std::string text;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    if (throws(line)) break;
    text += ddprun::with_cxx_name(std::string(line)) + "\n";
    left.remove_prefix(std::min(line.size() + 1, left.size()));
  }
  return text;
}

void tell_current(const Calls& calls) {
  const bool is_first = internal::begin_crash_report();
  const std::string message = describe_current();
  const std::string traceback =
      "Traceback (most recent call last):\n" + text_of(calls) + message + "\n";
  if (is_first) internal::write_crash_report(message, traceback);
  internal::print(traceback);
  if (is_first) internal::finish_crash_report();
}

[[noreturn]] void on_terminate() {
  if (std::current_exception()) {
    static Calls calls;
    calls.take();
    tell_current(calls);
  }
  terminate_before();
  std::abort();
}

}  // namespace

int record(const std::function<int()>& main) {
  internal::prepare_crash_report(std::getenv("TORCHELASTIC_ERROR_FILE"));
  internal::tell_fatal_signals();
  terminate_before = std::set_terminate(on_terminate);
  try {
    try {
      return main();
    } catch (const internal::ThrowBacktrace&) {  // never
      return 1;
    }
  } catch (abi::__forced_unwind&) {  // the thread ends: pthread_exit(3)
    throw;
  } catch (...) {
    tell_current(internal::calls_to_throw());
  }
  return 1;
}

}  // namespace ddp

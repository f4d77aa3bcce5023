// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices/gpu_errors.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/number.h"

namespace ddprun::launcher {
namespace {

struct Known {
  int xid;
  bool of_gpu;
  const char* text;
};

/// https://docs.nvidia.com/deploy/xid-errors: errors that end jobs, and errors logged beside these.
constexpr std::array kKnown = std::to_array<Known>({
    {13, false, "an exception of its program on the GPU"},
    {31, false, "an invalid address in GPU memory"},
    {32, true, "invalid data on the PCI bus"},
    {43, false, "an error of its own program on the GPU, such as a failed assertion"},
    {48, true, "a memory error that cannot be corrected"},
    {61, true, "its internal controller stopped"},
    {62, true, "its internal controller halted"},
    {63, false, "faulty memory was remapped"},
    {64, true, "faulty memory cannot be remapped"},
    {74, true, "an error of NVLink"},
    {79, true, "the GPU fell off the bus"},
    {92, false, "many memory errors, which were corrected"},
    {94, false, "a memory error, contained in this process"},
    {95, true, "a memory error that is not contained"},
    {109, true, "it did not switch to another program in time"},
    {119, true, "its firmware does not answer"},
    {120, true, "an error in its firmware"},
    {144, true, "an error of NVLink"},
    {145, true, "an error of NVLink"},
    {146, true, "an error of NVLink"},
    {147, true, "an error of NVLink"},
    {148, true, "an error of NVLink"},
    {149, true, "an error of NVLink"},
    {150, true, "an error of NVLink"},
    {154, false, "what it needs after an error before it"},
});
constexpr size_t kLongestAddress = 16;
constexpr int kCleanup = 45;  // cleanup of a process that ended: never a cause

const Known* find_known(int xid) {
  const auto* const found = std::ranges::find(kKnown, xid, &Known::xid);
  return found == kKnown.end() ? nullptr : found;
}

std::string error_text(const GpuError& error) {
  return "GPU " + error.gpu + ": " + error.text + ", as this host's kernel says";
}

}  // namespace

std::optional<GpuError> parse_gpu_error(std::string_view record) {
  constexpr std::string_view kStart = "NVRM: Xid (PCI:";
  constexpr std::string_view kPid = "pid=";
  constexpr std::string_view kNotFatal = " Nonfatal ";
  std::string_view text = kernel_message(record);
  if (!text.starts_with(kStart)) return std::nullopt;
  text.remove_prefix(kStart.size());
  const size_t end = text.find("): ");
  if (end > kLongestAddress) return std::nullopt;  // also if end is npos
  GpuError error;
  error.gpu = text.substr(0, end);
  text.remove_prefix(end + 3);
  error.xid = leading_number<int>(text).value_or(0);
  if (error.xid == 0 || error.xid == kCleanup) return std::nullopt;
  const size_t pid = text.find(kPid);
  if (pid != text.npos) error.pid = leading_number<int>(text.substr(pid + kPid.size())).value_or(0);
  const Known* const known = find_known(error.xid);
  const bool is_fatal = text.find(kNotFatal) == text.npos;  // else NVLink has repaired itself
  error.of_gpu = known != nullptr && known->of_gpu && is_fatal;
  error.text = "Xid " + std::to_string(error.xid);
  if (known != nullptr) error.text.append(" (").append(known->text).append(")");
  return error;
}

std::string GpuErrorWatch::cause(pid_t pid) {
  log_.read([this](std::string_view record) {
    if (auto error = parse_gpu_error(record)) errors_.push_back(std::move(*error));
  });
  const auto is_own = [this, pid](const GpuError& error) {
    return pids_are_ours_ && error.pid == pid;
  };
  const auto own = std::ranges::find_if(errors_, is_own);
  // An error of a process may only be the consequence of an earlier error of its GPU.
  const auto first = std::ranges::find_if(errors_, [&](const GpuError& error) {
    return own == errors_.end() ? error.of_gpu
                                : is_own(error) || (error.of_gpu && error.gpu == own->gpu);
  });
  return first == errors_.end() ? "" : error_text(*first);
}

}  // namespace ddprun::launcher

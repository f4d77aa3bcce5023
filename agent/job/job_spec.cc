// SPDX-License-Identifier: Apache-2.0
#include "agent/job/job_spec.h"

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "base/text.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kMostBytes = 200;

/// The command without the words that ddprun put before the user's: "python3 -u".
std::span<const std::string> words_of(const JobSpec& job) {
  const std::size_t own = std::min(job.own_arguments, job.command.size());
  return std::span(job.command).subspan(own == 0 ? 0 : own - 1);
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return printable(cut(std::move(text), kMostBytes));
}

}  // namespace

std::string job_name(const JobSpec& job) {
  if (job.run_id != kNoId || job.command.empty()) return job.run_id;
  const std::string& program = words_of(job).front();
  return one_line(program.substr(program.rfind('/') + 1));
}

std::string command_text(const JobSpec& job) {
  std::string text;
  for (const std::string& word : words_of(job)) {
    text += (text.empty() ? "" : " ") + word;
    if (text.size() > kMostBytes) break;
  }
  return one_line(std::move(text));
}

std::uint64_t command_hash(const JobSpec& job) {
  Fnv64 hash;  // the same in every build
  for (const std::string& word : words_of(job)) hash.add({word.c_str(), word.size() + 1});
  return hash.value() >> 11;
}

}  // namespace ddprun::agent

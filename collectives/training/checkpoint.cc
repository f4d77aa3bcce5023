// SPDX-License-Identifier: Apache-2.0
#include "ddp/checkpoint.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "collectives/call/parts.h"
#include "collectives/errors.h"
#include "collectives/group/agreement.h"
#include "collectives/group/group_access.h"
#include "collectives/training/checkpoint_disk.h"
#include "collectives/training/checkpoint_writer.h"

namespace ddp {
namespace {

using internal::CheckpointReader;
using Reader = std::optional<CheckpointReader>;

std::string here(const ProcessGroup& group) {
  return "ddp: rank " + std::to_string(internal::GroupAccess::named(group, group.rank())) + ": ";
}

/// The parts of a state as in the file: its format has no complex numbers and no structs.
std::vector<Buffer> check_parts(const ProcessGroup& group, std::vector<Buffer> parts) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::usage, here(group) + "a checkpoint " + what);
  };
  if (parts.size() > internal::kMaxCheckpointParts) {
    refuse("of " + std::to_string(parts.size()) + " parts: at most " +
           std::to_string(internal::kMaxCheckpointParts) + " are possible");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].on_device) {
      refuse("of device memory (part " + std::to_string(i) + "): copy it to the host first");
    }
    if (parts[i].type == DataType::opaque && parts[i].width == 0) {
      refuse("of structs whose size is not set in Buffer::width (part " + std::to_string(i) + ")");
    }
    parts[i] = internal::in_parts(parts[i]);
  }
  return parts;
}

std::vector<std::string> lines_of(const std::vector<Buffer>& parts) {
  std::vector<std::string> lines;
  for (const Buffer& part : parts) {
    lines.push_back("part " + std::to_string(lines.size()) + " " + internal::describe(part));
  }
  return lines;
}

/// Says which part of the file differs from these; empty if none does.
std::string difference(const CheckpointReader& file, const std::vector<Buffer>& parts) {
  const auto& saved = file.header().parts;
  for (std::size_t i = 0; i < std::max(saved.size(), parts.size()); ++i) {
    const std::string there =
        i < saved.size() ? internal::describe(Buffer(nullptr, saved[i].count, saved[i].type)) : "";
    const std::string wanted = i < parts.size() ? internal::describe(parts[i]) : "";
    if (there != wanted) {
      return "part " + std::to_string(i) + " is " + (there.empty() ? "nothing" : there) +
             " there and " + (wanted.empty() ? "nothing" : wanted) + " here";
    }
  }
  return "";
}

/// Says why the file at `path` cannot be loaded, and what is left if it is broken.
std::string explain(const ddprun::Error& error, const std::string& path) {
  if (error.code != ddprun::Errc::protocol) return error.message;
  const std::string previous = internal::previous_checkpoint(internal::target_of(path));
  const auto file = CheckpointReader::open(previous);
  if (!file || !*file || !(*file)->check()) {
    return error.message + "; remove it to start over";
  }
  return error.message + "; version " + std::to_string((*file)->header().version) +
         " is whole, in " + previous + ": rename it to go on from there";
}

/// A rank's answer: the version, or the error's text.
struct Answer {
  std::optional<std::uint64_t> version;
  std::string error;

  std::string text() const {
    if (!error.empty()) return "!" + error;
    return version ? std::to_string(*version) : "";
  }
  static Answer from(const std::string& text) {
    if (text.empty()) return {};
    if (text.front() == '!') return {{}, text.substr(1)};
    return {ddprun::leading_number<std::uint64_t>(text).value_or(0), ""};
  }
};

/// Returns the rank to load from; nothing if no rank has a file. Throws the error of the first rank
/// that has one.
std::optional<std::pair<int, std::uint64_t>> agree(ProcessGroup& group, const Answer& own) {
  std::optional<std::pair<int, std::uint64_t>> best;
  int rank = 0;
  for (const std::string& text : group.all_gather_object(own.text())) {
    const Answer answer = Answer::from(text);
    if (!answer.error.empty()) throw Error(ErrorKind::system, answer.error);
    if (answer.version && (!best || *answer.version > best->second)) {
      best = std::pair(rank, *answer.version);
    }
    ++rank;
  }
  return best;
}

}  // namespace

Checkpoint::Checkpoint(std::string path)
    : writer_(std::make_shared<internal::CheckpointWriter>(std::move(path))) {}

void Checkpoint::save(ProcessGroup& group, std::uint64_t version,
                      const std::vector<Buffer>& state) {
  const auto parts = check_parts(group, state);
  writer_->settle();
  writer_->write(group, version, parts);
}

Work Checkpoint::isave(ProcessGroup& group, std::uint64_t version,
                       const std::vector<Buffer>& state) {
  const auto parts = check_parts(group, state);
  writer_->settle();
  return writer_->write_later(group, version, parts);
}

std::optional<std::uint64_t> Checkpoint::load(ProcessGroup& group,
                                              const std::vector<Buffer>& state) {
  const auto parts = check_parts(group, state);
  internal::check_same_lines(group, "what to load from a checkpoint", lines_of(parts));
  writer_->settle();

  const std::string& path = writer_->path();
  const auto opened = CheckpointReader::open(path);
  Answer own;
  if (!opened) {
    own.error = here(group) + explain(opened.error(), path);
  } else if (*opened) {
    own.version = (*opened)->header().version;
    writer_->found_generation((*opened)->header().generation + 1);
  }
  const auto chosen = agree(group, own);
  if (!chosen) return std::nullopt;

  const auto [source, version] = *chosen;
  std::string other;
  std::string failed;
  if (group.rank() == source) {
    const CheckpointReader& file = **opened;
    other = difference(file, parts);
    if (!other.empty()) {
      other = here(group) + path + " is of another program: " + other;
    } else if (const auto done = file.read(parts); !done) {
      failed = here(group) + explain(done.error(), path);
    } else {
      writer_->found_whole();
    }
  }
  internal::check_succeeded(group, ErrorKind::usage, other, source);
  internal::check_succeeded(group, ErrorKind::system, failed, source);
  for (const Buffer& part : parts) group.broadcast(part, source);
  return version;
}

}  // namespace ddp

// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/attempt_logs.h"

#include <utility>

namespace ddprun::launcher {
namespace {

Result<std::shared_ptr<LogFile>> open_shared(std::string path) {
  Result<LogFile> file = LogFile::open(std::move(path));
  if (!file) return file.error();
  return std::make_shared<LogFile>(std::move(*file));
}

}  // namespace

Result<StreamSink> AttemptLogs::sink(int local_rank, LogDir::Stream stream) {
  const bool is_out = stream == LogDir::Stream::out;
  const unsigned bit = is_out ? StreamMasks::kStdout : StreamMasks::kStderr;
  const bool tee = spec_.tees.holds(local_rank, bit);
  const bool redirect = !tee && spec_.redirects.holds(local_rank, bit);
  const auto& filters = is_out ? spec_.duplicate_out_filters : spec_.duplicate_err_filters;

  StreamSink sink;
  sink.shown = !spec_.shown || spec_.shown->count(local_rank) != 0;
  if (!dir_.has_logs()) return sink;
  if (tee || redirect) {
    auto file = open_shared(dir_.log_file(local_rank, stream));
    if (!file) return file.error();
    sink.file = std::move(*file);
    sink.shown = sink.shown && tee;
    sink.direct = redirect && filters.empty();
  }
  if (!filters.empty()) {
    auto file = duplicates(stream);
    if (!file) return file.error();
    sink.duplicates = std::move(*file);
    sink.filters = &filters;
  }
  return sink;
}

Result<std::shared_ptr<LogFile>> AttemptLogs::duplicates(LogDir::Stream stream) {
  auto& file = stream == LogDir::Stream::out ? duplicates_of_out_ : duplicates_of_err_;
  if (!file) {
    auto opened = open_shared(dir_.filtered_file(stream));
    if (!opened) return opened.error();
    file = std::move(*opened);
  }
  return file;
}

}  // namespace ddprun::launcher

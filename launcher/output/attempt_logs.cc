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

/// Opens the log files of one attempt on demand.
class AttemptLogs {
 public:
  AttemptLogs(const LogSpec& spec, const AttemptFiles& files) : spec_(spec), files_(files) {}

  /// The destination of this stream of this worker. Errors: system (a file cannot be opened).
  Result<StreamSink> sink(int local_rank, AttemptFiles::Stream stream);

 private:
  Result<std::shared_ptr<LogFile>> duplicates(AttemptFiles::Stream stream);

  const LogSpec& spec_;
  const AttemptFiles& files_;
  std::shared_ptr<LogFile> duplicates_of_out_;
  std::shared_ptr<LogFile> duplicates_of_err_;
};

Result<StreamSink> AttemptLogs::sink(int local_rank, AttemptFiles::Stream stream) {
  const bool is_out = stream == AttemptFiles::Stream::out;
  const unsigned bit = is_out ? StreamMasks::kStdout : StreamMasks::kStderr;
  const bool tee = spec_.tees.holds(local_rank, bit);
  const bool redirect = !tee && spec_.redirects.holds(local_rank, bit);
  const auto& filters = is_out ? spec_.duplicate_out_filters : spec_.duplicate_err_filters;

  StreamSink sink;
  sink.shown = !spec_.shown || spec_.shown->count(local_rank) != 0;
  if (!files_.has_logs()) return sink;
  if (tee || redirect) {
    auto file = open_shared(files_.log_file(local_rank, stream));
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

Result<std::shared_ptr<LogFile>> AttemptLogs::duplicates(AttemptFiles::Stream stream) {
  auto& file = stream == AttemptFiles::Stream::out ? duplicates_of_out_ : duplicates_of_err_;
  if (!file) {
    auto opened = open_shared(files_.filtered_file(stream));
    if (!opened) return opened.error();
    file = std::move(*opened);
  }
  return file;
}

}  // namespace

AttemptSinks open_sinks(const LogSpec& spec, AttemptFiles files, int local_size) {
  AttemptSinks all;
  if (files.has_directories()) {
    if (const Result<> made = files.make_directories(local_size); !made) {
      all.warnings.push_back(made.error().message + ": no log or error files for this round");
      files = {};
    }
  }
  AttemptLogs logs(spec, files);
  all.workers.resize(static_cast<size_t>(local_size));
  constexpr std::array kStreams = {AttemptFiles::Stream::out, AttemptFiles::Stream::err};
  for (size_t worker = 0; worker < all.workers.size(); ++worker) {
    for (size_t i = 0; i < kStreams.size(); ++i) {
      Result<StreamSink> sink = logs.sink(static_cast<int>(worker), kStreams[i]);
      if (sink) {
        all.workers[worker][i] = std::move(*sink);
      } else if (all.warnings.empty()) {
        all.warnings.push_back(sink.error().message + ": its output goes to the console instead");
      }
    }
  }
  all.files = std::move(files);
  return all;
}

}  // namespace ddprun::launcher

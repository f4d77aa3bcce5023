// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/attempt_logs.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {

Result<LogFile> LogFile::open(std::string path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
  Fd fd(::open(path.c_str(), kFlags, 0666));
  if (!fd) return os_error("cannot open " + path, errno);
  return LogFile(std::move(path), std::move(fd));
}

Result<> LogFile::append(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return os_error("cannot write to " + path_, errno);
    }
  }
  return {};
}

std::string LogFile::tail(size_t count) const {
  struct stat file{};
  if (fstat(fd_.get(), &file) != 0 || !S_ISREG(file.st_mode)) return {};
  const auto size = static_cast<size_t>(file.st_size);
  std::string text(std::min(size, count), '\0');
  const ssize_t got =
      pread(fd_.get(), text.data(), text.size(), static_cast<off_t>(size - text.size()));
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

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

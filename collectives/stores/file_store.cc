// SPDX-License-Identifier: Apache-2.0
#include "ddp/file_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "collectives/errors.h"
#include "collectives/stores/file_log.h"
#include "collectives/time_limit.h"
#include "store/store.h"

namespace ddp {
namespace {

using internal::LogEntry;
using internal::LogStatus;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Change = LogEntry::Change;
using Deadline = steady_clock::time_point;

constexpr std::size_t kMaxFile = 1 << 30;
constexpr std::size_t kReadAtOnce = 1 << 20;
constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLastPause{16};
constexpr milliseconds kLongestPause{250};  // during a wait

// Counts of the processes that opened and left the file. Users' keys begin with '/', as in
// PyTorch's files.
constexpr const char* kOpened = "opened";
constexpr const char* kLeft = "left";

/// The locks, as ranges of one byte of the file. They are advisory: others can still read and write
/// the bytes.
enum class Range : off_t {
  contents = 0,  ///< while reading (shared) or writing
  users = 1,     ///< shared by every process that has the store open
};

std::string in_log(std::string_view key) {
  return std::string("/").append(key);
}

}  // namespace

struct FileStore::Impl {
  Impl(const FileStore& store, std::string where) : self(store), path(std::move(where)) {}

  const FileStore& self;
  const std::string path;
  std::optional<int> world_size;

  std::mutex mutex;  // protects all below; a lock of the file is this process's, not a thread's
  ddprun::Fd file;
  std::size_t offset = 0;  // the part of the log that `map` has
  ddprun::store::Store map{kMaxFile};
  std::optional<Error> lost;

  [[noreturn]] void fail(ErrorKind kind, const std::string& what) {
    Error error(kind, "ddp: " + self.name() + ": " + what);
    if (!lost) lost = error;
    throw Error(error);
  }
  [[noreturn]] void fail_errno(const char* what) {
    fail(ErrorKind::system, std::string(what) + ": " + std::strerror(errno));
  }

  /// Locks the range, shared or exclusive, unless another process has it; F_UNLCK unlocks.
  bool try_lock(Range range, short type) {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(range);
    lock.l_len = 1;
    if (::fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return true;
    if (errno != EAGAIN && errno != EACCES) fail_errno("cannot be locked");
    return false;
  }

  /// Locks the contents while this exists. Other processes hold that lock only briefly unless they
  /// are stopped, so there is a timeout.
  class Locked {
   public:
    Locked(Impl& impl, short type) : impl_(impl) {
      const Deadline deadline =
          steady_clock::now() + std::max(internal::bounded(impl.self.timeout()), kLastPause);
      for (milliseconds pause = kFirstPause; !impl.try_lock(Range::contents, type);
           pause = std::min(2 * pause, kLastPause)) {
        if (steady_clock::now() > deadline) {
          throw Error(ErrorKind::timed_out,
                      "ddp: " + impl.self.name() +
                          ": another process holds its lock, for longer than " +
                          internal::name_time(impl.self.timeout()));
        }
        std::this_thread::sleep_for(pause);
      }
    }
    ~Locked() {
      struct flock lock{};
      lock.l_type = F_UNLCK;
      lock.l_len = 1;
      ::fcntl(impl_.file.get(), F_OFD_SETLK, &lock);
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

   private:
    Impl& impl_;
  };

  std::size_t size_of_file() {
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) fail_errno("cannot be read");
    if (status.st_nlink == 0) fail(ErrorKind::unreachable, "the file was removed");
    if (static_cast<std::size_t>(status.st_size) < offset) {
      fail(ErrorKind::unreachable, "the file was truncated by another process");
    }
    return static_cast<std::size_t>(status.st_size);
  }

  void apply(const LogEntry& entry) {
    ddprun::Result<> done;
    if (entry.change == Change::set) done = map.set(entry.key, entry.value);
    if (entry.change == Change::append) done = map.append(entry.key, entry.value);
    if (entry.change == Change::remove) map.remove(entry.key);
    if (!done) throw internal::to_error(done.error().in(self.name()));
  }

  /// Reads the entries appended since. Returns true if the last is incomplete: its writer died.
  bool catch_up() {
    const std::size_t end = size_of_file();
    std::string bytes;
    std::size_t read = offset;
    while (read < end) {
      const std::size_t had = bytes.size();
      bytes.resize(had + std::min(kReadAtOnce, end - read));
      const ssize_t n =
          ::pread(file.get(), bytes.data() + had, bytes.size() - had, static_cast<off_t>(read));
      if (n <= 0) fail_errno("cannot be read");
      bytes.resize(had + static_cast<std::size_t>(n));
      read += static_cast<std::size_t>(n);
      std::string_view rest = bytes;
      LogEntry entry;
      for (LogStatus status; (status = internal::decode(rest, entry)) != LogStatus::incomplete;) {
        if (status == LogStatus::malformed) {
          fail(ErrorKind::usage, "no entry begins at byte " + std::to_string(offset));
        }
        apply(entry);
        rest.remove_prefix(entry.size);
        offset += entry.size;
      }
      bytes.erase(0, bytes.size() - rest.size());
    }
    return !bytes.empty();
  }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n =
          ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno != EINTR) fail_errno("cannot be written");
      if (n < 0) continue;
      offset += static_cast<std::size_t>(n);
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  void cut_off() {
    if (::ftruncate(file.get(), static_cast<off_t>(offset)) != 0) fail_errno("cannot be cut off");
  }

  void change(Change change, std::string_view key, std::string_view value) {
    const LogEntry entry{change, key, value};
    apply(entry);
    write(internal::encode(entry));
  }

  void refuse_if_lost() const {
    if (lost) throw Error(*lost);
  }

  /// Runs `work` on the map as the file has it now.
  template <class F>
  auto read(F work) {
    const std::scoped_lock lock(mutex);
    refuse_if_lost();
    const Locked locked(*this, F_RDLCK);
    catch_up();
    return work();
  }

  /// Runs `work`, which may change the map.
  template <class F>
  auto update(F work) {
    const std::scoped_lock lock(mutex);
    refuse_if_lost();
    const Locked locked(*this, F_WRLCK);
    if (catch_up()) cut_off();
    return work();
  }

  int count(const char* key) const {
    const auto value = map.get(key);
    return value ? std::atoi(value->c_str()) : 0;
  }

  bool has_all(const std::vector<std::string>& keys) const {
    return std::all_of(keys.begin(), keys.end(),
                       [this](auto& key) { return map.has(in_log(key)); });
  }

  std::int64_t add(std::string_view key, std::int64_t amount) {
    const auto sum = map.add(key, amount);
    if (!sum) throw internal::to_error(sum.error().in(self.name()));
    write(internal::encode({Change::set, key, std::to_string(*sum)}));
    return *sum;
  }

  void open();
  void join();
  void leave();
};

/// Opens the file and locks its contents. The last process of an earlier run may have removed it in
/// between: then opens the new one.
void FileStore::Impl::open() {
  for (;;) {
    file.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file) fail_errno("cannot be opened");
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) fail_errno("cannot be read");
    if (!S_ISREG(status.st_mode)) fail(ErrorKind::usage, "is not a file");
    const Locked locked(*this, F_WRLCK);
    if (::fstat(file.get(), &status) != 0) fail_errno("cannot be read");
    if (status.st_nlink == 0) continue;
    return join();
  }
}

void FileStore::Impl::join() {
  std::string header(internal::kFileLogHeader.size(), '\0');
  const ssize_t had = ::pread(file.get(), header.data(), header.size(), 0);
  if (had < 0) fail_errno("cannot be read");
  header.resize(static_cast<std::size_t>(had));
  if (!internal::kFileLogHeader.starts_with(header)) {
    fail(ErrorKind::usage, "is another kind of file");
  }
  if (header.size() == internal::kFileLogHeader.size()) {
    offset = header.size();
    if (catch_up()) cut_off();
  } else {
    write(internal::kFileLogHeader);  // the file is new, or its creator died while writing this
  }
  const int opened = count(kOpened);
  const std::string left_over = "was left by an earlier run, or is in use by another: ";
  const std::string remedy = "; remove it, or take another name";
  if (world_size && opened >= *world_size) {
    fail(ErrorKind::usage, left_over + std::to_string(opened) +
                               " processes opened it before, of world_size " +
                               std::to_string(*world_size) + remedy);
  }
  if (opened > count(kLeft) && try_lock(Range::users, F_WRLCK)) {
    fail(ErrorKind::usage, "was left by an earlier run: " + std::to_string(opened) +
                               " processes opened it, and none is alive" + remedy);
  }
  if (!try_lock(Range::users, F_RDLCK)) fail(ErrorKind::system, "cannot be shared");
  add(kOpened, 1);
}

void FileStore::Impl::leave() {
  const Locked locked(*this, F_WRLCK);
  if (catch_up()) cut_off();
  if (add(kLeft, 1) < world_size.value_or(0) || !world_size) return;
  struct stat ours{};
  struct stat there{};
  const bool same = ::fstat(file.get(), &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
                    ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  if (same) ::unlink(path.c_str());
}

FileStore::FileStore(const std::string& path, const FileStoreOptions& options)
    : impl_(std::make_unique<Impl>(*this, path)) {
  set_timeout(options.timeout);
  impl_->world_size = options.world_size;
  if (options.world_size.value_or(1) < 1) {
    impl_->fail(ErrorKind::usage,
                "world_size must be above 0, not " + std::to_string(*options.world_size));
  }
  impl_->open();
}

FileStore::~FileStore() {
  if (impl_->lost) return;
  try {
    impl_->leave();
  } catch (const Error&) {
    // The failure no longer matters to this process. The next one to open the file sees it.
  }
}

std::string FileStore::name() const {
  return "file store " + impl_->path;
}

void FileStore::do_set(std::string_view key, std::string_view value) {
  impl_->update([&] { impl_->change(Change::set, in_log(key), value); });
}

std::int64_t FileStore::do_add(std::string_view key, std::int64_t amount) {
  return impl_->update([&] { return impl_->add(in_log(key), amount); });
}

bool FileStore::do_check(const std::vector<std::string>& keys) {
  return impl_->read([&] { return impl_->has_all(keys); });
}

std::string FileStore::do_compare_set(std::string_view key, std::string_view expected,
                                      std::string_view desired) {
  return impl_->update([&] {
    const auto value = impl_->map.get(in_log(key));
    if ((value ? std::string_view(*value) : "") != expected) {
      return value ? *value : std::string(expected);
    }
    impl_->change(Change::set, in_log(key), desired);
    return std::string(desired);
  });
}

bool FileStore::do_delete_key(std::string_view key) {
  return impl_->update([&] {
    const bool there = impl_->map.has(in_log(key));
    if (there) impl_->change(Change::remove, in_log(key), "");
    return there;
  });
}

std::int64_t FileStore::do_num_keys() {
  return impl_->read([&] { return static_cast<std::int64_t>(impl_->map.key_count()); });
}

void FileStore::do_append(std::string_view key, std::string_view suffix) {
  impl_->update([&] { impl_->change(Change::append, in_log(key), suffix); });
}

void FileStore::do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) {
  impl_->update([&] {
    for (const auto& [key, value] : entries) impl_->change(Change::set, in_log(key), value);
  });
}

bool FileStore::do_wait(const std::vector<std::string>& keys, Deadline deadline) {
  const auto start = steady_clock::now();
  while (!do_check(keys)) {
    const auto now = steady_clock::now();
    if (now >= deadline) return false;
    // Pauses longer the longer the wait lasts: fewer reads of the file.
    const auto pause =
        std::clamp<steady_clock::duration>((now - start) / 16, kFirstPause, kLongestPause);
    std::this_thread::sleep_for(std::min(deadline - now, pause));
  }
  return true;
}

std::vector<std::string> FileStore::do_multi_get(const std::vector<std::string>& keys) {
  return impl_->read([&] {
    std::vector<std::string> values;
    for (const std::string& key : keys) {
      const auto value = impl_->map.get(in_log(key));
      values.push_back(value ? *value : std::string());
    }
    return values;
  });
}

}  // namespace ddp

// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/spawn.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <linux/close_range.h>
#include <memory>
#include <new>
#include <sched.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "launcher/kernel/control_groups.h"
#include "launcher/kernel/topology.h"

namespace ddprun::launcher {

/// Marks code that runs on a stack and in a thread unknown to the sanitizers.
#define DDPRUN_UNSANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))

DDPRUN_UNSANITIZED inline long raw_word(long number) {
  return number;
}
DDPRUN_UNSANITIZED inline long raw_word(const void* address) {
  return reinterpret_cast<long>(address);
}

/// Makes a system call; arguments are integers and pointers. Returns its result or -errno. Unlike
/// libc's wrappers it does not write errno, which is the parent's if a child shares its memory.
template <class A = long, class B = long, class C = long, class D = long, class E = long>
DDPRUN_UNSANITIZED inline long raw_syscall(long number, A a = {}, B b = {}, C c = {}, D d = {},
                                           E e = {}) {
  // Computed before any register is bound: a function call would not preserve it.
  const long words[] = {raw_word(a), raw_word(b), raw_word(c), raw_word(d), raw_word(e)};
#if defined(__x86_64__)
  long result = number;
  register long r10 asm("r10") = words[3];
  register long r8 asm("r8") = words[4];
  asm volatile("syscall"
               : "+a"(result)
               : "D"(words[0]), "S"(words[1]), "d"(words[2]), "r"(r10), "r"(r8)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = words[0];
  register long x1 asm("x1") = words[1];
  register long x2 asm("x2") = words[2];
  register long x3 asm("x3") = words[3];
  register long x4 asm("x4") = words[4];
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
#else
#error "raw_syscall does not support this processor"
#endif
}

/// clone(2) by libc's other name for it: the thread sanitizer's replacement of `clone` assumes that
/// the child does not share memory.
extern "C" int clone_process(int (*run)(void*), void* stack, int flags, void* argument,
                             ...) __asm__("__clone");

namespace {

/// Enough for a few system calls, with all signals blocked.
constexpr size_t kStackSize = 2048;

std::optional<rlimit> original_open_files;

bool must_fork = false;  // this process runs in an emulator of another processor

/// An empty sigaction and an empty signal set, in the kernel's layout, not libc's.
constexpr unsigned long kStandardAction[4] = {};
constexpr unsigned long kNoSignals = 0;

/// Marks everything above stderr, because Asio opens its sockets without close-on-exec.
DDPRUN_UNSANITIZED void close_all_on_exec() {
  if (raw_syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = 3; fd < 1024; ++fd) {  // before Linux 5.11
    raw_syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
  }
}

/// A pipe or a pseudo-terminal for the output of a child.
struct Pipe {
  Fd read_end;
  Fd write_end;
};

/// How many of all processes are still to be started.
struct Missing {
  size_t count;
  size_t all;
};

std::string needed_text(std::uint64_t limit, Missing missing) {
  return "at least " + std::to_string(limit) + " to start all " + std::to_string(missing.all);
}

std::string process_limit_text(Missing missing) {
  const auto text = [&](std::uint64_t limit) {
    return "which is " + std::to_string(limit) + " and has to be " +
           needed_text(limit + missing.count, missing);
  };
  if (const auto limit = reached_process_limit(getpid())) {
    return "pids.max of the cgroup, " + text(*limit);
  }
  rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_NPROC, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return "pids.max of the cgroup";
  return "ulimit -u, " + text(limit.rlim_cur) + ", or pids.max of the cgroup";
}

/// Names the limit that was reached, and the limit that is needed: each process takes four
/// descriptors, and a worker two connections.
Error start_error(const std::string& what, int failure, Missing missing) {
  Error error = os_error(what, failure);
  rlimit limit = {};
  if (failure == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    const size_t more = 4 * missing.count + 2 * missing.all + 16;
    error.message += "; it has to be " + needed_text(limit.rlim_cur + more, missing);
  }
  if (failure == EAGAIN) {
    error.message += " (limit of processes reached: " + process_limit_text(missing) + ")";
  }
  return error;
}

Result<Pipe> make_pipe(Missing missing) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return start_error("cannot create a pipe", errno, missing);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

/// No pipe if the caller has given a descriptor. Sets `no_terminal` if it makes a pipe instead of a
/// pseudo-terminal.
Result<Pipe> make_pipe_unless(int given, const std::optional<WindowSize>& window,
                              std::optional<Error>& no_terminal, Missing missing) {
  if (given >= 0) return Pipe{};
  if (!window) return make_pipe(missing);
  Result<PseudoTerminal> terminal = open_pseudo_terminal(*window);
  if (terminal) return Pipe{std::move(terminal->master), std::move(terminal->slave)};
  no_terminal = terminal.error();
  return make_pipe(missing);
}

/// The interpreter of a script, from its first line, "#!/bin/sh -e"; empty: it names none.
std::string interpreter_of(const std::string& program) {
  const Fd file(open(program.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 256> bytes;  // the kernel reads so many bytes of it
  const ssize_t size = file ? read(file.get(), bytes.data(), bytes.size()) : -1;
  std::string_view line(bytes.data(), size > 0 ? static_cast<size_t>(size) : 0);
  line = line.substr(0, line.find('\n'));
  if (!line.starts_with("#!")) return "";
  line.remove_prefix(std::min(line.find_first_not_of(" \t", 2), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

std::string missing_interpreter(const std::string& program) {
  const std::string interpreter = interpreter_of(program);
  const std::string sentence = " (the file exists, but its interpreter does not";
  return sentence + (interpreter.empty() ? ")" : ": " + printable(interpreter) + ")");
}

Error exec_error(const std::string& program, int failure) {
  Error error = os_error("cannot execute " + program, failure);
  if (failure == ENOENT && access(program.c_str(), F_OK) == 0) {
    error.message += missing_interpreter(program);
  }
  if (failure == ENOEXEC) error.message += " (a script needs a first line such as #!/bin/sh)";
  error.code = Errc::not_executable;
  return error;
}

/// The number of words in all argvs and environments, with the end of each list.
size_t count_words(const std::vector<Command>& commands) {
  size_t count = 0;
  for (const Command& command : commands) {
    count += command.arguments.size() + 1 + command.environment.size() + 1;
    if (command.common_environment) count += command.common_environment->size();
  }
  return count;
}

void append(const std::vector<std::string>& texts, std::vector<char*>& words) {
  for (const std::string& text : texts) words.push_back(const_cast<char*>(text.c_str()));
}

/// Blocks all signals during its lifetime: a child that shares our memory must not run handlers.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

/// Everything that one child needs until its exec.
struct SpawnBatch::ChildSetup {
  const char* program;
  char** argv;
  char** environment;
  int stdin_fd;
  int out;
  int err;
  pid_t parent;
  const rlimit* open_files;  // nullptr: unchanged
  const unsigned long* cpus;
  size_t cpus_size;  // in bytes; 0: unchanged
  const int* inherited;
  size_t inherited_count;
  bool unbindable;   // set by the child: it may run on none of these CPUs
  int error_number;  // set by the child: exec or a step before it failed
  alignas(16) char stack[kStackSize];

  int exec();
  static int run(void* self);
};

/// Runs in the child, in memory shared with the parent, which continues at the same time. So only
/// raw system calls are allowed. Returns an errno.
DDPRUN_UNSANITIZED int SpawnBatch::ChildSetup::exec() {
  raw_syscall(SYS_setsid);  // its own session: one kill reaches all its children
  raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);      // it must not outlive the agent
  if (raw_syscall(SYS_getppid) != parent) return ECHILD;  // the agent died before prctl
  raw_syscall(SYS_prctl, PR_SET_PTRACER, parent);  // or Yama would keep py-spy from its stack
  long result = 0;
  if (stdin_fd == STDIN_FILENO) {
    raw_syscall(SYS_fcntl, STDIN_FILENO, F_SETFD, 0);  // it may be close-on-exec
  } else {
    result = raw_syscall(SYS_dup3, stdin_fd, STDIN_FILENO, 0);
  }
  if (result >= 0) result = raw_syscall(SYS_dup3, out, STDOUT_FILENO, 0);
  if (result >= 0) result = raw_syscall(SYS_dup3, err, STDERR_FILENO, 0);
  if (result < 0) return static_cast<int>(-result);
  close_all_on_exec();
  for (size_t i = 0; i < inherited_count; ++i) raw_syscall(SYS_fcntl, inherited[i], F_SETFD, 0);
  if (cpus_size > 0) result = raw_syscall(SYS_sched_setaffinity, 0, cpus_size, cpus);
  unbindable = result < 0;
  if (unbindable) return static_cast<int>(-result);
  if (open_files != nullptr) raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, open_files);
  // Exec would keep ignored and blocked signals.
  raw_syscall(SYS_rt_sigaction, SIGPIPE, kStandardAction, nullptr, sizeof kNoSignals);
  raw_syscall(SYS_rt_sigaction, SIGTTOU, kStandardAction, nullptr, sizeof kNoSignals);
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kNoSignals, nullptr, sizeof kNoSignals);
  return static_cast<int>(-raw_syscall(SYS_execve, program, argv, environment));
}

DDPRUN_UNSANITIZED int SpawnBatch::ChildSetup::run(void* self) {
  auto* setup = static_cast<ChildSetup*>(self);
  setup->error_number = setup->exec();
  return 127;  // its exit code
}

/// Not fork, which copies our page tables and makes both processes copy the pages they write to.
/// Not vfork, which waits until the scheduler has run the child up to its exec. Emulators of
/// another processor (qemu-user) lack this clone: there it is a fork.
pid_t SpawnBatch::clone(size_t index, int& pidfd) {
  const auto clone_with = [&](int flags) {
    ChildSetup& setup = setups_[index];
    return clone_process(ChildSetup::run, setup.stack + kStackSize, flags | SIGCHLD, &setup,
                         &pidfd);
  };
  if (!must_fork) {
    const pid_t pid = clone_with(CLONE_VM | CLONE_PIDFD);
    if (pid >= 0 || errno != EINVAL) return pid;
    share_with_forked();
  }
  const pid_t pid = clone_with(0);
  if (pid >= 0) pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  return pid;
}

SpawnBatch::Setups SpawnBatch::make_setups(size_t count) {
  const size_t bytes = std::max<size_t>(count, 1) * sizeof(ChildSetup);
  if (!must_fork) return Setups(static_cast<ChildSetup*>(::operator new(bytes)), Free{0});
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_SHARED, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return Setups(static_cast<ChildSetup*>(memory), Free{bytes});
}

/// Call before any child exists. The kernel treats such memory as a file, so it is not used from
/// the beginning.
void SpawnBatch::share_with_forked() {
  must_fork = true;
  Setups in_shared_memory = make_setups(commands_.size());
  std::memcpy(static_cast<void*>(in_shared_memory.get()), setups_.get(),
              commands_.size() * sizeof(ChildSetup));
  setups_ = std::move(in_shared_memory);
}

void SpawnBatch::Free::operator()(void* memory) const {
  shared == 0 ? ::operator delete(memory) : static_cast<void>(munmap(memory, shared));
}

SpawnBatch::SpawnBatch(SpawnBatch&&) noexcept = default;
SpawnBatch& SpawnBatch::operator=(SpawnBatch&&) noexcept = default;
SpawnBatch::~SpawnBatch() = default;

SpawnBatch::SpawnBatch(std::vector<Command> commands)
    : commands_(std::move(commands)), setups_(make_setups(commands_.size())) {
  std::uninitialized_default_construct_n(setups_.get(), commands_.size());
  words_.reserve(count_words(commands_));  // others point to them
  for (size_t i = 0; i < commands_.size(); ++i) {
    const Command& command = commands_[i];
    ChildSetup& setup = setups_[i];
    setup.program = command.program.c_str();
    setup.argv = words_.data() + words_.size();
    append(command.arguments, words_);
    words_.push_back(nullptr);
    setup.environment = words_.data() + words_.size();
    if (command.common_environment) append(*command.common_environment, words_);
    append(command.environment, words_);
    words_.push_back(nullptr);
    setup.stdin_fd = command.stdin_fd;
    setup.inherited = command.inherited.data();
    setup.inherited_count = command.inherited.size();
    setup.parent = getpid();
    setup.open_files = original_open_files ? &*original_open_files : nullptr;
    masks_.push_back(affinity_mask(command.cpus));
    setup.cpus = masks_.back().data();
    setup.cpus_size = masks_.back().size() * sizeof(unsigned long);
    setup.unbindable = false;
    setup.error_number = 0;
  }
}

Result<OutputEnds> open_output(const Command& command, size_t missing, size_t all) {
  std::optional<Error> no_terminal;
  const Missing counts = {missing, all};
  int out_fd = command.stdout_fd;
  Result<Pipe> err =
      make_pipe_unless(command.stderr_fd, command.stderr_window, no_terminal, counts);
  if (!err) return err.error();
  if (command.one_terminal && !no_terminal) out_fd = err->write_end.get();
  Result<Pipe> out = make_pipe_unless(out_fd, command.stdout_window, no_terminal, counts);
  if (!out) return out.error();
  OutputEnds ends = {out->write_end ? out->write_end.get() : out_fd,
                     err->write_end ? err->write_end.get() : command.stderr_fd,
                     {std::move(out->write_end), std::move(err->write_end)},
                     std::move(out->read_end),
                     std::move(err->read_end),
                     std::move(no_terminal)};
  return ends;
}

Result<Child> SpawnBatch::launch(size_t index) {
  ChildSetup& setup = setups_[index];
  const Missing missing = {commands_.size() - index, commands_.size()};
  const auto clone_error = [&] {
    return start_error("cannot create a process for " + std::string(setup.program), errno, missing);
  };
  Result<OutputEnds> output = open_output(commands_[index], missing.count, missing.all);
  if (!output) return output.error();
  setup.out = output->out;
  setup.err = output->err;
  int pidfd = -1;
  const pid_t pid = clone(index, pidfd);
  if (pid < 0) return clone_error();
  Child child{pid,
              Fd(pidfd),
              Fd(fcntl(pidfd, F_DUPFD_CLOEXEC, 0)),
              std::move(output->read_out),
              std::move(output->read_err),
              std::move(output->no_terminal)};
  if (child.second_pidfd) return child;
  const Error error = clone_error();
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return error;
}

std::optional<Error> SpawnBatch::exec_failure(size_t index) const {
  const ChildSetup& setup = setups_[index];
  if (setup.error_number == 0) return std::nullopt;
  if (setup.unbindable) return os_error("cannot bind the worker to its CPUs", setup.error_number);
  return exec_error(setup.program, setup.error_number);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

/// Avoids Boost.Process: its launchers wait for each child's exec, which adds the scheduler's
/// latency once per worker. Its vfork launcher notifies the io_context of the fork while the child
/// still shares its memory.
Spawned spawn(std::vector<Command> commands) {
  const size_t count = commands.size();
  Spawned spawned{{}, SpawnBatch(std::move(commands)), std::nullopt};
  spawned.children.reserve(count);
  const SignalsBlocked blocked;
  for (size_t i = 0; i < count; ++i) {
    Result<Child> child = spawned.batch.launch(i);
    if (!child) {
      spawned.failure = child.error();
      break;
    }
    spawned.children.push_back(std::move(*child));
  }
  return spawned;
}

void raise_open_files_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  original_open_files = limit;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ddprun::launcher

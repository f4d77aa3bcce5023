// SPDX-License-Identifier: Apache-2.0
// The lower bound for prefixing lines. Starts N copies of a program on pipes, polls them, and
// writes whole lines after "[rank] ". Plain system calls, one thread, one write() per filled
// buffer. Does not handle a slow reader, an end without newline or a long line.
//   bench_prefixer N PROGRAM [ARGS...]
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kMost = 16;
constexpr size_t kCapacity = 256 * 1024;
constexpr size_t kRead = 64 * 1024;

struct Source {
  char prefix[16];
  size_t prefix_size;
  char bytes[kCapacity];
  size_t size;
};

Source sources[kMost];
pollfd pipes[kMost];
char out[kCapacity];
size_t out_size = 0;

void flush() {
  for (size_t done = 0; done < out_size;) {
    const ssize_t count = write(STDOUT_FILENO, out + done, out_size - done);
    if (count < 0) _exit(1);
    done += static_cast<size_t>(count);
  }
  out_size = 0;
}

bool start(int rank, char** command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
  Source& source = sources[rank];
  source.prefix_size =
      static_cast<size_t>(snprintf(source.prefix, sizeof source.prefix, "[%d] ", rank));
  if (fork() == 0) {
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    dup2(ends[1], STDOUT_FILENO);
    execv(command[0], command);
    _exit(127);
  }
  close(ends[1]);
  pipes[rank] = {ends[0], POLLIN, 0};
  return true;
}

void put(const Source& source, const char* line, size_t size) {
  if (out_size + source.prefix_size + size > kCapacity) flush();
  memcpy(out + out_size, source.prefix, source.prefix_size);
  memcpy(out + out_size + source.prefix_size, line, size);
  out_size += source.prefix_size + size;
}

/// Returns whether there was something to read.
bool relay(Source& source, int pipe) {
  const ssize_t count = read(pipe, source.bytes + source.size, kRead);
  if (count <= 0) return false;
  const size_t end = source.size + static_cast<size_t>(count);
  size_t begin = 0;
  while (void* newline = memchr(source.bytes + begin, '\n', end - begin)) {
    const size_t size = static_cast<size_t>(static_cast<char*>(newline) + 1 - source.bytes) - begin;
    put(source, source.bytes + begin, size);
    begin += size;
  }
  source.size = end - begin;
  memmove(source.bytes, source.bytes + begin, source.size);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 2 ? atoi(argv[1]) : 0;
  if (count < 1 || count > kMost) return 2;
  for (int rank = 0; rank < count; rank++) {
    if (!start(rank, argv + 2)) return 1;
  }
  for (int open = count; open > 0;) {
    poll(pipes, static_cast<nfds_t>(count), -1);
    for (int rank = 0; rank < count; rank++) {
      if (pipes[rank].revents == 0 || relay(sources[rank], pipes[rank].fd)) continue;
      pipes[rank].fd = -1;
      pipes[rank].revents = 0;
      open--;
    }
  }
  flush();
  while (wait(nullptr) > 0) {
  }
  return 0;
}

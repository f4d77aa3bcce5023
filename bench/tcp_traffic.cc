// SPDX-License-Identifier: Apache-2.0
#include "bench/tcp_traffic.h"

#include <linux/tcp.h>  // <netinet/tcp.h>'s tcp_info ends too early
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace ddprun::bench {

Traffic tcp_traffic() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  Traffic all;
  for (int fd = 0; fd < static_cast<int>(limit.rlim_cur); ++fd) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    all.sent += info.tcpi_bytes_acked;
    all.received += info.tcpi_bytes_received;
  }
  return all;
}

}  // namespace ddprun::bench

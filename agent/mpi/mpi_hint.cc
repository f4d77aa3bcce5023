// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_hint.h"

#include <algorithm>
#include <chrono>

#include "base/file_text.h"
#include "base/log.h"
#include "base/text.h"

namespace ddprun::agent {
namespace {

/// A script has its imports behind it then.
constexpr std::chrono::seconds kTimeToLoad{5};
constexpr std::string_view kLibrary = "/libmpi";

}  // namespace

std::string mpi_library_in(std::string_view maps) {
  const size_t at = maps.find(kLibrary);
  if (at == maps.npos) return "";
  const size_t begin = maps.find('/', maps.rfind('\n', at) + 1);
  return std::string(maps.substr(begin, std::min(maps.find('\n', at), maps.size()) - begin));
}

std::string mpi_hint(const std::string& who_uses_mpi) {
  return who_uses_mpi +
         ", and the ranks of MPI are not connected: each is rank 0 of 1; add --mpi both to connect "
         "them, --mpi none to leave them";
}

void MpiHint::begin(int rank, pid_t pid) {
  if (has_warned_) return;
  timer_.expires_after(kTimeToLoad);
  timer_.async_wait([this, rank, pid](boost::system::error_code cancelled) {
    if (!cancelled) look(rank, pid);
  });
}

void MpiHint::look(int rank, pid_t pid) {
  files_.run([pid] { return mpi_library_in(file_text("/proc/" + std::to_string(pid) + "/maps")); },
             [this, rank](const std::string& library) {
               if (library.empty() || has_warned_) return;
               has_warned_ = true;
               log::warning(mpi_hint(ranks_text({rank}) + " has loaded " + printable(library)));
             });
}

}  // namespace ddprun::agent

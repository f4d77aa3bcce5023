// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/environment.h"

#include <array>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <unistd.h>

#include "base/hash.h"
#include "base/number.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

constexpr int kMaxSize = 1 << 20;
constexpr std::uint16_t kDefaultPort = 29500;

struct Launcher {
  const char* rank;
  const char* size;
  const char* local_size;  ///< the number of processes on this host; null: no variable
  const char* pass_on;     ///< the command line that passes a variable to the processes
  bool sets_address;       ///< sets MASTER_ADDR and MASTER_PORT
};

constexpr std::array kLaunchers = {
    Launcher{"RANK", "WORLD_SIZE", nullptr, "", true},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
             "mpirun -x MASTER_ADDR=HOST", false},
    Launcher{"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "mpiexec -genv MASTER_ADDR HOST", false},
    Launcher{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr, "MASTER_ADDR=HOST srun", false},
};

/// Returns an empty text if it is not set.
std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

const Launcher& launcher() {
  for (const Launcher& each : kLaunchers) {
    if (!value_of(each.rank).empty()) return each;
  }
  return kLaunchers.front();
}

std::string required(const char* variable) {
  std::string value = value_of(variable);
  if (!value.empty()) return value;
  throw Error(ErrorKind::usage,
              std::string("ddp: ") + variable +
                  " is not set: start the program with ddprun, which tells every worker its place "
                  "(ddprun --nproc_per_node 4 ./program)");
}

int integer(const char* variable, int low, int high) {
  const std::string text = required(variable);
  if (const auto value = ddprun::whole_number(text, low, high)) return *value;
  throw Error(ErrorKind::usage, std::string("ddp: ") + variable + "=" + text +
                                    " is not a number from " + std::to_string(low) + " to " +
                                    std::to_string(high));
}

const char* size_variable(const Launcher& from) {
  const bool older =
      from.size == std::string_view("SLURM_STEP_NUM_TASKS") && value_of(from.size).empty();
  return older ? "SLURM_NTASKS" : from.size;
}

std::string store_host(const Launcher& from) {
  const std::string address = value_of("MASTER_ADDR");
  if (!address.empty()) return address;
  if (from.sets_address) return required("MASTER_ADDR");
  const std::string nodes = value_of("SLURM_STEP_NODELIST");
  if (!nodes.empty() && from.local_size == nullptr) return first_host(nodes);
  if (from.local_size != nullptr && value_of(from.local_size) == value_of(from.size)) {
    return "127.0.0.1";
  }
  throw Error(ErrorKind::usage, std::string("ddp: MASTER_ADDR is not set, and ") + from.rank +
                                    "'s launcher does not say where rank 0 runs: name its host (" +
                                    from.pass_on +
                                    " ...), or meet in a shared file (init_method file:///PATH)");
}

/// Returns a text that is the same in all processes of this job, and in no other running job.
std::string job_id() {
  const std::string pmix = value_of("PMIX_NAMESPACE");
  if (!pmix.empty()) return pmix;
  const std::string slurm = value_of("SLURM_JOB_ID");
  if (!slurm.empty()) return slurm + "." + value_of("SLURM_STEP_ID");
  return std::to_string(::getppid());
}

std::uint16_t port_of_job() {
  constexpr std::uint32_t kFirst = 20'000;
  constexpr std::uint32_t kEnd = 32'768;
  ddprun::Fnv32 hash;
  hash.add(job_id());
  return static_cast<std::uint16_t>(kFirst + hash.value() % (kEnd - kFirst));
}

}  // namespace

RankInfo read_rank_info() {
  const Launcher& from = launcher();
  const char* const size = size_variable(from);
  RankInfo info;
  info.rank = integer(from.rank, 0, kMaxSize - 1);
  info.size = integer(size, 1, kMaxSize);
  if (info.rank < info.size) return info;
  throw Error(ErrorKind::usage, std::string("ddp: ") + from.rank + "=" + std::to_string(info.rank) +
                                    " is not below " + size + "=" + std::to_string(info.size));
}

StoreAddress read_store_address() {
  const Launcher& from = launcher();
  StoreAddress address;
  address.host = store_host(from);
  const bool has_port = from.sets_address || !value_of("MASTER_PORT").empty();
  if (has_port) {
    address.port = static_cast<std::uint16_t>(integer("MASTER_PORT", 1, 65535));
  } else {
    address.port = value_of("MASTER_ADDR").empty() ? port_of_job() : kDefaultPort;
  }
  address.agent = value_of("TORCHELASTIC_USE_AGENT_STORE") == "True";
  constexpr const char* kRestarts = "TORCHELASTIC_RESTART_COUNT";
  if (address.agent && !value_of(kRestarts).empty()) {
    address.restarts = integer(kRestarts, 0, std::numeric_limits<int>::max());
  }
  return address;
}

std::string first_host(const std::string& node_list) {
  const std::size_t end = node_list.find_first_of("[,");
  if (end == std::string::npos || node_list[end] == ',') return node_list.substr(0, end);
  const std::size_t number_end = node_list.find_first_of("-,]", end);
  const std::size_t bracket = node_list.find(']', end);
  if (number_end == std::string::npos || bracket == std::string::npos) {
    throw Error(ErrorKind::usage, "ddp: SLURM_STEP_NODELIST=" + node_list +
                                      " is no list of hosts as Slurm writes it");
  }
  const std::size_t tail_end = node_list.find(',', bracket);
  const std::size_t tail = tail_end == std::string::npos ? tail_end : tail_end - bracket - 1;
  return node_list.substr(0, end) + node_list.substr(end + 1, number_end - end - 1) +
         node_list.substr(bracket + 1, tail);
}

}  // namespace ddp::internal

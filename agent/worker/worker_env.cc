// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/worker_env.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "agent/worker/worker_devices.h"
#include "launcher/process/exit_status.h"

namespace ddprun::agent {
namespace {

/// The rendezvous' endpoint, if MASTER_ADDR and MASTER_PORT are a tunnel's.
constexpr std::string_view kMasterAddress = "DDPRUN_MASTER_ADDR";
constexpr std::string_view kMasterPort = "DDPRUN_MASTER_PORT";

/// ddprun sets these for every worker, whatever was inherited.
constexpr std::array<std::string_view, 19> kAlwaysDecided = {
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    kMasterAddress,
    kMasterPort,
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_SIGNALS_TO_HANDLE",
    kErrorFile,
};

constexpr std::string_view kVisibleDevices = "CUDA_VISIBLE_DEVICES";

/// Variables of another launcher's MPI job: ranks that are connected here must not find them, nor
/// several workers, each of which would take the same place there.
constexpr std::array<std::string_view, 12> kOfMpiJob = {
    "PMI_",
    "PMIX_",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "HYDI_",
    "HYDRA_",
    "OMPI_COMM_WORLD_",
    "OMPI_MCA_ess",
    "OMPI_MCA_orte_",
    "MV2_COMM_WORLD_",
    "PALS_",
    "JSM_NAMESPACE_",
};
constexpr std::string_view kPmixParameter = "PMIX_MCA_";  // the user's

/// Whether each worker has a list of GPUs of its own.
bool divides_devices(const JobSpec& job) {
  return job.virtual_local_rank || job.gpu_bind == GpuBind::isolate;
}

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

bool always_decided(std::string_view name) {
  return std::find(kAlwaysDecided.begin(), kAlwaysDecided.end(), name) != kAlwaysDecided.end();
}

std::string variable(std::string_view name, std::string_view value) {
  std::string text;
  text.reserve(name.size() + 1 + value.size());
  return text.append(name).append("=").append(value);
}

std::string variable(std::string_view name, int value) {
  return variable(name, std::to_string(value));
}

std::string join(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list.append(list.empty() ? "" : ",").append(word);
  return list;
}

std::vector<std::string> names_of(const std::vector<int>& signals) {
  std::vector<std::string> names;
  for (const int signal : signals) names.push_back(launcher::signal_name(signal));
  return names;
}

}  // namespace

void set_variables(std::vector<std::string>& environment,
                   const std::vector<std::string>& variables) {
  for (const std::string& variable : variables) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('=') + 1);
    std::erase_if(environment, [name](const std::string& text) { return text.starts_with(name); });
    environment.push_back(variable);
  }
}

const char* find_variable(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& text : environment) {
    if (text.size() > name.size() && text[name.size()] == '=' && text.starts_with(name)) {
      return text.c_str() + name.size() + 1;
    }
  }
  return nullptr;
}

bool is_of_mpi_job(std::string_view variable) {
  return !variable.starts_with(kPmixParameter) &&
         std::ranges::any_of(kOfMpiJob, [=](auto begin) { return variable.starts_with(begin); });
}

int visible_local_rank(const JobSpec& job, int local_rank) {
  return job.virtual_local_rank ? 0 : local_rank;
}

WorkerEnv::WorkerEnv(const JobSpec& job, const std::vector<std::string>& inherited,
                     const rendezvous::Layout& layout, const rendezvous::Endpoint& store)
    : job_(job),
      first_rank_(layout.first_rank),
      first_role_rank_(layout.role ? layout.role->first_rank : layout.first_rank) {
  const bool divided = divides_devices(job);
  const bool has_own_places = job.mpi != Mpi::none || job.local_size > 1;
  inherited_.reserve(inherited.size());
  for (const std::string& text : inherited) {
    const std::string_view name = name_of(text);
    if (always_decided(name) || (divided && name == kVisibleDevices)) continue;
    if (has_own_places && is_of_mpi_job(text)) continue;
    inherited_.push_back(text);
  }
  decide_shared(layout, store);
}

void WorkerEnv::decide_shared(const rendezvous::Layout& layout, const rendezvous::Endpoint& store) {
  const bool agent_store = job_.store != StoreHost::worker;
  shared_ = {
      variable("WORLD_SIZE", layout.world_size),
      variable("LOCAL_WORLD_SIZE", layout.local_size),
      variable("GROUP_RANK", layout.node_rank),
      variable("GROUP_WORLD_SIZE", layout.node_count),
      variable("ROLE_NAME", job_.role),
      variable("ROLE_WORLD_SIZE", layout.role ? layout.role->world_size : layout.world_size),
      variable("MASTER_ADDR", store.host),
      variable("MASTER_PORT", store.port),
      variable("TORCHELASTIC_RESTART_COUNT", layout.restarts),
      variable("TORCHELASTIC_MAX_RESTARTS", job_.max_restarts),
      variable("TORCHELASTIC_RUN_ID", job_.run_id),
      variable("TORCHELASTIC_USE_AGENT_STORE", agent_store ? "True" : "False"),
      variable("TORCHELASTIC_SIGNALS_TO_HANDLE", join(names_of(job_.signals_to_handle))),
  };
  if (job_.store == StoreHost::tunnel) {
    shared_.push_back(variable(kMasterAddress, job_.master_addr));
    shared_.push_back(variable(kMasterPort, job_.master_port == 0 ? store.port : job_.master_port));
  }
  if (!find_variable(inherited_, "TORCH_NCCL_ASYNC_ERROR_HANDLING")) {
    shared_.push_back(variable("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1));
  }
  // Gloo by itself takes the address of the host's name, which may be a loopback address.
  const bool several = layout.node_count > 1 && !job_.interface.empty();
  if (several && !find_variable(inherited_, "GLOO_SOCKET_IFNAME")) {
    shared_.push_back(variable("GLOO_SOCKET_IFNAME", job_.interface));
  }
  decide_mpi(layout);
  limits_omp_threads_ = layout.local_size > 1 && !find_variable(inherited_, "OMP_NUM_THREADS");
  if (limits_omp_threads_) shared_.push_back(variable("OMP_NUM_THREADS", 1));

  // The user's own list is passed on unchanged, even an empty one, which hides every device.
  const bool is_free = !divides_devices(job_) && !find_variable(inherited_, kVisibleDevices);
  if (is_free && !job_.devices.empty()) {
    shared_.push_back(variable(kVisibleDevices, join(job_.devices)));
  }
}

/// Sets the variables of MPI's ranks. Those of their server follow when it runs.
void WorkerEnv::decide_mpi(const rendezvous::Layout& layout) {
  if (has_pmi1(job_.mpi)) {
    shared_.push_back(variable("PMI_SIZE", layout.world_size));
    shared_.push_back(variable("PMI_SPAWNED", 0));
    shared_.push_back(variable("MPI_LOCALNRANKS", layout.local_size));
  }
  if (has_pmix(job_.mpi)) {
    shared_.push_back(variable("OMPI_COMM_WORLD_SIZE", layout.world_size));
    shared_.push_back(variable("OMPI_COMM_WORLD_LOCAL_SIZE", layout.local_size));
    // Open MPI 4 looks for PMIx only if it believes in a launcher of its own: nothing connects
    // there.
    shared_.push_back(variable("OMPI_MCA_orte_local_daemon_uri", "1.0;tcp://127.0.0.1:1"));
    shared_.push_back(variable("OMPI_MCA_orte_bound_at_launch", 1));
    if (job_.mpi_ft) shared_.push_back(variable("OMPI_MCA_mpi_ft_enable", 1));
  }
  if (has_pmix(job_.mpi) && job_.is_crowded &&
      !find_variable(inherited_, "OMPI_MCA_mpi_yield_when_idle")) {
    shared_.push_back(variable("OMPI_MCA_mpi_yield_when_idle", 1));
  }
  // MPICH 5 aborts where it sees both.
  if (job_.mpi == Mpi::both && !find_variable(inherited_, "MPIR_CVAR_PMI_VERSION")) {
    shared_.push_back(variable("MPIR_CVAR_PMI_VERSION", 1));
  }
}

void WorkerEnv::append_own(int local_rank, std::vector<std::string>& variables) const {
  const int rank = first_rank_ + local_rank;
  variables.push_back(variable("RANK", rank));
  variables.push_back(variable("LOCAL_RANK", visible_local_rank(job_, local_rank)));
  variables.push_back(variable("ROLE_RANK", first_role_rank_ + local_rank));
  if (has_pmi1(job_.mpi)) {
    variables.push_back(variable("PMI_RANK", rank));
    variables.push_back(variable("MPI_LOCALRANKID", local_rank));
  }
  if (has_pmix(job_.mpi)) {
    variables.push_back(variable("OMPI_COMM_WORLD_RANK", rank));
    variables.push_back(variable("OMPI_COMM_WORLD_LOCAL_RANK", local_rank));
  }
  if (divides_devices(job_)) {
    variables.push_back(variable(kVisibleDevices, join(devices_of(job_, local_rank))));
  }
}

std::vector<std::string> WorkerEnv::common() && {
  inherited_.insert(inherited_.end(), shared_.begin(), shared_.end());
  return std::move(inherited_);
}

std::vector<std::string> WorkerEnv::own(int local_rank, const std::string& error_file) const {
  std::vector<std::string> variables;
  variables.reserve(7);
  append_own(local_rank, variables);
  variables.push_back(variable(kErrorFile, error_file));
  return variables;
}

std::vector<std::string> WorkerEnv::decided(int local_rank, const std::string& error_file) const {
  std::vector<std::string> variables;
  append_own(local_rank, variables);
  variables.insert(variables.end(), shared_.begin(), shared_.end());
  variables.push_back(variable(kErrorFile, error_file));
  return variables;
}

}  // namespace ddprun::agent

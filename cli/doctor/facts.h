// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// The facts that `ddprun doctor` judges, and what it finds: plain data. Pure.

namespace ddprun::doctor {

/// The checks on a node that follow from the user's flags.
struct Order {
  std::string problem;                ///< why the program cannot run here; empty: it can
  std::string workers_problem;        ///< why their number is unknown or too high; empty: it is not
  std::string program;                ///< the file of the user's program; empty: none is given
  std::string python;                 ///< the interpreter; empty: the program needs none
  std::vector<std::string> folders;   ///< where ddprun will write files
  std::vector<std::string> devices;   ///< the node's GPUs
  int workers = 1;                    ///< on this node
  bool gives_gloo_interface = false;  ///< the user has set GLOO_SOCKET_IFNAME; else ddprun may
  bool preloads = false;              ///< the user has given --preload
  bool json = false;                  ///< report in JSON
  bool bench = false;                 ///< load the network
};

/// A network interface with one of its addresses.
struct Interface {
  std::string name;
  std::string address;
  bool is_loopback = false;
};

/// A folder for files of the job.
struct Folder {
  std::string path;
  std::string error;       ///< why a file cannot be written; empty: it can
  std::int64_t free = -1;  ///< bytes; -1: unknown
};

/// A GPU as NVML describes it.
struct Gpu {
  bool is_lost = false;
  bool needs_reset = false;             ///< to replace faulty rows of its memory
  bool is_worn_out = false;             ///< no spare rows are left
  std::int64_t uncorrected_errors = 0;  ///< of its memory, since the last reboot
  double memory_used = 0;               ///< the share of its memory that is in use
  std::string slowed{};                 ///< why its clocks are lowered; empty: no fault is known
  int links_up = 0;                     ///< of NVLink
  int links_down = 0;
};

/// One node, as it sees itself. -1 means unknown or no limit, as each comment says.
struct Facts {
  std::string host;
  std::string missing;  ///< why there are no facts of this node; empty: there are

  // These should be the same on every node: "torch" to "2.4.0". Absent if the node has none.
  std::map<std::string, std::string> traits;
  std::map<std::string, std::string> variables;  ///< the user's NCCL_*, CUDA_* and the like

  std::string problem;          ///< as in Order
  std::string workers_problem;  ///< likewise
  int workers = 1;

  // Without --preload each worker imports them itself.
  std::string imports;     ///< the large modules that the program imports: "torch,jax"; or empty
  int import_seconds = 0;  ///< that this took, or the limit

  std::string gloo_line;  ///< of the program: it makes a process group with gloo there; or empty

  // Network. Addresses are numeric; empty: none.
  std::string way;             ///< its address towards the rendezvous, if others can reach it
  std::string interface;       ///< the interface with that address
  int mtu = -1;                ///< of that interface; -1: unknown
  int speed = -1;              ///< likewise, in Mbit/s; -1: unknown
  std::string name_address;    ///< the address of the host's name
  std::string gloo_address;    ///< the address that PyTorch's Gloo would publish
  bool gloo_is_set = false;    ///< by GLOO_SOCKET_IFNAME
  std::string nccl_interface;  ///< the interface that NCCL would take
  std::string nccl_address;
  std::vector<std::string> no_interface;  ///< wrong variables: "GLOO_SOCKET_IFNAME=eth7"
  int port = 0;                           ///< where this node answers the others' probes
  bool bench = false;                     ///< the user gave it --bench
  std::string token;                      ///< its answers begin with it, so probes know the node

  // Resources.
  std::int64_t shared_memory = -1;  ///< bytes free in /dev/shm; -1: there is none
  std::int64_t open_files = -1;     ///< limits; -1: none
  std::int64_t locked_memory = -1;
  std::int64_t stack = -1;
  std::int64_t memory = -1;  ///< of the control group, in bytes; -1: no limit
  double cpus = -1;          ///< likewise, in CPUs
  std::vector<Folder> folders;

  // Devices.
  int gpus = 0;                             ///< GPUs that the job may use
  std::vector<Gpu> gpu_health;              ///< of all GPUs of the host
  std::vector<std::string> gpu_errors;      ///< of the driver since the boot: "0000:3b:00: Xid 79"
  bool driver_differs = false;              ///< its module and library have different versions
  bool has_fabric = false;                  ///< InfiniBand or RoCE
  std::vector<std::string> inactive_ports;  ///< of the fabric: "mlx5_0/1 (DOWN)"

  // Diagnosis.
  int ptrace_scope = 0;  ///< kernel.yama.ptrace_scope
  bool has_py_spy = false;
};

/// A node's facts about its way to another node.
struct Link {
  int from = 0;  ///< node ranks
  int to = 0;
  std::string use;           ///< who chose the address: "ddprun", "Gloo", "NCCL", or several
  std::string address;       ///< the address that it tried
  std::string error;         ///< why it failed; empty: it succeeded
  double round_trip = 0;     ///< in ms, the shortest of several
  double clock_ahead = 0;    ///< the other's wall clock minus ours, in s
  int path_mtu = -1;         ///< as the kernel knows it; -1: unknown
  bool under_load = false;   ///< has only the bandwidth while all nodes send
  bool is_measured = false;  ///< the next two are
  bool lost_large = false;   ///< small packets arrived, large ones did not
  double mbits_per_second = 0;
};

/// ok: no problem; warn: works, but slowly or not for long; fail: the job would not work.
enum class Level { ok, warn, fail };

/// A result of `ddprun doctor`: one thing that it has checked.
struct Finding {
  Level level = Level::ok;
  std::string check;            ///< what is checked: "shared memory"
  std::string text;             ///< the result; empty: nothing to say
  std::string remedy;           ///< what to do; empty for ok
  std::vector<int> nodes = {};  ///< the nodes concerned; empty: none in particular
};

using Findings = std::vector<Finding>;

}  // namespace ddprun::doctor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// The facts that `ddprun doctor` judges: plain data. Pure.

namespace ddprun::doctor {

/// The checks that the user's flags ask for on a node.
struct Order {
  std::string problem;                ///< why the program cannot run here; empty: it can
  std::string workers_problem;        ///< why their number is unknown or too high; empty: it is not
  std::string program;                ///< the file of the user's program; empty: none is given
  std::string python;                 ///< the interpreter; empty: the program needs none
  std::vector<std::string> folders;   ///< where files will be written
  std::vector<std::string> devices;   ///< the node's GPUs
  int workers = 1;                    ///< on this node
  bool gives_gloo_interface = false;  ///< the user sets GLOO_SOCKET_IFNAME; else ddprun may
  bool json = false;                  ///< report in JSON
  bool bench = false;                 ///< load the network
};

/// A network interface with one of its addresses.
struct Interface {
  std::string name;
  std::string address;
  bool is_loopback = false;
};

/// A folder that files are to be written to.
struct Folder {
  std::string path;
  std::string error;       ///< why a file cannot be written; empty: it can
  std::int64_t free = -1;  ///< bytes; -1: unknown
};

/// A GPU as NVML describes it.
struct Gpu {
  bool is_lost = false;
  bool needs_reset = false;             ///< to replace faulty rows of its memory
  bool is_worn_out = false;             ///< there are no rows left to replace them by
  std::int64_t uncorrected_errors = 0;  ///< of its memory, since the last reboot
  double memory_used = 0;               ///< the part of its memory that others have
  std::string slowed{};                 ///< why its clocks are lowered; empty: no fault is known
  int links_up = 0;                     ///< of NVLink
  int links_down = 0;
};

/// One node, as it sees itself. A number of -1 is unknown or without a limit, as it says.
struct Facts {
  std::string host;
  std::string missing;  ///< why there are no facts of this node; empty: there are

  // Should be the same on every node: "torch" to "2.4.0". Absent where a node has none.
  std::map<std::string, std::string> traits;
  std::map<std::string, std::string> variables;  ///< the user's NCCL_*, CUDA_* and the like

  std::string problem;          ///< as in Order
  std::string workers_problem;  ///< likewise
  int workers = 1;

  // Network. Addresses are numeric; empty: none.
  std::string way;        ///< the one from which it reaches the rendezvous, if others can reach it
  std::string interface;  ///< the one of that address
  int mtu = -1;           ///< of that interface; -1: unknown
  int speed = -1;         ///< likewise, in Mbit/s; -1: unknown
  std::string name_address;    ///< what the host's name stands for
  std::string gloo_address;    ///< that PyTorch's Gloo would tell the others
  bool gloo_is_set = false;    ///< by GLOO_SOCKET_IFNAME
  std::string nccl_interface;  ///< the one that NCCL would take
  std::string nccl_address;
  std::vector<std::string> no_interface;  ///< "GLOO_SOCKET_IFNAME=eth7": variables that name none
  int port = 0;                           ///< where this node answers the others' probes
  bool bench = false;                     ///< it was told to load the network
  std::string token;                      ///< by which they know that it is this node that answers

  // Resources.
  std::int64_t shared_memory = -1;  ///< bytes free in /dev/shm; -1: there is none
  std::int64_t open_files = -1;     ///< limits; -1: none
  std::int64_t locked_memory = -1;
  std::int64_t stack = -1;
  std::int64_t memory = -1;  ///< of the control group, in bytes; -1: no limit
  double cpus = -1;          ///< likewise, in CPUs
  std::vector<Folder> folders;

  // Devices.
  int gpus = 0;                             ///< that the job may use
  std::vector<Gpu> gpu_health;              ///< of all that there are
  std::vector<std::string> gpu_errors;      ///< of the driver, since the boot: "0000:3b:00: Xid 79"
  bool driver_differs = false;              ///< its module and its library are not of one version
  bool has_fabric = false;                  ///< InfiniBand or RoCE
  std::vector<std::string> inactive_ports;  ///< of it: "mlx5_0/1 (DOWN)"

  // Diagnosis.
  int ptrace_scope = 0;  ///< kernel.yama.ptrace_scope
  bool has_py_spy = false;
};

/// A node's findings on its way to another.
struct Link {
  int from = 0;  ///< node ranks
  int to = 0;
  std::string use;        ///< whose choice of address: "ddprun", "Gloo", "NCCL", or several of them
  std::string address;    ///< where it tried to connect to
  std::string error;      ///< why not; empty: it could
  double round_trip = 0;  ///< in ms, the shortest of some
  double clock_ahead = 0;    ///< the other's wall clock minus ours, in s
  int path_mtu = -1;         ///< as the kernel knows it; -1: it does not
  bool under_load = false;   ///< bandwidth while all nodes send, and nothing else
  bool is_measured = false;  ///< the next two are
  bool lost_large = false;   ///< small packets arrived, large ones did not
  double mbits_per_second = 0;
};

}  // namespace ddprun::doctor

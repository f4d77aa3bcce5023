// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "cli/doctor/facts.h"

namespace ddprun::doctor {

/// Reads the health of each GPU, as NVML reports it. Does nothing if there is no NVIDIA driver, by
/// the files under `root`, or no NVML. Takes tens of milliseconds.
void read_gpus(Facts& facts, const std::string& root = "",
               const std::string& nvml_library = "libnvidia-ml.so.1");

/// The limits of this process's control group and of those above it, in either version.
struct ControlGroup {
  std::int64_t memory = -1;  ///< bytes; -1: no limit
  double cpus = -1;          ///< -1: no limit
};

/// Files are under `root`.
ControlGroup read_control_group(const std::string& root);

/// Reads the facts of this host: files, limits and interfaces. Writes a MiB into each of the
/// order's folders, and asks the order's python for versions. Blocks as long as its disks do.
/// `way`: the address from which it reaches the rendezvous; empty: unknown.
Facts read_facts(const Order& order, const std::string& way);

/// The same within 40 s. If it takes longer, it is left on its thread, and the facts are missing.
Facts read_facts_in_time(const Order& order, const std::string& way);

// The parts of read_facts(). Files are under `root`.

/// Limits, /dev/shm, the control group, and whether processes may be traced.
void read_resources(Facts& facts, const std::string& root = "");

/// GPUs, their driver, and InfiniBand.
void read_devices(Facts& facts, const Order& order, const std::string& root = "");

/// Interfaces, and which of them PyTorch's Gloo and NCCL would take.
void read_network(Facts& facts, const std::string& way, const std::string& root = "");

/// Versions of Python and its libraries, and a digest of the program.
void read_software(Facts& facts, const Order& order);

/// Checks whether a file can be written in `path`, or in the part of `path` that exists.
Folder try_folder(const std::string& path);

}  // namespace ddprun::doctor

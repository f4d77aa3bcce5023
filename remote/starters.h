// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// The commands that start an agent on a host. Pure.

namespace ddprun::remote {

using Words = std::vector<std::string>;

/// The program that starts the agents.
enum class Starter { ssh, srun, blaunch, qrsh, flux };

/// `ssh` is the user's own: "ssh", or with options, "ssh -p 2222". These come first and so override
/// ours. `executable`: ddprun's path.
Words ssh_command(std::string_view ssh, std::string_view host, std::string_view executable);

/// A step of one task on one node of Slurm's job.
Words srun_command(std::string_view host, std::string_view executable);

/// A task of LSF's job on one of its hosts.
Words blaunch_command(std::string_view host, std::string_view executable);

/// A task of SGE's job on one of its hosts.
Words qrsh_command(std::string_view host, std::string_view executable);

/// A job on one host of Flux's instance; it has the whole host.
Words flux_command(std::string_view host, std::string_view executable);

/// The name of the program that starts the agent.
std::string starter_name(const Words& starter);

/// The command for the launching host itself.
Words local_command(std::string_view executable);

/// An agent that ended before it took part.
struct FailedStart {
  std::string host;
  Words starter;     ///< the command that should have started it
  int code;          ///< its exit code
  std::string said;  ///< the last line of ddprun there, without "ddprun: "; empty: none
  std::string tail;  ///< the last line on stderr; may be empty
  /// How the user can start ddprun on every node, if not by `starter`; empty: unknown.
  std::string instead{};
};

/// One sentence: why it could not be started, and what to do.
std::string start_failure_text(const FailedStart& failure);

}  // namespace ddprun::remote

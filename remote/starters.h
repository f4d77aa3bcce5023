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

/// `ssh` is the user's own: "ssh", or with options, "ssh -p 2222", which come first and so override
/// ours. `executable`: ddprun's path.
Words ssh_command(std::string_view ssh, std::string_view host, std::string_view executable);

/// A step of Slurm's job, of one task on one of its nodes.
Words srun_command(std::string_view host, std::string_view executable);

/// A task of LSF's job on one of its hosts.
Words blaunch_command(std::string_view host, std::string_view executable);

/// A task of SGE's job on one of its hosts.
Words qrsh_command(std::string_view host, std::string_view executable);

/// A job on one of the hosts of Flux's instance, which has the whole host.
Words flux_command(std::string_view host, std::string_view executable);

/// The name of the program that starts the agent.
std::string starter_name(const Words& starter);

/// On the launching host itself.
Words local_command(std::string_view executable);

/// An agent that ended before it took part.
struct FailedStart {
  std::string host;
  Words starter;     ///< the command that was to start it
  int code;          ///< that it ended with
  std::string said;  ///< the last line of ddprun there, without "ddprun: "; empty: none
  std::string tail;  ///< the last line on stderr; may be empty
  /// How the user can start ddprun on every node, if not by `starter`; empty: unknown.
  std::string instead{};
};

/// One sentence: why it could not be started, and what to do.
std::string start_failure_text(const FailedStart& failure);

}  // namespace ddprun::remote

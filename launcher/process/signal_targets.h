// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

// DECIDES which of a worker's processes get a signal. Most signals end a process by default. A
// signal to the whole group would end the data loaders of a program that saves its state at it. A
// signal to the worker alone would end the script around a program that handles it. Pure.
//
// The decision begins with the worker and descends from there. A process that gets the signal
// passes it on to its children itself, or has reasons not to.
//
// clang-format off
//  a process that ...                    | gets it | its children
//  --------------------------------------+---------+----------------------------------------
//  handles the signal                    | yes     | no
//  is a shell, and handles it            | yes     | yes: its trap runs only when they end;
//                                        |         |   no, if it started them with &
//  is timeout(1), and handles it         | no      | yes: it would signal its whole group
//  does not handle it; a notice          | no      | yes
//  does not handle it; a stop; and       |         |
//    waits for a child to end            | no      | yes: it is the script around a program
//    computes, or waits for a lock       | no      | no: it is the program
//    sleeps in another way               | no      | those of another executable: it reads
//                                        |         |   their output. Others: its data loaders
// clang-format on
//
// A stop goes to the worker's whole group if no process gets the signal, or if only a shell gets it
// and no process of the command for which it waits. A notice then goes to no process: it could only
// end a worker that does not expect it.

namespace ddprun::launcher {

enum class SignalUse {
  notice,  ///< announces what a program may act on: SIGUSR1, a deadline
  stop,    ///< stops the job: the worker's other processes get the signal later
};

/// The facts that decide about one process.
struct SignalView {
  enum class State { computes, waits_for_child, sleeps };

  bool handles = false;  ///< the signal
  State state = State::sleeps;
  bool ignores_interrupt = false;  ///< a shell without job control sets this for commands with &
  std::string executable{};        ///< its path; empty: unknown
  std::string name{};              ///< as in ps
};

/// The processes that get a signal; empty: see above. Calls `look` and `children` as rarely as
/// possible, and at most a thousand times.
std::vector<int> signal_targets(int worker, SignalUse use,
                                const std::function<SignalView(int)>& look,
                                const std::function<std::vector<int>(int)>& children);

}  // namespace ddprun::launcher

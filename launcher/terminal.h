// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::launcher {

/// In the agent: whether `fd` is the terminal of the guardian's session while another process group
/// is in its foreground, as with `ddprun ... &`. What is typed there is for others. The kernel does
/// not hold back workers that read it, because they have sessions of their own.
bool is_terminal_of_others(int fd);

}  // namespace ddprun::launcher

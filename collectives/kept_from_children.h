// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddp::internal {

/// Keeps a socket of this process from children that fork() makes, such as a data loader's, and
/// from the programs that it starts: while a child has a copy, the other end does not notice that
/// this process has ended. In the child of a fork the descriptor becomes a socket without a
/// connection. It is not closed: a file that the child opens would get its number, and the copy of
/// the socket's owner would close that file. Thread: any.
void keep_from_children(int socket) noexcept;

}  // namespace ddp::internal

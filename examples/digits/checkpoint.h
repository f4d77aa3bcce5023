// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace digits {

/// Writes the training's state after `epochs_done` epochs. Whoever reads `path`, at any moment and
/// after any crash, finds either the whole old checkpoint or the whole new one.
/// Throws std::runtime_error that names the file.
void save_checkpoint(const std::string& path, int epochs_done, std::span<const float> parameters,
                     std::span<const float> optimizer_state);

/// Reads it back; returns the epochs done, 0 when there is no such file. Throws std::runtime_error
/// when the file is not a whole checkpoint of a network of this size.
int load_checkpoint(const std::string& path, std::span<float> parameters,
                    std::span<float> optimizer_state);

}  // namespace digits

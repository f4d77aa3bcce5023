// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun {

/// The name of this host from gethostname(2); "localhost" if that fails.
std::string host_name();

}  // namespace ddprun

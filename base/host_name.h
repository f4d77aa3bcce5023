// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun {

/// The name of this host, as gethostname(2) gives it; "localhost" if it gives none.
std::string host_name();

}  // namespace ddprun

// SPDX-License-Identifier: Apache-2.0
#include "ddp/error.h"

namespace ddp {

Error::Error(ErrorKind kind, const std::string& sentence)
    : std::runtime_error(sentence), kind_(kind) {}

Error::~Error() = default;  // here, so that the class has one home for every library that throws it

}  // namespace ddp

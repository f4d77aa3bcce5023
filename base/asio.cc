// SPDX-License-Identifier: Apache-2.0
// What Asio does not need to have in its headers, compiled once and not in every file.
#include <boost/asio/impl/src.hpp>

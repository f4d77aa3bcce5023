// SPDX-License-Identifier: Apache-2.0
// The part of Asio that BOOST_ASIO_SEPARATE_COMPILATION takes out of its headers.
#include <boost/asio/impl/src.hpp>

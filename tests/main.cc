// SPDX-License-Identifier: Apache-2.0
// Catch2 3 brings its own main in a library; Catch2 2 generates one here.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif

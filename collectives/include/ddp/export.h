// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks the public symbols of libddp; all others are hidden.
#define DDP_EXPORT __attribute__((visibility("default")))

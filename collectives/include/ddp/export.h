// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks what libddp offers; everything else in it is hidden.
#define DDP_EXPORT __attribute__((visibility("default")))

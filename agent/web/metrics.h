// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "agent/ask/status.h"
#include "agent/web/history.h"

namespace ddprun::agent::web {

/// The media type of metrics_text().
inline constexpr const char* kMetricsType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The job as OpenMetrics 1.0; docs/web.md has the names. `now` is a time as in `history`. Pure.
std::string metrics_text(const ask::JobStatus& status, const History& history, double now);

/// `text` as the value of a label, with quotes.
std::string label_value(std::string_view text);

}  // namespace ddprun::agent::web

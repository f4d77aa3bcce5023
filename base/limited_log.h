// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

namespace ddprun::log {

/// Limits warnings that peers cause and that could otherwise fill the disk. In each period it
/// writes the first few lines, cut short, and then the number of further lines.
///
/// Thread: the executor's.
class LimitedLog {
 public:
  static constexpr std::size_t kLines = 10;
  static constexpr std::size_t kLength = 300;  ///< bytes of one line
  static constexpr std::chrono::milliseconds kPeriod{10'000};

  explicit LimitedLog(boost::asio::any_io_executor executor,
                      std::chrono::milliseconds period = kPeriod)
      : timer_(executor), period_(period) {}

  /// Writes `text` as log::warning does, or counts it.
  void warning(const std::string& text);

 private:
  void begin_period();

  boost::asio::steady_timer timer_;
  std::chrono::milliseconds period_;
  std::size_t lines_ = 0;  // of this period; 0: no period is under way
  // The handler may be queued already when this is destroyed, so it checks this first.
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace ddprun::log

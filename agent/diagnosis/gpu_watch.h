// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/async_jobs.h"
#include "launcher/devices/nvml.h"

namespace ddprun::agent {

/// Reads the use of this node's GPUs, on a thread and only when asked.
///
/// Destroying it drops the pending answers. Thread: the executor's.
class GpuWatch {
 public:
  using Uses = std::map<std::string, launcher::GpuUse>;  ///< by name, as in CUDA_VISIBLE_DEVICES
  using Done = std::function<void(const Uses&)>;

  /// `limit` is for tests.
  GpuWatch(boost::asio::any_io_executor executor, std::vector<std::string> devices,
           std::chrono::milliseconds limit = std::chrono::seconds(1))
      : executor_(executor), jobs_(executor), devices_(std::move(devices)), limit_(limit) {}

  /// Calls `done` with the driver's answer. Without GPUs it is empty, at once. If the driver does
  /// not answer within the limit, it is empty, too; until the driver does, later calls get that at
  /// once.
  void look(Done done);

 private:
  void begin();

  boost::asio::any_io_executor executor_;
  AsyncJobs jobs_;
  const std::vector<std::string> devices_;
  const std::chrono::milliseconds limit_;
  std::shared_ptr<launcher::GpuReader> reader_ = std::make_shared<launcher::GpuReader>();
  bool reading_ = false;
  bool is_stuck_ = false;      ///< the driver's answer is overdue
  std::vector<Done> waiting_;  ///< for that answer
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace ddprun::agent

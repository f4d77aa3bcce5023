// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "agent/mpi/mpi_line.h"
#include "agent/mpi/mpi_nodes.h"
#include "agent/mpi/pmix_abi.h"
#include "base/error.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// Serves PMIx, by which Open MPI's ranks find each other, to the ranks of one node: libpmix.so.2,
/// loaded by name. One in a process, which it lives as long as: its threads are libpmix's.
///
/// Thread: the executor's. start() blocks.
class PmixServer {
 public:
  using Exchanged = std::function<void(std::string all, std::int64_t number)>;
  static constexpr std::string_view kGroups = "group/";  ///< begins the names of their exchanges
  struct Hooks {
    std::function<void(const MpiNews&)> news;
    /// This node's part of a fence of the ranks that `name` stands for, which these nodes have.
    /// `exchanged` wants what all of them give, and the number of the exchange.
    std::function<void(const std::string& name, const std::vector<int>& nodes, std::string own,
                       Exchanged exchanged)>
        exchange;
  };

  /// `folder` is for its files. `program` may have a libpmix beside it, as in an environment of
  /// Python. Errors: system (there is no libpmix, or it fails), which names what to do.
  static Result<PmixServer*> start(boost::asio::any_io_executor executor,
                                   const rendezvous::Layout& layout, const MpiNodes& nodes,
                                   const std::string& folder, const std::string& program,
                                   Hooks hooks);
  PmixServer(const PmixServer&) = delete;

  /// The variables of each rank's environment besides PMIX_RANK: "NAME=value".
  const std::vector<std::string>& variables() const { return variables_; }

  /// Tells this node's ranks that a rank of any node is lost: those of Open MPI 5 may go on.
  void notify_lost(int rank);

 private:
  struct Library;
  struct Callbacks;

  PmixServer(boost::asio::any_io_executor executor, const rendezvous::Layout& layout,
             const MpiNodes& nodes, Hooks hooks);
  Result<> begin(const Library& library, const std::string& folder);
  Result<> register_job(const std::string& folder);
  Result<> read_variables();
  void tell(MpiNews news, std::uint32_t rank);
  pmix::Status refuse(Unserved part, std::uint32_t rank);
  void on_group(const std::string& name, const std::vector<pmix::Proc>& members, std::string own,
                pmix::InfoDone done, void* data);
  void answer_group(const std::vector<pmix::Proc>& members, const std::string& all,
                    std::int64_t number, pmix::InfoDone done, void* data) const;
  void on_fence(const std::set<int>& ranks, std::string own, Exchanged exchanged);
  static std::string name_of(const std::set<int>& ranks);
  std::vector<int> nodes_of(const std::set<int>& ranks) const;

  boost::asio::any_io_executor executor_;
  const rendezvous::Layout layout_;
  const MpiNodes nodes_;
  const Hooks hooks_;
  std::unique_ptr<const Library> library_;
  std::vector<std::string> variables_;
};

}  // namespace ddprun::agent

// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/pmix_server.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <future>
#include <set>
#include <string_view>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "agent/mpi/pmix_abi.h"
#include "base/hash.h"
#include "base/text.h"

namespace ddprun::agent {
namespace {

constexpr const char* kSoname = "libpmix.so.2";
constexpr const char* kGroupData = "pmix.grp.endpt";
constexpr const char* kBesideProgram = "/../lib/openmpi/";  // in an environment of Python

PmixServer* the_server = nullptr;  // callbacks have no data of ours

template <std::size_t kSize>
void copy_text(std::string_view text, std::array<char, kSize>& to) {
  to = {};
  text.copy(to.data(), kSize - 1);
}

pmix::Proc proc_of(const std::string& nspace, int rank) {
  pmix::Proc proc{};
  copy_text(nspace, proc.nspace);
  proc.rank = static_cast<std::uint32_t>(rank);
  return proc;
}

/// A call that answers later, in another thread, or has succeeded at once.
template <class Call>
pmix::Status wait_for(const Call& call) {
  using Answer = std::promise<pmix::Status>;
  const auto answer = std::make_shared<Answer>();
  auto kept = std::make_unique<std::shared_ptr<Answer>>(answer);  // until it is given
  const pmix::Status begun = call(
      [](pmix::Status status, void* data) {
        const std::unique_ptr<std::shared_ptr<Answer>> own(
            static_cast<std::shared_ptr<Answer>*>(data));
        (*own)->set_value(status);
      },
      kept.get());
  if (begun == pmix::kOperationSucceeded) return pmix::kSuccess;
  if (begun != pmix::kSuccess) return begun;
  (void)kept.release();
  return answer->get_future().get();
}

std::string folder_of(const std::string& program) {
  return program.substr(0, program.find_last_of('/'));
}

}  // namespace

struct PmixServer::Library {
  pmix::ServerInit* server_init;
  pmix::Generate* generate_regex;
  pmix::Generate* generate_ppn;
  pmix::RegisterNamespace* register_namespace;
  pmix::RegisterClient* register_client;
  pmix::SetupFork* setup_fork;
  pmix::InfoLoad* info_load;
  pmix::NotifyEvent* notify_event;
  pmix::ErrorString* error_string;
  pmix::GetVersion* get_version;

  static Result<Library> load(const std::string& program);

  /// Clients of PMIx 5, the first with groups, do not understand the answers of 4. The server of 6
  /// would want other ones.
  bool has_groups() const {
    const std::string_view text = get_version();
    return text.substr(std::min(text.find_first_of("0123456789"), text.size())).starts_with("5.");
  }

  Error error(const std::string& what, pmix::Status status) const {
    return {Errc::system, std::string(kSoname) + ": " + what + ": " + error_string(status)};
  }

  void add(std::vector<pmix::Info>& infos, const char* key, const void* value,
           pmix::Type type) const {
    info_load(&infos.emplace_back(), key, value, type);
  }
};

Result<PmixServer::Library> PmixServer::Library::load(const std::string& program) {
  void* library = nullptr;
  for (const std::string& file :
       {folder_of(program) + kBesideProgram + kSoname, std::string(kSoname)}) {
    if (library == nullptr) library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
  if (library == nullptr) {
    return Error{Errc::system, std::string("Open MPI's ranks need libpmix 4.2 or later on this "
                                           "host, found by LD_LIBRARY_PATH or as a package "
                                           "(libpmix2): ") +
                                   dlerror()};
  }
  Library found{};
  const char* missing = nullptr;
  const auto find = [&](auto*& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(found.server_init, "PMIx_server_init");
  find(found.generate_regex, "PMIx_generate_regex");
  find(found.generate_ppn, "PMIx_generate_ppn");
  find(found.register_namespace, "PMIx_server_register_nspace");
  find(found.register_client, "PMIx_server_register_client");
  find(found.setup_fork, "PMIx_server_setup_fork");
  find(found.info_load, "PMIx_Info_load");
  find(found.notify_event, "PMIx_Notify_event");
  find(found.error_string, "PMIx_Error_string");
  find(found.get_version, "PMIx_Get_version");
  if (missing == nullptr) return found;
  return Error{Errc::system, std::string(kSoname) + " has no " + missing +
                                 ": Open MPI's ranks need libpmix 4.2 or later"};
}

/// The callbacks, which run in libpmix's threads. An answer from within could deadlock with such a
/// thread, so the executor sends each answer that needs more than a status.
struct PmixServer::Callbacks {
  using Status = pmix::Status;

  static Status connected(const pmix::Proc* proc, void*, pmix::Info*, std::size_t, pmix::Done,
                          void*) {
    the_server->tell({.kind = MpiNews::Kind::called_init}, proc->rank);
    return pmix::kOperationSucceeded;
  }

  static Status finalized(const pmix::Proc* proc, void*, pmix::Done, void*) {
    the_server->tell({.kind = MpiNews::Kind::finalized}, proc->rank);
    return pmix::kOperationSucceeded;
  }

  static Status abort(const pmix::Proc* proc, void*, Status code, const char*, pmix::Proc*,
                      std::size_t, pmix::Done, void*) {
    the_server->tell({.kind = MpiNews::Kind::aborted, .code = code}, proc->rank);
    return pmix::kOperationSucceeded;
  }

  static Status spawn(const pmix::Proc* proc, const pmix::Info*, std::size_t, const void*,
                      std::size_t, pmix::Module::Unused, void*) {
    return the_server->refuse(Unserved::spawn, proc->rank);
  }

  static Status publish(const pmix::Proc* proc, const pmix::Info*, std::size_t, pmix::Done, void*) {
    return the_server->refuse(Unserved::names, proc->rank);
  }

  static Status lookup(const pmix::Proc* proc, char**, const pmix::Info*, std::size_t,
                       pmix::Module::Unused, void*) {
    return the_server->refuse(Unserved::names, proc->rank);
  }

  static Status register_events(Status*, std::size_t, const pmix::Info*, std::size_t, pmix::Done,
                                void*) {
    return pmix::kOperationSucceeded;
  }

  static Status deregister_events(Status*, std::size_t, pmix::Done, void*) {
    return pmix::kOperationSucceeded;
  }

  /// libpmix removes what ranks have registered for that, also after a SIGKILL.
  static Status job_control(const pmix::Proc*, const pmix::Proc*, std::size_t, const pmix::Info*,
                            std::size_t, pmix::Module::Unused, void*) {
    return pmix::kOperationSucceeded;
  }

  /// The ranks among these processes; empty: all.
  static std::set<int> ranks_of(const pmix::Proc* procs, std::size_t count) {
    std::set<int> ranks;
    for (std::size_t i = 0; i < count; ++i) {
      if (procs[i].rank == pmix::kWildcard) return {};
      ranks.insert(static_cast<int>(procs[i].rank));
    }
    return ranks;
  }

  /// A group of ranks that a communicator is made from. libpmix has its ranks of this node
  /// together, and lets them leave the group by itself.
  static Status group(pmix::GroupCall call, char* name, const pmix::Proc* procs, std::size_t count,
                      const pmix::Info* wishes, std::size_t wish_count, pmix::InfoDone done,
                      void* data) {
    if (call == pmix::GroupCall::destruct) return pmix::kOperationSucceeded;
    std::string own;  // what these ranks tell each other
    for (std::size_t i = 0; i < wish_count; ++i) {
      if (std::string_view(wishes[i].key.data()) != kGroupData) continue;
      own = pmix::bytes_of(wishes[i]).value_or("");
    }
    boost::asio::post(the_server->executor_,
                      [name = std::string(name), members = std::vector(procs, procs + count),
                       own = std::move(own), done,
                       data] { the_server->on_group(name, members, own, done, data); });
    return pmix::kSuccess;
  }

  static Status fence(const pmix::Proc* procs, std::size_t count, const pmix::Info*, std::size_t,
                      char* bytes, std::size_t size, pmix::ModexDone done, void* data) {
    boost::asio::post(the_server->executor_, [ranks = ranks_of(procs, count),
                                              own = std::string(bytes, size), done, data] {
      the_server->on_fence(ranks, own, [done, data](std::string all, std::int64_t) {
        auto* kept = new std::string(std::move(all));
        done(
            pmix::kSuccess, kept->data(), kept->size(), data,
            [](void* text) { delete static_cast<std::string*>(text); }, kept);
      });
    });
    return pmix::kSuccess;
  }
};

PmixServer::PmixServer(boost::asio::any_io_executor executor, const rendezvous::Layout& layout,
                       const MpiNodes& nodes, Hooks hooks)
    : executor_(std::move(executor)), layout_(layout), nodes_(nodes), hooks_(std::move(hooks)) {}

Result<PmixServer*> PmixServer::start(boost::asio::any_io_executor executor,
                                      const rendezvous::Layout& layout, const MpiNodes& nodes,
                                      const std::string& folder, const std::string& program,
                                      Hooks hooks) {
  const Result<Library> library = Library::load(program);
  if (!library) return library.error();
  the_server = new PmixServer(std::move(executor), layout, nodes, std::move(hooks));
  if (const Result<> begun = the_server->begin(*library, folder); !begun) return begun.error();
  return the_server;
}

/// The module has to stay where it is.
Result<> PmixServer::begin(const Library& library, const std::string& folder) {
  static pmix::Module module{};
  module.client_finalized = Callbacks::finalized;
  module.abort = Callbacks::abort;
  module.fence_nb = Callbacks::fence;
  module.publish = Callbacks::publish;
  module.lookup = Callbacks::lookup;
  module.spawn = Callbacks::spawn;
  module.register_events = Callbacks::register_events;
  module.deregister_events = Callbacks::deregister_events;
  module.job_control = Callbacks::job_control;
  if (library.has_groups()) module.group = Callbacks::group;
  module.client_connected2 = Callbacks::connected;
  std::vector<pmix::Info> infos;
  const std::string& host = nodes_.hosts[static_cast<size_t>(layout_.node_rank)];
  library.add(infos, "pmix.srvr.tmpdir", folder.c_str(), pmix::Type::string);
  library.add(infos, "pmix.sys.tmpdir", folder.c_str(), pmix::Type::string);
  library.add(infos, "pmix.hname", host.c_str(), pmix::Type::string);
  const pmix::Status status = library.server_init(&module, infos.data(), infos.size());
  if (status != pmix::kSuccess) return library.error("cannot serve PMIx", status);
  library_ = std::make_unique<const Library>(library);
  if (const Result<> registered = register_job(folder); !registered) return registered;
  return read_variables();
}

/// libpmix wants each rank by its number. Where each is decides which ranks share memory; libpmix
/// derives the rest.
Result<> PmixServer::register_job(const std::string& folder) {
  std::string hosts, ranks;
  int next = 0;
  for (size_t node = 0; node < nodes_.hosts.size(); ++node) {
    hosts.append(node == 0 ? "" : ",").append(nodes_.hosts[node]);
    for (int i = 0; i < nodes_.local_sizes[node]; ++i, ++next) {
      ranks.append(i > 0 ? "," : node > 0 ? ";" : "").append(std::to_string(next));
    }
  }
  char *node_map = nullptr, *rank_map = nullptr;
  pmix::Status status = library_->generate_regex(hosts.c_str(), &node_map);
  if (status == pmix::kSuccess) status = library_->generate_ppn(ranks.c_str(), &rank_map);
  if (status != pmix::kSuccess) return library_->error("cannot write the map of nodes", status);
  std::vector<pmix::Info> infos;
  const auto size = static_cast<std::uint32_t>(layout_.world_size);
  library_->add(infos, "pmix.nmap", node_map, pmix::Type::regex);
  library_->add(infos, "pmix.pmap", rank_map, pmix::Type::regex);
  library_->add(infos, "pmix.job.size", &size, pmix::Type::uint32);
  library_->add(infos, "pmix.univ.size", &size, pmix::Type::uint32);
  library_->add(infos, "pmix.tmpdir", folder.c_str(), pmix::Type::string);  // for theirs, too
  library_->add(infos, "pmix.nsdir", folder.c_str(), pmix::Type::string);
  status = wait_for([&](pmix::Done done, void* data) {
    return library_->register_namespace(nodes_.name.c_str(), layout_.local_size, infos.data(),
                                        infos.size(), done, data);
  });
  for (int i = 0; i < layout_.local_size && status == pmix::kSuccess; ++i) {
    const pmix::Proc proc = proc_of(nodes_.name, layout_.first_rank + i);
    status = wait_for([&](pmix::Done done, void* data) {
      return library_->register_client(&proc, getuid(), getgid(), nullptr, done, data);
    });
  }
  return status == pmix::kSuccess ? Result<>()
                                  : library_->error("cannot register the ranks", status);
}

Result<> PmixServer::read_variables() {
  const pmix::Proc proc = proc_of(nodes_.name, layout_.first_rank);
  char** environment = nullptr;
  const pmix::Status status = library_->setup_fork(&proc, &environment);
  if (status != pmix::kSuccess) return library_->error("no variables for the ranks", status);
  for (char** each = environment; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text = *each;
    if (!text.starts_with("PMIX_RANK=")) variables_.emplace_back(text);
  }
  return {};
}

/// libpmix keeps the event for ranks that ask for it later, and copies its parts when it is called.
void PmixServer::notify_lost(int rank) {
  const pmix::Proc proc = proc_of(nodes_.name, rank);
  std::vector<pmix::Info> infos;
  library_->add(infos, "pmix.evproc", &proc, pmix::Type::proc);
  wait_for([&](pmix::Done done, void* data) {
    return library_->notify_event(pmix::kProcAborted, &proc, pmix::Range::of_namespace,
                                  infos.data(), infos.size(), done, data);
  });
}

/// Runs in a thread of libpmix.
void PmixServer::tell(MpiNews news, std::uint32_t rank) {
  news.local_rank = static_cast<int>(rank) - layout_.first_rank;
  if (news.local_rank < 0 || news.local_rank >= layout_.local_size) return;
  boost::asio::post(executor_, [this, news = std::move(news)] { hooks_.news(news); });
}

/// Likewise.
pmix::Status PmixServer::refuse(Unserved part, std::uint32_t rank) {
  tell(refusal_of(part, static_cast<int>(rank) - layout_.first_rank, layout_), rank);
  return pmix::kNotSupported;
}

void PmixServer::on_fence(const std::set<int>& ranks, std::string own, Exchanged exchanged) {
  hooks_.exchange("pmix/" + name_of(ranks), nodes_of(ranks), std::move(own), std::move(exchanged));
}

/// Stands for these ranks; for all, if there are none.
std::string PmixServer::name_of(const std::set<int>& ranks) {
  return ranks.empty() ? "all" : sha256(compress_ranks({ranks.begin(), ranks.end()}, ranks.size()));
}

/// The nodes of these ranks; of all, if there are none.
std::vector<int> PmixServer::nodes_of(const std::set<int>& ranks) const {
  std::vector<int> nodes;
  int first = 0;
  for (int node = 0; node < layout_.node_count; ++node) {
    const int end = first + nodes_.local_sizes[static_cast<size_t>(node)];
    const auto some = ranks.lower_bound(first);
    if (ranks.empty() || (some != ranks.end() && *some < end)) nodes.push_back(node);
    first = end;
  }
  return nodes;
}

/// Groups of one name may have different ranks: each node counts the exchanges of its own alone.
void PmixServer::on_group(const std::string& name, const std::vector<pmix::Proc>& members,
                          std::string own, pmix::InfoDone done, void* data) {
  const std::set<int> ranks = Callbacks::ranks_of(members.data(), members.size());
  hooks_.exchange(std::string(kGroups) + sha256(name) + '/' + name_of(ranks), nodes_of(ranks),
                  std::move(own), [=, this](const std::string& all, std::int64_t number) {
                    answer_group(members, all, number, done, data);
                  });
}

/// The number becomes the communicator's; no other one of these ranks has it.
void PmixServer::answer_group(const std::vector<pmix::Proc>& members, const std::string& all,
                              std::int64_t number, pmix::InfoDone done, void* data) const {
  auto* infos = new std::vector<pmix::Info>;
  const pmix::Array array{pmix::Type::proc, members.size(), members.data()};
  library_->add(*infos, "pmix.grp.mbrs", &array, pmix::Type::array);
  const auto context = static_cast<std::size_t>(number);
  library_->add(*infos, "pmix.grp.ctxid", &context, pmix::Type::size);
  const pmix::ByteObject bytes{all.data(), all.size()};
  if (!all.empty()) library_->add(*infos, kGroupData, &bytes, pmix::Type::byte_object);
  done(
      pmix::kSuccess, infos->data(), infos->size(), data,
      [](void* kept) { delete static_cast<std::vector<pmix::Info>*>(kept); }, infos);
}

}  // namespace ddprun::agent

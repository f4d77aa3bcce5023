// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/port_owner.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "base/file_text.h"
#include "base/text.h"
#include "store/owner_lookup.h"
#include "store/socket_owner.h"

namespace ddprun::rendezvous {
namespace {

namespace fs = std::filesystem;

/// The inode of the socket that listens there, or at every address; 0: unknown.
std::uint64_t listening_inode(const Resolver::Addresses& addresses) {
  const std::string table = file_text("/proc/net/tcp") + file_text("/proc/net/tcp6");
  for (const auto& address : addresses) {
    for (const std::string& where :
         {store::address_text(address.address()), std::string("0.0.0.0"), std::string("::")}) {
      const std::string nowhere = where.find(':') == where.npos ? "0.0.0.0" : "::";
      const auto found = store::find_in_table(table, {where, address.port(), nowhere, 0});
      if (!found.empty() && found.front().inode != 0) return found.front().inode;
    }
  }
  return 0;
}

bool has_open(const fs::path& process, const std::string& link) {
  std::error_code refused;
  for (auto file = fs::directory_iterator(process / "fd", refused);
       !refused && file != fs::directory_iterator(); file.increment(refused)) {
    std::error_code gone;
    if (fs::read_symlink(file->path(), gone) == link) return true;
  }
  return false;
}

/// The process that has this socket; empty: it is another user's, or has closed the socket.
std::string process_with(std::uint64_t inode) {
  const std::string link = "socket:[" + std::to_string(inode) + "]";
  std::error_code refused;
  for (auto process = fs::directory_iterator("/proc", refused);
       !refused && process != fs::directory_iterator(); process.increment(refused)) {
    const std::string pid = process->path().filename();
    if (pid.find_first_not_of("0123456789") == pid.npos && has_open(process->path(), link)) {
      return pid;
    }
  }
  return "";
}

}  // namespace

std::string socket_owner(std::uint64_t inode) {
  const std::string pid = inode == 0 ? "" : process_with(inode);
  if (pid.empty()) return "another process of this host";
  std::string name = file_text("/proc/" + pid + "/comm");
  name.resize(name.find_last_not_of('\n') + 1);
  if (name == "ddprun" || name == "ddp-agent")
    return "another ddprun of this host (pid " + pid + ")";
  return "another program of this host, " + printable(name) + " (pid " + pid + "),";
}

std::string port_owner(const Resolver::Addresses& addresses) {
  return socket_owner(listening_inode(addresses));
}

}  // namespace ddprun::rendezvous

// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/access/store_admission_queue.h"

#include <utility>

#include "base/log.h"
#include "rendezvous/net/addresses.h"
#include "rendezvous/net/stream_socket.h"

namespace ddprun::rendezvous {
namespace {

namespace asio = boost::asio;
using store::ends_of;

/// Whether `ends` are from this host. Looks that up only if entry() needs to know it.
bool is_from_here(StoreAccess access, const SocketEnds& ends, SocketOwner::Kind owner) {
  const bool is_known = owner != SocketOwner::Kind::none && owner != SocketOwner::Kind::unknown;
  const bool is_asked = owner == SocketOwner::Kind::none && access == StoreAccess::nodes_only;
  if (is_known || is_asked) return false;
  boost::system::error_code wrong;
  const auto address = asio::ip::make_address(ends.from, wrong);
  return !wrong && (ends.from == ends.to || is_own_address(address));
}

std::string refused_text(const SocketEnds& ends) {
  return "store: refused " + ends.from + " port " + std::to_string(ends.from_port) + ": ";
}

/// The look-up shows the current owner of the other end. If the connection was closed since, its
/// port may have passed from another user to this job's.
bool may_have_changed_hands(StoreAdmissionQueue::Socket& socket) {
  return has_hung_up(socket);
}

}  // namespace

StoreAdmissionQueue::StoreAdmissionQueue(asio::any_io_executor executor, StoreAccess access,
                                         BootClock::duration return_limit, Hooks hooks)
    : access_(access),
      hooks_(std::move(hooks)),
      admission_(return_limit),
      owners_(executor),
      timer_(executor, [this] { perform(admission_.tick(BootClock::now())); }),
      log_(executor) {}

bool StoreAdmissionQueue::turns_away(Socket& socket) {
  if (access_ != StoreAccess::own_user) return false;
  const SocketEnds ends = ends_of(socket);
  const auto owner = owners_.at_once(ends);
  if (!owner) is_undecided_ = true;
  if (!owner) return false;
  if (entry(access_, is_from_here(access_, ends, owner->kind), owner->kind) == Entry::refuse) {
    log_refusal(ends, *owner);
    return true;
  }
  return owner->kind == SocketOwner::Kind::ours && may_have_changed_hands(socket);
}

void StoreAdmissionQueue::arrived(Socket socket, std::string_view received,
                                  store::ConnectionSlot slot) {
  const bool judged = access_ == StoreAccess::own_user && owners_.tells_at_once() && !is_undecided_;
  if (access_ == StoreAccess::everyone || judged) {  // turns_away() has judged it
    return hooks_.admit(std::move(socket), received, std::move(slot));
  }
  const StoreAdmission::Number number = ++last_;
  const SocketEnds ends = ends_of(socket);
  Visitor& visitor = visitors_
                         .try_emplace(number, Visitor{std::move(socket), ends, std::move(slot),
                                                      std::string(received)})
                         .first->second;
  visitor.slot.on_eviction([this, number] {
    admission_.left(number);
    visitors_.erase(number);
  });
  owners_.look_up({ends}, [this, number](const auto& owners) { judge(number, owners.front()); });
}

void StoreAdmissionQueue::judge(StoreAdmission::Number number, const SocketOwner& owner) {
  const auto visitor = visitors_.find(number);
  if (visitor == visitors_.end()) return;
  const SocketEnds& ends = visitor->second.ends;
  switch (entry(access_, is_from_here(access_, ends, owner.kind), owner.kind)) {
    case Entry::admit:
      return perform(StoreAdmission::Admit{number});
    case Entry::refuse:
      log_refusal(ends, owner);
      visitors_.erase(visitor);
      return;
    case Entry::ask:
      perform(admission_.arrived(number, ends));
  }
}

void StoreAdmissionQueue::line_opened(ConnectionId line, std::string address,
                                      const std::vector<std::string>& others) {
  if (access_ != StoreAccess::nodes_only) return;
  perform(admission_.line_opened(line, std::move(address), others));
}

void StoreAdmissionQueue::line_closed(ConnectionId line) {
  perform(admission_.line_closed(line, BootClock::now()));
}

void StoreAdmissionQueue::answered(ConnectionId line, const std::vector<bool>& ours) {
  perform(admission_.answered(line, ours));
}

void StoreAdmissionQueue::clear() {
  admission_.clear();
  visitors_.clear();
}

void StoreAdmissionQueue::perform(const StoreAdmission::Actions& actions) {
  for (const StoreAdmission::Action& action : actions) {
    std::visit([this](const auto& a) { perform(a); }, action);
  }
  timer_.set(admission_.deadline());
}

void StoreAdmissionQueue::perform(const StoreAdmission::Admit& admit) {
  auto visitor = visitors_.extract(admit.connection);
  auto& [socket, ends, slot, received] = visitor.mapped();
  if (may_have_changed_hands(socket)) return;
  hooks_.admit(std::move(socket), received, std::move(slot));
}

void StoreAdmissionQueue::perform(const StoreAdmission::Refuse& refuse) {
  const auto visitor = visitors_.find(refuse.connection);
  log_.warning(refused_text(visitor->second.ends) + refuse.reason);
  visitors_.erase(visitor);
}

/// Logs a client that has already disconnected only for debugging.
void StoreAdmissionQueue::log_refusal(const SocketEnds& ends, const SocketOwner& owner) {
  if (owner.kind == SocketOwner::Kind::foreign) {
    return log_.warning(refused_text(ends) + "it belongs to user " + std::to_string(owner.uid) +
                        ", and only this job's user may use the store");
  }
  log::debug(refused_text(ends) + "it is closed at the other end");
}

}  // namespace ddprun::rendezvous

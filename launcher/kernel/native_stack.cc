// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/native_stack.h"

#include <algorithm>
#include <chrono>
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "launcher/kernel/stopped_thread.h"

namespace ddprun::launcher {
namespace {

constexpr size_t kMostCalls = 200;  // a recursion may have more
constexpr std::chrono::milliseconds kTimeToStop{500};

std::string name_of_file(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

/// The length of the text at the start of `name` whose brackets belong to a name; 0: no such text.
size_t unit_at(std::string_view name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  constexpr std::string_view kOperator = "operator";
  if (name.starts_with(kAnonymous)) return kAnonymous.size();
  if (!name.starts_with(kOperator)) return 0;
  const std::string_view sign = name.substr(kOperator.size());
  if (sign.starts_with("()")) return kOperator.size() + 2;
  return kOperator.size() + std::min(sign.find_first_not_of("<>=-"), sign.size());
}

std::string name_of_function(const char* symbol) {
  return symbol == nullptr ? "" : short_function_name(demangled(symbol));
}

struct Address {
  Dwarf_Addr at;
  bool is_next;  // for a caller: the instruction after its call
};

}  // namespace

/// The functions of libdw that we need; reads one process at a time.
class NativeStacks::Library {
 public:
  static Result<std::unique_ptr<Library>> load(const std::string& name) {
    auto library = std::make_unique<Library>();
    // Stays loaded: threads keep data of libdw and libelf, which a leak checker reads later.
    library->handle_.reset(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
    if (!library->handle_) {
      return Error{Errc::usage, "calls of C and C++ need the library " + name +
                                    ", which is not installed: install libdw1 (Debian, Ubuntu) "
                                    "or elfutils-libs (Fedora, RHEL)"};
    }
    if (!library->resolve()) return Error{Errc::system, name + " is not the libdw of elfutils"};
    return library;
  }

  Result<std::vector<NativeCall>> read(pid_t pid) {
    const Dwfl_Callbacks callbacks = {find_elf_, find_debuginfo_, nullptr, nullptr};
    const Session session(begin_(&callbacks), end_);
    if (!session || report_(session.get(), pid) != 0 ||
        report_end_(session.get(), nullptr, nullptr) != 0 ||
        attach_(session.get(), pid, /*assume_ptrace_stopped=*/true) != 0) {
      return unreadable(pid);
    }
    Result<std::vector<Address>> addresses = addresses_of(session.get(), pid);
    if (!addresses) return addresses.error();
    std::vector<NativeCall> calls;
    for (const Address& address : *addresses) calls.push_back(call(session.get(), address));
    return calls;
  }

 private:
  struct Close {
    void operator()(void* handle) const { dlclose(handle); }
  };
  using Session = std::unique_ptr<Dwfl, decltype(&dwfl_end)>;

  struct Walk {
    const Library& library;
    std::vector<Address> addresses = {};
  };

  template <class Function>
  bool find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle_.get(), name));
    return function != nullptr;
  }

  bool resolve() {
    return find("dwfl_begin", begin_) && find("dwfl_end", end_) && find("dwfl_errmsg", message_) &&
           find("dwfl_linux_proc_report", report_) && find("dwfl_report_end", report_end_) &&
           find("dwfl_linux_proc_attach", attach_) && find("dwfl_getthread_frames", frames_) &&
           find("dwfl_frame_pc", pc_) && find("dwfl_addrmodule", module_) &&
           find("dwfl_module_info", module_info_) && find("dwfl_module_addrname", symbol_) &&
           find("dwfl_module_getsrc", source_) && find("dwfl_lineinfo", line_) &&
           find("dwfl_linux_proc_find_elf", find_elf_) &&
           find("dwfl_standard_find_debuginfo", find_debuginfo_);
  }

  Error unreadable(pid_t pid) const {
    return {Errc::system,
            "cannot read the stack of process " + std::to_string(pid) + ": " + message_(-1)};
  }

  static int on_frame(Dwfl_Frame* frame, void* walk) {
    auto& [library, addresses] = *static_cast<Walk*>(walk);
    Dwarf_Addr pc = 0;
    bool is_exact = false;
    if (!library.pc_(frame, &pc, &is_exact)) return DWARF_CB_ABORT;
    addresses.push_back({pc, !is_exact});
    return addresses.size() < kMostCalls ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  /// Stops the process only for this. A stack that ends too soon is returned, too.
  Result<std::vector<Address>> addresses_of(Dwfl* session, pid_t pid) const {
    const Result<StoppedThread> stopped = StoppedThread::stop(pid, kTimeToStop);
    if (!stopped) return stopped.error();
    Walk walk{*this};
    frames_(session, pid, on_frame, &walk);
    if (walk.addresses.empty()) return unreadable(pid);
    return std::move(walk.addresses);
  }

  /// Looks calls up once: most processes are at the same places, and names come from large files.
  const NativeCall& call(Dwfl* session, const Address& address) {
    const Dwarf_Addr at = address.is_next ? address.at - 1 : address.at;
    Dwfl_Module* const module = module_(session, at);
    if (module == nullptr) return known_calls_[{}];
    Dwarf_Addr begin = 0;
    const char* const file =
        module_info_(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
    const std::string library = file == nullptr ? "" : file;
    const auto [known, is_new] = known_calls_.try_emplace({library, at - begin});
    if (is_new) known->second = look_up(module, at, library);
    return known->second;
  }

  NativeCall look_up(Dwfl_Module* module, Dwarf_Addr at, const std::string& library) const {
    NativeCall call = {name_of_function(symbol_(module, at)), name_of_file(library)};
    int line = 0;
    Dwfl_Line* const source = source_(module, at);
    const char* const file =
        source == nullptr ? nullptr : line_(source, nullptr, &line, nullptr, nullptr, nullptr);
    if (file != nullptr) call.where = name_of_file(file) + ":" + std::to_string(line);
    call.is_own = file != nullptr && library.starts_with('/') && !library.starts_with("/lib") &&
                  !library.starts_with("/usr/lib");
    return call;
  }

  std::map<std::pair<std::string, Dwarf_Addr>, NativeCall> known_calls_;  // by file and offset
  std::unique_ptr<void, Close> handle_;
  decltype(&dwfl_begin) begin_ = nullptr;
  decltype(&dwfl_end) end_ = nullptr;
  decltype(&dwfl_errmsg) message_ = nullptr;
  decltype(&dwfl_linux_proc_report) report_ = nullptr;
  decltype(&dwfl_report_end) report_end_ = nullptr;
  decltype(&dwfl_linux_proc_attach) attach_ = nullptr;
  decltype(&dwfl_getthread_frames) frames_ = nullptr;
  decltype(&dwfl_frame_pc) pc_ = nullptr;
  decltype(&dwfl_addrmodule) module_ = nullptr;
  decltype(&dwfl_module_info) module_info_ = nullptr;
  decltype(&dwfl_module_addrname) symbol_ = nullptr;
  decltype(&dwfl_module_getsrc) source_ = nullptr;
  decltype(&dwfl_lineinfo) line_ = nullptr;
  decltype(&dwfl_linux_proc_find_elf) find_elf_ = nullptr;
  decltype(&dwfl_standard_find_debuginfo) find_debuginfo_ = nullptr;
};

std::string short_function_name(std::string_view name) {
  std::string kept;
  int depth = 0;
  while (!name.empty()) {
    const size_t whole = depth == 0 ? unit_at(name) : 0;
    if (whole == 0 && (name.front() == '<' || name.front() == '(')) ++depth;
    if (depth == 0) kept += name.substr(0, std::max<size_t>(whole, 1));
    if (whole == 0 && depth > 0 && (name.front() == '>' || name.front() == ')')) --depth;
    name.remove_prefix(std::max<size_t>(whole, 1));
  }
  constexpr std::string_view kConst = " const";
  if (kept.ends_with(kConst)) kept.resize(kept.size() - kConst.size());
  return kept;
}

NativeStacks::NativeStacks(std::unique_ptr<Library> library) : library_(std::move(library)) {}
NativeStacks::NativeStacks(NativeStacks&&) noexcept = default;
NativeStacks::~NativeStacks() = default;

Result<NativeStacks> NativeStacks::load(const std::string& library) {
  Result<std::unique_ptr<Library>> loaded = Library::load(library);
  if (!loaded) return loaded.error();
  return NativeStacks(std::move(*loaded));
}

Result<std::vector<NativeCall>> NativeStacks::read(pid_t pid) {
  return library_->read(pid);
}

}  // namespace ddprun::launcher

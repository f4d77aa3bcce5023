// SPDX-License-Identifier: Apache-2.0
// Stores in the C interface.
#include <chrono>

#include "collectives/c/handles.h"
#include "ddp/file_store.h"
#include "ddp/tcp_store.h"

using namespace ddp::c;
using std::chrono::milliseconds;

namespace {

ddp::Store::Timeout timeout_of(int64_t timeout_ms) {
  return timeout_ms < 0 ? ddp::Store::Timeout() : milliseconds(timeout_ms);
}

template <class Options>
Options options_of(int world_size, int64_t timeout_ms) {
  Options options;
  if (world_size != 0) options.world_size = world_size;
  if (timeout_ms != 0) options.timeout = milliseconds(timeout_ms);
  return options;
}

/// Stores what `make` returns in a new handle.
template <class Make>
ddp_error* make_store(ddp_store** store, Make make) {
  return guarded(kNoRank, [&] { need(store, "the result") = new_handle<ddp_store>(make()); });
}

/// Calls `use` with the store.
template <class Use>
ddp_error* with(const ddp_store* store, Use use) {
  return guarded(kNoRank, [&] { use(*need(store, "the store").store); });
}

std::string_view key_of(const char* key) {
  return &need(key, "the key");
}

}  // namespace

ddp_error* ddp_tcp_store(const char* host, uint16_t port, int is_master, int world_size,
                         int64_t timeout_ms, ddp_store** store) {
  return make_store(store, [&] {
    auto options = options_of<ddp::TcpStoreOptions>(world_size, timeout_ms);
    options.is_master = is_master != 0;
    return std::make_shared<ddp::TcpStore>(&need(host, "the host"), port, options);
  });
}

ddp_error* ddp_file_store(const char* path, int world_size, int64_t timeout_ms, ddp_store** store) {
  return make_store(store, [&] {
    const auto options = options_of<ddp::FileStoreOptions>(world_size, timeout_ms);
    return std::make_shared<ddp::FileStore>(&need(path, "the path"), options);
  });
}

ddp_error* ddp_hash_store(ddp_store** store) {
  return make_store(store, [] { return std::make_shared<ddp::HashStore>(); });
}

ddp_error* ddp_prefix_store(const char* prefix, const ddp_store* underlying, ddp_store** store) {
  return make_store(store, [&] {
    return std::make_shared<ddp::PrefixStore>(&need(prefix, "the prefix"),
                                              need(underlying, "the store").store);
  });
}

void ddp_store_free(ddp_store* store) {
  delete store;
}

ddp_error* ddp_store_set(ddp_store* store, const char* key, const ddp_bytes* value) {
  return with(store, [&](auto& s) { s.set(key_of(key), view_of(value, "value")); });
}

ddp_error* ddp_store_get(ddp_store* store, const char* key, int64_t timeout_ms, ddp_list** value) {
  return with(store, [&](auto& s) {
    need(value, "the result") = make_list(s.get(key_of(key), timeout_of(timeout_ms)));
  });
}

ddp_error* ddp_store_add(ddp_store* store, const char* key, int64_t amount, int64_t* sum) {
  return with(store, [&](auto& s) { need(sum, "the result") = s.add(key_of(key), amount); });
}

ddp_error* ddp_store_wait(ddp_store* store, const ddp_list* keys, int64_t timeout_ms) {
  return with(store, [&](auto& s) { s.wait(strings_of(keys, "keys"), timeout_of(timeout_ms)); });
}

ddp_error* ddp_store_check(ddp_store* store, const ddp_list* keys, int* exist) {
  return with(store, [&](auto& s) {
    need(exist, "the result") = s.check(strings_of(keys, "keys")) ? 1 : 0;
  });
}

ddp_error* ddp_store_compare_set(ddp_store* store, const char* key, const ddp_bytes* expected,
                                 const ddp_bytes* desired, ddp_list** value) {
  return with(store, [&](auto& s) {
    need(value, "the result") = make_list(
        s.compare_set(key_of(key), view_of(expected, "expected"), view_of(desired, "desired")));
  });
}

ddp_error* ddp_store_delete_key(ddp_store* store, const char* key, int* existed) {
  return with(store,
              [&](auto& s) { need(existed, "the result") = s.delete_key(key_of(key)) ? 1 : 0; });
}

ddp_error* ddp_store_num_keys(ddp_store* store, int64_t* count) {
  return with(store, [&](auto& s) { need(count, "the result") = s.num_keys(); });
}

ddp_error* ddp_store_append(ddp_store* store, const char* key, const ddp_bytes* suffix) {
  return with(store, [&](auto& s) { s.append(key_of(key), view_of(suffix, "suffix")); });
}

ddp_error* ddp_store_multi_get(ddp_store* store, const ddp_list* keys, int64_t timeout_ms,
                               ddp_list** values) {
  return with(store, [&](auto& s) {
    need(values, "the result") =
        make_list(s.multi_get(strings_of(keys, "keys"), timeout_of(timeout_ms)));
  });
}

ddp_error* ddp_store_multi_set(ddp_store* store, const ddp_list* keys, const ddp_list* values) {
  return with(store, [&](auto& s) {
    const auto names = strings_of(keys, "keys");
    const auto contents = strings_of(values, "values");
    if (names.size() != contents.size()) {
      refuse("multi_set of " + std::to_string(names.size()) + " keys and " +
             std::to_string(contents.size()) + " values");
    }
    std::vector<std::pair<std::string, std::string>> entries;
    for (std::size_t i = 0; i < names.size(); ++i) entries.emplace_back(names[i], contents[i]);
    s.multi_set(entries);
  });
}

int64_t ddp_store_timeout(const ddp_store* store) {
  return store->store->timeout().count();
}

ddp_error* ddp_store_set_timeout(ddp_store* store, int64_t timeout_ms) {
  return with(store, [&](auto& s) { s.set_timeout(milliseconds(timeout_ms)); });
}

ddp_error* ddp_store_name(const ddp_store* store, ddp_list** name) {
  return with(store, [&](auto& s) { need(name, "the result") = make_list(s.name()); });
}

uint16_t ddp_store_port(const ddp_store* store) {
  const auto* tcp = dynamic_cast<const ddp::TcpStore*>(store->store.get());
  return tcp == nullptr ? 0 : tcp->port();
}

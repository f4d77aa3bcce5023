// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/collect.h"

#include <utility>

namespace ddprun::doctor {

Result<std::vector<std::optional<std::string>>> collect(store::Client& store,
                                                        const std::vector<std::string>& keys,
                                                        std::chrono::milliseconds limit) {
  const Result<> waited = store.wait(keys, limit);
  if (!waited && store.lost()) return waited.error();
  std::vector<std::optional<std::string>> values;
  for (const std::string& key : keys) {
    const Result<bool> is_there = waited ? Result<bool>(true) : store.check({key});
    if (!is_there) return is_there.error();
    if (!*is_there) {
      values.emplace_back();
      continue;
    }
    Result<std::vector<std::string>> value = store.multi_get({key});  // it waits for no key
    if (!value) return value.error();
    values.emplace_back(std::move(value->front()));
  }
  return values;
}

}  // namespace ddprun::doctor

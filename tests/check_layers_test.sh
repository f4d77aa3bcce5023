#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/check/layers.py accepts a tree that keeps to the rules and names each line that breaks one.
set -euo pipefail
check=$(dirname "${BASH_SOURCE[0]}")/../scripts/check/layers.py
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

write() {  # write FILE LINE: a source file with that one line
  mkdir -p "$tree/$(dirname "$1")"
  echo "$2" >"$tree/$1"
}

refuses() {  # refuses FILE LINE SENTENCE: with that file the check fails and prints SENTENCE
  write "$1" "$2"
  local said code=0
  said=$("$check" "$tree") || code=$?
  if [ "$code" != 1 ] || [[ $said != *"$3"* ]]; then
    echo "$1 with '$2': exit $code, said: $said"
    exit 1
  fi
  rm "$tree/$1"
}

write base/async.h '#include <boost/asio/awaitable.hpp>'
write base/log.cc '#include <spdlog/spdlog.h>'
write base/text.h '// Pure.'
write launcher/process/worker.h '#include <boost/asio/awaitable.hpp>'
write launcher/process/worker.cc '#include <boost/process/v2/process.hpp>'
write launcher/output/output.h '#include "launcher/process/worker.h"'
write agent/agent.h '#include "launcher/process/worker.h"'
write agent/job/machine.h '/// Decides. Pure: no clock.'
write cli/options.cc '#include <CLI/CLI.hpp>'
write collectives/include/ddp/group.h '#include <vector>'
write collectives/errors.h '#include "ddp/group.h"'
write collectives/call/task.h '#include "collectives/errors.h"'
write collectives/backends/mpi/device.h '#include "collectives/backends/cuda/device.h"'
write collectives/group/group.cc '#include "ddp/group.h"'
write examples/digits/data.cc '#include "examples/arguments.h"'
"$check" "$tree" >/dev/null

# Rooms.
refuses launcher/process/a.cc '#include "rendezvous/node.h"' 'launcher/process/a.cc: launcher/process may not include'
refuses launcher/kernel/a.cc '#include "launcher/output/output.h"' 'launcher/kernel may not include'
refuses store/a.cc '#include "rendezvous/node.h"' 'store may not include'
refuses base/a.h '#include "agent/job/machine.h"' 'base/a.h: base may not include'
refuses agent/a.h '#include "tests/must.h"' 'agent may not include'
refuses agent/web/a.cc '#include "launcher/process/worker.h"' 'agent/web may not include'
refuses agent/job/a.cc '#include "store/store.h"' 'agent/job may not include'
refuses cli/doctor/a.cc '#include "launcher/output/output.h"' 'cli/doctor may not include'
refuses examples/a.cc '#include "base/fd.h"' 'examples may not include'
refuses base/more/a.h '#include <vector>' 'base/more has no place'

# Aggregates.
refuses base/a.cc 'Line line(Line::Hooks{lost});' 'fills an aggregate by position'
refuses base/a.cc '  return {[this] { on_lost(); }};' 'fills an aggregate by position'
write base/hooks.cc '  return {.lost = [this] { on_lost(); }};'

# Rooms of collectives.
refuses collectives/group/a.cc '#include "agent/agent.h"' 'collectives/group may not include'
refuses collectives/include/ddp/a.h '#include "base/fd.h"' 'collectives/include/ddp may not include'
refuses collectives/a.cc '#include "collectives/call/task.h"' 'collectives may not include'
refuses collectives/call/a.cc '#include "collectives/stores/a.h"' 'collectives/call may not include'
refuses collectives/backends/a.cc '#include "collectives/backends/mpi/device.h"' \
  'collectives/backends may not include'
refuses collectives/backends/nccl/a.cc '#include "collectives/backends/mpi/device.h"' \
  'collectives/backends/nccl may not include'
refuses collectives/backends/cpu/a.cc '#include "collectives/backends/cuda/device.h"' \
  'collectives/backends/cpu may not include'
refuses collectives/failure/a.cc '#include "collectives/group/a.h"' 'collectives/failure may not include'

# Circles of units: also through the .cc of a public header.
write base/a.h '#include <vector>'
write base/b.h '#include "base/a.h"'
refuses base/a.cc '#include "base/b.h"' 'a circle of includes: base/a base/b'
write collectives/group/other.h '#include "ddp/group.h"'
refuses collectives/group/group.cc '#include "collectives/group/other.h"' \
  'a circle of includes: collectives/group/group collectives/group/other'

# Third-party headers.
refuses agent/a.cc '  #  include <nlohmann/json.hpp>' '<nlohmann/json.hpp> belongs in'
refuses cli/main.cc '#include <CLI/CLI.hpp>' '<CLI/CLI.hpp> belongs in'

# JSON.
refuses agent/a.cc '  const auto json = nlohmann::json::parse(text);' 'agent/a.cc: parses JSON'

# Pure units.
refuses agent/job/machine.cc '#include <boost/asio/post.hpp>' 'agent/job/machine.cc: claims to be pure'
refuses agent/job/machine.cc '#include "agent/agent.h"' \
  'agent/agent.h includes launcher/process/worker.h includes boost/asio'
refuses base/text.cc '#include <unistd.h>' 'claims to be pure, but includes <unistd.h>'
refuses base/text.cc '#include <sys/socket.h>' 'claims to be pure, but includes <sys/socket.h>'
refuses base/text.cc 'auto now() { return std::chrono::steady_clock::now(); }' \
  'claims to be pure, but calls clock::now()'

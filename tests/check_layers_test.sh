#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-layers.py accepts a tree that keeps to the rules and names each line that breaks one.
set -euo pipefail
check=$(dirname "${BASH_SOURCE[0]}")/../scripts/check-layers.py
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

write() {  # write FILE LINE: a source file with that one line
  mkdir -p "$tree/$(dirname "$1")"
  echo "$2" >"$tree/$1"
}

refuses() {  # refuses FILE LINE SENTENCE: adding that file is an error that says SENTENCE
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
write launcher/worker.h '#include <boost/process/v2/process.hpp>'
write agent/agent.h '#include "launcher/worker.h"'
write cli/options.cc '#include <CLI/CLI.hpp>'
write collectives/include/ddp/group.h '#include <vector>'
write collectives/group.cc '#include "ddp/group.h"'
"$check" "$tree" >/dev/null

refuses launcher/a.cc '#include "rendezvous/round.h"' 'launcher/a.cc: launcher may not include'
refuses base/a.h '#include "agent/machine.h"' 'base/a.h: base may not include'
refuses collectives/a.cc '#include "agent/agent.h"' 'collectives may not include'
refuses collectives/include/ddp/a.h '#include "base/fd.h"' 'collectives/include may not include'
refuses examples/a.cc '#include "base/fd.h"' 'examples may not include'
refuses agent/a.cc '  #  include <nlohmann/json.hpp>' '<nlohmann/json.hpp> belongs in'
refuses cli/main.cc '#include <CLI/CLI.hpp>' '<CLI/CLI.hpp> belongs in'
refuses agent/machine.h '#include <boost/asio/post.hpp>' 'agent/machine.h: is to be pure'
refuses agent/machine.cc '#include "agent/agent.h"' \
  'agent/agent.h includes launcher/worker.h includes boost/process'

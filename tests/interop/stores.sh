#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddp::TcpStore and PyTorch's TCPStore work as server and client of each other.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
peer=$DDPRUN_BIN/store_peer

exchange() {  # exchange DDP'S_ROLE PYTORCH'S_ROLE
  local port ddp
  port=$(free_port)
  env "$mark" timeout "$deadline" "$peer" "$1" "$port" >"$work/ddp" 2>&1 &
  ddp=$!
  env "$mark" timeout "$deadline" "$python" "$interop/stores.py" "$2" "$port" >"$out" 2>"$err" ||
    fail "$1, $2: PyTorch failed: $(cat "$work/ddp")"
  wait "$ddp" || fail "$1, $2: ddp failed: $(cat "$work/ddp")"
  expect_stdout 'pytorch passed'
}

exchange master client
exchange client master
expect_no_process_left

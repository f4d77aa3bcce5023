#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An etcd that answers only at first: a node that is told to leave asks it to end its lease, and does
# not report a wait of a master, which it is not, while there is no answer to that.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip 'there is no python3'
python3 - "$here" "$work/port" >"$work/requests" <<'PROGRAM' &
import http.server, os, sys, threading

class Etcd(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        print(self.path, flush=True)
        if b'request_put' in body or self.path == '/v3/lease/revoke':
            threading.Event().wait()
        answer = b'{"header":{},"ID":"7","TTL":"60"}'
        self.send_response(200)
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer((sys.argv[1], 0), Etcd)
with open(sys.argv[2] + '.new', 'w') as file:
    file.write(str(server.server_port))
os.rename(sys.argv[2] + '.new', sys.argv[2])
server.serve_forever()
PROGRAM
etcd=$!
end_etcd() {
  kill -KILL "$etcd" 2>/dev/null || return 0
  wait "$etcd" 2>/dev/null || true
}
at_exit+=(end_etcd)
until [ -e "$work/port" ]; do
  if ! kill -0 "$etcd" || [ $SECONDS -ge "$deadline" ]; then fail 'what stands for etcd does not start'; fi
  sleep 0.05
done

# It waits for the last answer for a tenth of three leases, beyond the first report of a wait.
start --rdzv_backend etcd --rdzv_endpoint "$here:$(<"$work/port")" --rdzv_id x --lease 17 true
makes_key() { [ "$(grep -c /v3/kv/txn "$work/requests")" -ge 2 ]; }
wait_until makes_key
kill -TERM "$ddprun"
finish
expect_exit 143
grep -q /v3/lease/revoke "$work/requests" || fail "it kept its lease: $(<"$work/requests")"
end_etcd
expect_no_process_left

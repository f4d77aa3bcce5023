#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node that gets the order to leave, seen by a server that stands for etcd. If the node is not the master, as the
# request for its key got no answer, it ends its lease in etcd, and does not report that it waits for a master while
# that has no answer. A master serves no node any more when it ends its lease: else it would renew leases of nodes while
# its successor waits for their end.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip 'there is no python3'
cat >"$work/etcd.py" <<'PROGRAM'
import base64, http.server, json, os, socket, sys, threading

address, folder, mode = sys.argv[1:]
keys = {}

def is_served(place):
    with socket.socket() as connection:
        return connection.connect_ex((place['host'], place['port'])) == 0

def transaction(request):
    writes = [each['request_put'] for each in request['success'] if 'request_put' in each]
    if writes and mode == 'silent':
        threading.Event().wait()
    keys.update({write['key']: write['value'] for write in writes})
    return {'header': {'revision': '5'}, 'succeeded': True,
            'responses': [response(each) for each in request['success']]}

def response(part):
    if 'request_put' in part:
        return {'response_put': {}}
    key = part['request_range']['key']
    found = {'key': key, 'value': keys.get(key), 'lease': '7', 'create_revision': '5', 'mod_revision': '5'}
    return {'response_range': {'kvs': [found] if key in keys else []}}

class Etcd(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        print(self.path, flush=True)
        answer = {'header': {}, 'ID': '7', 'TTL': '60', 'result': {'TTL': '60'}}
        if self.path == '/v3/kv/txn':
            answer = transaction(request)
        elif self.path == '/v3/lease/revoke':
            if mode == 'silent':
                threading.Event().wait()
            master = [json.loads(base64.b64decode(value)) for value in keys.values()][0]
            print('served' if is_served(master) else 'not served', flush=True)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer((address, 0), Etcd)
with open(folder + '/port.new', 'w') as file:
    file.write(str(server.server_port))
os.rename(folder + '/port.new', folder + '/port')
server.serve_forever()
PROGRAM

etcd=''
start_fake() {  # start_fake MODE: writes what it is asked to $work/requests; its port is $port
  rm -f "$work/port"
  python3 "$work/etcd.py" "$here" "$work" "$1" >"$work/requests" &
  etcd=$!
  until [ -e "$work/port" ]; do
    if ! kill -0 "$etcd" || [ $SECONDS -ge "$deadline" ]; then fail 'what stands for etcd does not start'; fi
    sleep 0.05
  done
  port=$(<"$work/port")
}
end_etcd() {
  [ -n "$etcd" ] && kill -KILL "$etcd" 2>/dev/null || return 0
  wait "$etcd" 2>/dev/null || true
}
at_exit+=(end_etcd)
requests() { grep -c "$1" "$work/requests"; }
job() { start --rdzv_backend etcd --rdzv_endpoint "$here:$port" --rdzv_id x --lease 17 "$@"; }

start_fake silent
# It waits for the last answer for a tenth of three leases, beyond the first report of a wait.
job true
makes_key() { [ "$(requests /v3/kv/txn)" -ge 2 ]; }
wait_until makes_key
kill -TERM "$ddprun"
finish
expect_exit 143
[ "$(requests /v3/lease/revoke)" -ge 1 ] || fail "it kept its lease: $(<"$work/requests")"
end_etcd

start_fake answering
mkfifo "$work/fifo"
job sh -c 'read -r line <>"$0"' "$work/fifo"
wait_for_event worker_started
kill -TERM "$ddprun"
finish
expect_exit 143
[ "$(requests '^not served')" = 1 ] || fail "when it ended its lease: $(tail -n 1 "$work/requests")"
end_etcd
expect_no_process_left

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TLS to etcd, with certificates on both sides: a job runs, and each fault of a certificate, a file or the protocol is
# reported in one sentence, at once.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/etcd_servers.sh"
command -v openssl >/dev/null || skip 'there is no openssl'
tls=$work/tls
mkdir "$tls"

new_key() {  # new_key NAME SUBJECT: a key and a request
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" \
    -keyout "$tls/$1.key" -out "$tls/$1.csr" 2>>"$tls/log"
}
authority() {  # authority NAME
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -days 2 \
    -keyout "$tls/$1.key" -out "$tls/$1.crt" 2>>"$tls/log"
}
certificate() {  # certificate NAME AUTHORITY SUBJECT_ALT_NAME [DAYS]
  new_key "$1" "$1"
  printf 'subjectAltName=%s\n' "$3" >"$tls/extensions"
  openssl x509 -req -in "$tls/$1.csr" -CA "$tls/$2.crt" -CAkey "$tls/$2.key" -CAcreateserial \
    -days "${4:-2}" -extfile "$tls/extensions" -out "$tls/$1.crt" 2>>"$tls/log"
}
{
  authority ours && authority other && certificate server ours "IP:$here" &&
    certificate client ours DNS:client && certificate foreign other DNS:client &&
    certificate misnamed ours DNS:etcd.example && certificate expired ours "IP:$here" -1
} || fail "openssl: $(cat "$tls/log")"

etcd_scheme=https
etcd_flags=(--cert-file "$tls/server.crt" --key-file "$tls/server.key"
            --trusted-ca-file "$tls/ours.crt" --client-cert-auth)
ctl_flags=(--cacert "$tls/ours.crt" --cert "$tls/client.crt" --key "$tls/client.key")
start_etcd 1 "$here"
endpoint=$(etcd_endpoints)

job() {  # job ENDPOINT CONF: one node of a job of one
  run --rdzv_backend etcd --rdzv_endpoint "$1" --rdzv_conf "$2" --rdzv_id tls "${@:3}" true
}
refused() {  # refused ENDPOINT CONF SENTENCE
  job "$1" "$2"
  expect_exit 2
  expect_stderr "$3"
  [ "$(wc -l <"$err")" = 1 ] || fail "more than one line: $(cat "$err")"
}
trusts=protocol=https,cacert=$tls/ours.crt
identity=cert=$tls/client.crt,key=$tls/client.key

for node in a b; do
  on "$node" start --rdzv_backend etcd --rdzv_endpoint "$endpoint" --rdzv_conf "$trusts,$identity" \
    --rdzv_id pair --nnodes 2 sh -c 'echo "rank $RANK of $WORLD_SIZE"'
done
for node in a b; do
  on "$node" finish
  expect_exit 0
  expect_stdout 'rank [01] of 2'
done

on only true
refused "$endpoint" "$trusts" "etcd at $endpoint: .*it asks for a certificate of this client: give --rdzv_conf cert="
refused "$endpoint" "$trusts,cert=$tls/foreign.crt,key=$tls/foreign.key" \
  "etcd at $endpoint: .*it does not accept the certificate of --rdzv_conf cert"
refused "$endpoint" "protocol=https,cacert=$tls/other.crt,$identity" \
  "etcd at $endpoint: its certificate is not signed by one of --rdzv_conf cacert"
is_told_of_tls() {  # may be a server that is ending, too; on a busy machine none answers in time
  job "$endpoint" protocol=http,join_timeout=2
  expect_exit 124
  grep -qE "etcd at $endpoint: .*does it speak TLS\? --rdzv_conf protocol=https" "$err"
}
wait_until is_told_of_tls
peer=$(etcd_url 1 peer)
refused "${peer#*//}" "$trusts" "etcd at ${peer#*//}: it does not speak TLS: leave out"

# Files that are of no use.
refused "$endpoint" "protocol=https,cacert=$tls/none" "--rdzv_conf cacert=$tls/none: No such file"
refused "$endpoint" "protocol=https,cacert=$tls/ours.key" "cacert=.*: the file holds no certificate"
refused "$endpoint" "$trusts,cert=$tls/client.crt,key=$tls/server.key" \
  "key=.*: the file holds no private key .* that belongs to the certificate"

# Other servers, which have no etcd behind them.
server=''
end_fake() { [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; }
at_exit+=(end_fake)
fake() {  # fake NAME: with that certificate; its port is $port
  exec {said}< <(openssl s_server -www -accept "$here:0" -cert "$tls/$1.crt" -key "$tls/$1.key" 2>&1)
  server=$!
  read -ru "$said" port || fail 'no openssl s_server'
  until [[ $port == ACCEPT* ]]; do read -ru "$said" port || fail "openssl s_server: $port"; done
  port=${port##*:}
}
fake misnamed
refused "$here:$port" "$trusts" "etcd at $here:$port: its certificate is not one of '$here': give"
end_fake
fake expired
refused "$here:$port" "$trusts" "etcd at $here:$port: its certificate, .*has expired"

end_etcd
expect_no_process_left

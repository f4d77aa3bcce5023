# SPDX-License-Identifier: Apache-2.0
# Tests with etcd source this after common.sh or netns.sh: servers 1 to N of one etcd, at different
# ports of one address.
#
#   start_etcd N ADDRESS [COMMAND...]   COMMAND before each `etcd`, as `ip netns exec host`
#   etcd_endpoints                      prints them, for --rdzv_endpoint
#   etcd_leader                         prints the number of the leader
#   stop_etcd I / freeze_etcd I / thaw_etcd I    kill -9, SIGSTOP and SIGCONT for server I
#   start_etcd_server I                 starts it again
#   end_etcd                            before expect_no_process_left
#
# With etcd_scheme=https and etcd_flags=(...) set before, clients need TLS; ctl_flags are etcdctl's.
#
# Skipped where etcd is not installed.
# shellcheck shell=bash
for tool in etcd etcdctl; do
  command -v "$tool" >/dev/null || skip "there is no $tool (packages etcd-server and etcd-client)"
done
etcd_pids=() etcd_command=() etcd_scheme=http etcd_flags=() ctl_flags=()
at_exit+=(end_etcd)

etcd_url() {  # etcd_url I [peer]
  local scheme=$etcd_scheme
  [ -z "${2:-}" ] || scheme=http
  echo "$scheme://$etcd_address:$((${2:+1} + 20000 + 10 * $1))"
}

start_etcd() {
  local i
  etcd_count=$1 etcd_address=$2 etcd_command=("${@:3}") etcd_cluster=''
  for ((i = 1; i <= etcd_count; ++i)); do etcd_cluster+=${etcd_cluster:+,}s$i=$(etcd_url "$i" peer); done
  for ((i = 1; i <= etcd_count; ++i)); do start_etcd_server "$i"; done
  wait_until_etcd_answers
}

start_etcd_server() {
  "${etcd_command[@]}" etcd --name "s$1" --data-dir "$work/etcd$1" --initial-cluster "$etcd_cluster" \
    --listen-client-urls "$(etcd_url "$1")" --advertise-client-urls "$(etcd_url "$1")" \
    --listen-peer-urls "$(etcd_url "$1" peer)" --initial-advertise-peer-urls "$(etcd_url "$1" peer)" \
    "${etcd_flags[@]}" &>>"$work/etcd$1.log" &
  etcd_pids[$1]=$!
}

ctl() {
  ETCDCTL_API=3 "${etcd_command[@]}" etcdctl --endpoints "$(etcd_urls)" "${ctl_flags[@]}" "$@"
}

etcd_urls() {
  local i list=''
  for ((i = 1; i <= etcd_count; ++i)); do list+=${list:+,}$(etcd_url "$i"); done
  echo "$list"
}

etcd_endpoints() {
  local urls
  urls=$(etcd_urls)
  echo "${urls//$etcd_scheme:\/\//}"
}

wait_until_etcd_answers() {
  local end=$((SECONDS + deadline))
  until ctl get /nothing &>/dev/null; do
    [ $SECONDS -lt $end ] || fail "etcd does not answer: $(tail -n 5 "$work"/etcd*.log)"
    sleep 0.1
  done
}

etcd_leader() {  # ENDPOINT, ID, VERSION, DB SIZE, IS LEADER, ...
  local i
  for ((i = 1; i <= etcd_count; ++i)); do
    ! ctl endpoint status 2>/dev/null | grep -q "^$(etcd_url "$i"),.*, true, false," || echo "$i"
  done
}

stop_etcd() {
  kill -KILL "${etcd_pids[$1]}"
  wait "${etcd_pids[$1]}" 2>/dev/null || true
  unset "etcd_pids[$1]"
}

freeze_etcd() {
  kill -STOP "${etcd_pids[$1]}"
}

thaw_etcd() {
  kill -CONT "${etcd_pids[$1]}"
}

end_etcd() {
  local i
  for i in "${!etcd_pids[@]}"; do stop_etcd "$i"; done
}

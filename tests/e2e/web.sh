#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --web: the ddprun that has it serves a page and metrics of the whole job, to those who have the token. It is not
# the master's here. The page has what ddprun warns of, and how the job ended.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

job=(--nnodes 2 --nproc_per_node 2 --rdzv_endpoint "$here:29500" --max_restarts 1 "${quick[@]}")
# shellcheck disable=SC2016
worker=(bash -c 'echo "here is rank $RANK"
while ! { [ "$RANK" = 1 ] && [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && [ -e "$0/crash" ]; }; do sleep 0.1; done
exit 7' "$work")
on master start "${job[@]}" --node_rank 0 "${worker[@]}"
on other start --web "${job[@]}" --node_rank 1 "${worker[@]}"
on other wait_for_stderr 'page and metrics of the job: http://127\.0\.0\.1:[0-9]+/\?token=[0-9a-f]{32}$'
url=$(sed -n 's/.*page and metrics of the job: //p' "$err")
port=${url#*1:} token=${url#*=}
port=${port%%/*}
on master expect_no_stderr 'page and metrics'

get() {  # get PATH [HOST]: the answer is in $got
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf 'GET %s HTTP/1.1\r\nHost: %s\r\n\r\n' "$1" "${2:-127.0.0.1:$port}" >&3
  got=$(cat <&3)
  exec 3>&-
}

expect_got() {
  grep -qE -- "$1" <<<"$got" || fail "no line like '$1' in: $got"
}

gets() {  # gets PATH REGEX: for wait_until
  get "$1?token=$token" && grep -qE -- "$2" <<<"$got"
}
has_metric() {
  get "/metrics?token=$token" && grep -qxF -- "$1" <<<"$got"
}

wait_until gets /api/logs/0 '"here is rank 0'
wait_until has_metric 'ddprun_workers{state="running"} 4'
expect_got '^Content-Type: application/openmetrics-text; version=1\.0\.0'
expect_got "^ddprun_worker_output_age_seconds\{rank=\"0\",host=\"$(hostname)\"\} [0-9.e-]+$"
[ "$(tail -n 1 <<<"$got")" = '# EOF' ] || fail "the metrics have another end: $got"

for refused in "/ 127.0.0.1" "/metrics 127.0.0.1" "/?token=${token%?} 127.0.0.1" "/?token=$token evil.example" \
               "/api/status?token=$token evil.example:$port"; do
  # shellcheck disable=SC2086
  get $refused
  expect_got '^HTTP/1\.1 403 '
  expect_got '^Content-Length: 0'
done
get "/?token=$token" localhost
expect_got '^HTTP/1\.1 200 '
expect_got "^Content-Security-Policy: default-src 'none'; script-src 'sha256-"

# A viewer who never reads holds nothing up: the failure and the restart come to all others.
exec 4<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /api/events?token=%s HTTP/1.1\r\nHost: localhost\r\n\r\n' "$token" >&4
exec 5<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /api/events?token=%s HTTP/1.1\r\nHost: localhost\r\n\r\n' "$token" >&5
touch "$work/crash"
grep -m 1 -qE '"text":"rank 1 failed first: exit 7 ' <&5 || fail "the failure is not shown"
grep -m 1 -qE '"text":"round 1 runs with 4 ranks on 2 nodes"' <&5 || fail "the restart is not shown"
on other wait_for_event worker_started '"round":1,"rank":2,'
kill -STOP "$(worker_of 2)"
grep -m 1 -qE '"state":"warning","verdict":"rank 2 \([^"]*\) is stopped by SIGSTOP; ' <&5 || fail "the warning is not shown"
kill -CONT "$(worker_of 2)"
grep -m 1 -qE '"text":"rank 2 \([^"]*\) continues; .*"state":"running"' <&5 || fail "its end is not shown"
wait_until has_metric 'ddprun_restarts_total 1'
wait_until has_metric 'ddprun_failures_total{cause="exit"} 1'
wait_until has_metric 'ddprun_workers{state="running"} 4'
exec 4>&-

# Its port is taken: said at once, and nothing begins.
on third run --web="$port" true
on third expect_exit 125
on third expect_stderr "^ddprun: --web: another process listens at 127\.0\.0\.1:$port$"
on third run --web=nonsense true
on third expect_exit 2
on third expect_stderr '^ddprun: --web expects a port, or an IP address and a port'

for node in other master; do  # one after the other: a node that regroups has no workers to stop
  kill -TERM "${pids[$node]}"
  on $node finish
  on $node expect_exit 143
done
# The last words of the stream.
ended=$(cat <&5)
exec 5>&-
grep -qE '"kind":"stop","text":"stopping 2 workers \(SIGTERM\)"' <<<"$ended" || fail "the signal is not shown: $ended"
[[ $(tail -n 2 <<<"$ended") =~ '"verdict":"this node'"'"'s ddprun was stopped by SIGTERM"' ]] ||
  fail "the page does not say how the job ended: $ended"

# After success it says so, too.
on well start --web --nproc_per_node 2 bash -c 'until [ -e "$0" ]; do sleep 0.05; done' "$work/end"
on well wait_for_stderr 'page and metrics of the job: '
url=$(sed -n 's/.*page and metrics of the job: //p' "$err")
port=${url#*1:} token=${url#*=}
port=${port%%/*}
exec 5<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /api/events?token=%s HTTP/1.1\r\nHost: localhost\r\n\r\n' "$token" >&5
grep -m 1 -q '"text":"round 0 runs' <&5 || fail "the round is not shown"
touch "$work/end"
on well finish
on well expect_exit 0
[[ $(tail -n 2 <&5) =~ '"state":"succeeded","verdict":"the job has succeeded","well":true' ]] || fail "no success is shown"
exec 5>&-
expect_no_process_left

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An attacker that knows the protocols, with a secret and without: from another host, as another user of a
# member's host, and between a member and its master, before a job, while it runs, and with what it recorded
# of an earlier one. With a secret nothing is read or changed, and nobody is lost, also while handshakes are
# begun by the thousand; without, all of it works.
. "$(dirname "${BASH_SOURCE[0]}")/netns_attackers.sh"
job=(--nnodes 2 --rdzv_id attacked --heartbeat_interval 0.2 --lease 60 --max_restarts 0)

attack_port() {  # attack_port NAME HOST [UID]
  attack "$1" "$2" port 10.9.0.1 29500 attacked "$recordings" "${@:3}"
}
expect_nothing() {  # expect_nothing NAME...: when they are done
  local each
  for each in "$@"; do
    wait_until has_line "$each" "done"
    ! grep ' in$' "$work/$each.out" || fail "$each got in"
  done
}
start_master() {
  on 1 start "${job[@]}" --rdzv_endpoint node1 "$@" python3 "$attacker" worker 10.9.0.1 29500 "$work"
  wait_for_event job_started
}
start_member() {  # start_member HOST OPTIONS...: its agent's line goes there, its worker's to the master
  on 2 start "${job[@]}" --rdzv_endpoint "$1" "${@:2}" python3 "$attacker" worker 10.9.0.1 29500 "$work"
  for node in 1 2; do on "$node" wait_for_stdout 'runs'; done
}

# With a secret.
"$DDPRUN" secret "$work/secret" || fail "no secret"
tricks=(cuts changes changes_back doubles leaves_out swaps sends_back injects
        refuses pretends repeats_the_master downgrades)
start_master --secret_file "$work/secret"
attack_port before 3
expect_nothing before
attack between 4 between 29500 10.9.0.1 29500 "$recordings" "${tricks[@]}"
start_member node4 --secret_file "$work/secret"
on 1
attack_port stranger 3
attack_port user_of_master 1 54321
attack_port user_of_member 2 54321
expect_nothing stranger user_of_master user_of_member
on 2 wait_until has_line between "${#tricks[@]} passes"
expect_good_end() {
  touch "$work/finish"
  for node in 1 2; do
    on "$node" finish
    expect_exit 0
    expect_stdout 'value weights'
    expect_no_stderr 'is gone|is lost|Sanitizer'
  done
}
expect_good_end
! grep -rqE "node2|attacker.py|known-only-here|$(cat "$work/secret")" "$recordings" || fail "the line can be read"
rm "$work/finish"
start_master --secret_file "$work/secret"  # the same job, and the same key
attack_port after 3
expect_nothing after
attack flooder 3 flood 10.9.0.1 29500 "$recordings"
wait_until has_line flooder floods
start_member node1 --secret_file "$work/secret"
expect_good_end

# Without one: the same program gets in.
stop_attackers
wait "${processes[@]}" 2>/dev/null || true
processes=()
rm "$recordings"/* "$work/finish"
start_master
attack between 4 between 29500 10.9.0.1 29500 "$recordings"
start_member node4
grep -qE 'node2' "$recordings"/*.agent || fail "the line cannot be read"
attack_port without_secret 3
wait_until has_line without_secret "done"
for name in reads lists adds deletes writes joins takes_over_a_session; do
  has_line without_secret "$name in" || fail "$name failed without a secret"
done
on 1 wait_for_event round_stopping  # the attacker said that a worker had failed
for node in 1 2; do
  on "$node"
  kill -INT "$ddprun"
  finish
done
expect_no_process_left

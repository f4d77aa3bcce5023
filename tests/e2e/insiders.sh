#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whom a secret does not keep out: who has it makes up a node, joins, and ends the job, whose report says what it said;
# and the job's own user reads the file of the secret, and the environment of a worker, and uses the store.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip 'there is no python3'
command -v openssl >/dev/null || skip 'there is no openssl'
attacker=$(dirname "${BASH_SOURCE[0]}")/attacker.py
"$DDPRUN" secret "$work/secret" || fail 'no secret'

program=(sleep 600)
on member start --rdzv_id attacked --rdzv_endpoint "$here:29500" --secret_file "$work/secret" --nnodes 1:2 \
  --last_call_timeout 0 --heartbeat_interval 60 --lease 600 --max_restarts 0 "${program[@]}"
wait_for_event worker_started
env "$mark" timeout "$deadline" python3 "$attacker" member "$here" 29500 attacked "$work/secret" "${program[@]}" \
  >"$work/made_up" 2>"$work/made_up.err" || fail "$(cat "$work/made_up.err")"
finish
expect_exit 7
expect_stderr 'rank 1 failed first: .*host insider'
[ "$(grep -cxE 'welcome|ready|closed' "$work/made_up")" = 3 ] || fail "$(cat "$work/made_up" "$work/made_up.err")"

[ "$(id -u)" = 0 ] || { expect_no_process_left; exit 0; }  # the rest takes another user
mkdir "$work/recordings"
chmod 711 "$work"
chown 54321 "$work/secret"
as_user=(setpriv --reuid 54321 --regid 54321 --clear-groups)
mkdir -m 1777 "$work/tmp"
command_prefix[own]="env XDG_RUNTIME_DIR=$work/tmp ${as_user[*]}"
on own chmod 666 "$work/.own.events"
cp "$attacker" "$work/attacker.py"
# shellcheck disable=SC2016
start --rdzv_id attacked --secret_file "$work/secret" sh -c \
  'echo "store $MASTER_ADDR $MASTER_PORT"; exec python3 "$0/attacker.py" worker "$MASTER_ADDR" "$MASTER_PORT" "$0"' "$work"
wait_for_stdout runs
wait_for_stdout 'store '
read -r _ address port <<<"$(grep -o 'store .*' "$out")"
"${as_user[@]}" grep -q . "$work/secret" || fail 'the user cannot read the file of the secret'
"${as_user[@]}" grep -q RANK "/proc/$(worker_of)/environ" || fail "the user cannot read a worker's environment"
env "$mark" timeout "$deadline" python3 "$attacker" port "$address" "$port" attacked "$work/recordings" 54321 \
  >"$work/attacks" 2>"$work/attacks.err" &
user=$!
wait_until grep -qsx 'done' "$work/attacks"
for way in reads lists adds deletes writes; do
  grep -qx "$way in" "$work/attacks" || fail "the user does not use the store: $(cat "$work/attacks")"
done
! grep -xE '(joins|guesses_the_job|uses_another_tls) in' "$work/attacks" || fail 'the user needs no secret'
kill "$user"
kill -INT "$ddprun"
finish
expect_exit 130
expect_no_process_left soon

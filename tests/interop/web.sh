#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The page of a job in Chromium: before the first round, a crash, a restart, a hang, success, failure, a stop, and a job
# of 1,000 ranks; by keyboard, on a phone, in the dark, without a complaint of axe-core; and its metrics, read by Prometheus' own parser. The screenshots are kept in
# the build folder.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

[ -x /usr/bin/chromium ] || skip "no Chromium: scripts/setup --interop installs it"
screenshots=$DDPRUN_BIN/../screenshots
mkdir -p "$screenshots"

url_in() {  # url_in FILE
  sed -n 's/.*page and metrics of the job: //p' "$1"
}

on job start --web --nproc_per_node 3 --max_restarts 1 "$interop/web_worker.py" "$work"
on job wait_for_stderr 'page and metrics of the job'
job_url=$(url_in "$err") job=$ddprun
on hang start --web --nproc_per_node 2 --max_restarts 100 --hang_timeout 6 sleep 600
on hang wait_for_stderr 'page and metrics of the job'
hang_url=$(url_in "$err")

on success start --web bash -c 'until [ -e "$0" ]; do sleep 0.05; done' "$work/succeed"
on success wait_for_stderr 'page and metrics of the job'
success_url=$(url_in "$err")

# shellcheck disable=SC2016
on failure start --web --nproc_per_node 8 bash -c 'until [ -e "$0" ]; do sleep 0.05; done; [ $RANK != 5 ] || exit 3; sleep 600' \
  "$work/fail"
on failure wait_for_stderr 'page and metrics of the job'
failure_url=$(url_in "$err")
on wait start --web --nnodes 2 --rdzv_endpoint "$here:29500" true
on wait wait_for_stderr 'page and metrics of the job'
wait_url=$(url_in "$err")

# It serves until its input ends.
mkfifo "$work/input"
env "$mark" DDPRUN_TEST_SECONDS=500 "$DDPRUN_BIN/test_agent" '[.serves_a_large_job]' <"$work/input" >"$work/large" &
exec 9>"$work/input"
wait_until grep -qs 'page and metrics of the job' "$work/large"

env "$mark" "$python" "$interop/web.py" "$work" "$screenshots" "$job_url" "$job" "$hang_url" \
  "$success_url" "$failure_url" "$wait_url" "$(url_in "$work/large")" || fail "the page is not as it should be"
exec 9>&-
on success finish
on success expect_exit 0
on failure finish
on failure expect_exit 3
kill -TERM "$(on wait eval 'echo $ddprun')"
on wait finish
on job finish
on job expect_exit 143
kill -TERM "$(on hang eval 'echo $ddprun')"
on hang finish
on hang expect_exit 143
wait_until no_survivors
expect_no_process_left

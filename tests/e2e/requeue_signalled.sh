#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Slurm's signals at the end of a job reach also the commands by which ddprun requeues it: they do not
# end them, and one that was killed all the same is run again. The scontrol here sends itself what
# Slurm sends at moments that no test can choose.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
mkdir "$work/bin"
cat >"$work/bin/scontrol" <<END
#!/bin/sh
kill -TERM \$\$
test -e "$work/killed.\$1" || { touch "$work/killed.\$1"; kill -KILL \$\$; }
case \$1 in
  requeue) echo "\$2" >>"$work/requeued" ;;
  *) echo "JobId=42 JobState=COMPLETING Reason=TimeLimit Restarts=0 BatchFlag=1 Requeue=1" ;;
esac
END
chmod +x "$work/bin/scontrol"
export PATH=$work/bin:$PATH
export SLURM_JOB_ID=42 SLURM_JOB_NUM_NODES=1 SLURM_JOB_END_TIME=4000000000
SLURM_JOB_NODELIST=$(hostname -s)
export SLURM_JOB_NODELIST

run --requeue 1 sh -c 'exit 7'
expect_exit 7
expect_stderr '^ddprun: slurm job 42 is requeued, time 1 of 1: its time limit was reached$'
[ "$(cat "$work/requeued")" = 42 ] || fail "not requeued once: $(cat "$work/requeued")"
expect_no_process_left

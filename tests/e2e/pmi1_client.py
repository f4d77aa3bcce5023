# SPDX-License-Identifier: Apache-2.0
"""A rank that speaks PMI-1, as MPICH does in MPI_Init: pmi1_client.py ACTION [RANK]

meet      gets a key from each rank, and finalizes
lost      the same, but RANK ends without finalizing, and the others wait for it
abort     RANK aborts with 3, and the others wait for it
deaf      RANK aborts with 3 and does not end, nor do the others
uncalled  only RANK calls MPI_Init, and waits
late      only RANK does not
fail      fails in the first round, as an MPI program may between two calls; then meets
spawn     asks for another process
talk      RANK says what no client of PMI-1 says, and waits
"""
import os
import signal
import socket
import sys

rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
assert [rank, size] == [int(os.environ[name]) for name in ("RANK", "WORLD_SIZE")]
lines = socket.socket(fileno=int(os.environ["PMI_FD"])).makefile("rw")


def say(line):
    lines.write(line + "\n")
    lines.flush()


def ask(line):
    say(line)
    return dict(word.split("=", 1) for word in lines.readline().split())


def init():
    assert ask("cmd=init pmi_version=1 pmi_subversion=1")["rc"] == "0"
    return ask("cmd=get_my_kvsname")["kvsname"]


def meet(name):
    mapping = ask(f"cmd=get kvsname={name} key=PMI_process_mapping")["value"]
    ask(f"cmd=put kvsname={name} key=from{rank} value={rank * rank}")
    assert ask("cmd=barrier_in")["cmd"] == "barrier_out"
    got = [ask(f"cmd=get kvsname={name} key=from{other}")["value"] for other in range(size)]
    print(f"rank {rank} of {size}, {mapping}, {name}: got {' '.join(got)}", flush=True)


def wait():
    while True:
        signal.pause()


action, chosen = sys.argv[1], rank == int(sys.argv[2] if len(sys.argv) > 2 else "0")
if chosen == (action == "late") and action in ("uncalled", "late"):
    wait()
name = init()
if action == "spawn":
    for line in ("mcmd=spawn", "nprocs=1", "execname=./child"):
        say(line)
    print(f"rank {rank} is answered {ask('endcmd')['rc']}", flush=True)
elif action == "talk" and chosen:
    say("cmd=dance")
    wait()
elif action == "fail" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    print(f"rank {rank} is in {name}", flush=True)
    sys.exit(7)
elif action not in ("uncalled", "late"):
    meet(name)
if action in ("abort", "deaf") and chosen:
    say("cmd=abort exitcode=3")
    if action == "deaf":
        wait()
    sys.exit(3)
if action == "lost" and chosen:
    sys.exit(0)
if action in ("lost", "abort", "deaf", "uncalled", "late", "talk"):
    ask("cmd=barrier_in")
assert ask("cmd=finalize")["cmd"] == "finalize_ack"

# SPDX-License-Identifier: Apache-2.0
"""What has to hold after every history. Each check takes the job and yields sentences about broken promises."""
import os
import re

MASK = (1 << 64) - 1
SAMPLES, PARAMETERS = 24, 8        # as in worker.cc
INSTANT = 1_000_000_000            # ns in which a killed agent's kernel may end its workers
LINE = re.compile(rb'(?:\[\d+\] )?([oe]) (\d+) (\d+) (x*)\.')
FAILED_FIRST = re.compile(r'rank (\d+) failed first: (.*?) after .*? \(host (\S+), pid (\d+), round (\d+)\)')
REPORT = re.compile(r' failed first: .*\n(?:        .*\n)*')
CODE = re.compile(r'^ +exit code (\d+); ', re.MULTILINE)


def all_checks(job):
    stamps = job.read_stamps()
    excuse_starved(job)
    yield from right_exit_codes(job)
    yield from overlapping_rounds(job, stamps)
    yield from lost_or_torn_lines(job, stamps)
    yield from wrong_results(job)
    yield from untrue_reports(job, stamps)
    yield from left_files(job)


def excuse_starved(job):
    """On a machine that is too busy an agent may see too late that its lease is over: its guardian kills it."""
    for life in job.lives if job.starved else []:
        with open(life.path + '.err', errors='replace') as file:
            if "ddprun's agent was unresponsive" in file.read():
                life.codes.add(137)
                life.marks.add('agent stood')


# Exit codes

def job_code(job):
    """The exit code that every undisturbed node has; None: unknown."""
    codes = {life.process.returncode for life in job.lives if life.outcome()}
    return codes.pop() if len(codes) == 1 else None


def right_exit_codes(job):
    codes = {life.name: life.process.returncode for life in job.lives if life.outcome()}
    if len(set(codes.values())) > 1:
        yield f'the nodes do not agree how the job ended: {codes}'
    for life in job.lives + job.foreign:
        code = life.process.returncode
        if life in job.lives and life.outcome():
            if (code == 0) != (life.outcome() == 'succeeded') or (code == 0) == job.plan.fails:
                yield f'{life.name} ended with {code} after {life.outcome()}'
        elif code not in life.codes and not (code == 1 and job.had_no_place(life)):
            yield f'{life.name} ended with {code}; its faults explain {sorted(life.codes) or "none"}'


# Rounds

def overlapping_rounds(job, stamps):
    marks = {life.name: life.marks for life in job.lives}
    for stamp in stamps:
        if stamp.round is None:
            yield f'a worker of an unknown round: {stamp}'
    known = sorted((stamp for stamp in stamps if stamp.round is not None), key=lambda stamp: stamp.start)
    for index, old in enumerate(known):
        for new in known[index + 1:]:
            over = old.last - new.start
            too_long = new.round != old.round and over > allowed_overlap(marks[old.life])
            if too_long and not forgotten(job, known, old, new):
                yield (f'round {old.round} (pid {old.pid} of {old.life}) ran for {over / 1e6:.1f} ms after round '
                       f'{new.round} (pid {new.pid} of {new.life}) had begun')
                return


def allowed_overlap(marks):
    """docs/design.md, "Leases", has these limits of the invariant."""
    if 'suspended' in marks:
        return float('inf')
    return INSTANT if marks & {'agent killed', 'both killed'} else 0


def forgotten(job, stamps, old, new):
    """Whether `new` ran under a master that was started after `old`'s node, in a round of nodes that are as new."""
    names = [life.name for life in job.lives]
    began = [names.index(life.name) for life in job.lives if life.host is job.master_host]
    members = [names.index(stamp.life) for stamp in stamps if stamp.round == new.round and stamp.start >= new.start]
    return any(names.index(old.life) < master <= min(members) for master in began)


# Lines

def lost_or_torn_lines(job, stamps):
    written = {(stamp.life, stamp.pid): (stamp.out_lines, stamp.err_lines) for stamp in stamps}
    for life in job.lives:
        lossy = bool(life.marks & {'agent killed', 'guardian killed', 'both killed', 'agent stood', 'starved',
                                   'suspended', 'killed at once', 'given up'}) or says_gaps(life) or (
            life.marks >= {'stopped', 'unread'})  # nobody read what it could have said
        for stream, name in enumerate(('out', 'err')):
            cuts = says(life, f'some output is lost: std{name} was not read while workers were killed')
            yield from _check_lines(f'{life.path}.{name}', lossy or cuts > 0, cuts,
                                    {pid: counts[stream] for (owner, pid), counts in written.items()
                                     if owner == life.name})


def says(life, sentence):
    """How often."""
    with open(life.path + '.err', errors='replace') as file:
        return file.read().count(sentence)


def says_gaps(life):
    """Of workers that are killed while their disk stalls lines may be lost, if that is said."""
    return says(life, 'log files have gaps: their disk had stalled while workers were killed') > 0


def _check_lines(path, lossy, cuts, written):
    """`cuts`: how often the rest of a line and what came after it were given up, which was said."""
    seen = {}
    with open(path, 'rb') as file:
        lines = file.read().split(b'\n')
    for index, line in enumerate(lines):
        found = LINE.fullmatch(line)
        if not found:
            if _is_torn(line) and not (lossy and index >= len(lines) - 4) and (cuts := cuts - 1) < 0:
                yield f'{path}: torn line {index + 1}: {line[:200]!r}'
                return
            continue
        pid, number = int(found[2]), int(found[3])
        if number != seen.get(pid, 0) + 1 or len(found[4]) != number * 37 % 150:
            yield f'{path}: line {number} of pid {pid} follows its line {seen.get(pid, 0)}'
            return
        seen[pid] = number
    for pid, count in written.items():
        if not lossy and seen.get(pid, 0) < count:
            yield f'{path}: {count - seen.get(pid, 0)} of {count} lines of pid {pid} are lost'


def _is_torn(line):
    """Whether it has a part of a worker's numbered line; ddprun's own lines may quote one."""
    return not line.startswith((b'ddprun: ', b'    ')) and bool(re.search(rb'(?:^|\] )[oe] \d+ |xx|^x*\.$', line))


# The result

def _gradient(step, sample, parameter, value):
    mixed = ((step * 1_000_003 + sample * 7919 + parameter) ^ value) * 0x9E3779B97F4A7C15 & MASK
    return mixed ^ (mixed >> 29)


def trained(steps):
    values = [0] * PARAMETERS
    for step in range(steps):
        sums = [sum(_gradient(step, sample, p, values[p]) for sample in range(SAMPLES)) for p in range(PARAMETERS)]
        values = [(value + more) & MASK for value, more in zip(values, sums)]
    return [value - (1 << 64) if value >> 63 else value for value in values]


def wrong_results(job):
    finals = set()
    for life in job.lives:
        with open(life.path + '.out', 'rb') as file:
            finals.update(re.findall(rb'final (\d+) ([-\d ]*) \.', file.read()))
    for steps, values in finals:
        if list(map(int, values.split())) != trained(int(steps)):
            yield f'the result after {int(steps)} steps is wrong'
    lossy = any(life.marks & {'agent killed', 'guardian killed', 'agent stood'} for life in job.lives)
    if not finals and not lossy and not job.plan.fails:
        yield 'no worker has printed the result'


# Reports

def untrue_reports(job, stamps):
    known = {(stamp.pid, stamp.rank, stamp.round): stamp for stamp in stamps}
    final = {}
    for life in job.lives:
        with open(life.path + '.err', errors='replace') as file:
            text = file.read()
        for rank, status, _, pid, round_number in FAILED_FIRST.findall(text):
            stamp = known.get((int(pid), int(rank), int(round_number)))
            if job.did_fail(int(pid), stamp, status):
                continue
            if not stamp:
                if not any(life.marks & {'starved', 'user signal'} for life in job.lives):
                    yield f'{life.name} reports a failure of a worker that never ran: rank {rank}, pid {pid}'
            else:
                yield f'{life.name} reports rank {rank} (pid {pid}): {status}, which did not fail by itself'
        if life.outcome() == 'worker_failed':
            final[life.name] = ''.join(REPORT.findall(text)[-1:])
            if len(CODE.findall(text)) != 1:
                yield f'{life.name} has {len(CODE.findall(text))} final reports'
            elif int(CODE.findall(text)[0]) != life.process.returncode:
                yield f'{life.name} ends with {life.process.returncode}, its report says otherwise'
    if len(set(final.values())) > 1:
        yield f'the nodes report different ends of the job: {sorted(final)}'


def lost_both(life):
    """Whether agent and guardian were killed: the latter kills an agent that stands, and cleans up after it."""
    agent = life.marks & {'agent killed', 'agent stood'}
    return 'both killed' in life.marks or 'guardian killed' in life.marks and agent


def left_files(job):
    for life in job.lives:
        left = os.listdir(life.path + '.tmp')
        if left and not lost_both(life):
            yield f'{life.name} left temporary files: {left}'

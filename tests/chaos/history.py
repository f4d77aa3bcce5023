# SPDX-License-Identifier: Apache-2.0
"""One history: a job, the faults of its plan about one a second, the end, and the checks."""
import collections
import os
import random
import signal
import time

import checks
import faults
import network_faults, other_faults, process_faults  # noqa: F401, E401  (they fill the table)
import stamps
from job import Job, make_plan
from life import command_line

PATIENCE = 90.0   # seconds until something that has to happen is said to hang
TICK = 0.05
STARVED = 0.2     # seconds that this process got no processor: an agent may have got none, too


class Broken(Exception):
    """A promise that is broken so badly that the history cannot go on."""


class History:
    def __init__(self, seed, count, only, ddprun, worker):
        self.plan = make_plan(seed, count, only)
        self._dice = random.Random(f'{seed} history')
        self.job = Job(self.plan, ddprun, worker)
        self.done = []  # names of faults
        self.problems = []

    def run(self):
        """Fills `problems`."""
        try:
            self._live()
            self._end()
        except Broken as broken:
            self.problems.append(str(broken))
        else:
            self.problems += checks.all_checks(self.job)

    # Until the end

    def _live(self):
        self.job.start_all()
        self._wait(self._stable, 'no first round')
        for index, name in enumerate(self.plan.faults):
            if self.job.over():
                return
            self._do(random.Random(f'{self.plan.seed} {index}'), name)
            self._pass(self._dice.uniform(2 / 3, 4 / 3) * self.plan.pace)

    def _do(self, dice, name):
        text = faults.FAULTS[name].do(self.job, dice)
        self.job.note(f'{name}: {text or "nothing there"}')
        self.done += [name] if text else []

    def _pass(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.job.over():
            self._tick()

    def _tick(self, at_once=False):
        self.job.undo()
        self.job.revive(self._dice, at_once)
        self._sleep()

    def _sleep(self):
        began = time.monotonic()
        time.sleep(TICK)
        late = time.monotonic() - began - TICK
        self.job.longest_wait = max(self.job.longest_wait, late)
        self.job.starved |= late > STARVED

    def _wait(self, condition, sentence):
        until = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > until:
                raise Broken(f'{sentence} after {PATIENCE} s\n{self._who()}')
            self._tick(at_once=True)

    def _who(self):
        """The lives that run, and the last line of each."""
        lines = []
        for life in self.job.alive():
            with open(life.path + '.err', errors='replace') as file:
                own = [line for line in file.read().splitlines() if line.startswith('ddprun')]
            lines.append(f'  {life.name}: round {life.round()}, workers {life.workers()}: {own[-1:]}')
        return '\n'.join(lines)

    def _stable(self):
        """Whether as many nodes as possible are in one round with all their workers."""
        nodes = self.job.nodes()
        inside = collections.Counter(life.round() for life in nodes if len(life.workers()) == self.plan.workers)
        return self.job.master() is not None and max(inside.values(), default=0) >= self.plan.nodes

    # The end

    def _end(self):
        while not self.job.healed() and not self.job.over():
            self._tick()
        self.early = self.job.over()
        self.job.undo(everything=True)
        self.job.note('all faults are over' + (', and so is the job' if self.early else ''))
        if not self.early:
            self._wait(lambda: self._stable() or self.job.over(), 'no round with all nodes')
            self._finish()
        self._wait_for_ends()
        self._wait_for_survivors()

    def _finish(self):
        if not self.plan.fails:
            open(self.job.finish_file, 'w').close()
            return self.job.note('the training is to end')
        self._wait(lambda: self.job.over() or self._stable() and self._fail_worker(), 'no end of a job that fails')

    def _fail_worker(self):
        found = faults.some_worker(self.job, self._dice)
        if found and self.job.tell(found[0], found[1], stamps.EXIT + 42):
            self.job.note(f'exit 42 of {found[2]}')
        return False  # the job is not over by this alone

    def _wait_for_ends(self):
        began = time.monotonic()
        while self.job.alive():
            for life in self.job.alive() if time.monotonic() > began + 10 else []:
                self._give_up(life)
            if time.monotonic() > began + PATIENCE:
                raise Broken(f'these do not end after {PATIENCE} s:\n{self._who()}')
            self._sleep()
        for life in self.job.foreign:
            life.send(life.process.pid, signal.SIGTERM)
            faults.explain(life, 143)
            life.process.wait()

    def _give_up(self, life):
        """One that had no part in the last round may have missed the end; it waits for a job that never comes. So does
        one whose peers were killed by their guardians because the machine was too busy: nobody starts them again."""
        late = not self.job.is_server(life) and not self.job.was_in_last_round(life)
        if (late or self.early or self.job.starved) and 'given up' not in life.marks:
            faults.explain(life, 143, mark='given up')
            life.send(life.process.pid, signal.SIGTERM)

    def _wait_for_survivors(self):
        """They have some time only if both processes of a ddprun were killed."""
        until = time.monotonic() + 15
        self._kill_exempt()
        while left := [f'{pid}: {command_line(pid)}' for pid in self.job.survivors()]:
            if time.monotonic() > until:
                raise Broken(f'processes are left: {left}')
            self._sleep()

    def _kill_exempt(self):
        """Where guardian and agent were killed, what had left its worker's session lives on."""
        workers = {pid for _, pid in self.job.rounds()}
        for life in self.job.lives:
            if checks.lost_both(life):
                for pid in life.processes():
                    if session_of(pid) not in workers:
                        life.send(pid, signal.SIGKILL)


def session_of(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None

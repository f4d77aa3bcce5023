#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each check of the chaos tests finds what it is for."""
import os
import resource
import subprocess
import tempfile
import types
import unittest

import checks
import other_faults
from job import Job
from stamps import Stamp

SECOND = 1_000_000_000


def stamp(life='a', pid=1, start=0, last=1, round=0, **rest):
    values = dict(rank=0, out_lines=0, err_lines=0, exit_code=-1, exit_time=0, user_signals=0)
    return Stamp(life=life, pid=pid, start=int(start * SECOND), last=int(last * SECOND), round=round, **values | rest)


def worker_line(pid, number):
    return f'o {pid} {number} {"x" * (number * 37 % 150)}.\n'


class ChecksTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.a, self.b = self.life('a'), self.life('b')
        self.job = types.SimpleNamespace(
            lives=[self.a, self.b], foreign=[], plan=types.SimpleNamespace(fails=False), master_host=self.a.host,
            did_fail=lambda pid, stamp, status: stamp and status == f'exit {stamp.exit_code}',
            had_no_place=lambda life: False, starved=False)

    def life(self, name, code=0, outcome='succeeded'):
        path = os.path.join(self._folder.name, name)
        for ending in ('.out', '.err'):
            open(path + ending, 'w').close()
        os.mkdir(path + '.tmp')
        life = types.SimpleNamespace(name=name, path=path, host=name, codes=set(), marks=set(),
                                     process=types.SimpleNamespace(returncode=code), result=outcome)
        life.outcome = lambda: life.result
        return life

    def end(self, life, code, outcome):
        life.process.returncode, life.result = code, outcome

    def write(self, life, ending, text):
        with open(life.path + ending, 'w') as file:
            file.write(text)

    def found(self, check, *arguments):
        return '\n'.join(check(self.job, *arguments))

    def test_exit_codes(self):
        self.assertEqual(self.found(checks.right_exit_codes), '')
        self.end(self.b, 137, None)
        self.assertIn('b ended with 137', self.found(checks.right_exit_codes))
        self.b.codes.add(137)
        self.assertEqual(self.found(checks.right_exit_codes), '')
        self.end(self.b, 3, 'worker_failed')
        self.assertIn('do not agree', self.found(checks.right_exit_codes))

    def test_a_node_without_a_place(self):
        self.end(self.b, 1, None)
        self.assertIn('b ended with 1', self.found(checks.right_exit_codes))
        self.job.had_no_place = lambda life: life is self.b
        self.assertEqual(self.found(checks.right_exit_codes), '')

    def test_an_agent_on_a_machine_that_is_too_busy(self):
        self.end(self.b, 137, None)
        self.write(self.b, '.err', "ddprun: ddprun's agent was unresponsive for longer than --lease")
        checks.excuse_starved(self.job)
        self.assertIn('b ended with 137', self.found(checks.right_exit_codes))
        self.job.starved = True
        checks.excuse_starved(self.job)
        self.assertEqual(self.found(checks.right_exit_codes), '')
        self.assertEqual(self.a.codes, set())

    def test_who_had_a_place(self):
        fixed = types.SimpleNamespace(least=2, nodes=2)
        self.a.round = self.b.round = lambda: -1
        job = types.SimpleNamespace(plan=fixed, lives=[self.a, self.b], spare_host='c')
        self.assertFalse(Job.had_no_place(job, self.b))
        job.spare_host = 'a'
        self.assertTrue(Job.had_no_place(job, self.b))
        self.b.round = lambda: 0
        self.assertFalse(Job.had_no_place(job, self.b))

    def test_who_was_in_the_last_round(self):
        c = self.life('c', outcome=None)
        job = types.SimpleNamespace(lives=[self.a, self.b, c])
        self.took_part(self.a, 5, round=0, node_rank=0)
        self.took_part(self.b, 5, round=0, node_rank=1)
        self.took_part(c, 4, round=0, node_rank=1)  # under an earlier master
        self.assertFalse(Job.was_in_last_round(job, c))
        self.took_part(c, 4, round=6, node_rank=2)
        self.assertFalse(Job.was_in_last_round(job, c))
        self.took_part(c, 5, round=0, node_rank=2)
        self.assertTrue(Job.was_in_last_round(job, c))
        self.a.result = self.b.result = None
        self.assertTrue(Job.was_in_last_round(job, self.b))
        c.last_round = lambda: None
        self.assertFalse(Job.was_in_last_round(job, c))

    def took_part(self, life, when, **place):
        life.last_round = lambda: dict(wall_ns=when, **place)

    def test_overlap(self):
        rounds = [stamp('a', 1, 0, 2, round=0), stamp('b', 2, 2.1, 3, round=1)]
        self.assertEqual(self.found(checks.overlapping_rounds, rounds), '')
        rounds[0].last = int(2.2 * SECOND)
        self.assertIn('ran for 100.0 ms', self.found(checks.overlapping_rounds, rounds))
        self.a.marks.add('agent killed')
        self.assertEqual(self.found(checks.overlapping_rounds, rounds), '')

    def test_overlap_with_a_smaller_number(self):
        rounds = [stamp('a', 1, 0, 3, round=4), stamp('a', 2, 2, 4, round=1)]
        self.assertIn('round 4', self.found(checks.overlapping_rounds, rounds))

    def test_overlap_with_a_round_of_a_new_master_and_new_nodes(self):
        c = self.life('c')
        c.host = self.job.master_host
        self.job.lives.append(c)
        rounds = [stamp('b', 1, 0, 3, round=4), stamp('c', 2, 2, 4, round=0)]
        self.assertEqual(self.found(checks.overlapping_rounds, rounds), '')
        rounds.append(stamp('b', 3, 3.5, 4, round=0))
        self.assertIn('round 4', self.found(checks.overlapping_rounds, rounds))

    def test_lines(self):
        ran = [stamp('a', 7, out_lines=3)]
        whole = ''.join(worker_line(7, number) for number in (1, 2, 3))
        self.write(self.a, '.out', whole)
        self.assertEqual(self.found(checks.lost_or_torn_lines, ran), '')
        self.write(self.a, '.out', worker_line(7, 1) + worker_line(7, 3))
        self.assertIn('follows its line 1', self.found(checks.lost_or_torn_lines, ran))
        self.write(self.a, '.out', worker_line(7, 1) + worker_line(7, 2))
        self.assertIn('1 of 3 lines', self.found(checks.lost_or_torn_lines, ran))
        self.write(self.a, '.err', 'ddprun: log files have gaps: their disk had stalled while workers were killed')
        self.assertEqual(self.found(checks.lost_or_torn_lines, ran), '')
        self.write(self.a, '.err', '')
        self.write(self.a, '.out', whole.replace('xx.', 'x\nx.', 1))
        self.assertIn('torn line 1', self.found(checks.lost_or_torn_lines, ran))

    def test_lines_of_a_node_that_was_stopped_while_nobody_read(self):
        self.write(self.a, '.out', worker_line(7, 1))
        ran = [stamp('a', 7, out_lines=3)]
        self.a.marks.add('unread')
        self.assertIn('2 of 3 lines', self.found(checks.lost_or_torn_lines, ran))
        self.a.marks.add('stopped')
        self.assertEqual(self.found(checks.lost_or_torn_lines, ran), '')

    def test_lines_whose_loss_is_said(self):
        cut = worker_line(7, 1) + worker_line(7, 2)[:-20] + '\n' + worker_line(8, 1) * 8
        self.write(self.a, '.out', cut)
        ran = [stamp('a', 7, out_lines=9)]
        self.assertIn('torn line 2', self.found(checks.lost_or_torn_lines, ran))
        self.write(self.a, '.err', 'ddprun: some output is lost: stderr was not read while workers were killed')
        self.assertIn('torn line 2', self.found(checks.lost_or_torn_lines, ran))
        self.write(self.a, '.err', 'ddprun: some output is lost: stdout was not read while workers were killed')
        self.write(self.a, '.out', cut.replace(worker_line(8, 1) * 8, ''.join(worker_line(8, n) for n in range(1, 9))))
        self.assertEqual(self.found(checks.lost_or_torn_lines, ran), '')
        self.write(self.a, '.out', cut + cut)
        self.assertIn('follows its line', self.found(checks.lost_or_torn_lines, ran))

    def test_result(self):
        self.assertIn('no worker', self.found(checks.wrong_results))
        values = checks.trained(5)
        self.write(self.b, '.out', f'[0] final 5 {" ".join(map(str, values))} .\n')
        self.assertEqual(self.found(checks.wrong_results), '')
        self.write(self.b, '.out', f'[0] final 6 {" ".join(map(str, values))} .\n')
        self.assertIn('after 6 steps is wrong', self.found(checks.wrong_results))

    def report(self, pid, code):
        return (f'ddprun: rank 0 failed first: exit {code} after 2 s (host n, pid {pid}, round 1)\n'
                f'        exit code {code}; no restart left (3 of 3 used)\n')

    def test_reports(self):
        ran = [stamp('a', 7, round=1, exit_code=42)]
        for life in (self.a, self.b):
            self.end(life, 42, 'worker_failed')
            self.write(life, '.err', self.report(7, 42))
        self.assertEqual(self.found(checks.untrue_reports, ran), '')
        self.write(self.b, '.err', self.report(7, 42) + 'ddprun: store: refused a connection\n')
        self.assertEqual(self.found(checks.untrue_reports, ran), '')
        self.write(self.b, '.err', self.report(8, 42))
        self.assertIn('never ran', self.found(checks.untrue_reports, ran))
        self.assertIn('different ends', self.found(checks.untrue_reports, ran))
        self.write(self.b, '.err', self.report(7, 1))
        self.assertIn('did not fail by itself', self.found(checks.untrue_reports, ran))
        self.write(self.b, '.err', self.report(7, 42) * 2)
        self.assertIn('2 final reports', self.found(checks.untrue_reports, ran))

    def test_left_files(self):
        self.assertEqual(self.found(checks.left_files), '')
        os.mkdir(self.a.path + '.tmp/ddprun_x')
        self.assertIn('ddprun_x', self.found(checks.left_files))
        self.a.marks.add('guardian killed')
        self.assertIn('ddprun_x', self.found(checks.left_files))
        self.a.marks.add('agent stood')
        self.assertEqual(self.found(checks.left_files), '')

    def test_the_limit_of_a_process_that_ended_is_left_alone(self):
        ended = subprocess.Popen(['true'])
        ended.wait()
        exchanged = other_faults.exchange_limit(ended.pid, resource.RLIMIT_NOFILE, lambda old: old)
        self.assertIsNone(exchanged)

    def test_a_process_whose_limit_is_tight_gets_that_of_before_back(self):
        process = subprocess.Popen(['sleep', '600'])
        later = []
        job = types.SimpleNamespace(limited=set(), later=lambda _, what, undo: later.append(undo))
        life = types.SimpleNamespace(name='a', codes=set(), marks=set(), agent=lambda: process.pid, runs=lambda _: True)

        def limit(files):
            return other_faults._limit(job, life, resource.RLIMIT_NOFILE, files, 1, 'descriptors')
        try:
            before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
            self.assertTrue(limit(30))
            self.assertIsNone(limit(40))
            later.pop()()
            self.assertEqual(resource.prlimit(process.pid, resource.RLIMIT_NOFILE), before)
            self.assertTrue(limit(30))
        finally:
            process.kill()
            process.wait()


if __name__ == '__main__':
    unittest.main()

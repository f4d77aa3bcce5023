#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The judge believes no launcher that names another rank, host or cause, or none."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from failure import Failure  # noqa: E402
from judge import judge  # noqa: E402

NAMES = ['gpu-02', '10.9.0.2']
EXIT = Failure('exit', r'exit(code)?[ :]+3\b')
TORCHRUN = '''Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_14:44:33
  host      : gpu-02
  rank      : 3 (local_rank: 1)
  exitcode  : 3 (pid: 24070)
'''


def named(failure, *consoles):
    score = judge(failure, dict(enumerate(consoles, 1)), NAMES, own=2)
    return [part for part in ('rank', 'host', 'cause') if score.get(part)]


class JudgeTest(unittest.TestCase):
    def test_each_launchers_verdict_is_read(self):
        self.assertEqual(named(EXIT, 'ddprun: rank 3 failed first: exit 3 after 3 s (host gpu-02, pid 4, round 0)'),
                         ['rank', 'host', 'cause'])
        self.assertEqual(named(EXIT, TORCHRUN), ['rank', 'host', 'cause'])
        self.assertEqual(named(EXIT, 'Process name: [[32785,1],3]\n  Exit code:    3'), ['rank'])

    def test_a_wrong_rank_or_host_is_not_named(self):
        self.assertEqual(named(EXIT, 'rank 2 failed first: exit 3 after 3 s (host gpu-02, pid 4)'), ['cause'])
        self.assertEqual(named(EXIT, 'rank 3 failed first: exit 3 after 3 s (host gpu-01, pid 4)'), ['rank', 'cause'])
        self.assertEqual(named(EXIT, TORCHRUN.replace(': 3 (local', ': 30 (local')), ['cause'])

    def test_the_best_verdict_counts_and_not_the_first(self):
        first = 'rank 0 failed first: exit 3 after 3 s (host gpu-01, pid 4)'
        self.assertEqual(named(EXIT, first + '\nrank 3 (gpu-02) is the likely cause: asleep'),
                         ['rank', 'host', 'cause'])
        self.assertEqual(named(EXIT, 'rank 3 failed first: exit 3 (host gpu-02, pid 4)\n'
                                     'rank 1 (gpu-01) is the likely cause: asleep'), ['cause'])

    def test_several_ranks_are_none(self):
        self.assertEqual(named(EXIT, 'ranks 2-3 (gpu-02) are the likely cause: asleep'), [])

    def test_silence_names_nothing(self):
        self.assertEqual(named(EXIT, '', ''), [])

    def test_of_calls_that_differ_the_verdict_counts_and_not_a_pair(self):
        differ = Failure('differ', 'barrier')
        pair = ('ddprun: rank 0 failed first: exit 1 after 1 s (host gpu-01, pid 4): rank 0 is at #2 all_reduce, but '
                'rank 3 is at #2 barrier; rank 3 is at #2 barrier, the others at #2 all_reduce\n'
                '        rank 3 is on host gpu-02')
        verdict = 'ddprun: rank {} ({}) is the likely cause: at #2 barrier, while the others were at #2 all_reduce\n'
        self.assertEqual(named(differ, pair), ['cause'])
        self.assertEqual(named(differ, verdict.format(3, 'gpu-02') + pair), ['rank', 'host', 'cause'])
        self.assertEqual(named(differ, verdict.format(3, 'gpu-01') + pair), ['rank', 'cause'])
        self.assertEqual(named(differ, verdict.format(0, 'gpu-02') + pair), ['cause'])

    def test_the_host_is_in_the_message_with_the_cause(self):
        lost = Failure('lost', 'is gone', ranks=())
        self.assertEqual(named(lost, 'ddprun: node 1 (gpu-02) is gone'), ['host', 'cause'])
        self.assertEqual(named(lost, 'ddprun: a node is gone\nddprun: hello from gpu-02'), ['cause'])
        self.assertEqual(named(lost, 'ddprun: node 1 (gpu-021) is gone'), ['cause'])
        self.assertEqual(named(lost, 'ddprun: [gpu-02] a node is gone'), ['cause'])
        self.assertEqual(named(lost, 'this host is gone'), ['cause'])
        self.assertEqual(named(lost, '', 'this host is gone'), ['host', 'cause'])
        self.assertEqual(named(lost, '', "the master is gone: killing this node's workers"), ['cause'])


if __name__ == '__main__':
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Faults of the network between the hosts."""
import signal

from faults import explain, fault, some_life
from process_faults import LONG, SHORT
from switch import Line


def _peers(job, dice):
    """(host, master's host) of a node that has a line to the master; None: there is none."""
    lives = [life for life in job.nodes() if life.host is not job.master_host]
    life = some_life(job, dice, lives)
    return life and (life.host, job.master_host)


def _lines(job, pairs, line, seconds, what):
    """All `pairs` of addresses get that line for a while."""
    lines = job.network.switch.lines
    for pair in pairs:
        lines[pair] = line

    def heal():
        for pair in pairs:
            if lines.get(pair) is line:
                del lines[pair]
    job.later(seconds, f'over: {what}', heal)
    return f'{what} for {seconds} s'


def _all_lines(job, host):
    others = [other for other in job.network.switch.addresses() if other != host.address]
    return [(host.address, other) for other in others] + [(other, host.address) for other in others]


def _cut(job, dice, seconds):
    life = some_life(job, dice)
    return life and _lines(job, _all_lines(job, life.host), Line(loss=1), seconds,
                           f'{life.host.name} is cut off')


@fault()
def cut_within_lease(job, dice):
    return _cut(job, dice, dice.choice(SHORT))


@fault()
def cut_beyond_lease(job, dice):
    return _cut(job, dice, dice.choice(LONG))


@fault()
def cut_near_lease(job, dice):
    return _cut(job, dice, dice.choice((3.5, 4.0, 4.5, 4.8)))


@fault()
def cut_again_and_again(job, dice):
    """Each cut is shorter than the lease, and the line is up for a moment between them."""
    ends = _peers(job, dice)
    if not ends:
        return None
    pairs, gap = _all_lines(job, ends[0]), dice.choice((0.05, 0.2, 0.6))
    first, second = dice.choice((2.0, 3.0)), dice.choice((2.0, 3.5))
    job.later(first + gap, f'{ends[0].name} is cut off again for {second} s',
              lambda: _lines(job, pairs, Line(loss=1), second, f'{ends[0].name} is cut off again'))
    return _lines(job, pairs, Line(loss=1), first, f'{ends[0].name} is cut off')


@fault()
def cut_after_welcome(job, dice):
    """The first thing that the master says to a node that is back is also the last one."""
    ends = _peers(job, dice)
    if not ends:
        return None
    node, master = ends
    pairs, cut, seconds = _all_lines(job, node), Line(loss=1), dice.choice(LONG)
    first, lines = dice.choice((1.8, 2.2, 3.0)), job.network.switch.lines

    def cut_again():
        lines.update(dict.fromkeys(pairs, cut))

    def heal():
        job.network.switch.remove_trap(master.address, node.address)
        for pair in pairs:
            if lines.get(pair) is cut:
                del lines[pair]
    job.later(first, f'{node.name} is cut off again as soon as the master has answered',
              lambda: job.network.switch.set_trap(master.address, node.address, cut_again))
    job.later(first + seconds, f'over: {node.name} is cut off again', heal)
    return _lines(job, pairs, Line(loss=1), first, f'{node.name} is cut off')


@fault()
def cut_to_master(job, dice):
    ends = _peers(job, dice)
    return ends and _lines(job, [(ends[0].address, ends[1].address)], Line(loss=1),
                           dice.choice(SHORT + LONG), f'nothing from {ends[0].name} reaches the master')


@fault()
def cut_from_master(job, dice):
    ends = _peers(job, dice)
    return ends and _lines(job, [(ends[1].address, ends[0].address)], Line(loss=1),
                           dice.choice(SHORT + LONG), f'nothing from the master reaches {ends[0].name}')


@fault()
def master_cut_off(job, dice):
    return _lines(job, _all_lines(job, job.master_host), Line(loss=1), dice.choice(SHORT + LONG),
                  'the master is cut off')


@fault()
def host_reboots(job, dice):
    """Its kernel says nothing to anybody, and its clocks begin again."""
    life = some_life(job, dice)
    if not life:
        return None
    explain(life, -signal.SIGKILL, 137, mark='both killed')
    text = _lines(job, _all_lines(job, life.host), Line(loss=1), dice.choice(SHORT), f'{life.host.name} reboots')
    for pid in life.processes():
        job.signal(life, pid, signal.SIGKILL)
    life.host.clock_offset = dice.choice((0, 60, 5000, 90000))
    return f'{text}; then its clocks are {life.host.clock_offset} s ahead'


@fault()
def slow_lines(job, dice):
    life, delay = some_life(job, dice), dice.choice((0.02, 0.1, 0.4))
    return life and _lines(job, _all_lines(job, life.host), Line(delay=delay), dice.choice((1.0, 3.0)),
                           f'packets of {life.host.name} take {delay} s')


@fault()
def reordered_packets(job, dice):
    life = some_life(job, dice)
    return life and _lines(job, _all_lines(job, life.host), Line(delay=0.005, jitter=0.05),
                           dice.choice((1.0, 3.0)), f'packets of {life.host.name} change their order')


@fault()
def lost_packets(job, dice):
    life, loss = some_life(job, dice), dice.choice((0.05, 0.2, 0.5))
    return life and _lines(job, _all_lines(job, life.host), Line(loss=loss), dice.choice((1.0, 3.0)),
                           f'a share of {loss} of the packets of {life.host.name} is lost')


def _reset(job, dice, towards):
    ends = _peers(job, dice)
    if not ends:
        return None
    node, master = ends
    wanted = {'both': (node.address, master.address), 'master': (master.address,), 'node': (node.address,)}
    chosen = [c for c in job.network.switch.connections(node.address)
              if {c[0], c[2]} == {node.address, master.address} and c[2] in wanted[towards]]
    job.network.switch.reset(chosen)
    return f'{len(chosen)} resets towards {towards} on the connections of {node.name}' if chosen else None


@fault(restarts=True)
def reset_both(job, dice):
    return _reset(job, dice, 'both')


@fault(restarts=True)
def reset_towards_master(job, dice):
    return _reset(job, dice, 'master')


@fault(restarts=True)
def reset_towards_node(job, dice):
    return _reset(job, dice, 'node')


@fault(restarts=True)
def half_open(job, dice):
    """A NAT that forgot the connections of a node: it can make new ones, nothing passes on the old ones."""
    ends = _peers(job, dice)
    if not ends:
        return None
    forgotten, holes, seconds = object(), job.network.switch.black_holes, dice.choice((3.0, 8.0))
    holes[forgotten] = set(job.network.switch.connections(ends[0].address))
    job.later(seconds, f'the old connections of {ends[0].name} work again', lambda: holes.pop(forgotten))
    return f'nothing passes on the connections of {ends[0].name} to the master for {seconds} s'

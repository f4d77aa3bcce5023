# SPDX-License-Identifier: Apache-2.0
"""Faults of processes: workers, agents, guardians, the master."""
import signal

import stamps
from faults import explain, fault, some_life, some_worker

SHORT = (0.3, 1.0, 2.0)   # seconds, within a lease
LONG = (5.5, 7.0)         # beyond it
TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


def _signal_worker(job, dice, number):
    found = some_worker(job, dice)
    if found and job.signal(found[0], found[1], number):
        return f'{number.name} to {found[2]}'
    return None


@fault(restarts=True)
def worker_killed(job, dice):
    return _signal_worker(job, dice, signal.SIGKILL)


@fault(restarts=True)
def worker_terminated(job, dice):
    return _signal_worker(job, dice, TERM)


@fault(restarts=True)
def worker_crashed(job, dice):
    return _signal_worker(job, dice, dice.choice((signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)))


@fault(restarts=True)
def worker_exits(job, dice):
    code = dice.choice((1, 2, 3, 77, 127, 255))
    found = some_worker(job, dice)
    if found and job.tell(found[0], found[1], stamps.EXIT + code):
        return f'exit {code} of {found[2]}'
    return None


@fault(restarts=True)
def two_workers_exit(job, dice):
    done = [worker_exits(job, dice), worker_exits(job, dice)]
    return ' and '.join(filter(None, done)) or None


@fault()
def worker_ignores_sigterm(job, dice):
    found = some_worker(job, dice)
    if found and job.tell(found[0], found[1], stamps.IGNORE_TERM):
        return f'{found[2]} ignores SIGTERM'
    return None


@fault()
def worker_leaves_child(job, dice):
    found = some_worker(job, dice)
    if found and job.tell(found[0], found[1], stamps.LEAVE_CHILD):
        return f'{found[2]} leaves a child in a session of its own'
    return None


def _stand(job, life, pid, seconds, what):
    if not job.signal(life, pid, signal.SIGSTOP):
        return None
    job.later(seconds, f'SIGCONT to {what}', lambda: job.signal(life, pid, signal.SIGCONT))
    return f'SIGSTOP to {what} for {seconds} s'


@fault(restarts=True)  # if it forks just then
def template_killed(job, dice):
    life = some_life(job, dice)
    pid = life and life.template()
    return f'SIGKILL to the process of --preload of {life.name}' if pid and job.signal(life, pid, signal.SIGKILL) else None


@fault()
def worker_stands(job, dice):
    found = some_worker(job, dice)
    return found and _stand(job, found[0], found[1], dice.choice(SHORT + LONG), found[2])


def _kill_agent(job, life):
    if life and job.signal(life, life.agent(), signal.SIGKILL):
        explain(life, 137, mark='agent killed')
        return f'SIGKILL to the agent of {life.name}'
    return None


@fault()
def agent_killed(job, dice):
    return _kill_agent(job, some_life(job, dice))


@fault()
def master_killed(job, dice):
    return _kill_agent(job, job.master())


def _agent_stands(job, life, seconds):
    if not life:
        return None
    explain(life, 137, mark='agent stood')  # also briefly: other faults may have used up the lease
    return _stand(job, life, life.agent(), seconds, f'the agent of {life.name}')


@fault()
def agent_stands(job, dice):
    return _agent_stands(job, some_life(job, dice), dice.choice(SHORT + LONG))


@fault()
def master_stands(job, dice):
    return _agent_stands(job, job.master(), dice.choice(SHORT + LONG))


@fault()
def agent_stands_unread(job, dice):
    """The guardian has to kill the workers although its pipes are full."""
    life, seconds = some_life(job, dice), dice.choice(LONG)
    if not life:
        return None
    job.later(2.0, f'SIGSTOP to the agent of {life.name}', lambda: _agent_stands(job, life, seconds))
    return stop_reading(job, life, 3.0 + seconds)


def stop_reading(job, life, seconds):
    for console in life.consoles:
        console.reads.clear()
    life.marks.add('unread')

    def read_again():
        if not life.ended():
            life.marks.discard('unread')
        for console in life.consoles:
            console.reads.set()
    job.later(seconds, f'the output of {life.name} is read again', read_again)
    return f'nobody reads the output of {life.name} for {seconds} s'


def _kill_guardian(job, life):
    if life and job.signal(life, life.process.pid, signal.SIGKILL):
        explain(life, -signal.SIGKILL, mark='guardian killed')
        return f'SIGKILL to the guardian of {life.name}'
    return None


@fault()
def guardian_killed(job, dice):
    return _kill_guardian(job, some_life(job, dice))


@fault()
def guardian_stands(job, dice):
    life = some_life(job, dice)
    return life and _stand(job, life, life.process.pid, dice.choice(SHORT + LONG),
                           f'the guardian of {life.name}')


@fault()
def both_killed(job, dice):
    life = some_life(job, dice)
    if not life or not _kill_agent(job, life):
        return None
    explain(life, mark='both killed')
    return _kill_guardian(job, life) and f'SIGKILL to agent and guardian of {life.name}'


@fault()
def stopped_agent_loses_guardian(job, dice):
    life = some_life(job, dice)
    text = life and _agent_stands(job, life, dice.choice(LONG))
    if text:
        job.later(0.3, f'SIGKILL to the guardian of {life.name}', lambda: _kill_guardian(job, life))
    return text


@fault()
def agent_stopped_as_guardian_dies(job, dice):
    life = some_life(job, dice)
    text = life and _agent_stands(job, life, dice.choice(LONG))
    return text and f'{text}, {_kill_guardian(job, life)}'


def _stop(job, life, number, pid=None):
    if life and job.signal(life, pid or life.process.pid, number):
        explain(life, 128 + number, -number, mark='stopped')  # a shell cannot tell the two apart
        return f'{number.name} to {"the agent of " if pid else ""}{life.name}'
    return None


@fault()
def node_terminated(job, dice):
    return _stop(job, some_life(job, dice), TERM)


@fault()
def node_interrupted(job, dice):
    return _stop(job, some_life(job, dice), dice.choice((INT, HUP, signal.SIGQUIT)))


@fault()
def node_terminated_twice(job, dice):
    life = some_life(job, dice)
    text = _stop(job, life, TERM)
    if text:
        explain(life, mark='killed at once')
    return text and f'{text}, {_stop(job, life, INT)}'


@fault()
def agent_terminated(job, dice):
    life = some_life(job, dice)
    return life and life.agent() and _stop(job, life, TERM, life.agent())


@fault()
def master_terminated(job, dice):
    return _stop(job, job.master(), TERM)


@fault()
def user_signal(job, dice):
    life = some_life(job, dice)
    begun = life and life.agent()
    if not life or not job.signal(life, life.process.pid, signal.SIGUSR1):
        return None
    explain(life, *([] if begun else [-signal.SIGUSR1]), mark='user signal')  # ends a worker that has no handler yet
    return f'SIGUSR1 to {life.name}'


@fault()
def host_suspended(job, dice):
    life, seconds = some_life(job, dice), dice.choice(SHORT + LONG)
    if not life:
        return None
    explain(life, 137, mark='suspended')
    pids = life.processes()
    for pid in pids:
        job.signal(life, pid, signal.SIGSTOP)
    job.later(seconds, f'the host of {life.name} resumes',
              lambda: [job.signal(life, pid, signal.SIGCONT) for pid in pids])
    return f'the host of {life.name} is suspended for {seconds} s'


@fault()
def spare_joins(job, dice):
    if any(life.host is job.spare_host for life in job.alive()):
        return None
    return f'{job.start(job.spare_host).name} joins as a spare'


@fault()
def all_agents_killed(job, dice):
    """A power cut: the job begins again from its checkpoint."""
    return ', '.join(filter(None, (_kill_agent(job, life) for life in job.alive()))) or None

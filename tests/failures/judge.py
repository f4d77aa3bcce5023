# SPDX-License-Identifier: Apache-2.0
"""Reads rank, host and cause out of what a launcher printed: the same rules for every launcher."""
import re

# The blamed rank. The first pattern that matches anywhere decides, so a launcher that knows better later is taken at
# its best word. A program's own words name no rank.
VERDICTS = [re.compile(text, re.MULTILINE | re.DOTALL) for text in (
    # ddprun
    r'\branks? (?P<rank>[\d,-]+) \((?P<host>[^),]+)[^)\n]*\) (?:is|are) the likely cause',
    r'\brank (?P<rank>\d+) \((?P<host>[^),\s]+)[^)\n]*\) is (?:stopped|slow)',
    r'^(?P<rank>\d+) +(?P<host>\S+) +running \(throttled',
    r'\brank (?P<rank>\d+) failed first: [^\n]*?\(host (?P<host>[^,)\s]+)',
    # torchrun
    r'Root Cause \(first observed failure\):.{0,200}?host +: (?P<host>\S+).{0,80}?rank +: (?P<rank>\d+)',
    # Open MPI
    r'process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited',
    r'Node: +(?P<host>\S+).{0,200}?Process rank: +(?P<rank>\d+)',
    r'Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]',
    # MPICH
    r'YOUR APPLICATION PROCESSES.{0,80}?RUNNING AT (?P<host>\S+)',
)]


def messages(text):
    """Lines, each with the indented ones below it."""
    joined = []
    for line in text.splitlines():
        if joined and line[:1] in (' ', '\t', '|'):
            joined[-1] += ' ' + line.strip()
        else:
            joined.append(line)
    return joined


def ranks_in(text):
    ranks = set()
    for part in text.split(','):
        first, _, last = part.partition('-')
        ranks |= set(range(int(first), int(last or first) + 1))
    return ranks


def accused(consoles):
    """Ranks and hosts of the best verdict on any console."""
    for verdict in VERDICTS:
        found = [match.groupdict() for text in consoles for match in verdict.finditer(text)]
        if found:
            ranks = set().union(*(ranks_in(one['rank']) for one in found if one.get('rank')))
            return ranks, {one['host'] for one in found if one.get('host')}
    return set(), set()


def names_host(failure, consoles, names, own):
    """In the message that has the cause. One on the host's own console may call it "this host"."""
    cause = re.compile(failure.cause, re.IGNORECASE)
    anywhere = '|'.join(rf'(?<![\w.-]){re.escape(name)}(?![\w-])' for name in names)
    for node, text in consoles.items():
        where = anywhere + (r'|\bthis host\b' if node == own else '')
        if any(cause.search(each) and re.search(where, each) for each in messages(text)):
            return True
    return False


# The rank that writes a line is not the rank that it names.
SPEAKER = re.compile(r'^(ddprun: )\[[^\]\n]*\] ', re.MULTILINE)


def judge(failure, consoles, names, own=None):
    """What `consoles`, texts by node, name of a failure: {'rank': bool, 'host': bool, 'cause': bool}, without
    what makes no sense for it. `names` are those of the host to blame, and `own` the node whose
    console is there."""
    consoles = {node: SPEAKER.sub(r'\1', text) for node, text in consoles.items()}
    texts = list(consoles.values())
    score = {'cause': any(re.search(failure.cause, text, re.IGNORECASE) for text in texts)}
    if failure.ranks:
        ranks, hosts = accused(texts)
        score['rank'] = bool(ranks) and ranks <= set(failure.ranks)
        score['host'] = score['rank'] and bool(hosts) and hosts <= set(names)
    elif failure.host is not None:
        score['host'] = names_host(failure, consoles, names, own)
    return score

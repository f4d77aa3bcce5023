#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links between pages lead somewhere, headings included, the first figures of README are those of the pages to which
they link, each test is there that docs/guarantees.md and docs/security.md name, and each file of docs/design.md. Exit
1, with a line for each that is not: tests/check_docs.py [FOLDER]"""
import fnmatch
import glob
import os
import re
import sys

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
wrong = []


def read(page):
    with open(page, encoding="utf8") as file:
        return re.sub(r"^    .*$", "", file.read(), flags=re.MULTILINE)


def anchors(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", read(page), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        path, _, anchor = target.partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        place = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(place):
            wrong.append(f"{page}: there is no {target}")
        elif anchor and anchor not in anchors(place):
            wrong.append(f"{page}: {path or 'the page'} has no heading #{anchor}")


def test_names():
    """Of the files of tests, as "netns_slurm" and "report_test"; ctest shows folders before some."""
    files = glob.glob(f"{root}/tests/**/*.*", recursive=True)
    return {os.path.splitext(os.path.basename(file))[0] for file in files} | {"simulation", "chaos"}


def check_tests(page, least):
    names = test_names()
    tables = re.findall(r"^\|.*shown by.*\|\n\|[-| ]*\|\n((?:\|.*\n)+)", read(page), re.MULTILINE)
    if len(tables) < least:
        wrong.append(f"{page}: only {len(tables)} tables with tests")
    for row in "".join(tables).splitlines():
        shown_by = row.rstrip("| ").rsplit("|", 1)[1]
        named = re.findall(r"`([^`]+)`", shown_by)
        if not named:
            wrong.append(f"{page}: no test shows: {row}")
        for name in named:
            pattern = re.escape(name.split(": ")[-1]).replace(r"\*", ".*")
            if not any(re.fullmatch(pattern, each) for each in names):
                wrong.append(f"{page}: there is no test {name}")


def check_attacks(page):
    """The attacks that are functions of the attacker, and cases of a test."""
    with open(f"{root}/tests/e2e/attacker.py", encoding="utf8") as file:
        attacker = file.read()
    with open(f"{root}/tests/rendezvous/secret/secure_channel_test.cc", encoding="utf8") as file:
        cases = file.read()
    table = re.search(r"^\| attack \|.*\n((?:\|.*\n)+)", read(page), re.MULTILINE)
    named = re.findall(r"`(\w+)`", table[1]) if table else []
    wrong.extend(f"{page}: there is no attack {name}" for name in named if f"def {name}(" not in attacker)
    titles = re.findall(r'"([^"]+)"', table[1]) if table else []
    wrong.extend(f"{page}: there is no case {title}" for title in titles if f'TEST_CASE("{title}")' not in cases)
    if not named or not titles:
        wrong.append(f"{page}: no attacks are named")


def check_figures(page):
    """Start, restart, collectives and failures named, which README has before it says how to install."""
    first, _, _ = read(page).partition("\n## Install\n")
    points = re.findall(r"^- \*\*.*(?:\n  .*)*", first, re.MULTILINE)
    for point in points:
        linked = "".join(read(os.path.join(root, path)) for path in re.findall(r"\]\(([^)#]+)", point))
        wrong.extend(f"{page}: {figure} is in no page to which its point links"
                     for figure in re.findall(r"\b0\.\d+", point) if figure not in linked)
    named = re.findall(r"^\| all of it named \|  \| (\d+) \| (\d+) \|", read(f"{root}/docs/diagnosis.md"), re.MULTILINE)
    claimed = re.findall(r"in (\d+), torchrun in (\d+|none)", " ".join(first.split()))
    if len(points) != 4 or [(ours, theirs.replace("none", "0")) for ours, theirs in claimed] != named:
        wrong.append(f"{page}: failures named are {claimed}, in docs/diagnosis.md {named}")


def check_signatures(page):
    """Those of the library, without "std::", are in its headers."""
    def plain(text):
        return re.sub(r"std::|\s", "", text)
    headers = ""
    for path in glob.glob(f"{root}/collectives/include/ddp/*.h"):
        with open(path, encoding="utf8") as file:
            headers += plain(file.read())
    _, _, functions = read(page).partition("\n## All functions\n")
    signatures = re.findall(r"`([^`]+ [^`]*\([^`]*\))`", functions)
    wrong.extend(f"{page}: no header has {each}" for each in signatures if plain(each) not in headers)
    if len(signatures) < 30:
        wrong.append(f"{page}: only {len(signatures)} signatures")


def check_files(page):
    """Files and folders, with or without their ending: `store/connection_slots`, `launcher/process/{spawn,worker}`."""
    folders = ["agent", "base", "bench", "cli", "collectives", "engine", "examples", "fuzz", "launcher", "python",
               "remote", "rendezvous", "scripts", "store", "tests"]
    paths = [path for folder in folders for path in glob.glob(f"{folder}/**", root_dir=root, recursive=True)]
    known = {each for path in paths for each in (path.rstrip("/"), os.path.splitext(path)[0])}
    for span in re.findall(r"`([\w./*{},-]+)`", read(page)):
        within = re.search(r"{(.*)}", span)
        for name in [span.replace(within[0], each) for each in within[1].split(",")] if within else [span]:
            if name.split("/")[0] in folders and not fnmatch.filter(known, name.rstrip("/")):
                wrong.append(f"{page}: there is no {name}")


pages = sorted(glob.glob(f"{root}/*.md") + glob.glob(f"{root}/docs/*.md"))
for each in pages:
    check_links(each)
check_figures(os.path.join(root, "README.md"))
check_signatures(os.path.join(root, "docs", "collectives.md"))
check_tests(os.path.join(root, "docs", "guarantees.md"), 5)
check_tests(os.path.join(root, "docs", "security.md"), 1)
check_attacks(os.path.join(root, "docs", "security.md"))
check_files(os.path.join(root, "docs", "design.md"))
print("\n".join(wrong) or f"{len(pages)} pages: passed")
sys.exit(1 if wrong else 0)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links between pages lead somewhere, headings included, and each test that docs/guarantees.md names is there.
Exit 1, with a line for each that is not: tests/check_docs.py [FOLDER]"""
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


def check_tests(page):
    names = test_names()
    tables = re.findall(r"^\|.*shown by.*\|\n\|[-| ]*\|\n((?:\|.*\n)+)", read(page), re.MULTILINE)
    if len(tables) < 5:
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


pages = sorted(glob.glob(f"{root}/*.md") + glob.glob(f"{root}/docs/*.md"))
for each in pages:
    check_links(each)
check_tests(os.path.join(root, "docs", "guarantees.md"))
print("\n".join(wrong) or f"{len(pages)} pages: passed")
sys.exit(1 if wrong else 0)

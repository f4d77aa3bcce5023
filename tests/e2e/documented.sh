#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The transcripts of README and of the page about failures are true, and so is README's picture of a report: each command
# that they show with its output writes these lines, but for numbers, paths and the name of the host. Those of README are whole, but for what the other
# ranks may print of a rank that crashed before they are stopped.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v python3 >/dev/null || skip "there is no python3"
pages=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
DDPRUN=$(realpath "$DDPRUN")
mkdir -p "$work/place/build"
ln -s "$(realpath "$DDPRUN_BIN")" "$work/place/build/bin"
cd "$work/place"
cat >train.py <<'END'
import os, time

if os.environ["RANK"] == "2":
    raise ValueError("loss is nan")
time.sleep(600)
END

printf '#!/bin/sh\n' >train
chmod +x train

# Writes N.command and N.lines for each "$ ddprun" that lines follow.
python3 - "$pages/README.md" "$pages/docs/failures.md" "$pages/docs/report.svg" <<'END'
import html, re, sys
number = 0
def text_of(page):
    if not page.endswith('.svg'):
        return open(page).read()
    lines = re.findall(r'<text [^>]*>(.*)</text>', open(page).read())
    return ''.join(f'    {html.unescape(re.sub("<[^>]*>", "", line))}\n' for line in lines)
for page in sys.argv[1:]:
    for block in re.findall(r'^    \$ ddprun .*\n(?:    .*\n)+', text_of(page), re.MULTILINE):
        text = re.sub('^    ', '', block, flags=re.MULTILINE)
        for command, lines in re.findall(r'^\$ ddprun (.*)\n((?:(?!\$ ).*\n)+)', text, re.MULTILINE):
            open(f'{number}.command', 'w').write(command)
            open(f'{number}.lines', 'w').write(lines)
            open(f'{number}.page', 'w').write(page)
            number += 1
assert number >= 8 and page.endswith('.svg'), number
END

plain() {  # without what differs from run to run
  sed -E "s/\(host [^,]+,/(host H,/; s/host [^ ,)]+,/host H,/; s|\"[^\"]*/train\.py\"|\"train.py\"|; s/[0-9.]+ (ms|s|min)/TIME/g; s/[0-9]+/N/g" "$1" |
    sort -u
}

for command in *.command; do
  eval "run $(cat "$command")"
  cat "$out" "$err" >shown
  plain "${command%.command}.lines" >expected
  plain shown >got
  missing=$(comm -23 expected got)
  [ -z "$missing" ] || fail "ddprun $(cat "$command") does not write: $missing"
  [[ $(cat "${command%.command}.page") =~ README ]] || continue
  more=$(comm -13 expected got | grep -vE 'ddp: rank N (lost rank N|failed) in ' || true)
  [ -z "$more" ] || fail "ddprun $(cat "$command") writes more: $more"
done
expect_no_process_left

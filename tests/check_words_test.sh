#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/check/words accepts plain sentences, and names others in comments of C++ and scripts and in titles of tests.
set -euo pipefail
check=$(dirname "${BASH_SOURCE[0]}")/../scripts/check/words
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

{
  echo '// SPDX-License-Identifier: Apache-2.0'
  echo '// Returns the pid of a worker; empty if there is none. The agent is told to stop it.'
  echo '// For each rank one line. As long as it waits, the'
  echo '// line stays. Nobody can change it.'
  echo '/// For the writer: the next line; - is an option'
  echo 'const char* text = "// Of a round";  // the text of'
  echo '                                     // As and What'
  echo 'int count = 1'\''000; char quote = '\''"'\'';  // One line'
  echo 'TEST_CASE("a minority that waits is suspected")'
} >"$tree/good.h"
printf '%s\n' '#!/bin/sh' '# Starts a job' 'echo "# Of a job"  # until it ends' >"$tree/good"
echo 'Of a page that has no comments' >"$tree/page.md"
"$check" "$tree/good.h" "$tree/good" "$tree/page.md"

# expect_named FILE LINE TEXT: the text is refused for that line of the file
expect_named() {
  echo "$3" >"$tree/$1"
  if said=$("$check" "$tree/good.h" "$tree/$1") || [[ $said != *"$1:$2: "* ]]; then
    echo "'$3' is not refused: ${said:-nothing was printed}"
    exit 1
  fi
}
for words in 'Of a round.' 'Where it listens.' 'One that has ended counts.' 'Starts it. What is left ends.' \
  'Starts it; nobody is told.' 'A text for people.' 'Waits, as far as it may.' 'nullopt: it is none.' \
  'Nobody waits for it.' 'For the user.'; do
  expect_named bad.h 1 "// $words"
  expect_named bad.cc 1 "int count;  // $words"
  expect_named bad.sh 1 "# $words"
done
expect_named bad.h 2 $'/// Starts the workers. It waits for\n/// ever if one hangs, and for\n/// people.'
expect_named bad.h 3 $'// Starts the workers.\n//\n// Of one round.'
expect_named bad.cc 1 'TEST_CASE("what is no answer is refused")'
expect_named bad.cc 1 'TEST_CASE("a round ends; the next begins")'
expect_named bad.cc 1 'TEST_CASE("--nproc_per_node is read")'
expect_named bad.cc 1 'TEST_CASE_METHOD(Fixture, "a round ends; the next begins")'
expect_named bad.cc 2 $'  SECTION(\n"the round " "goes on")'
expect_named bad.cc 3 $'// Starts it.\nint count;\n// Where it ends.'
expect_named bad.sh 2 $'set -e\n# Of one round.'

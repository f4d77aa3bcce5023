#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The page "C++ in ten minutes" is true: its files and its commands, as they stand there, with the library
# that was installed. Compares their output, except numbers and names of hosts; leaves "..." out.
#   first_program.sh PAGE BIN PREFIX FLAGS    in an empty folder
set -euo pipefail
page=$1 bin=$2
export CMAKE_PREFIX_PATH=$3 CXXFLAGS=$4 PATH=$bin:$PATH
export DDPRUN_LOG_FORMAT=plain  # without the times that ddprun writes into a file

block() {  # block TEXT: the indented lines after the line that ends with it
  awk -v mark="$1:" 'substr($0, length($0) - length(mark) + 1) == mark { on = 1; next }
    on && /^[^ ]/ { exit }
    on { sub(/^    /, ""); print }' "$page"
}
# shellcheck disable=SC2016
block '`main.cc`' >main.cc
# shellcheck disable=SC2016
block '`CMakeLists.txt`' >CMakeLists.txt
# shellcheck disable=SC2016
block '`train.cc`' >train.cc

plain() {
  sed -E 's/\(host [^,]+,/(host H,/; s/[0-9.]+ (ms|s)/TIME/g; s/pid [0-9]+/pid N/; s/\+0x[0-9a-f]+/+0xN/g' "$1"
}

count=0
while IFS= read -r line; do
  case $line in
    '    $ '*)
      eval "${line#*$ }" >shown 2>&1 || [ $? = 1 ] || { cat shown && exit 1; }
      count=$((count + 1))
      ;;
    '' | '    ...') ;;
    '    '*)
      grep -qxF -- "$(plain <(echo "${line#    }"))" <(plain shown) ||
        { echo "not printed: $line, but: $(cat shown)" && exit 1; }
      count=$((count + 1))
      ;;
  esac
done < <(sed -n '/^    \$ /,/^$/p' "$page")
[ $count = 19 ] || { echo "the page has $count lines that were tried, not 19" && exit 1; }

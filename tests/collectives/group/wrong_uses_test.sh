#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wrong_uses_test.sh COMPILER INCLUDE: compiles programs with one wrong use of the library each. Each must fail with the
# error that is expected of it, and compile when the use is corrected.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
flags=(-std=c++20 -Wall -Wextra -Werror -Wno-unused -Werror=unused-result -I "$2")
compile=("$1" "${flags[@]}" -include "$folder/headers.h" -fsyntax-only -x c++ -)
failures=0

cat >"$folder/headers.h" <<'EOF'
#include <array>
#include <complex>
#include <string>
#include <vector>

#include "ddp/process_group.h"
#include "ddp/views.h"
EOF
"$1" "${flags[@]}" -x c++-header "$folder/headers.h" -o "$folder/headers.h.gch"  # compiled once

# program STATEMENT...
program() {
  cat <<'EOF'
struct Point { int x, y; };

void use(ddp::ProcessGroup& group, ddp::DeviceSpan<float> on_device) {
  std::vector<float> floats(4);
  std::vector<double> doubles(4);
  std::vector<int> ints(4);
  std::vector<Point> points(4);
  std::array<bool, 4> flags = {};
  const std::vector<float> constants(4);
  const std::vector<std::size_t> counts = {4};
  const ddp::DeviceSpan<const float> constant_on_device = {on_device.data, on_device.count};
EOF
  printf '  { %s }\n' "$@"
  printf '}\n'
}

# refused WHAT WRONG RIGHT ERROR: the compiler's error is a regular expression, of GCC's words and Clang's.
corrected=()
refused() {
  local errors
  corrected+=("$3")
  if errors=$(program "$2" | "${compile[@]}" 2>&1); then
    echo "$1: the compiler takes $2"
  elif ! grep -Eq "error: .*($4)" <<<"$errors"; then
    printf '%s: no error "%s" for %s, but:\n%s\n' "$1" "$4" "$2" "$errors"
  else
    return 0
  fi
  failures=$((failures + 1))
}

refused "two types of elements" \
  'group.all_reduce(floats, doubles);' 'group.all_reduce(floats, floats);' 'deleted .*function.*all_reduce'
refused "two types of elements in a call that is begun" \
  'group.iall_gather(floats, ints).wait();' 'group.iall_gather(floats, floats).wait();' 'deleted .*function.*iall_gather'
refused "two types of elements around counts" \
  'group.scatter_v(floats, counts, doubles, 0);' 'group.scatter_v(floats, counts, floats, 0);' \
  'deleted .*function.*scatter_v'
refused "structs that become numbers" \
  'group.all_to_all(points, ints);' 'group.all_to_all(points, points);' 'deleted .*function.*all_to_all'
refused "memory of a device and of the host" \
  'group.reduce(on_device, floats, 0);' 'group.reduce(on_device, on_device, 0);' 'deleted .*function.*reduce'
refused "the sum of bool" \
  'group.all_reduce(flags);' 'group.all_reduce(flags, ddp::ReduceOp::max);' 'deleted .*function.*all_reduce'
refused "the sum of bool in two buffers" \
  'group.reduce_scatter(flags, flags);' 'group.reduce_scatter(flags, flags, ddp::ReduceOp::min);' \
  'deleted .*function.*reduce_scatter'
refused "the sum of one bool" \
  'bool any = group.all_reduce(true);' 'bool any = group.all_reduce(true, ddp::ReduceOp::max);' 'no matching'
refused "a sum of structs" \
  'group.all_reduce(points, ddp::ReduceOp::max);' 'group.broadcast(points);' 'deleted .*function.*all_reduce'
refused "one struct to be combined" \
  'Point sum = group.reduce(Point{}, 0);' 'auto all = group.gather(Point{}, 0);' 'no matching|deleted'
refused "constant elements that are written" \
  'group.broadcast(constants);' 'group.broadcast(floats);' 'no matching|could not convert|cannot convert|no viable'
refused "constant elements that are received" \
  'group.recv(constants, 1);' 'group.send(constants, 1);' 'no matching|could not convert|cannot convert|no viable'
refused "constant elements of a device that are written" \
  'group.all_reduce(constant_on_device, constant_on_device);' 'group.all_reduce(constant_on_device, on_device);' \
  'no matching|could not convert|cannot convert|no viable'
refused "a range that ends before the call" \
  'group.all_reduce(std::vector<float>(4));' 'group.all_reduce(floats);' 'no matching|deleted'
refused "elements that do not lie side by side" \
  'std::vector<bool> bits(4); group.broadcast(bits);' 'group.broadcast(flags);' 'no matching|could not convert|no viable'
refused "texts, whose bytes lie elsewhere" \
  'std::vector<std::string> texts(4); group.broadcast(texts);' 'std::string text; group.broadcast_object(text);' \
  'no matching|could not convert|no viable'
refused "addresses" \
  'std::vector<float*> addresses(4); group.broadcast(addresses);' 'group.broadcast(floats);' \
  'no matching|could not convert|no viable'
refused "a result that nobody takes" \
  'group.all_reduce(2.5);' 'double sum = group.all_reduce(2.5);' 'unused-result|ignoring return value'
refused "a call that nobody waits for" \
  'group.iall_reduce(floats);' 'group.iall_reduce(floats).wait();' 'unused-result|ignoring return value'
refused "a rest of the group that is left at once" \
  'group.shrink();' 'auto rest = group.shrink();' 'unused-result|ignoring return value'
refused "a copy of a group" \
  'auto copy = group;' 'auto moved = std::move(group);' 'deleted (function|constructor)'
refused "an optional group that is no group" \
  'ddp::ProcessGroup part = group.split(1);' 'ddp::ProcessGroup part = group.split(1).value();' \
  'conversion from|no viable conversion'

if ! errors=$(program "${corrected[@]}" | "${compile[@]}" 2>&1); then
  printf 'the compiler refuses a corrected program:\n%s\n' "$errors"
  failures=$((failures + 1))
fi
((failures == 0))

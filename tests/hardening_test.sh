#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the programs' protection against errors that get past the tests, as their ELF files show it.
#   hardening_test.sh BUILD_TYPE COMPILER_HAS_CET FILE...   a program, or shared libraries
set -euo pipefail
command -v readelf >/dev/null || { echo "skipped: there is no readelf" && exit 77; }
build_type=$1 has_cet=$2
shift 2
failed=0
need() { # PATTERN TEXT SENTENCE
  grep -qE -- "$1" <<<"$2" || { echo "$file: $3" && failed=1; }
}
refuse() {
  ! grep -qE -- "$1" <<<"$2" || { echo "$file: $3" && failed=1; }
}

for file; do
  headers=$(readelf -hlW "$file")
  dynamic=$(readelf -dW "$file")
  symbols=$(readelf --dyn-syms -W "$file")
  need 'Type: +DYN' "$headers" "it is loaded at a fixed address (no PIE)"
  need 'GNU_RELRO' "$headers" "what the loader resolves stays writable (no RELRO)"
  need 'BIND_NOW|Flags: .*NOW' "$dynamic" "functions are resolved at their first call (no BIND_NOW)"
  need 'GNU_STACK .* RW +0' "$headers" "the stack may be executed"
  refuse 'LOAD .* RWE ' "$headers" "a segment is writable and executable"
  refuse 'TEXTREL' "$dynamic" "the loader has to change its code"
  [ "$build_type" = Release ] || continue
  need '__stack_chk_fail' "$symbols" "no stack protector"
  case $file in
    *libddp_mpi*) ;;  # calls nothing that has a checked variant
    *) need '_chk(@|$)' "$symbols" "no calls of libc are checked (_FORTIFY_SOURCE)" ;;
  esac
  case $file in
    */ddprun) refuse 'NEEDED.*libm\.so' "$dynamic" "it loads libm at each start" ;;
  esac
  [ "$has_cet" = 1 ] || continue
  # Marks of the targets of indirect calls. The loader does not enforce them while libraries beneath have none.
  case $file in
    *.so*) marked=$(objdump -d "$file" | grep -c endbr) ;;
    *) marked=$(objdump -d --disassemble=main "$file" | grep -c endbr)0 ;;
  esac || true
  [ "$marked" -gt 9 ] || { echo "$file: functions are not marked as such (no CET)" && failed=1; }
done
exit "$failed"

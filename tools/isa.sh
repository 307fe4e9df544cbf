#!/bin/bash
# isa.sh all|below WORD PROGRAM... -- run test programs at instruction levels (TD_ISA).
#
# all: at every level this CPU has, from the lowest. below: at the one below the best,
# or at the only one. Ends with `N passed, N failed`.
set -u
which=$1
shift
known="base avx2 avx512"
best=$("${B:-build}/tandem" doctor 2>/dev/null | sed -nE 's/^level +[a-z0-9]+ of ([a-z0-9]+).*/\1/p')
case " $known " in *" $best "*) ;; *) echo "isa: tandem doctor shows no level" >&2 && exit 1 ;; esac
levels=() below=base
for level in $known; do
    levels+=("$level")
    [ "$level" = "$best" ] && break
    below=$level
done
[ "$which" = below ] && levels=("$below")

passed=0 failed=0
for level in "${levels[@]}"; do
    echo "-- TD_ISA=$level"
    out=$(TD_ISA=$level tools/run-tests.sh "$@" 2>&1)
    sed '$d' <<<"$out"
    read -r p _ f _ < <(tail -1 <<<"$out")
    passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]

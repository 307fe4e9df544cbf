#!/bin/bash
# check-all.sh -- every suite of `make check-all`, also after one that failed.
#
# Suites of one line below share a build directory and run one after the other; LANES
# lines run at a time (one for every four CPUs, at least one), each with JOBS processes.
# The lines that take longest begin first, so that none of them runs alone at the end.
# The output of a suite is build/check-all/NAME.log. Ends with a table, the ends of the
# logs that failed, and `N passed, N failed`: a suite that prints no count is one test.
set -u
lines=(
    "valgrind"
    "asan native-asan"
    "tsan"
    "isa"
    "native native-unit emit-c-all"
    "test lint analysis"
    "fuzz"
)
cpus=$(nproc)
lanes=${LANES:-$((cpus / 4 > 0 ? cpus / 4 : 1))}
export JOBS=${JOBS:-$(((cpus + lanes - 1) / lanes))}
# Each suite is a make of its own, not a part of the one that started this script.
unset MAKEFLAGS MAKELEVEL MFLAGS
logs=build/check-all
rm -rf "$logs" && mkdir -p "$logs" || exit 1

suite() { # NAME
    local start status
    start=$(date +%s)
    TOTALS=$PWD/$logs/$1.totals make -j"$JOBS" "$1" \
        $([ "$1" = fuzz ] && echo N="${N:-180}") >"$logs/$1.log" 2>&1
    status=$?
    echo "$status $(($(date +%s) - start))" >"$logs/$1.end"
    row "$1"
}

# Sets p and f to what passed and failed in a suite: the sums of its runs of
# run-tests.sh, or else its last line `N passed, N failed`.
count() { # NAME STATUS
    local lines=$logs/$1.totals
    if [ ! -e "$lines" ]; then
        grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$logs/$1.log" | tail -1 |
            awk '{ print $1, $3 }' >"$lines"
    fi
    read -r p f < <(awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }' "$lines")
    [ "$2" -eq 0 ] && [ "$p" -eq 0 ] && p=1
    [ "$2" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    return 0
}

row() { # NAME: its line of the table
    read -r status seconds <"$logs/$1.end"
    count "$1" "$status"
    printf '%-12s %6d passed %4d failed %6d s\n' "$1" "$p" "$f" "$seconds"
}

make -j"$cpus" programs >"$logs/build.log" 2>&1 || {
    tail -n 40 "$logs/build.log"
    echo "0 passed, 1 failed"
    exit 1
}
for line in "${lines[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n; done
    # shellcheck disable=SC2086  # a list of names
    for name in $line; do suite "$name"; done &
done
wait

passed=0 failed=0
echo "-- all suites"
# shellcheck disable=SC2048,SC2086
for name in ${lines[*]}; do
    row "$name"
    passed=$((passed + p)) failed=$((failed + f))
    [ "$f" -gt 0 ] && { echo "-- $logs/$name.log ends:" && tail -n 40 "$logs/$name.log"; }
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

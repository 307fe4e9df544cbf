#!/bin/bash
# run-tests.sh WORD PROGRAM... -- run test programs and sum up.
#
# Each program gets WORD (which tests to run; "" is all) as its argument and says
# `N passed, N failed` on its last such line. A program that does not is one test, and
# its exit status the verdict. WRAP is put before every program; TOTALS names a file that
# gets the sums.
# The output of a passing program is shown only with VERBOSE=1; that of a failing one
# always, and its end once more after the table, where a reader of the last lines
# finds it.
#
# As many programs as there are CPUs run at a time (JOBS=1: one after the other); the
# table has their order. Some programs take long because their tests run one after the
# other: several processes have a part of the tests each.
#
# A program has two threads, enough for what threads can do wrong: with one for each CPU
# the programs would mostly wait for each other's.
#
# Functions are compiled for the interpreter unless a program asks for more: most
# tests are about what surrounds the code, and native code takes a compiler's time.
set -u
export TD_BACKEND=${TD_BACKEND:-interp}
word=$1
shift
# The device for tests is beside the first program.
export TD_DEVICE_PATH="${TD_DEVICE_PATH:-$PWD/$(dirname "$1")}"
jobs=${JOBS:-$(nproc)}
threads=$(($(nproc) < 2 || jobs < 2 ? $(nproc) : 2))
export TD_NUM_THREADS=${TD_NUM_THREADS:-$threads} OMP_NUM_THREADS=${OMP_NUM_THREADS:-$threads}
programs=() # "PROGRAM", or "PROGRAM K/N" for part K of its tests
for program in "$@"; do
    parts=1
    case $program in
    */unit) parts=$jobs ;;
    */faults/aot | */faults/types) parts=$((jobs < 4 ? jobs : 4)) ;;
    esac
    [ "$parts" = 1 ] && programs+=("$program")
    for ((k = 1; k <= parts && parts > 1; k++)); do programs+=("$program $k/$parts"); done
done
passed=0 failed=0
# For each program a log, and NAME.end with its status and time when it is done.
logs=$(mktemp -d) || exit 1
# Compiled code is kept with the build, not among the user's own.
export TD_CACHE_DIR="${TD_CACHE_DIR:-$PWD/build/cache}"
trap 'rm -rf "$logs"' EXIT

run() { # PROGRAM [PART]
    local args=()
    [ $# -gt 1 ] && export TD_TEST_PART=$2
    [ -n "$word" ] && args=("$word")
    # shellcheck disable=SC2086  # WRAP is a command with its options
    ${WRAP:-} "$1" "${args[@]}"
}

run_one() { # NUMBER: runs that program; for a process of its own
    local start status
    start=$(date +%s%N)
    # shellcheck disable=SC2086  # a program and its part
    run ${programs[$1]} >"$logs/$1" 2>&1
    status=$?
    echo "$status $((($(date +%s%N) - start) / 1000000))" >"$logs/$1.part"
    mv "$logs/$1.part" "$logs/$1.end"
}

count() { # LOG STATUS: sets p and f
    local line
    line=$(sed 's/\x1b\[[0-9;]*m//g' "$1" |
        grep -aE '^[0-9]+ passed, [0-9]+ failed' | tail -1)
    case $line in
    *passed*) read -r p _ f _ <<<"$line" ;;
    *) p=$(($2 == 0)) f=0 ;;
    esac
    [ "$2" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    return 0
}

keep() { # PROGRAM STATUS LOG: the lines that say what failed, for the end
    echo "-- $1 (status $2)"
    grep -aE 'FAIL|CRASH|----|[Ff]ailed|TIMEOUT|differs|ERROR|rror:' "$3" | tail -20
    echo "   ..." && tail -n 15 "$3"
} >>"$logs/failures"

show() { # NUMBER: the line of a program that is done
    local program=${programs[$1]} log=$logs/$1 status ms
    read -r status ms <"$log.end"
    count "$log" "$status"
    [ "$f" -ne 0 ] || [ -n "${VERBOSE:-}" ] && cat "$log"
    [ "$f" -ne 0 ] && keep "$program" "$status" "$log"
    printf '%-28s %5d passed %4d failed %7d ms' "$program" "$p" "$f" "$ms"
    [ "$status" -gt 1 ] && printf '  (status %d)' "$status"
    printf '\n'
    passed=$((passed + p)) failed=$((failed + f))
}

shown=0
show_done() { # in order, as far as they are done
    while [ -e "$logs/$shown.end" ]; do
        show $shown
        shown=$((shown + 1))
    done
}

for ((i = 0; i < ${#programs[@]}; i++)); do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n
        show_done
    done
    run_one $i &
done
wait
show_done
[ -e "$logs/failures" ] && cat "$logs/failures"
[ -n "${TOTALS:-}" ] && echo "$passed $failed" >>"$TOTALS"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && { [ $((passed + failed)) -gt 0 ] || [ -n "$word" ]; }

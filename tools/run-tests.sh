#!/bin/bash
# run-tests.sh WORD PROGRAM... -- run test programs and sum up.
#
# Each program gets WORD (which tests to run; "" is all) as its argument and says
# `N passed, N failed` on its last such line; Criterion's summary is understood
# as well. A program that says neither is one test, and its exit status the
# verdict. WRAP is put before every program. The output of a passing program is
# shown only with VERBOSE=1; that of a failing one always, and its end once more
# after the table, where a reader of the last lines finds it.
#
# Functions are compiled for the interpreter unless a program asks for more: most
# tests are about what surrounds the code, and native code takes a compiler's time.
set -u
export TD_BACKEND=${TD_BACKEND:-interp}
word=$1
shift
passed=0 failed=0
log=$(mktemp) failures=$(mktemp)
# Compiled code is kept with the build, not among the user's own.
export TD_CACHE_DIR="${TD_CACHE_DIR:-$PWD/build/cache}"
trap 'rm -f "$log" "$failures"' EXIT

run() { # PROGRAM: into $log
    local args=()
    if [ "$(basename "$1")" = unit ] && grep -qa 'libcriterion' "$1"; then
        args=(--jobs "$(nproc)" --timeout 120)
        [ -n "$word" ] && args+=(--filter "*$word*")
    elif [ -n "$word" ]; then
        args=("$word")
    fi
    # shellcheck disable=SC2086  # WRAP is a command with its options
    ${WRAP:-} "$1" "${args[@]}" >"$log" 2>&1
}

count() { # STATUS: sets p and f from $log
    local line
    line=$(sed 's/\x1b\[[0-9;]*m//g' "$log" |
        grep -aE '^[0-9]+ passed, [0-9]+ failed|Synthesis: Tested:' | tail -1)
    case $line in
    *Synthesis*)
        p=$(sed -E 's/.*Passing: ([0-9]+).*/\1/' <<<"$line")
        f=$(sed -E 's/.*Failing: ([0-9]+).*Crashing: ([0-9]+).*/\1+\2/' <<<"$line")
        f=$((f)) ;;
    *passed*) read -r p _ f _ <<<"$line" ;;
    *) p=$(($1 == 0)) f=0 ;;
    esac
    [ "$1" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    return 0
}

keep() { # PROGRAM STATUS: the lines of $log that say what failed, into $failures
    echo "-- $1 (status $2)"
    grep -aE 'FAIL|CRASH|----|[Ff]ailed|TIMEOUT|differs|ERROR|rror:' "$log" | tail -20
    echo "   ..." && tail -n 15 "$log"
} >>"$failures"

for program in "$@"; do
    start=$(date +%s%N)
    run "$program"
    status=$?
    count $status
    ms=$((($(date +%s%N) - start) / 1000000))
    [ "$f" -ne 0 ] || [ -n "${VERBOSE:-}" ] && cat "$log"
    [ "$f" -ne 0 ] && keep "$program" $status
    printf '%-28s %5d passed %4d failed %7d ms' "$program" "$p" "$f" "$ms"
    [ $status -gt 1 ] && printf '  (status %d)' $status
    printf '\n'
    passed=$((passed + p)) failed=$((failed + f))
done
cat "$failures"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ $((passed + failed)) -gt 0 -o -n "$word" ]

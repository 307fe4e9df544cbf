#!/bin/sh
# hunt.sh -- COUNT random programs in each group of ways, spread over the parts of the
# grammar (--with=), each with and without --wide; no program comes twice.
# usage: hunt.sh PROGRAMS COUNT SEED SAVE [WAY]...
# WAY is functional, compiled, dynamic or native; all when none is given. A line for
# each part, and in the end the table of docs/testing.md.
programs=$1 count=$2 seed=$3 save=$4
shift 4
[ $# -gt 0 ] || set -- functional compiled dynamic native
bad=0

# Native code without optimization has the same bits and is made in a fraction of the
# time, most of all by clang.
export TD_CC_FLAGS=-O0
if command -v clang >/dev/null; then export TD_CC=clang TD_CC_FLAGS='-O0 -fno-openmp-simd'; fi

# number NAME LINE -> the number before NAME; 0: it is not there
number() {
    printf '%s\n' "$2" | sed -n "s/^\(.*[^0-9]\)\{0,1\}\([0-9][0-9]*\) $1.*/\2/p" | grep . ||
        echo 0
}

# run WAY PART WIDE: one line, and the sums of the way
run() {
    words=$1 with=--with=$2 name=$1-$2$3 batch=1
    [ "$2" = none ] && with=
    case $1 in
    functional) words=functional,captured,cleaned,joint ;;
    compiled) words='compiled,!dynamic' ;;
    native) words='compiled,!dynamic' batch=500 ;;
    esac
    out=$save/$name.txt
    # shellcheck disable=SC2086  # an empty option is none
    TD_BACKEND=$backend "$programs" --seed="$seed" --count="$each" --way="$words" \
        --save="$save/$name" --most-bad=1000000 --batch=$batch $with $3 >"$out" 2>&1
    line=$(grep ' disagree$' "$out") || line='0 programs: it stopped; 1 disagree'
    done=$((done + $(number programs "$line")))
    refused=$((refused + $(number refused "$line")))
    disagree=$((disagree + $(number disagree "$line")))
    round=$((round + $(number 'round otherwise' "$(grep 'round otherwise$' "$out")")))
    seed=$((seed + each))
    printf '%-11s %-16s %s\n' "$1" "$2${3:+ wide}" "$line"
}

parts='none closed hooks checkpoint autocast custom masks functions grads module branches user all'
mkdir -p "$save"
rows=
for way; do
    first=$seed start=$(date +%s) done=0 refused=0 disagree=0 round=0 backend=interp
    [ "$way" = native ] && backend=native
    # shellcheck disable=SC2086
    each=$(set -- $parts && echo $(((count + 2 * $# - 1) / (2 * $#))))
    for part in $parts; do
        for wide in '' --wide; do run "$way" "$part" $wide; done
    done
    [ $disagree = 0 ] || bad=1
    rows="$rows| $way | $done | $first | $refused | $round | $disagree | $(($(date +%s) - start)) |
"
done
printf '\n| ways | programs | seeds from | refused | round otherwise | disagree | seconds |\n'
printf '| --- | --: | --- | --: | --: | --: | --: |\n%s' "$rows"
exit $bad

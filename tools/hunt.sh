#!/bin/bash
# hunt.sh -- COUNT random programs in each group of ways, spread over the parts of the
# grammar (--with=), each with and without --wide; no program comes twice.
# usage: hunt.sh PROGRAMS COUNT SEED SAVE [WAY]...
# WAY is functional, compiled, dynamic or native; all when none is given. A line for
# each part, in the end the table of docs/testing.md, and for each way why it refused how
# many programs, those of the part marks apart, whose sizes vary. As many parts as there are
# CPUs run at a time (JOBS=1: one after the other).
programs=$1 count=$2 seed=$3 save=$4
shift 4
[ $# -gt 0 ] || set -- functional compiled dynamic native
bad=0 jobs=${JOBS:-$(nproc)}

# Native code without optimization has the same bits and is made in a fraction of the
# time, most of all by clang.
export TD_CC_FLAGS=-O0
if command -v clang >/dev/null; then export TD_CC=clang TD_CC_FLAGS='-O0 -fno-openmp-simd'; fi

# number NAME LINE -> the number before NAME; 0: it is not there
number() {
    printf '%s\n' "$2" | sed -n "s/^\(.*[^0-9]\)\{0,1\}\([0-9][0-9]*\) $1.*/\2/p" | grep . ||
        echo 0
}

# run WAY PART WIDE SEED COUNT: programs of one part, in a process of its own
run() {
    words=$1 with=--with=$2 name=$1-$2$3 batch=1
    [ "$2" = none ] && with=
    case $1 in
    functional) words=functional,captured,cleaned,joint ;;
    compiled) words='compiled,!dynamic' ;;
    native) words='compiled,!dynamic' batch=500 ;;
    esac
    # shellcheck disable=SC2086  # an empty option is none
    TD_BACKEND=$backend "$programs" --seed="$4" --count="$5" --way="$words" \
        --save="$save/$name" --most-bad=1000000 --batch=$batch $with $3 \
        >"$save/$name-$4.txt" 2>&1
}

# sum WAY PART WIDE: one line of what the part did, and the sums of the way
sum() {
    p=0 r=0 d=0 o=0 stopped=
    for out in "$save/$1-$2$3"-[0-9]*.txt; do
        line=$(grep ' disagree$' "$out") || line='1 disagree' stopped="; $out stopped"
        p=$((p + $(number programs "$line"))) r=$((r + $(number refused "$line")))
        d=$((d + $(number disagree "$line")))
        o=$((o + $(number 'round otherwise' "$(grep 'round otherwise$' "$out")")))
    done
    printf '%-11s %-16s %d programs, %d refused, %d disagree%s\n' "$1" "$2${3:+ wide}" \
        $p $r $d "$stopped"
    done=$((done + p)) refused=$((refused + r)) disagree=$((disagree + d)) round=$((round + o))
}

# reasons WAY PART...: how often the programs of the parts were refused, by reason
reasons() {
    words=$1
    shift
    for part; do
        cat "$save/$words-$part"-[0-9]*.txt "$save/$words-$part--wide"-[0-9]*.txt
    done | awk '$1 == "refused" { n = $2; sub(/^refused +[0-9]+ +/, "")
                                  sub(/ \(seed [0-9]+\)$/, ""); of[$0] += n }
                END { for (why in of) printf "%6d  %s\n", of[why], why }' | sort -rn
}

# The parts, the slowest first. A process takes at most `most` programs of one part, so
# that all CPUs work to the end.
parts='all branches regions hooks types numbers marks functions none closed checkpoint autocast custom masks grads module user'
most=1500
mkdir -p "$save"
rows=
for way; do
    first=$seed start=$(date +%s) done=0 refused=0 disagree=0 round=0 backend=interp
    [ "$way" = native ] && backend=native
    # shellcheck disable=SC2086
    each=$(set -- $parts && echo $(((count + 2 * $# - 1) / (2 * $#))))
    for part in $parts; do
        for wide in '' --wide; do
            for ((left = each; left > 0; left -= most)); do
                some=$((left < most ? left : most))
                while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do wait -n; done
                run "$way" "$part" "$wide" "$seed" $some &
                seed=$((seed + some))
            done
        done
    done
    wait
    for part in $parts; do
        for wide in '' --wide; do sum "$way" "$part" "$wide"; done
    done
    [ $disagree = 0 ] || bad=1
    rows="$rows| $way | $done | $first | $refused | $round | $disagree | $(($(date +%s) - start)) |
"
done
printf '\n| ways | programs | seeds from | refused | round otherwise | disagree | seconds |\n'
printf '| --- | --: | --- | --: | --: | --: | --: |\n%s' "$rows"
for way; do
    printf '\nrefused, %s:\n' "$way"
    # shellcheck disable=SC2086
    reasons "$way" ${parts/marks /}
    printf 'refused, %s, marks:\n' "$way"
    reasons "$way" marks
done
exit $bad

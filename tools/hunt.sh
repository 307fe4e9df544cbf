#!/bin/sh
# hunt.sh -- random programs in each combination of ways and of what programs have in
# them; a table of what disagrees. usage: hunt.sh PROGRAMS COUNT SEED SAVE
# A row is a part of the grammar (--with=), a column a group of ways.
programs=$1 count=$2 seed=$3 save=$4
bad=0

# run NAME WAY OPTION... -> one cell of the table
run() {
    name=$1 way=$2
    shift 2
    out=$("$programs" --seed="$seed" --count="$count" --way="$way" --save="$save/$name" \
        --most-bad=1000000 "$@" 2>&1)
    line=$(printf '%s\n' "$out" | grep ' disagree$')
    cell=$(printf '%s\n' "$line" | sed 's/.*; \([0-9]*\) disagree$/\1/')
    [ -n "$line" ] || cell=crash
    [ "$cell" = 0 ] || bad=1
    printf ' %10s' "$cell"
}

native() {
    name=$1
    shift
    TD_BACKEND=native TD_CC_FLAGS='-O0' run "$name" 'compiled,!dynamic' --batch=500 "$@"
}

mkdir -p "$save"
printf '%-20s %10s %10s %10s %10s\n' "$count programs each" functional compiled dynamic native
for with in none closed hooks checkpoint autocast custom grads module masks functions all; do
    for wide in '' --wide; do
        part=
        [ $with = none ] || part=--with=$with
        printf '%-20s' "$with${wide:+ wide}"
        run "$with$wide-functional" functional,captured,cleaned $part $wide
        run "$with$wide-compiled" 'compiled,!dynamic' $part $wide
        run "$with$wide-dynamic" dynamic $part $wide
        native "$with$wide-native" $part $wide
        printf '\n'
    done
done
exit $bad

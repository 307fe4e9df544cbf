#!/bin/bash
# fuzz.sh SECONDS PROGRAM... -- replay each fuzzer's kept inputs, then fuzz, the
# time shared evenly. Kept inputs are tests/fuzz/corpus/NAME/; new ones stay in
# build/fuzz/corpus/NAME/, and an input that breaks something in build/fuzz/.
set -u
[ $# -lt 2 ] && { echo "no fuzzers"; exit 0; }
each=$(($1 / ($# - 1)))
shift
bad=0
for program in "$@"; do
    name=$(basename "$program")
    kept=tests/fuzz/corpus/$name
    new=build/fuzz/corpus/$name
    mkdir -p "$new"
    dirs=("$new")
    [ -d "$kept" ] && dirs+=("$kept")
    if [ -d "$kept" ] && ! "$program" -runs=0 "$kept" >build/fuzz/log 2>&1; then
        cat build/fuzz/log
        bad=1
        continue
    fi
    "$program" -max_total_time=$((each > 0 ? each : 1)) -rss_limit_mb=4096 -timeout=10 \
        -artifact_prefix="build/fuzz/$name-" "${dirs[@]}" >build/fuzz/log 2>&1 ||
        { tail -60 build/fuzz/log; bad=1; }
    grep -a '^Done' build/fuzz/log | sed "s/^/$name: /"
done
exit $bad

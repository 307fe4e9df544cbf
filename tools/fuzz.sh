#!/bin/bash
# fuzz.sh SECONDS PROGRAM... -- replay each fuzzer's stored inputs, then fuzz, the
# time shared evenly. Kept inputs are tests/fuzz/corpus/NAME/; new ones stay in
# build/fuzz/corpus/NAME/, and an input that breaks something in build/fuzz/.
# build/fuzz/programs comes first: random programs, whose kept ones are in the folders
# of tests/corpus/; what it finds is made small and saved in build/fuzz/found/.
# fuzz.sh can -- the status says whether clang has its fuzzing runtime here.
set -u
can() {
    echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null
}
if [ "$1" = can ]; then
    can && exit 0
    echo "no parser fuzzing: clang has no fuzzing runtime here (Debian: libclang-rt-dev)"
    exit 1
fi
each=$(($1 / $#))
shift
mkdir -p build/fuzz/found
bad=0
build/fuzz/programs --replay tests/corpus/*/*.td || bad=1
build/fuzz/programs --seed="$(date +%s)000" --count=1000000000 --coverage \
    --seconds=$((each > 0 ? each : 1)) || bad=1
for program in "$@"; do
    [ -x "$program" ] || continue
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

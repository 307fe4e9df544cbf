#!/bin/bash
# gpu.sh -- tests on a machine with an NVIDIA GPU that has none of our libraries.
#
#   tools/gpu.sh pack       here: builds, and packs programs, their libraries and tests into
#                           build/gpu.tar.gz
#   tools/gpu.sh run OUT    there: unpacks it, runs the list of suites below, and leaves
#                           OUT/gpu.log with what each printed, and its status and time.
#                           SUITES='doctor samples' runs only those, DEVICE=cuda:0 the device.
#                           PROGRAMS at pack: only those of the build folder;
#                           OLD=DIR at pack: programs of another build folder, for suite `step`.
set -u
cd "$(dirname "$0")/.." || exit 1
device=${DEVICE:-cuda:0}
cuda=${CUDA_HOME:-/usr/local/cuda}
suites=${SUITES:-doctor smoke cases corpus samples programs speed}

pack() {
    make -j"${JOBS:-$(nproc)}" all cuda build/ops-test build/fuzz/programs build/gpt2 \
        build/bench/device build/bench/device_ops build/bench/gpu || exit 1
    rm -rf build/gpu && mkdir -p build/gpu/lib build/gpu/fuzz build/gpu/bench
    for p in ${PROGRAMS:-tandem ops-test fuzz/programs gpt2 bench/device bench/device_ops bench/gpu} \
        libtandem-cuda.so; do
        strip -o "build/gpu/$p" "build/$p" || exit 1
    done
    if [ -n "${OLD:-}" ]; then
        mkdir -p build/gpu/old
        for p in bench/gpu libtandem-cuda.so; do
            strip -o "build/gpu/old/${p##*/}" "$OLD/$p" || exit 1
        done
    fi
    if [ -e "$cuda/include/cupti.h" ]; then # the times of kernels
        cc -O1 -shared -fPIC -I"$cuda/include" tools/gpu_times.c -L"$cuda/lib64" -lcupti \
            -o build/gpu/libgpu-times.so && cp -L "$cuda"/lib64/libcupti.so.1? build/gpu/lib/
    fi
    cp bench/peer.py bench/peer_gpu.py bench/peer_train.py build/gpu/
    ldd build/ops-test build/tandem | awk '$3 ~ /^\// { print $3 }' | sort -u |
        grep -v '/libc\.so\|/libm\.so\|/libpthread\|/ld-linux' |
        while read -r lib; do cp -L "$lib" build/gpu/lib/; done
    mkdir -p build/gpu/sys
    cp -L /lib64/ld-linux-x86-64.so.2 /lib/x86_64-linux-gnu/libc.so.6 \
        /lib/x86_64-linux-gnu/libm.so.6 build/gpu/sys/
    cp -r --parents tests/cases tests/corpus tests/ops build/gpu/
    tar -C build -czf build/gpu.tar.gz gpu
    ls -l build/gpu.tar.gz
}

# Programs run with the C library that is here, or, if it is too old, with ours.
go() {
    local seconds=$1
    shift
    timeout -k 5 "$seconds" $loader "$@"
}

# The loss of 20 steps of a small GPT-2 on the CPU and on the device, side by side.
curve() {
    local how="--layers 4 --heads 4 --width 128 --context 128 --batch 8 --steps 20 --sample 20"
    cat tests/cases/*/*.td | head -c 300000 >text.txt
    for d in cpu "$device"; do
        go "${CURVE:-60}" ./gpt2 --data text.txt $how --eager --seed 3 --device "$d" >"curve-${d%%:*}.txt" 2>&1
        grep -a 'no kernel' "curve-${d%%:*}.txt"
        grep -ao '[0-9]*/20  loss [0-9.]*' "curve-${d%%:*}.txt" >"losses-${d%%:*}.txt"
    done
    paste losses-cpu.txt "losses-${device%%:*}.txt"
    tail -n 4 "curve-${device%%:*}.txt" | cut -c1-300
}

# A step of GPT-2 124M, eager.
step() {
    cat tests/cases/*/*.td >text.txt
    go "${STEP:-100}" ./gpt2 --data text.txt --model small --context 1024 --batch 4 --steps 6 --sample 1 \
        --eager --device "$device"
}

# A step of GPT-2 124M, compiled: with an empty cache, with a full one, and with each
# setting of VARIANTS, twice in turn; then with the kernels of another build.
compiled() {
    local v
    export TD_CACHE_DIR=$PWD/cache
    rm -rf cache
    unset TD_BACKEND
    go 60 ./bench/gpu "$device" gpt2 16 1024
    for round in 1 2; do
        for v in - ${VARIANTS:-}; do
            echo "## $v"
            [ "$v" = - ] && v=
            env ${v//,/ } timeout -k 5 30 $loader ./bench/gpu "$device" gpt2 16 1024
        done
        if [ -d old ]; then
            echo "## old"
            TD_DEVICE_PATH=$PWD/old TD_CACHE_DIR=$PWD/cache-old go 30 old/gpu "$device" gpt2 16 1024
        fi
    done
    go 30 ./bench/gpu "$device" gpt2 64 1024
    go 30 ./bench/gpu "$device" tiny
    go 20 ./bench/gpu "$device" small
    go 20 ./bench/gpu "$device" mlp
}

# The time of every kernel of some steps.
times() {
    unset TD_BACKEND
    export TD_CACHE_DIR=$PWD/cache
    CUDA_INJECTION64_PATH=$PWD/libgpu-times.so GPU_TIMES=$PWD/kernels.txt \
        go 60 ./bench/gpu "$device" gpt2 16 1024
    wc -l kernels.txt && tail -n 1600 kernels.txt >"$out/times-last.txt"
    # of the last whole step, which ends where the loss is copied out
    awk '$7 == "td_k_gather_rows" { was[++n] = NR } { line[NR] = $0 }
        END {
            for (i = was[n - 1]; i < was[n]; i++) {
                split(line[i], f, " ")
                key = substr(f[7], 1, 70)
                sum[key] += f[2] / 1e3; count[key]++; all += f[2] / 1e3
            }
            for (k in sum) printf "%9.1f us %4d %s\n", sum[k], count[k], k
            printf "%9.1f us in sum\n", all
        }' kernels.txt | sort -rn
}

# The same step by PyTorch.
peer() { timeout -k 5 "${PEER:-120}" python3 peer_gpu.py gpt2 16 1024; }

# Random programs: one process per processor but two, PROGRAMS_OF in each, until HUNT
# seconds are over.
hunt() {
    local end
    end=$(($(date +%s) + ${HUNT:-40}))
    export end
    unset TD_BACKEND
    seq 910000 1000 1910000 | xargs -P $(($(nproc) > 2 ? $(nproc) - 2 : 1)) -I SEED sh -c \
        '[ $(date +%s) -lt $end ] || exit 0
         timeout -k 5 30 '"$loader"' ./fuzz/programs --device='"$device"' --count=${PROGRAMS_OF:-10} --seed=SEED >h-SEED.txt 2>&1
         echo "SEED: status $?" >>h-SEED.txt'
    echo "processes by status:" && cat h-*.txt | grep -a ': status' | cut -d: -f2 | sort | uniq -c
    sed -n 's/.*: \([0-9]*\) agree.*; \([0-9]*\) refused; \([0-9]*\) disagree.*/\1 \2 \3/p' h-*.txt |
        awk '{ a += $1; r += $2; d += $3 } END { print a " agree, " r " refused, " d " disagree" }'
    grep -aL 'status 0' h-*.txt | head -6 | while read -r f; do echo "== $f" && grep -av 'has no kernel' "$f" | tail -12 | cut -c1-300; done
}

# What compute-sanitizer finds in kernels, by the tool of that name.
sanitize() { # TOOL SECONDS EVERY
    local tool
    tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer | head -1)
    [ -n "$tool" ] || { echo "no compute-sanitizer here"; return 0; }
    timeout -k 5 "$2" "$tool" --tool "$1" --error-exitcode 9 $loader \
        ./ops-test --device="$device" -q --every="$3"
}

# Each op in turn; after a failure of the device a new process goes on with the next.
ops() {
    local first=0 end
    end=$(($(date +%s) + ${OPS:-60}))
    while [ "$(date +%s)" -lt "$end" ]; do
        go $((end - $(date +%s))) ./bench/device_ops "$device" "$first" >ops-one.txt 2>&1
        [ $? = 3 ] || { cat ops-one.txt && return; }
        cat ops-one.txt
        first=$(sed -n 's/^go on at //p' ops-one.txt)
    done
}

# The samples of each word in a process of their own, two at a time.
kernels() {
    printf '%s\n' $WORDS | xargs -P "${JOBS:-4}" -I WORD sh -c \
        'timeout -k 5 ${KERNELS:-40} '"$loader"' ./ops-test --device='"$device"' --every=${EVERY:-1} WORD >k-WORD.txt 2>&1
         echo "WORD: status $? $(grep -a passed k-WORD.txt | tail -1)"
         grep -av "has no kernel" k-WORD.txt | grep -a -A3 "FAIL\|CRASH\|not built" | cut -c1-300 | head -${EACH:-12}'
}

suite() { # NAME
    case $1 in
    doctor) go 60 ./tandem doctor ;;
    smoke) go 120 ./ops-test --device="$device" --every=200 ;;
    cases) go 300 ./tandem check --device="$device" --quiet tests/cases ;;
    corpus) go 400 ./tandem check --device="$device" --quiet --allow-refused tests/corpus ;;
    samples) go 500 ./ops-test --device="$device" -q "--every=${EVERY:-8}" ;;
    programs) go 200 ./fuzz/programs --device="$device" --count="${COUNT:-300}" --seed=900000 ;;
    speed) go 100 ./bench/device "$device" ;;
    curve) curve ;;
    step) step ;;
    ops) ops ;;
    kernels) kernels ;;
    hunt) hunt ;;
    memcheck) sanitize memcheck "${MEMCHECK:-60}" "${MEMCHECK_EVERY:-60}" ;;
    racecheck) sanitize racecheck "${RACECHECK:-60}" "${RACECHECK_EVERY:-400}" ;;
    compiled) compiled ;;
    times) times ;;
    peer) peer ;;
    esac
}

run() { # OUT
    local out=$1 start status
    mkdir -p "$out" && out=$(cd "$out" && pwd)
    work=$(mktemp -d) && tar -C "$work" -xzf build/gpu.tar.gz && cd "$work/gpu" || exit 1
    for d in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib /usr/lib/x86_64-linux-gnu; do
        [ -d "$d" ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$d
    done
    # cuDNN is often only in the folder of a Python package
    d=$(python3 -c 'import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0] + "/lib")' 2>/dev/null)
    [ -e "$d/libcudnn.so.9" ] && LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$d
    export LD_LIBRARY_PATH=$PWD/lib:$LD_LIBRARY_PATH TD_DEVICE_PATH=$PWD TD_BACKEND=interp
    loader=
    ./tandem help >/dev/null 2>&1 || loader="$PWD/sys/ld-linux-x86-64.so.2 --library-path $PWD/sys:$LD_LIBRARY_PATH"
    {
        date
        nvidia-smi -L
        for name in $suites; do
            echo "==== $name"
            start=$(date +%s)
            suite "$name" >"$out/$name.txt" 2>&1
            status=$?
            grep -av 'has no kernel' "$out/$name.txt" | tail -"${LINES_OF:-25}" | cut -c1-400
            grep -ao '[a-zA-Z_0-9]* has no kernel' "$out/$name.txt" | sort -u | tr '\n' ';'
            echo "---- $name: status $status, $(($(date +%s) - start)) s," \
                "$(grep -ac 'has no kernel' "$out/$name.txt") ops without a kernel"
        done
    } 2>&1 | tee "$out/gpu.log"
}

case ${1:-} in
pack) pack ;;
run) run "${2:-build/gpu-out}" ;;
*) sed -n '2,10p' "$0" ;;
esac

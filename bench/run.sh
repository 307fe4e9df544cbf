#!/bin/sh
# run.sh [group]... -- timings, one JSON line per figure and a table at the end.
#
# Groups: calls eager compile train gpt2 memory rest; none: all. With PEERS=1 the peers
# that are found run the same work, alternating with ours; nothing is installed:
#   PyTorch  where $PYTHON (python3) imports torch: eager and torch.compile
#   JAX      where $JAX ($PYTHON) imports jax
#   llm.c    where $LLMC is its folder, with train_gpt2 built
# Each figure is the median of ROUNDS (3) runs, each of which is the least of many.
# Results are left in build/bench/results.jsonl; plots of them go to PLOTS, if set.
set -e
cd "$(dirname "$0")/.."
B=${B:-build}
PYTHON=${PYTHON:-python3}
JAX=${JAX:-$PYTHON}
raw=$B/bench/raw.jsonl
groups=${*:-calls eager compile train gpt2 memory rest}

has() { "$1" -c "import $2" 2>/dev/null; }

torch=no jax=no llmc=no
if [ -n "$PEERS" ]; then
    if has "$PYTHON" torch; then torch=yes; else
        echo "no PyTorch: python3 -m venv V && V/bin/pip install torch numpy, then" \
            "make bench PEERS=1 PYTHON=V/bin/python" >&2; fi
    if has "$JAX" jax; then jax=yes; else
        echo "no JAX: python3 -m venv V && V/bin/pip install 'jax[cpu]', then" \
            "make bench PEERS=1 JAX=V/bin/python" >&2; fi
    if [ -n "$LLMC" ] && [ -x "$LLMC/train_gpt2" ]; then llmc=yes; else
        echo "no llm.c: get github.com/karpathy/llm.c, make train_gpt2 there, then" \
            "make bench PEERS=1 LLMC=its folder" >&2; fi
fi

# Ours may not fail; a peer that does is told and left out.
keep() { cat "$B/bench/part"; cat "$B/bench/part" >>"$raw"; }
ours() { "$B/bench/$@" >"$B/bench/part"; keep; }
try() {
    "$@" >"$B/bench/part" 2>"$B/bench/peer.err" ||
        { echo "failed: $*" >&2; tail -3 "$B/bench/peer.err" >&2; }
    keep
}
torch() { [ $torch = no ] || try "$PYTHON" bench/"$@"; }
jax() { [ $jax = no ] || try "$JAX" bench/peer_jax.py "$@"; }

group() {
    case $1 in
    calls)
        ours overhead; torch peer_calls.py overhead
        torch peer_calls.py overhead --compile; jax overhead ;;
    eager) ours eager_bench; torch peer_torch.py ;;
    compile)
        ours compile
        if [ "$round" = 1 ]; then torch peer_calls.py compile; jax compile; fi ;;
    train)
        for net in mlp lstm resnet18; do
            ours train $net; torch peer_train.py $net
            torch peer_train.py --compile $net; jax train $net
        done ;;
    gpt2)
        ours train gpt2; torch peer_train.py gpt2
        torch peer_train.py --compile gpt2; jax train gpt2
        if [ $llmc = yes ] && [ "$round" = 1 ]; then
            try "$PYTHON" bench/peer_llmc.py "$LLMC" "$B/bench/llmc"; fi ;;
    memory) # does not vary
        [ "$round" = 1 ] || return 0
        for what in "--peak mlp lstm resnet18" "--peak gpt2" --batches; do
            ours train $what; torch peer_train.py $what
            torch peer_train.py --compile $what
        done ;;
    rest)
        [ "$round" = 1 ] || return 0
        for b in aot capture gemm_bench guards partition start step; do ours $b; done ;;
    *) echo "run.sh: no group $1" >&2; exit 2 ;;
    esac
}

: >"$raw"
for round in $(seq "${ROUNDS:-3}"); do
    for g in $groups; do group "$g"; done
done
awk -f bench/table.awk "$raw" >"$B/bench/results.jsonl"
[ -z "$PLOTS" ] || "$PYTHON" bench/plot.py "$B/bench/results.jsonl" "$PLOTS"

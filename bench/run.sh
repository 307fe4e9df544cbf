#!/bin/sh
# run.sh [part of a name]... -- every bench program, and PyTorch beside them when
# $PYTHON (default python3) can import torch. Peers alternate with ours, ROUNDS (5)
# times; one JSON line per figure with the least of each and their ratio: above 1
# Tandem is better. With arguments, only the eager figures they name. Installs nothing.
set -e
cd "$(dirname "$0")/.."
B=${B:-build}
PYTHON=${PYTHON:-python3}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
peer=no
if "$PYTHON" -c 'import torch' 2>/dev/null; then peer=yes; fi
[ $peer = yes ] || echo "PyTorch not found: no ratios (set PYTHON to one that has it)" >&2
for round in $(seq "${ROUNDS:-5}"); do
    "$B/bench/eager_bench" "$@" >>"$out/ours"
    if [ $peer = yes ]; then "$PYTHON" bench/peer_torch.py "$@" >>"$out/torch" 2>/dev/null; fi
done
touch "$out/torch"
awk -v torch="$out/torch" '
function field(line, key,   m) {
    match(line, "\"" key "\": *\"?[^,\"}]*")
    m = substr(line, RSTART, RLENGTH)
    sub("\"" key "\": *\"?", "", m)
    return m
}
{
    name = field($0, "name"); who = FILENAME == torch ? "t" : "o"
    if (who == "o" && !(name in seen)) { seen[name] = 1; order[++n] = name }
    unit[name] = field($0, "unit")
    v = field($0, "value") + 0
    if (!((who, name) in least) || v < least[who, name]) least[who, name] = v
}
END {
    for (i = 1; i <= n; i++) {
        name = order[i]; ours = least["o", name]
        printf "{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\"", name, ours, unit[name]
        if (("t", name) in least) {
            t = least["t", name]
            printf ", \"torch\": %.4g, \"ratio\": %.2f", t, t / ours
        }
        print "}"
    }
}' "$out/ours" "$out/torch"
[ $# -eq 0 ] || exit 0
for b in "$B"/bench/*; do
    [ -x "$b" ] && [ -f "$b" ] || continue
    case "$b" in *.d | *.o | */eager_bench) continue ;; esac
    "$b"
done

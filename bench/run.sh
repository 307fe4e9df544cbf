#!/bin/sh
# run.sh -- every bench program, and PyTorch beside them when $PYTHON (default
# python3) can import torch. Peers alternate with ours, three rounds; one JSON line
# per figure with the median of each and their ratio: above 1 Tandem is better.
# Installs nothing.
set -e
cd "$(dirname "$0")/.."
B=${B:-build}
PYTHON=${PYTHON:-python3}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
peer=no
if "$PYTHON" -c 'import torch' 2>/dev/null; then peer=yes; fi
[ $peer = yes ] || echo "PyTorch not found: no ratios (set PYTHON to one that has it)" >&2
for round in 1 2 3; do
    "$B/bench/eager_bench" >>"$out/ours"
    if [ $peer = yes ]; then "$PYTHON" bench/peer_torch.py >>"$out/torch" 2>/dev/null; fi
done
touch "$out/torch"
awk -v torch="$out/torch" '
function field(line, key,   m) {
    match(line, "\"" key "\": *\"?[^,\"}]*")
    m = substr(line, RSTART, RLENGTH)
    sub("\"" key "\": *\"?", "", m)
    return m
}
function median(list, n,   i, j, t) {
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
            t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
        }
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}
{
    name = field($0, "name"); who = FILENAME == torch ? "t" : "o"
    if (who == "o" && !(name in seen)) { seen[name] = 1; order[++n] = name }
    unit[name] = field($0, "unit")
    value[who, name, ++count[who, name]] = field($0, "value") + 0
}
END {
    for (i = 1; i <= n; i++) {
        name = order[i]
        for (k = 1; k <= count["o", name]; k++) list[k] = value["o", name, k]
        ours = median(list, count["o", name])
        printf "{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\"", name, ours, unit[name]
        if (("t", name) in count) {
            for (k = 1; k <= count["t", name]; k++) list[k] = value["t", name, k]
            t = median(list, count["t", name])
            printf ", \"torch\": %.4g, \"ratio\": %.2f", t, t / ours
        }
        print "}"
    }
}' "$out/ours" "$out/torch"
for b in "$B"/bench/*; do
    [ -x "$b" ] && [ -f "$b" ] || continue
    case "$b" in *.d | *.o | */eager_bench) continue ;; esac
    "$b"
done

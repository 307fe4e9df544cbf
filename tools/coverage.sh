#!/bin/bash
# coverage.sh OBJECTS -- lines and branches that tests have run, by directory, from the
# .gcda files below the directory OBJECTS (build/cov/obj), which `make coverage` makes.
# With FILES=1 also every file, the one with most branches missed first. A branch is an
# outcome of a condition (&& and || have their own), as gcov counts at -O0. Loops
# (src/kernels/loops), which are compiled once per instruction level, and generated files are
# left out.
set -u
objects=$1
export LC_ALL=C

each() { # one line per source: directory file lines-run lines branches-taken branches
    find "$objects/src" -name '*.gcda' ! -path '*/loops/*' | sort |
        while read -r data; do "${GCOV:-gcov}" -b -n "$data" 2>/dev/null; done |
        awk '
        /^File / { split($2, q, "\x27"); file = q[2]; next }
        file !~ /^src\/.*\.c$/ { next }
        /^Lines executed:/ { split($2, p, "[:%]"); lines[file] = $4; run[file] = p[2] * $4 / 100 }
        /^Taken at least once:/ { split($4, p, "[:%]"); all[file] = $6; took[file] = p[2] * $6 / 100 }
        END {
            for (f in lines) {
                split(f, at, "/")
                printf "%s %s %.0f %d %.0f %d\n", at[2], f, run[f], lines[f], took[f], all[f]
            }
        }'
}

# Directories in the order of their layers.
order=$(awk '/^dirs="/, /"$/' tools/layers.sh | tr -d '"\\\n' | sed 's/^dirs=//')
[ -n "$order" ] || { echo "coverage: tools/layers.sh lists no directories" >&2 && exit 1; }
table=$(each)
[ -n "$table" ] || { echo "coverage: no data below $objects" >&2 && exit 1; }
echo '| directory | lines | run | branches | taken | missed |'
echo '| --- | --: | --: | --: | --: | --: |'
awk -v order="$order" '
{ l[$1] += $4; r[$1] += $3; b[$1] += $6; t[$1] += $5; L += $4; R += $3; B += $6; T += $5 }
function row(name, r, l, t, b) {
    printf "| %s | %d | %.1f %% | %d | %.1f %% | %d |\n", name, l, 100 * r / l, b, b ? 100 * t / b : 100, b - t
}
END {
    n = split(order, room, " ")
    for (i = 1; i <= n; i++) if (room[i] in l) row(room[i], r[room[i]], l[room[i]], t[room[i]], b[room[i]])
    row("all", R, L, T, B)
}' <<<"$table"
[ -n "${FILES:-}" ] || exit 0
echo
awk '{ printf "%5d of %5d branches, %4d of %5d lines missed  %s\n", $6 - $5, $6, $4 - $3, $4, $2 }' \
    <<<"$table" | sort -rn

#!/bin/sh
# layers.sh -- a file may include its own directory and directories to its left, no others,
# and no file may include another directory's private header (dir/dir_int.h).
dirs="base core ops rules kernels graph eager trace func joint part build backend device runtime \
       module aot export nn report cli"
grep -rn '^ *# *include "' src --include='*.[ch]' --include='*.def' |
awk -v order="$dirs" '
BEGIN { n = split(order, r, " "); for (i = 1; i <= n; i++) rank[r[i]] = i }
{
    split($0, at, ":"); split(at[1], from, "/")
    split($0, q, "\""); split(q[2], to, "/")
    where = at[1] ":" at[2] ": "
    if (!(from[2] in rank)) { print where from[2] " is not a known directory"; bad = 1; next }
    if (!(to[1] in rank)) next                        # a public header
    if (rank[to[1]] > rank[from[2]]) {
        print where from[2] " may not use " to[1]; bad = 1
    }
    if (to[1] != from[2] && q[2] ~ /_int\.h$/) {
        print where q[2] " is private to " to[1]; bad = 1
    }
}
END { exit bad }'

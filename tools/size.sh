#!/bin/bash
# size.sh -- lines per directory, and the change since the last tag.
set -u
tag=$(git describe --tags --abbrev=0 2>/dev/null)

lines_now() { find "$1" -name '*.[ch]' -o -name '*.def' | xargs -r cat | wc -l; }
lines_then() {
    git ls-tree -r --name-only "$tag" "$1" | grep -E '\.(c|h|def)$' |
        while read -r f; do git show "$tag:$f"; done | wc -l
}

for dir in include src/*/ tests bench; do
    [ -d "$dir" ] || continue
    now=$(lines_now "$dir")
    printf '%-14s %7d' "${dir%/}" "$now"
    [ -n "$tag" ] && printf ' %+7d' $((now - $(lines_then "$dir")))
    printf '\n'
done

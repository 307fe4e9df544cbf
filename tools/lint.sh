#!/bin/bash
# lint.sh FILE... -- every check of taste on the sources FILE..., one line each.
# Prints what each finds and a closing `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0

check() { # NAME COMMAND...
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s\n' "$out"
        echo "lint: $name failed"
    fi
}

format() { clang-format --dry-run -Werror "$@"; }

# Each header compiles alone, and each public one in C++ too.
lone_headers() {
    local h bad=0
    for h in include/tandem/*.h src/*/*.h; do
        [ -e "$h" ] || continue
        echo "#include \"$h\"" | "${CC:-cc}" -std=c11 -D_GNU_SOURCE -I. -Iinclude -Isrc \
            -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c - || bad=1
    done
    return $bad
}

# What git follows, less generated files: limits are for what people write.
limits() { awk -f tools/limits.awk tools/limits.allow "$@"; }

check format format "$@"
check layers sh tools/layers.sh
check limits limits "$@"
check 'lone headers' lone_headers
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

#!/bin/bash
# lint.sh FILE... -- every check of taste on the sources FILE..., one line each.
# GEN is the folder of generated files. Prints what each finds and a closing `N passed, N failed`.
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

# Each header compiles alone, and each public one in C++ too where there is one.
syntax() { # LANGUAGE HEADER COMPILER OPTIONS...
    local language=$1 header=$2
    shift 2
    printf '#include "%s"\ntypedef int td_alone;\n' "$header" |
        "$@" -I. -Iinclude -Isrc -I"$GEN/src" -Wall -Wextra -Werror -fsyntax-only -x "$language" -
}

lone_headers() {
    local h bad=0
    for h in include/tandem/*.h src/*/*.h; do
        [ -e "$h" ] || continue
        syntax c "$h" "${CC:-cc}" -std=c11 -D_GNU_SOURCE -Wpedantic || bad=1
    done
    command -v c++ >/dev/null || return $bad
    for h in include/tandem/*.h; do
        [ -e "$h" ] || continue
        syntax c++ "$h" c++ -std=c++17 || bad=1
    done
    return $bad
}

# The README shows examples/compiled.c, which the tests run, but for its first comment.
readme() {
    awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md |
        diff <(sed '1,/\*\/$/d' examples/compiled.c) -
}

limits() { awk -f tools/limits.awk tools/limits.allow "$@"; }

# A set-uid program must not believe its caller's environment.
environment() { ! grep -nwE 'getenv' src/*/*.c src/*/*.h | grep -v '^src/cli/term.c:'; }

# The mode stack is spliced in one place; others use td__modes_enter and its kin.
modes() {
    ! grep -nE '\b(cx|ctx)->top = |(->|\.)below = [^=]|&cx->top' src/*/*.c src/*/*.h |
        grep -vE '^src/(core/(modes.c|core.h)|base/arena.c):|\{\.|^[^:]*:[0-9]*: +\.'
}

# Runners look for programs in the folders of tests/corpus, see its README.
corpus() { ! find tests/corpus -name '*.td' ! -regex 'tests/corpus/[^/]*/[^/]*' | grep .; }

check format format "$@"
check layers sh tools/layers.sh
check limits limits "$@"
check 'lone headers' lone_headers
check readme readme
check environment environment
check modes modes
check corpus corpus
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

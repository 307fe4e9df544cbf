#!/bin/bash
# analysis.sh -- static analysis of src/ and examples/ by cppcheck. Ends with
# `N passed, N failed`.
#
# Results are kept under build/cppcheck, so that only changed files are analysed again.
# tools/cppcheck.supp lists the false alarms of cppcheck 2.10 with reasons; other versions
# have others, so what they find is shown and fails nothing.
set -u
cd "$(dirname "$0")/.." || exit 1
mkdir -p build/cppcheck
version=$(cppcheck --version) || exit 1
if cppcheck -j "$(nproc)" --quiet --std=c11 --enable=warning,portability,performance \
    --inline-suppr --suppressions-list=tools/cppcheck.supp \
    --cppcheck-build-dir=build/cppcheck --template='{file}:{line}: {id}: {message}' \
    --error-exitcode=1 -D_GNU_SOURCE -D__cppcheck__ -D__x86_64__ -D__linux__ -Iinclude -Isrc -I"$GEN/src" -I. \
    -i src/kernels/loops src examples; then
    echo "1 passed, 0 failed"
elif [ "$version" != "Cppcheck 2.10" ]; then
    echo "analysis: by $version, not by the version of tools/cppcheck.supp"
    echo "1 passed, 0 failed"
else
    echo "0 passed, 1 failed"
    exit 1
fi

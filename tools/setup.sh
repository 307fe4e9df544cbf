#!/bin/sh
# setup.sh -- install what building and testing need, when it is missing.
# Debian and Ubuntu: through apt-get, as root or with a sudo that asks nothing;
# otherwise the exact command is printed and the status is 1. Does nothing, at
# once, when all is there. Other systems: checks for the headers and prints what
# is needed. SETUP=skip leaves everything to you.
set -u
[ "${SETUP:-}" = skip ] && exit 0

packages="gcc make pkg-config libc6-dev libdnnl-dev libopenblas-dev libxxhash-dev
libcjson-dev libhiredis-dev nettle-dev redis-tools clang clang-format
cppcheck valgrind"

if ! command -v dpkg-query >/dev/null; then
    for h in dnnl.h cblas.h xxhash.h cjson/cJSON.h; do
        echo "#include <$h>" | ${CC:-cc} -E -x c - >/dev/null 2>&1 && continue
        echo "setup: cannot find <$h>" >&2
        missing=1
    done
    [ -z "${missing:-}" ] && exit 0
    echo "setup: needs a C11 compiler, GNU make, oneDNN, OpenBLAS, xxHash and" \
        "cJSON; clang-format for make lint, clang for make fuzz" >&2
    exit 1
fi

have=" $(dpkg-query -W -f '${db:Status-Abbrev}${binary:Package}\n' 2>/dev/null |
    sed -n 's/^ii *\([^:]*\).*/\1/p' | tr '\n' ' ')"
missing=
for p in $packages; do
    case $have in *" $p "*) ;; *) missing="$missing $p" ;; esac
done
# clang's runtimes for make fuzz: a package of their own where there is one.
case $have in
*" libclang-rt-dev "*) ;;
*) apt-cache show libclang-rt-dev >/dev/null 2>&1 && missing="$missing libclang-rt-dev" ;;
esac
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    echo "setup: some packages are missing and may not be installed from here." >&2
    echo "setup: please run" >&2
    echo "    sudo apt-get install -y$missing" >&2
    exit 1
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
install() {
    # shellcheck disable=SC2086  # lists of words
    $sudo apt-get install -y -q --no-install-recommends $missing >/dev/null
}
install 2>/dev/null || { $sudo apt-get update -q >/dev/null && install; } || {
    echo "setup: apt-get failed; please run" >&2
    echo "    sudo apt-get update && sudo apt-get install -y$missing" >&2
    exit 1
}

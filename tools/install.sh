#!/bin/sh
# install.sh BUILD DESTDIR PREFIX VERSION LIBS -- copies what `make` built, and the docs, below
# DESTDIR/PREFIX. PREFIX alone is written into pkg-config and CMake files, with LIBS, which
# the static library needs.
set -eu
build=$1 to=$2$3 prefix=$3 version=$4 libs=$5
major=${version%%.*}
cd "$(dirname "$0")/.."

install -d "$to/include/tandem" "$to/lib/pkgconfig" "$to/lib/cmake/tandem" "$to/bin" \
    "$to/share/man/man1" "$to/share/doc/tandem/docs" "$to/share/doc/tandem/examples"
install -m 644 include/tandem/*.h "$to/include/tandem"
install -m 644 "$build/libtandem.a" "$to/lib"
install -m 755 "$build/libtandem.so" "$to/lib/libtandem.so.$version"
ln -sf "libtandem.so.$version" "$to/lib/libtandem.so.$major"
ln -sf "libtandem.so.$major" "$to/lib/libtandem.so"
if [ -e "$build/debug/libtandem.so" ]; then # built by make debug
    install -m 644 "$build/debug/libtandem.a" "$to/lib/libtandem-debug.a"
    install -m 755 "$build/debug/libtandem.so" "$to/lib/libtandem-debug.so.$version"
    ln -sf "libtandem-debug.so.$version" "$to/lib/libtandem-debug.so.$major"
    ln -sf "libtandem-debug.so.$major" "$to/lib/libtandem-debug.so"
fi
if [ -e "$build/libtandem-cuda.so" ]; then # built by make cuda
    install -m 755 "$build/libtandem-cuda.so" "$to/lib"
fi
install -m 755 "$build/tandem" "$to/bin"

fill() { # FILE: with its @NAMES@ replaced
    sed -e "s|@PREFIX@|$prefix|g" -e "s|@VERSION@|$version|g" -e "s|@LIBS@|$libs|g" \
        -e "s|@LIST@|$(echo "$libs" | sed 's/-l//g; s/  */;/g')|g" "tools/$1"
}
fill tandem.pc.in >"$to/lib/pkgconfig/tandem.pc"
if [ -e "$build/debug/libtandem.so" ]; then
    fill tandem.pc.in | sed 's/-ltandem/-ltandem-debug/; s/^Name: .*/&-debug/' \
        >"$to/lib/pkgconfig/tandem-debug.pc"
fi
fill tandem-config.cmake.in >"$to/lib/cmake/tandem/tandem-config.cmake"
fill tandem-config-version.cmake.in >"$to/lib/cmake/tandem/tandem-config-version.cmake"

tools/man.sh "$build/tandem" "$build/man"
install -m 644 "$build"/man/*.1 "$to/share/man/man1"
doc=$to/share/doc/tandem
install -d "$doc/docs/plots" "$doc/examples/gpt2"
install -m 644 README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE "$doc"
install -m 644 docs/*.md docs/*.png "$doc/docs"
install -m 644 docs/plots/* "$doc/docs/plots"
install -m 644 examples/*.c examples/*.cpp "$doc/examples"
install -m 644 examples/gpt2/* "$doc/examples/gpt2"
echo "installed in $to"

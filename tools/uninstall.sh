#!/bin/sh
# uninstall.sh DESTDIR PREFIX -- removes what install.sh copied below DESTDIR/PREFIX, of
# whatever version.
set -eu
to=$1$2
rm -f "$to"/lib/libtandem.a "$to"/lib/libtandem.so "$to"/lib/libtandem.so.* \
    "$to"/lib/libtandem-cuda.so "$to"/lib/libtandem-debug.a "$to"/lib/libtandem-debug.so \
    "$to"/lib/libtandem-debug.so.* "$to"/lib/pkgconfig/tandem.pc \
    "$to"/lib/pkgconfig/tandem-debug.pc "$to"/bin/tandem \
    "$to"/share/man/man1/tandem.1 "$to"/share/man/man1/tandem-*.1
rm -rf "$to/include/tandem" "$to/lib/cmake/tandem" "$to/share/doc/tandem"
echo "removed from $to"

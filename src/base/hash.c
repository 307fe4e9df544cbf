/* hash.c -- stable content hashes: the same on every machine and every run.
 * XXH3 reads its input as little-endian everywhere, so a hash may be stored. */
#include "base/base.h"

#include <xxhash.h>

/* Not for secrets: see td__mac128. */
uint64_t td__hash(const void *p, size_t n, uint64_t seed) {
    return XXH3_64bits_withSeed(p, n, seed);
}

td_hash128 td__hash128(const void *p, size_t n) {
    XXH128_hash_t h = XXH3_128bits(p, n);
    return (td_hash128){h.high64, h.low64};
}

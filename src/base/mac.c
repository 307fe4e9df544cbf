/* mac.c -- SipHash-2-4 with 128 bits of output, by its published definition: a keyed
 * function whose values cannot be predicted without the key. Hashes (hash.c) detect
 * accidental changes, a MAC also deliberate ones. */
#include "base/base.h"

typedef struct sip {
    uint64_t v0, v1, v2, v3;
} sip;

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

/* SipRounds on the state. */
static void mix(sip *s, int rounds) {
    for (int i = 0; i < rounds; i++) {
        s->v0 += s->v1, s->v2 += s->v3;
        s->v1 = rotate(s->v1, 13) ^ s->v0, s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v1, s->v0 += s->v3;
        s->v1 = rotate(s->v1, 17) ^ s->v2, s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 = rotate(s->v2, 32);
    }
}

/* n bytes, at most 8, least significant first on every machine. */
static uint64_t word(const uint8_t *p, size_t n) {
    uint64_t w = 0;
    for (size_t i = 0; i < n; i++) w |= (uint64_t)p[i] << (8 * i);
    return w;
}

/* Takes in one word with two rounds. */
static void absorb(sip *s, uint64_t m) {
    s->v3 ^= m;
    mix(s, 2);
    s->v0 ^= m;
}

/* Four rounds, then the state folded to one word. */
static uint64_t finish(sip *s) {
    mix(s, 4);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* The constants and the byte 0xee are those of the 128-bit variant. */
td_hash128 td__mac128(const uint8_t secret[TD_SECRET_BYTES], const void *p, size_t n) {
    const uint8_t *at = p;
    uint64_t       a = word(secret, 8), b = word(secret + 8, 8);
    sip            s = {a ^ 0x736f6d6570736575u, b ^ 0x646f72616e646f6du ^ 0xee,
                        a ^ 0x6c7967656e657261u, b ^ 0x7465646279746573u};
    size_t         left = n;
    for (; left >= 8; at += 8, left -= 8) absorb(&s, word(at, 8));
    absorb(&s, word(at, left) | (uint64_t)n << 56);
    td_hash128 out;
    s.v2 ^= 0xee;
    out.lo = finish(&s);
    s.v1 ^= 0xdd;
    out.hi = finish(&s);
    return out;
}

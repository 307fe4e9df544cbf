/* tokens.c -- files of tokens, raw or .npy, memory-mapped; and the order of windows. */
#include "nn/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *descr; /* in .npy, after the byte order */
    int         bytes;
} widths[TD_W_COUNT] = {
    [TD_W_U8] = {"u1", 1},  [TD_W_U16] = {"u2", 2}, [TD_W_U32] = {"u4", 4},
    [TD_W_I16] = {"i2", 2}, [TD_W_I32] = {"i4", 4}, [TD_W_I64] = {"i8", 8},
};

/* ---- .npy --------------------------------------------------------------- */

/* The text after `'key':` without blanks; NULL: the key is missing. */
static const char *value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ') at++;
    if (*at++ != ':') return NULL;
    while (*at == ' ') at++;
    return at;
}

/* '<u2' and the like. */
static bool read_descr(const char *text, td_width *w) {
    if (!text || text[0] != '\'' || !strchr("<|=", text[1]) || !text[1]) return false;
    for (int i = 0; i < TD_W_COUNT; i++)
        if (!strncmp(text + 2, widths[i].descr, 2) && text[4] == '\'') {
            *w = (td_width)i;
            return true;
        }
    return false;
}

/* A shape of one dim: (123,). */
static bool read_length(const char *text, int64_t *n) {
    char *end;
    if (!text || text[0] != '(' || text[1] < '0' || text[1] > '9') return false;
    long long v = strtoll(text + 1, &end, 10);
    if (end[0] != ',' || end[1] != ')' || v > INT64_MAX / 16) return false;
    *n = v;
    return true;
}

/* Reads dtype and length; NULL, or what is wrong. */
static const char *read_header(const char *header, td_token_file *f) {
    if (!read_descr(value_of(header, "'descr'"), &f->width))
        return "its dtype must be one of u1, u2, u4, i2, i4, i8, little-endian";
    if (!read_length(value_of(header, "'shape'"), &f->n))
        return "its shape must have one dim";
    return NULL;
}

/* Opens a .npy file in memory; NULL, or what is wrong ("" after td__fail). */
static const char *read_npy(td_ctx *cx, td_token_file *f, const uint8_t *p, size_t n) {
    if (n < 12 || memcmp(p, "\x93NUMPY", 6) != 0)
        return "not a .npy file; set td_loader_opts.type for files of raw tokens";
    bool   wide = p[6] >= 2;
    size_t head = wide ? 12 : 10;
    size_t len = (size_t)p[8] | (size_t)p[9] << 8;
    if (wide) len |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (p[6] < 1 || p[6] > 3 || len > n - head) return "its header is malformed";
    char *header = td__alloc(len + 1);
    if (!header) return td__fail_memory(cx), "";
    memcpy(header, p + head, len);
    header[len] = 0;
    const char *wrong = read_header(header, f);
    td__free(header);
    if (wrong) return wrong;
    size_t left = n - head - len, bytes = (size_t)widths[f->width].bytes;
    if (left / bytes < (size_t)f->n) return "it is shorter than its header says";
    f->at = p + head + len;
    return NULL;
}

/* ---- opening ------------------------------------------------------------ */

/* Opens raw tokens; NULL, or what is wrong. */
static const char *read_raw(td_token_file *f, td_tokens type, const uint8_t *p,
                            size_t n) {
    f->width = type == TD_TOKENS_U8    ? TD_W_U8
               : type == TD_TOKENS_U16 ? TD_W_U16
                                       : TD_W_U32;
    f->at = p;
    f->n = (int64_t)(n / (size_t)widths[f->width].bytes);
    return n % (size_t)widths[f->width].bytes
               ? "its size is not a multiple of the token size"
               : NULL;
}

/* Restricts f to options first and count. False after td__fail. */
static bool take_part(td_ctx *cx, td_token_file *f, const td_loader_opts *o) {
    int64_t count = o->count ? o->count : f->n - o->first;
    if (o->first < 0 || o->count < 0 || o->first > f->n || count > f->n - o->first)
        return td__fail(
            cx, TD_E_ARG,
            "td_loader_open: %s: count %lld from first %lld exceeds the %lld tokens of "
            "the file",
            f->path, (long long)o->count, (long long)o->first, (long long)f->n);
    f->at += o->first * widths[f->width].bytes;
    f->n = count;
    return true;
}

bool td__tokens_open(td_ctx *cx, td_mapping *map, const char *path,
                     const td_loader_opts *o, td_token_file *out) {
    td_token_file f = {.map = map, .path = path};
    const char   *wrong = o->type == TD_TOKENS_NPY
                              ? read_npy(cx, &f, map->bytes, map->n)
                              : read_raw(&f, o->type, map->bytes, map->n);
    bool          ok = !wrong && take_part(cx, &f, o);
    if (wrong && td_ok(cx))
        td__fail(cx, TD_E_IO, "td_loader_open: %s: %s", path, wrong);
    if (ok) *out = f;
    else td__mapping_drop(map);
    return ok;
}

/* ---- reading ------------------------------------------------------------ */

/* Tokens may be unaligned. */
static int64_t token_at(const uint8_t *p, td_width w) {
    uint16_t u16;
    uint32_t u32;
    int64_t  i64;
    switch (w) {
    case TD_W_U8: return p[0];
    case TD_W_U16: return memcpy(&u16, p, 2), u16;
    case TD_W_I16: return memcpy(&u16, p, 2), (int16_t)u16;
    case TD_W_U32: return memcpy(&u32, p, 4), u32;
    case TD_W_I32: return memcpy(&u32, p, 4), (int32_t)u32;
    default: return memcpy(&i64, p, 8), i64;
    }
}

int64_t td__tokens_read(const td_token_file *f, int64_t from, int64_t n, int64_t vocab,
                        int64_t *out) {
    const uint8_t *p = f->at + from * widths[f->width].bytes;
    int64_t        bad = -1;
    for (int64_t i = 0; i < n; i++, p += widths[f->width].bytes) {
        out[i] = token_at(p, f->width);
        if (bad < 0 && (out[i] < 0 || (vocab && out[i] >= vocab))) bad = from + i;
    }
    return bad;
}

/* ---- order -------------------------------------------------------------- */

/* A hash of 64 bits (the finalizer of SplitMix64). */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t key_of(uint64_t seed, int64_t epoch) {
    return mix(mix(seed) ^ (uint64_t)epoch);
}

/* A Feistel network is a permutation of 0..4^half-1, whatever its round function.
 * Applying it until the result is below n makes it a permutation of 0..n-1; as 4^half
 * < 4n, that takes at most four applications on average. */
int64_t td__order_shuffled(uint64_t seed, int64_t epoch, int64_t k, int64_t n) {
    enum { ROUNDS = 6 };
    int      half = 1;
    uint64_t key = key_of(seed, epoch), x = (uint64_t)k;
    while ((uint64_t)1 << 2 * half < (uint64_t)n) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t was = right;
            right =
                left ^ (mix(key + (uint64_t)i * 0x632be59bd9b4e019u + right) & mask);
            left = was;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

int64_t td__order_random(uint64_t seed, int64_t epoch, int64_t k, int64_t n) {
    return (int64_t)(mix(key_of(seed, epoch) + mix((uint64_t)k)) % (uint64_t)n);
}

uint64_t td__order_seed(uint64_t seed, int64_t epoch, int64_t k) {
    return mix(key_of(seed, epoch) ^ mix((uint64_t)k + 0x5851f42d4c957f2du));
}

/* expected.c -- reads tests/ops/expected/FAMILY.bin, written by tools/oracle.
 *
 * Little-endian. File: "TDEXPCT1", u32 n and n bytes PyTorch's version, u32 number
 * of records, u64 payload bytes, u64 FNV-1a of the payload, payload. Record: u64
 * FNV-1a of the sample's text, u32 body bytes, body. Body: u8 status (0 result, 1
 * error, 2 PyTorch has no such kernel); after 0: u8 n, n tensors (results); u8 n, n
 * times (u8 kind, u8 leaf, tensor): what the call changed, kind 0 the leaf's base,
 * 1 the geometry of the tensor passed; u8 1 when gradients follow: per leaf u8
 * there, then its bytes. Tensor: u8 dtype, u8 rank, u8 flags, u8 alias (0 none, k+1
 * leaf k, 64+k result k), varint offset, varint sizes, strides if STRIDED (else
 * row-major), bytes row-major if VALUES. */
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    uint64_t       seed;
    const uint8_t *body;
    uint32_t       n;
} entry;

struct exp_file {
    uint8_t *bytes;
    char     version[64];
    entry   *entries;
    uint32_t count;
};

typedef struct cursor {
    const uint8_t *p, *end;
    bool           bad;
} cursor;

static const uint8_t *get_bytes(cursor *c, size_t n) {
    static const uint8_t zeros[16];
    if ((size_t)(c->end - c->p) < n) {
        c->bad = true;
        c->p = c->end;
        return zeros;
    }
    c->p += n;
    return c->p - n;
}

static uint8_t get_u8(cursor *c) { return *get_bytes(c, 1); }

static uint64_t get_fixed(cursor *c, size_t n) {
    const uint8_t *b = get_bytes(c, n);
    uint64_t       v = 0;
    for (size_t i = 0; i < n; i++) v |= (uint64_t)b[i] << (8 * i);
    return v;
}

static int64_t get_varint(cursor *c) {
    uint64_t v = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        uint8_t b = get_u8(c);
        v |= (uint64_t)(b & 127) << shift;
        if (b < 128) break;
    }
    return (int64_t)v;
}

static void get_tensor(cursor *c, exp_tensor *t) {
    t->dt = (td_dtype)get_u8(c);
    t->rank = get_u8(c);
    t->flags = get_u8(c);
    t->alias = get_u8(c);
    if (t->rank > MAX_DIMS || t->dt >= TD_DTYPE_COUNT) {
        c->bad = true;
        return;
    }
    t->offset = get_varint(c);
    t->numel = 1;
    for (int i = 0; i < t->rank; i++) t->numel *= t->size[i] = get_varint(c);
    int64_t dense = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[i] = dense;
        dense *= t->size[i] > 1 ? t->size[i] : 1;
    }
    for (int i = 0; i < t->rank && (t->flags & EXP_STRIDED); i++)
        t->stride[i] = get_varint(c);
    size_t bytes = (size_t)t->numel * td_dtype_size(t->dt);
    t->values = t->flags & EXP_VALUES ? get_bytes(c, bytes) : NULL;
}

static void get_grads(cursor *c, const sample *s, expected *e) {
    e->has_grad = get_u8(c) == 1;
    for (int i = 0; i < s->n_leaves && e->has_grad; i++) {
        const leaf *l = &s->leaves[i];
        e->grad_there[i] = get_u8(c) == 1;
        if (e->grad_there[i])
            e->grad[i] = get_bytes(c, (size_t)leaf_numel(l) * td_dtype_size(l->dt));
    }
}

bool expected_find(const exp_file *f, const sample *s, expected *e) {
    memset(e, 0, sizeof *e);
    e->status = EXP_MISSING;
    const entry *at = NULL;
    for (uint32_t lo = 0, hi = f->count; lo < hi;) {
        uint32_t mid = (lo + hi) / 2;
        if (f->entries[mid].seed == s->seed) at = &f->entries[mid];
        if (f->entries[mid].seed < s->seed) lo = mid + 1;
        else hi = mid;
    }
    if (!at) return true;
    cursor c = {at->body, at->body + at->n, false};
    e->status = get_u8(&c);
    if (e->status != EXP_OK) return true;
    e->n_out = get_u8(&c);
    if (e->n_out > 32) return false;
    for (int i = 0; i < e->n_out; i++) get_tensor(&c, &e->out[i]);
    e->n_change = get_u8(&c);
    if (e->n_change > 8) return false;
    for (int i = 0; i < e->n_change; i++) {
        e->change[i].kind = get_u8(&c);
        e->change[i].leaf = get_u8(&c);
        get_tensor(&c, &e->change[i].t);
    }
    get_grads(&c, s, e);
    return !c.bad && c.p == c.end;
}

static int by_seed(const void *a, const void *b) {
    uint64_t x = ((const entry *)a)->seed, y = ((const entry *)b)->seed;
    return x < y ? -1 : x > y;
}

static bool read_index(exp_file *f, size_t n) {
    cursor c = {f->bytes, f->bytes + n, false};
    if (memcmp(get_bytes(&c, 8), "TDEXPCT1", 8)) return false;
    uint32_t k = (uint32_t)get_fixed(&c, 4);
    if (k >= sizeof f->version) return false;
    memcpy(f->version, get_bytes(&c, k), k);
    f->count = (uint32_t)get_fixed(&c, 4);
    uint64_t bytes = get_fixed(&c, 8), sum = get_fixed(&c, 8);
    if (c.bad || bytes != (uint64_t)(c.end - c.p) || f->count > bytes / 12)
        return false;
    if (sample_hash(c.p, (size_t)bytes) != sum) return false;
    f->entries = calloc(f->count + 1, sizeof *f->entries);
    for (uint32_t i = 0; f->entries && i < f->count; i++) {
        entry *e = &f->entries[i];
        e->seed = get_fixed(&c, 8);
        e->n = (uint32_t)get_fixed(&c, 4);
        e->body = get_bytes(&c, e->n);
    }
    if (!f->entries || c.bad) return false;
    qsort(f->entries, f->count, sizeof *f->entries, by_seed);
    return true;
}

exp_file *expected_open(const char *path, char *why, size_t cap) {
    FILE     *in = fopen(path, "rb");
    exp_file *f = calloc(1, sizeof *f);
    snprintf(why, cap, "%s: cannot read", path);
    if (!in || !f || fseek(in, 0, SEEK_END)) goto fail;
    long n = ftell(in);
    rewind(in);
    f->bytes = n > 0 ? malloc((size_t)n) : NULL;
    if (!f->bytes || fread(f->bytes, 1, (size_t)n, in) != (size_t)n) goto fail;
    snprintf(why, cap, "%s: damaged; make it again with tools/oracle", path);
    if (!read_index(f, (size_t)n)) goto fail;
    fclose(in);
    return f;
fail:
    if (in) fclose(in);
    expected_close(f);
    return NULL;
}

void expected_close(exp_file *f) {
    if (!f) return;
    free(f->bytes);
    free(f->entries);
    free(f);
}

const char *expected_version(const exp_file *f) { return f->version; }

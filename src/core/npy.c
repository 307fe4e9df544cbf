/* npy.c -- NumPy's .npy files. A file is a magic string, a version, the length of a
 * header, the header (a Python dict of three entries as text), and the elements. */
#include "core/files.h"
#include "tandem/io.h"

#include <stdio.h>
#include <string.h>

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* By dtype; NULL: the format has no such type. */
static const char *const descrs[TD_DTYPE_COUNT] = {
#define TD_DTYPE(id, text, bytes, klass, c, loop, npy, ...) npy,
#include "core/dtype.def"
#undef TD_DTYPE
};

/* ---- the header --------------------------------------------------------- */

typedef struct reader {
    td_ctx     *cx;
    const char *path;
    const char *begin, *p, *end; /* the file, the place, the header's end */
    char        descr[16];
    bool        fortran;
    unsigned    seen; /* bit per entry: descr, fortran_order, shape */
    td_meta     meta;
} reader;

static bool wrong(reader *r, const char *what) {
    return td__fail(r->cx, TD_E_IO, "td_load_npy: %s: %s, at byte %zu", r->path, what,
                    (size_t)(r->p - r->begin));
}

static bool refuse(reader *r, const char *what) {
    return td__fail(r->cx, TD_E_UNSUPPORTED, "td_load_npy: %s: dtype '%s': %s", r->path,
                    r->descr, what);
}

static char peek(reader *r) {
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t')) r->p++;
    return r->p < r->end ? *r->p : 0;
}

static bool take(reader *r, char c) {
    if (peek(r) != c || r->p >= r->end) return false;
    r->p++;
    return true;
}

/* A quoted string without escapes. */
static bool read_string(reader *r, char *out, size_t cap) {
    char   quote = peek(r);
    size_t n = 0;
    if (quote != '\'' && quote != '"') return wrong(r, "expected a string");
    for (r->p++; r->p < r->end && *r->p != quote; r->p++) {
        if (n + 1 == cap || *r->p == '\\' || (unsigned char)*r->p < ' ')
            return wrong(r, "an unexpected string");
        out[n++] = *r->p;
    }
    out[n] = 0;
    return take(r, quote) || wrong(r, "a string without an end");
}

static bool read_bool(reader *r, bool *out) {
    peek(r);
    size_t left = (size_t)(r->end - r->p);
    *out = left >= 4 && !memcmp(r->p, "True", 4);
    if (!*out && !(left >= 5 && !memcmp(r->p, "False", 5)))
        return wrong(r, "expected True or False");
    r->p += *out ? 4 : 5;
    return true;
}

static bool read_size(reader *r, int64_t *out) {
    int64_t v = 0;
    char    c = peek(r);
    if (c < '0' || c > '9') return wrong(r, "expected a size");
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
        v = v * 10 + (*r->p - '0');
        if (v >= TD_DIM_HUGE / 16) return wrong(r, "a size that is too large");
    }
    *out = v;
    return true;
}

/* "(2, 3)", "(2,)" or "()". */
static bool read_shape(reader *r) {
    td_meta *m = &r->meta;
    m->rank = 0;
    m->device = 0;
    if (!take(r, '(')) return wrong(r, "expected ( of the shape");
    while (!take(r, ')')) {
        if (m->rank == TD_MAX_RANK) return wrong(r, "more than 32 dims");
        if (!read_size(r, &m->size[m->rank])) return false;
        m->rank++;
        bool comma = take(r, ',');
        if (!comma && (peek(r) != ')' || m->rank == 1))
            return wrong(r, "expected , in the shape");
    }
    return true;
}

static bool read_entry(reader *r) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char                     key[24];
    int                      k = 0;
    if (!read_string(r, key, sizeof key)) return false;
    while (k < TD_COUNT(keys) && strcmp(keys[k], key) != 0) k++;
    if (k == TD_COUNT(keys)) return wrong(r, "an unknown entry of the header");
    if (r->seen >> k & 1) return wrong(r, "an entry of the header comes twice");
    r->seen |= 1u << k;
    if (!take(r, ':')) return wrong(r, "expected :");
    if (k == 1) return read_bool(r, &r->fortran);
    if (k == 2) return read_shape(r);
    if (peek(r) != '[') return read_string(r, r->descr, sizeof r->descr);
    strcpy(r->descr, "[...]");
    return refuse(r, "records have no counterpart");
}

static bool read_header(reader *r) {
    if (!take(r, '{')) return wrong(r, "expected { of the header");
    while (!take(r, '}')) {
        if (!read_entry(r)) return false;
        if (!take(r, ',') && peek(r) != '}') return wrong(r, "expected , or }");
    }
    if (r->seen != 7) return wrong(r, "the header lacks descr, fortran_order or shape");
    peek(r);
    return r->p == r->end || wrong(r, "text after the header's }");
}

/* "<f4" and the like; '=' is this machine's order, and single bytes have none. */
static bool read_descr(reader *r) {
    const char *d = r->descr;
    bool        one = d[0] && d[1] && d[2] == '1' && !d[3];
    if (d[0] == '>' && !one) return refuse(r, "big-endian; save it as little-endian");
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        const char *of = descrs[i];
        bool        order = of && (one || d[0] == '=' || d[0] == of[0]);
        if (!order || !d[0] || strcmp(d + 1, of + 1) != 0) continue;
        r->meta.dtype = (td_dtype)i;
        return true;
    }
    if (!strcmp(d + (d[0] != 0), "V2"))
        return refuse(r, "opaque; if it is bf16, save it as f32 or as .safetensors");
    return refuse(r, "no such element type here");
}

/* ---- reading ------------------------------------------------------------ */

/* Magic, version and header length; leaves r->p and r->end around the header. */
static bool read_front(reader *r, const td_mapping *m) {
    r->begin = r->p = (const char *)m->bytes;
    if (m->n < 10 || memcmp(m->bytes, magic, sizeof magic) != 0)
        return wrong(r, "this is no .npy file");
    unsigned major = m->bytes[6], minor = m->bytes[7];
    size_t   front = major == 1 ? 10 : 12;
    r->p += 6;
    if (major < 1 || major > 3 || minor != 0)
        return wrong(r, "a format version other than 1.0, 2.0 and 3.0");
    r->p += 2;
    if (m->n < front) return wrong(r, "the file ends in the header's length");
    size_t len = m->bytes[8] | (size_t)m->bytes[9] << 8;
    if (major > 1) len |= (size_t)m->bytes[10] << 16 | (size_t)m->bytes[11] << 24;
    if (len > m->n - front) return wrong(r, "the header is longer than the file");
    r->p = r->begin + front;
    r->end = r->p + len;
    return true;
}

/* All elements must be in the file; bytes after them are ignored. */
static bool check_extent(reader *r, const td_mapping *m, size_t at) {
    td_meta *x = &r->meta;
    int64_t  n = td__numel(x->rank, x->size);
    int64_t  bytes = td__dim_mul(n, td__dtype_bytes[x->dtype]);
    r->p = r->begin + at;
    if ((uint64_t)bytes > m->n - at)
        return td__fail(
            r->cx, TD_E_IO,
            "td_load_npy: %s: %s%s takes %lld bytes, there are %zu from byte "
            "%zu on",
            r->path, td_dtype_name(x->dtype), td__sizes_str(x->rank, x->size),
            (long long)bytes, m->n - at, at);
    int64_t bad = x->dtype == TD_BOOL ? td__mapping_bad_bool(m, at, n) : -1;
    r->p += bad;
    return bad < 0 || wrong(r, "a bool that is neither 0 nor 1");
}

static void set_strides(td_meta *m, bool fortran) {
    int64_t step = 1;
    m->offset = 0;
    m->strided = fortran;
    for (int i = 0; i < m->rank; i++) {
        m->stride[i] = step;
        step = td__dim_mul(step, td__dim_max(m->size[i], 1));
    }
}

td_tensor *td__npy_read(td_ctx *cx, td_mapping *m, const char *path) {
    reader r = {.cx = cx, .path = path};
    if (!read_front(&r, m)) return &cx->nil;
    size_t at = (size_t)(r.end - r.begin);
    if (!read_header(&r) || !read_descr(&r) || !check_extent(&r, m, at))
        return &cx->nil;
    set_strides(&r.meta, r.fortran);
    td_tensor *t = td__mapping_tensor(cx, m, at, &r.meta);
    return t ? t : &cx->nil;
}

td_tensor *td_load_npy(td_ctx *cx, const char *path) {
    if (!TD_ENTER_CTX(cx)) return &td__current_ctx()->nil;
    td_mapping *m = td__mapping_open(cx, "td_load_npy", path);
    if (!m) return &cx->nil;
    td_tensor *t = td__npy_read(cx, m, path);
    td__mapping_drop(m);
    return t;
}

/* ---- writing ------------------------------------------------------------ */

/* Version 1.0: the front is a multiple of 64 bytes, so that elements are aligned. */
static size_t make_front(const td_tensor *t, const char *descr, char *out, size_t cap) {
    int    n = snprintf(out + 10, cap - 10,
                        "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    size_t at = 10 + (size_t)n;
    for (int i = 0; i < t->rank; i++)
        at += (size_t)snprintf(out + at, cap - at, i ? ", %lld" : "%lld",
                               (long long)t->size[i]);
    at += (size_t)snprintf(out + at, cap - at, t->rank == 1 ? ",), }" : "), }");
    size_t total = (at + 1 + 63) / 64 * 64;
    memset(out + at, ' ', total - at);
    out[total - 1] = '\n';
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)((total - 10) & 0xff);
    out[9] = (char)((total - 10) >> 8);
    return total;
}

bool td_save_npy(const td_tensor *t, const char *path) {
    if (!TD_ENTER(t, TENSOR)) return false;
    const char *descr = descrs[t->dtype];
    char        front[64 + 22 * TD_MAX_RANK + 64];
    td_out      o;
    if (!td__has(t->cx, "td_save_npy", "the path", path)) return false;
    if (!descr)
        return td__fail(t->cx, TD_E_UNSUPPORTED,
                        "td_save_npy: %s: NumPy has no %s; save it as f32 or as "
                        ".safetensors",
                        path, td_dtype_name((td_dtype)t->dtype));
    if (t->st->fake || t->cx->fake)
        return td__fail_no_bytes(
            t->cx, "td_save_npy",
            "a captured body cannot read the elements of a tensor");
    size_t n = make_front(t, descr, front, sizeof front);
    return td__out_open(&o, t->cx, "td_save_npy", path) &&
           td__out_write(&o, front, n) && td__out_tensor(&o, t) && td__out_finish(&o);
}

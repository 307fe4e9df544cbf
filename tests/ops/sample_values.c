/* sample_values.c -- the numbers of a sample's tensors and its arguments as op
 * values. Numbers come from an integer hash of (text, leaf, element), the same as
 * in tools/oracle/samples.py, so that nothing random has to be stored. */
#include "tandem/device.h"
#include "sample.h"
#include "tandem/grad.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- numbers ------------------------------------------------------------ */

uint64_t sample_hash(const void *p, size_t n) {
    const unsigned char *b = p;
    uint64_t             h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001B3u;
    return h;
}

static uint64_t draw(uint64_t seed, int leaf_nr, int64_t i) {
    uint64_t x = seed + (uint64_t)(leaf_nr + 1) * 0x9E3779B97F4A7C15u +
                 (uint64_t)(i + 1) * 0xD1B54A32D192ED03u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static bool is_unsigned(td_dtype dt) {
    return dt == TD_U8 || (dt >= TD_U16 && dt <= TD_U64);
}

/* Without a hint: an odd fraction in (-4, 4) exact in dt, or a small integer. */
static double plain(td_dtype dt, uint64_t h) {
    static const int bits[] = {20, 20, 10, 7, [TD_F8E4M3] = 3, [TD_F8E5M2] = 2};
    if (dt == TD_BOOL) return (double)(h & 1);
    if (is_unsigned(dt)) return (double)(h % 20);
    if (!td_dtype_is_float(dt)) return (double)(h % 19) - 9;
    int    b = bits[dt];
    double range = (double)(1u << (b + 1));
    return (2 * (double)(h % (1u << (b + 1))) + 1 - range) / (double)(1u << (b - 1));
}

/* How many of n elements come before element i in the order of their hashes. */
static int64_t rank_of(uint64_t seed, int nr, int64_t n, int64_t i) {
    uint64_t mine = draw(seed, nr, i);
    int64_t  r = 0;
    for (int64_t k = 0; k < n; k++) {
        uint64_t h = draw(seed, nr, k);
        r += h < mine || (h == mine && k < i);
    }
    return r;
}

int64_t leaf_numel(const leaf *l) {
    int64_t n = 1, last = 1;
    for (int i = 0; i < l->rank; i++) {
        n *= l->size[i];
        last += (l->size[i] - 1) * l->stride[i];
    }
    return n == 0 || !l->has_stride ? n : last;
}

static double hinted(const leaf *l, td_dtype dt, uint64_t h) {
    double      v = plain(dt, h);
    const char *k = l->hint;
    if (l->mod > 0) return (double)(h % (uint64_t)l->mod);
    if (l->mod < 0) return (double)(h % (uint64_t)(-2 * l->mod)) + (double)l->mod;
    if (!strcmp(k, "pos")) return v < 0 ? -v : v;
    if (!strcmp(k, "unit")) return (v < 0 ? -v : v) / 4;
    if (!strcmp(k, "sym")) return v / 4;
    if (!strcmp(k, "int")) return (double)(h % 9) - (is_unsigned(dt) ? 0 : 4);
    if (!strcmp(k, "zeros")) return 0;
    if (!strcmp(k, "ones")) return 1;
    if (!strcmp(k, "x16")) return v * 16;
    if (!strcmp(k, "nz")) {
        bool minus = ((h >> 32) & 1) && !is_unsigned(dt) && dt != TD_BOOL;
        return ((double)(h % 9) + 1) * (minus ? -1 : 1);
    }
    return v;
}

bool leaf_is_mirrored(const leaf *l) {
    return !strcmp(l->hint, "spd") || !strcmp(l->hint, "mirror");
}

int64_t leaf_mirror(const leaf *l, int64_t i) {
    if (!leaf_is_mirrored(l)) return i;
    int64_t n = l->size[l->rank - 1], row = i / n % n, col = i % n;
    return i + (col - row) * n + row - col;
}

/* Symmetric matrices of numbers in (-1, 1); `spd` adds n to the diagonal, which makes
 * them positive-definite. */
static double mirrored(const sample *s, int nr, td_dtype dt, int64_t i) {
    const leaf *l = &s->leaves[nr];
    int64_t     other = leaf_mirror(l, i), n = l->size[l->rank - 1];
    double      v = plain(dt, draw(s->seed, nr, other < i ? other : i)) / 4;
    return i == other && !strcmp(l->hint, "spd") ? fabs(v) + (double)n : v;
}

void leaf_number(const sample *s, int nr, td_dtype dt, int64_t i, double *f,
                 int64_t *k) {
    static const leaf none = {.rank = 0};
    const leaf       *l = nr < s->n_leaves ? &s->leaves[nr] : &none;
    if (l->n_lit) {
        *f = l->lit_f[i % l->n_lit];
        *k = l->lit_i[i % l->n_lit];
        return;
    }
    if (!strcmp(l->hint, "distinct")) {
        int64_t n = leaf_numel(l), r = rank_of(s->seed, nr, n, i);
        *f = (double)(4 * r + 1 - 2 * n) / 32;
        *k = is_unsigned(dt) ? r : r - n / 2;
        return;
    }
    *f = leaf_is_mirrored(l) ? mirrored(s, nr, dt, i)
                             : hinted(l, dt, draw(s->seed, nr, i));
    *k = (int64_t)*f;
}

/* Memory that ends where a page ends; the page behind it is not there, so that a
 * kernel that reads too far is killed. Released memory of up to POOL pages is reused,
 * overwritten: a new mapping costs three calls of the system and page faults. */
typedef struct guarded {
    char           *map;
    size_t          pages; /* without the guard */
    struct guarded *next;  /* in the pool */
} guarded;

enum { POOL = 16 };

static guarded *pool[POOL + 1]; /* by pages; samples run on one thread */

static size_t bytes_of(size_t pages) { return pages * (size_t)sysconf(_SC_PAGESIZE); }

static guarded *map_guarded(size_t pages) {
    guarded *g = malloc(sizeof *g);
    char    *map = g ? mmap(NULL, bytes_of(pages + 1), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                     : MAP_FAILED;
    if (map != MAP_FAILED && !mprotect(map + bytes_of(pages), bytes_of(1), PROT_NONE)) {
        *g = (guarded){.map = map, .pages = pages};
        return g;
    }
    if (map != MAP_FAILED) munmap(map, bytes_of(pages + 1));
    free(g);
    return NULL;
}

static guarded *take_guarded(size_t pages) {
    guarded *g = pages <= POOL ? pool[pages] : NULL;
    if (!g) return map_guarded(pages);
    pool[pages] = g->next;
    return g;
}

static void release_guarded(void *env) {
    guarded *g = env;
    if (g->pages <= POOL) {
        memset(g->map, 0xa5, bytes_of(g->pages));
        g->next = pool[g->pages];
        pool[g->pages] = g;
        return;
    }
    munmap(g->map, bytes_of(g->pages + 1));
    free(g);
}

/* A tensor with a copy of data in such memory. */
static td_tensor *guarded_tensor(td_ctx *cx, td_dtype dt, td_ints size,
                                 const char *data, size_t bytes) {
    guarded *g = take_guarded((bytes + bytes_of(1) - 1) / bytes_of(1));
    if (!g) return td_nil(cx);
    char *at = g->map + bytes_of(g->pages) - bytes;
    memcpy(at, data, bytes);
    td_tensor *t = td_wrap(cx, dt, size, TD_ALL, at, release_guarded, g);
    if (td_is_nil(t)) release_guarded(g);
    return t;
}

td_tensor *hashed_tensor(td_ctx *cx, const sample *s, int nr, td_dtype dt,
                         td_ints size) {
    int64_t  n = td__numel(size.n, size.v);
    size_t   each = td_dtype_size(dt);
    td_dtype part = td__real_of(dt); /* a complex element is two numbers */
    char    *data = malloc((size_t)n * each + 1);
    if (!data) return td_nil(cx);
    for (int64_t i = 0; i < (td_dtype_is_complex(dt) ? 2 * n : n); i++) {
        double  f;
        int64_t k;
        leaf_number(s, nr, part, i, &f, &k);
        char *p = data + (size_t)i * td_dtype_size(part);
        if (td_dtype_is_float(part)) td__store_f(part, p, f);
        else td__store_i(part, p, k);
    }
    bool       host = td_default_device(cx).kind == TD_CPU;
    td_tensor *t = n && host ? guarded_tensor(cx, dt, size, data, (size_t)n * each)
                             : td_from(cx, dt, size, data);
    free(data);
    return t;
}

/* ---- arguments ---------------------------------------------------------- */

typedef struct builder {
    td_ctx       *cx;
    const sample *s;
    inputs       *in;
} builder;

static bool wrong(builder *b, const char *what, const char *name) {
    if (!b->in->why[0])
        snprintf(b->in->why, sizeof b->in->why, "%.150s: %.80s", what, name);
    return false;
}

static bool bind(builder *b, int first, td_op op, int from, td_value *in, bool *given);

/* The elements of t at every other place of a wider tensor, which is poisoned in
 * between: a kernel that ignores strides shows. No history. */
static td_tensor *make_strided(td_ctx *cx, td_tensor *t) {
    int     r = td_rank(t);
    int64_t size[MAX_DIMS], n = td_numel(t);
    size_t  each = td_dtype_size(td_dtype_of(t));
    if (r == 0 || n == 0) return t;
    memcpy(size, td_sizes(t).v, (size_t)r * sizeof *size);
    size[r - 1] *= 2;
    char *wide = malloc(3 * (size_t)n * each), *from = wide + 2 * (size_t)n * each;
    if (!wide || !td_read(t, td_dtype_of(t), from, (size_t)n * each)) {
        free(wide);
        return td_nil(cx);
    }
    memset(wide, 1, 2 * (size_t)n * each);
    for (int64_t i = 0; i < n; i++)
        memcpy(wide + 2 * (size_t)i * each, from + (size_t)i * each, each);
    td_tensor *out = td_from(cx, td_dtype_of(t), TD_SHAPE_OF(size, r), wide);
    free(wide);
    td_value in[5] = {td_value_tensor(out), td_value_int(r - 1), td_value_int(0),
                      TD_NONE, td_value_int(2)};
    td__call(cx, td__op_find("slice"), in, 5, &out, 1);
    return out;
}

static bool apply_views(builder *b, const node *n, td_tensor **t) {
    for (int v = n->first; v >= 0; v = b->s->nodes[v].next) {
        const node *view = &b->s->nodes[v];
        td_op       op = td__op_find(view->str);
        if (op == TD_OP_COUNT) return wrong(b, "no such view op", view->str);
        td_value in[TD_MAX_ARGS];
        bool     given[TD_MAX_ARGS] = {false};
        int      n_in = td__opinfo(op)->s.n_in;
        in[0] = td_value_tensor(*t);
        given[0] = true;
        if (!bind(b, view->first, op, 1, in, given)) return false;
        while (n_in > 1 && !given[n_in - 1]) n_in--;
        if (!td__call(b->cx, op, in, n_in, t, 1))
            return wrong(b, td_message(b->cx), view->str);
    }
    return true;
}

static bool build_tensor(builder *b, const node *n, td_tensor **out) {
    td_tensor *t;
    if (n->kind == NODE_REF) {
        if (n->i < 0 || n->i >= TD_MAX_ARGS || !b->in->made[n->i])
            return wrong(b, "no such argument", "&");
        t = b->in->made[n->i];
    } else {
        t = b->in->used[n->i];
    }
    if (!apply_views(b, n, &t)) return false;
    if (n->kind == NODE_TENSOR) b->in->used[n->i] = t;
    *out = t;
    return true;
}

static bool build_ints(builder *b, const node *n, td_value *v) {
    int64_t *at = b->in->ints + b->in->n_ints;
    uint32_t k = 0;
    if (n->kind == NODE_INT) {
        at[k++] = n->i;
    } else if (n->kind == NODE_LIST) {
        for (int i = n->first; i >= 0; i = b->s->nodes[i].next) {
            if (b->in->n_ints + (int)k >= 120) return wrong(b, "too many ints", "");
            at[k++] = b->s->nodes[i].i;
        }
    } else {
        return wrong(b, "a list of ints expected", n->str);
    }
    b->in->n_ints += (int)k;
    *v = (td_value){TD_K_INTS, k, {.ints = at}};
    return true;
}

static bool build_tensors(builder *b, const node *n, td_value *v) {
    int      at = b->in->n_lists;
    uint32_t k = 0;
    if (n->kind != NODE_LIST) return wrong(b, "a list of tensors expected", n->str);
    for (int i = n->first; i >= 0; i = b->s->nodes[i].next) {
        const node *item = &b->s->nodes[i];
        td_tensor  *t = NULL;
        if (b->in->n_lists == 60) return wrong(b, "too many tensors", "");
        if (item->kind != NODE_NONE && !build_tensor(b, item, &t)) return false;
        b->in->lists[b->in->n_lists++] = t;
        k++;
    }
    *v = (td_value){TD_K_TENSORS, k, {.ts = b->in->lists + at}};
    return true;
}

static bool build_number(builder *b, const node *n, td_arg_type type, td_value *v) {
    switch (n->kind) {
    case NODE_INT:
        *v = td_value_int(n->i);
        if (type == TD_T_FLOAT || type == TD_T_OPT_FLOAT)
            *v = td_value_float((double)n->i);
        return true;
    case NODE_FLOAT: *v = td_value_float(n->f); return true;
    case NODE_BOOL: *v = td_value_bool(n->i != 0); return true;
    default: return wrong(b, "a number expected", n->str);
    }
}

static td_value absolute(td_value v) {
    if (v.kind == TD_K_FLOAT) v.u.f = fabs(v.u.f);
    if (v.kind == TD_K_INT) v.u.i = v.u.i < 0 ? -v.u.i : v.u.i;
    return v;
}

static bool build_value(builder *b, const node *n, td_arg_type type, td_value *v) {
    if (n->kind == NODE_NONE) return *v = TD_NONE, true;
    if (n->kind == NODE_TENSOR || n->kind == NODE_REF) {
        td_tensor *t;
        if (!build_tensor(b, n, &t)) return false;
        return *v = td_value_tensor(t), true;
    }
    switch (type) {
    case TD_T_TENSORS:
    case TD_T_OPT_TENSORS: return build_tensors(b, n, v);
    case TD_T_INTS:
    case TD_T_OPT_INTS: return build_ints(b, n, v);
    case TD_T_DTYPE:
    case TD_T_OPT_DTYPE:
        *v = (td_value){TD_K_DTYPE, 0, {.dt = n->dt}};
        return n->kind == NODE_DTYPE || wrong(b, "a dtype expected", n->str);
    case TD_T_STR:
        *v = (td_value){TD_K_STR, 0, {.s = n->str}};
        return n->kind == NODE_STR || wrong(b, "a string expected", "");
    default: break;
    }
    if (!build_number(b, n, type, v)) return false;
    if (b->in->absolute && type == TD_T_SCALAR) *v = absolute(*v);
    return true;
}

/* Fills in[] from the arguments chained at `first`, positions from `from` on. */
static bool bind(builder *b, int first, td_op op, int from, td_value *in, bool *given) {
    const td_schema *s = &td__opinfo(op)->s;
    int              at = from;
    for (int i = first; i >= 0; i = b->s->nodes[i].next) {
        const node *n = &b->s->nodes[i];
        int         k = at;
        if (n->name[0]) {
            for (k = 0; k < s->n_in && strcmp(s->in[k].name, n->name); k++) {
            }
        } else {
            at++;
        }
        if (k >= s->n_in) return wrong(b, "no such argument", n->name);
        if (!build_value(b, n, (td_arg_type)s->in[k].type, &in[k])) return false;
        given[k] = true;
        if (in == b->in->in && in[k].kind == TD_K_TENSOR) b->in->made[k] = in[k].u.t;
    }
    return true;
}

static bool build_leaf(builder *b, int i, td_tensor *as) {
    const leaf *l = &b->s->leaves[i];
    int64_t     n = leaf_numel(l);
    td_ints     size = l->has_stride ? (td_ints){&n, 1} : (td_ints){l->size, l->rank};
    td_tensor  *t = as ? as : hashed_tensor(b->cx, b->s, i, l->dt, size);
    if (b->in->absolute && td_dtype_is_float(l->dt))
        t = td_op_to(td_op_abs(t), TD_F64, false);
    bool grad = l->grad && !(b->s->src->tags & TAG_NOGRAD);
    if (l->n_lit && l->n_lit != (td_dtype_is_complex(l->dt) ? 2 * n : n))
        return wrong(b, "literal does not fit", "=(");
    if (td_is_nil(t)) return wrong(b, td_message(b->cx), "leaf");
    if (grad && !as) td_set_requires_grad(t, true);
    b->in->leaf[i] = t;
    td_value v[4] = {td_value_tensor(t)};
    if (b->in->writes && !td__call(b->cx, td__op_find("clone"), v, 1, &t, 1))
        return wrong(b, td_message(b->cx), "clone");
    b->in->base[i] = b->in->used[i] = t;
    if (b->in->strided) b->in->used[i] = make_strided(b->cx, t);
    if (!l->has_stride) return true;
    v[0] = td_value_tensor(t);
    v[1] = (td_value){TD_K_INTS, (uint32_t)l->rank, {.ints = l->size}};
    v[2] = (td_value){TD_K_INTS, (uint32_t)l->rank, {.ints = l->stride}};
    return td__call(b->cx, td__op_find("as_strided"), v, 3, &b->in->used[i], 1) ||
           wrong(b, td_message(b->cx), "as_strided");
}

bool inputs_build(td_ctx *cx, const sample *s, td_op op, td_tensor *const *as,
                  inputs *in) {
    builder          b = {cx, s, in};
    bool             strided = in->strided, positive = in->absolute;
    const td_schema *schema = &td__opinfo(op)->s;
    memset(in, 0, sizeof *in);
    in->op = op;
    in->strided = strided;
    in->absolute = positive;
    in->n_in = schema->n_in;
    size_t n = strlen(td__ops[op].name);
    in->writes = td__ops[op].name[n - 1] == '_' || (s->src->tags & TAG_WRITES);
    for (int i = 0; i < s->n_leaves; i++)
        if (!build_leaf(&b, i, as ? as[i] : NULL)) return false;
    if (!bind(&b, s->first, op, 0, in->in, in->given)) return false;
    while (in->n_in > 0 && !in->given[in->n_in - 1]) in->n_in--;
    for (int i = 0; i < in->n_in; i++) {
        if (in->given[i]) continue;
        if (!schema->in[i].has_default) return wrong(&b, "missing", schema->in[i].name);
        in->in[i] = schema->in[i].def;
    }
    return true;
}

bool inputs_call(td_ctx *cx, const sample *s, td_op op, td_tensor *const *as,
                 inputs *in) {
    if (!inputs_build(cx, s, op, as, in)) return false;
    in->n_out = td__call_list(cx, op, in->in, in->n_in, in->out, 64);
    return in->n_out >= 0;
}

/* sym_env.c -- the symbol environment of a trace: the hook through which
 * td__dim_* operations on symbolic sizes arrive, and the creation of symbols
 * for the geometry of inputs. */
#include "trace/sym.h"

#include <stdio.h>
#include <string.h>

/* ---- serving the thread's dims ------------------------------------------ */

/* td_mode.call: notes which op runs. The parts of a composite count as the composite,
 * which is the op the user called. */
static bool note_op(td_mode *m, td_opcall *c) {
    td_symenv  *e = (td_symenv *)m;
    const char *op = e->op;
    if (!op) e->op = td__row(c->info->op)->name;
    bool ok = td__call_below(m, c);
    e->op = op;
    return ok;
}

static int64_t fixed(td_symenv *e, int64_t dim);
static bool    expect(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b);

/* One td_dim_op on dims of which at least one is symbolic. */
static int64_t compute(td_symenv *e, int op, int64_t a, int64_t b) {
    switch (op) {
    case TD_DIM_ADD: return td__sym_add(e, a, b, 1);
    case TD_DIM_SUB: return td__sym_add(e, a, b, -1);
    case TD_DIM_MUL: return td__sym_mul(e, a, b);
    case TD_DIM_DIV: return td__sym_div(e, a, b);
    case TD_DIM_MOD: return td__sym_mod(e, a, b);
    case TD_DIM_MIN: return td__sym_min(e, a, b);
    case TD_DIM_MAX: return td__sym_max(e, a, b);
    case TD_DIM_EQ: return td__sym_holds(e, a, TD_DIM_IS_EQ, b);
    case TD_DIM_LT: return td__sym_holds(e, a, TD_DIM_IS_LT, b);
    case TD_DIM_FIX: return fixed(e, a);
    case TD_DIM_NOW: return td__sym_now(e, a);
    case TD_DIM_SAME: return td__sym_prove(e, a, TD_DIM_IS_EQ, b) == 1;
    case TD_DIM_SEEMS_EQ: return td__sym_seems(e, a, TD_DIM_IS_EQ, b);
    case TD_DIM_SEEMS_LT: return td__sym_seems(e, a, TD_DIM_IS_LT, b);
    default: return expect(e, a, (td_dim_rel)(op - TD_DIM_EXPECT), b);
    }
}

/* The caller needs a number: gives the hint and guards it. An unbacked size has
 * no hint: an error. */
static int64_t fixed(td_symenv *e, int64_t dim) {
    int64_t           now = td__sym_now(e, dim), hint = td__sym_hint(e, now);
    const td_symexpr *x = td__sym_at(e, now);
    if (x && x->unbacked)
        return td__sym_fail_unbacked(e, now, TD_DIM_IS_EQ, 0), TD_DIM_HUGE;
    return td__sym_holds(e, dim, TD_DIM_IS_EQ, hint) ? hint : TD_DIM_HUGE;
}

/* A condition on input sizes is guarded before the program runs; one on
 * data-dependent sizes becomes a run-time assert. */
static bool expect(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b) {
    const td_symexpr *x = td__sym_at(e, a), *y = td__sym_at(e, b);
    if (!(x && x->unbacked) && !(y && y->unbacked)) return td__sym_holds(e, a, rel, b);
    int known = td__sym_prove(e, a, rel, b);
    return known < 0 ? td__sym_assert(e, a, rel, b) : known;
}

/* A new unbacked size in [least, most], for a result whose size depends on data
 * (nonzero, masked_select). */
static int64_t fresh(td_symenv *e, int64_t least, int64_t most) {
    td_symrange r = {least, td__sym_range(e, most).hi};
    int64_t     u = td__sym_unbacked(e, e->op ? e->op : "a value", r, true);
    if (td__dim_is_sym(most) && td__dim_is_sym(u) &&
        !td__sym_learn(e, most, TD_DIM_IS_GE, u))
        return TD_DIM_HUGE;
    return u;
}

/* A number in the range of tags that is no tag of this environment: a tag of
 * another one, or the result of plain arithmetic on a tag. */
static bool foreign(const td_symenv *e, int64_t dim) {
    return td__dim_is_sym(dim) && !td__sym_at(e, dim);
}

/* td_dim_hook.op. Answers to comparisons never change within a trace, because
 * each is proved or guarded; results of arithmetic may become simpler as facts
 * are learned, so their cache entries are bound to a generation. */
static int64_t serve(void *env, int op, int64_t a, int64_t b) {
    td_symenv *e = env;
    int64_t    key[3] = {op, a, b};
    if (op == TD_DIM_TRACES) return e->symbols.n > 0;
    if (foreign(e, a) || foreign(e, b)) {
        td__fail(
            e->cx, TD_E_TRACE,
            "a size is below -2^62, comes from another trace, or was computed from a "
            "symbolic size with plain C arithmetic; use td_sym_add and the other "
            "td_sym functions");
        return op >= TD_DIM_EQ && op != TD_DIM_FRESH ? 0 : TD_DIM_HUGE;
    }
    if (op == TD_DIM_FRESH) return fresh(e, a, b);
    td_symmemo *m = &e->memo[td__hash(key, sizeof key, 0) % TD_SYM_MEMO];
    bool        answer = op == TD_DIM_EQ || op == TD_DIM_LT;
    if (m->op == op + 1 && m->a == a && m->b == b && (answer || m->gen == e->gen))
        return m->r;
    int64_t r = compute(e, op, a, b);
    if (td_ok(e->cx)) *m = (td_symmemo){a, b, r, op + 1, e->gen};
    return r;
}

static void print(void *env, int64_t dim, td_buf *out) {
    if (foreign(env, dim)) td__buf_printf(out, "%lld", (long long)dim);
    else td__sym_print(env, dim, out);
}

/* Only symbol environments serve dims, so the hook's environment is one. */
td_symenv *td__symenv_current(void) { return td__dim_hook_env(); }

bool td__symenv_assumed(void) {
    const td_symenv *e = td__symenv_current();
    return e && e->assumed;
}

void td__symenv_begin(td_symenv *e) {
    e->outer_hook = td__dim_set_hook((td_dim_hook){serve, print, e});
    td__mode_push(e->cx, &e->mode);
}

/* An error after an assumption about data-dependent sizes may be the
 * assumption's fault: it becomes TD_E_TRACE, which says so. */
static void mark_assumed(const td_symenv *e) {
    td_ctx *cx = e->cx;
    td_code code = td__error(cx);
    char    why[400];
    if (td_ok(cx) || !e->assumed || code == TD_E_MEMORY || code == TD_E_TRACE ||
        code == TD_E_UNSUPPORTED)
        return;
    snprintf(why, sizeof why, "%.380s", td__message(cx));
    td_clear(cx);
    td__fail(cx, TD_E_TRACE,
             "%s (some sizes here depend on data; the trace assumes that they are "
             "neither 0 nor 1)",
             why);
}

void td__symenv_end(td_symenv *e) {
    mark_assumed(e);
    td__mode_pop(e->cx, &e->mode);
    td__dim_set_hook(e->outer_hook);
}

const char *td__symenv_op(const char *op) {
    td_symenv  *e = td__symenv_current();
    const char *was = e ? e->op : NULL;
    if (e && !was) e->op = op;
    return was;
}

void td__symenv_op_end(const char *was) {
    td_symenv *e = td__symenv_current();
    if (e) e->op = was;
}

/* An environment owns expressions, symbols and guards of one trace. It is also a mode:
 * it notes the running op, which messages and guards name. */
td_symenv *td__symenv_make(td_ctx *cx) {
    td_symenv *e = td__zalloc(sizeof *e);
    if (!e) return td__fail_memory(cx), NULL;
    e->cx = cx;
    e->mode.name = "symbols";
    e->mode.call = note_op;
    e->mode.composites = true;
    e->gen = 1;
    if (td__arena_alloc(&e->scratch, 1)) return e; /* its first chunk stays */
    td__symenv_drop(e);
    return td__fail_memory(cx), NULL;
}

void td__symenv_drop(td_symenv *e) {
    if (!e) return;
    for (int i = 0; i < TD_FACT_KINDS; i++) td__vec_free(&e->facts[i]);
    td__vec_free(&e->exprs);
    td__vec_free(&e->symbols);
    td__vec_free(&e->guards);
    td__free(e->slots);
    td__arena_free(&e->arena);
    td__arena_free(&e->scratch);
    td__free(e);
}

/* ---- symbols ------------------------------------------------------------ */

/* A new symbol, or a number (`given`), which is a symbol without a name that is known
 * from the beginning. */
int64_t td__sym_input(td_symenv *e, td_symbol like, const int64_t *given) {
    td_symbol s = like;
    s.source = td__arena_strdup(&e->arena, like.source);
    s.nr = s.letter == 'u' ? e->n_unbacked : e->n_backed;
    s.range = s.first;
    if (!s.source || !td__vec_push(&e->symbols, s)) return td__sym_fail_memory(e);
    int32_t at = e->symbols.n - 1;
    int64_t tag = td__sym_intern_symbol(e, at);
    if (!td__dim_is_sym(tag)) { /* no memory: as if it had never been */
        e->symbols.n--;
        return tag;
    }
    td_symbol *to = &e->symbols.v[at];
    to->tag = tag;
    to->given = to->is = given ? *given : tag;
    if (given) to->nr = -1; /* it is never printed: no name */
    else if (s.letter == 'u') e->n_unbacked++;
    else e->n_backed++;
    return to->given;
}

/* Duck sizing: the symbol of another size with this hint; NULL: none. */
static const int64_t *equal_size(const td_symenv *e, int64_t hint) {
    for (int i = 0; i < e->symbols.n; i++) {
        const td_symbol *s = &e->symbols.v[i];
        if (s->duck && s->given == s->tag && s->hint == hint) return &s->tag;
    }
    return NULL;
}

/* One size of an input: a new symbol, the symbol of an equal size, or the
 * number (for 0, 1 and dims that are not dynamic). */
static int64_t size_symbol(td_symenv *e, td_symbol s, td_symhow how) {
    int64_t hint = s.hint;
    s.letter = 's';
    s.read = TD_SYM_SIZE;
    s.size = true;
    s.first = (td_symrange){2, TD_DIM_HUGE};
    if (hint < 2 || !(how.dims >> s.dim & 1)) return td__sym_input(e, s, &hint);
    const td_bounds *b = how.bounds ? &how.bounds[s.dim] : NULL;
    bool             bounded = b && b->most;
    if (bounded) s.first = (td_symrange){b->least < 2 ? 2 : b->least, b->most};
    s.duck = how.duck && !bounded;
    const int64_t *twin = s.duck ? equal_size(e, hint) : NULL;
    int64_t        tag = twin ? *twin : 0; /* a copy: e->symbols may be reallocated */
    return td__sym_input(e, s, twin ? &tag : NULL);
}

int64_t td__sym_size(td_symenv *e, const char *source, int32_t arg, int32_t dim,
                     int64_t hint) {
    td_symbol s = {.arg = arg, .dim = dim, .source = source, .hint = hint};
    return size_symbol(e, s, TD_SYM_ALL);
}

/* A size that depends on values: nothing is known of it but its range. */
int64_t td__sym_unbacked(td_symenv *e, const char *source, td_symrange r, bool size) {
    if (r.lo == r.hi) return r.lo;
    td_symbol s = {.letter = 'u',
                   .read = TD_SYM_INSIDE,
                   .size = size,
                   .arg = -1,
                   .source = source,
                   .first = r};
    return td__sym_input(e, s, NULL);
}

/* ---- tensors ------------------------------------------------------------ */

/* A stride or offset of an input: the expression *is where it follows from
 * sizes, else a new symbol. */
static int64_t number_of(td_symenv *e, const char *name, td_symbol s,
                         const int64_t *is) {
    td_arena_mark mark = td__arena_mark(&e->scratch);
    const char   *format = s.read == TD_SYM_STRIDE ? "%s.stride(%d)" : "%s.offset()";
    s.source = td__arena_printf(&e->scratch, format, name, (int)s.dim);
    if (!s.source) return td__sym_fail_memory(e);
    int64_t r = td__sym_input(e, s, is);
    td__arena_reset(&e->scratch, mark);
    return r;
}

/* The dims of t from the smallest stride on, so that each stride may follow from those
 * before: the next one. `done`: the dims before. */
static int next_stride(const td_tensor *t, uint64_t done) {
    int d = -1;
    for (int i = t->rank - 1; i >= 0; i--)
        if (!(done >> i & 1) && (d < 0 || t->stride[i] < t->stride[d])) d = i;
    return d;
}

/* Is the stride of dim d 0, 1 or the stride of a dim before it times its size? *from:
 * that dim, or -1. */
static bool follows(const td_tensor *t, uint64_t done, int d, int *from) {
    *from = -1;
    if (t->stride[d] < 2) return true;
    for (int i = t->rank - 1; i >= 0 && *from < 0; i--)
        if (done >> i & 1 && t->size[i] * t->stride[i] == t->stride[d]) *from = i;
    return *from >= 0;
}

bool td__sym_strides_follow(const td_tensor *t) {
    uint64_t done = 0;
    for (int n = 0; n < t->rank; n++) {
        int d = next_stride(t, done), from;
        if (!follows(t, done, d, &from)) return false;
        done |= (uint64_t)1 << d;
    }
    return true;
}

/* Sets m->stride. */
static void stride_symbols(td_symenv *e, const char *name, int32_t arg,
                           const td_tensor *t, td_symhow how, td_meta *m) {
    uint64_t done = 0;
    for (int n = 0; n < t->rank; n++) {
        int       d = next_stride(t, done), from;
        td_symbol s = {.letter = 's',
                       .read = TD_SYM_STRIDE,
                       .arg = arg,
                       .dim = d,
                       .part = how.part,
                       .hint = t->stride[d],
                       .first = {2, TD_DIM_HUGE}};
        bool      known = follows(t, done, d, &from) || !how.dims;
        int64_t   is = t->stride[d];
        if (from >= 0) is = td__sym_mul(e, m->size[from], m->stride[from]);
        m->stride[d] = number_of(e, name, s, known ? &is : NULL);
        done |= (uint64_t)1 << d;
    }
}

/* Sets m->size. */
static bool size_symbols(td_symenv *e, const char *name, int32_t arg,
                         const td_tensor *t, td_symhow how, td_meta *m) {
    for (int d = 0; d < t->rank; d++) {
        td_arena_mark mark = td__arena_mark(&e->scratch);
        td_symbol     s = {.arg = arg, .dim = d, .part = how.part, .hint = t->size[d]};
        s.source =
            td__arena_printf(&e->scratch, how.number ? "%s" : "%s.size(%d)", name, d);
        if (!s.source) return td__fail_memory(e->cx);
        m->size[d] = size_symbol(e, s, how);
        td__arena_reset(&e->scratch, mark);
    }
    return true;
}

/* Metadata of t with symbols: sizes as `how` selects, strides derived from them where
 * they are row-major, a symbolic offset if it is not 0. */
bool td__sym_tensor(td_symenv *e, const char *name, int32_t arg, const td_tensor *t,
                    td_symhow how, td_meta *m) {
    td__tensor_meta(t, m);
    if (!size_symbols(e, name, arg, t, how, m)) return false;
    stride_symbols(e, name, arg, t, how, m);
    td_symbol s = {.letter = 's',
                   .read = TD_SYM_OFFSET,
                   .arg = arg,
                   .part = how.part,
                   .hint = t->offset,
                   .first = {1, TD_DIM_HUGE}};
    m->offset = number_of(e, name, s, t->offset && how.dims ? NULL : &t->offset);
    return td_ok(e->cx);
}

/* ---- a tensor passed twice ---------------------------------------------- */

/* Guards that one number of an input equals `is`. */
static bool must_be(td_symenv *e, const char *source, td_symbol s, int64_t is) {
    if (!source) return td__fail_memory(e->cx);
    s.letter = 's';
    s.source = source;
    td__sym_input(e, s, &is);
    return td_ok(e->cx);
}

/* Adds guards that t has exactly the metadata m: for a tensor whose symbols exist
 * already, such as another view of the same storage. */
bool td__sym_tensor_is(td_symenv *e, const char *name, int32_t arg, const td_tensor *t,
                       const td_meta *m) {
    td_arena_mark mark = td__arena_mark(&e->scratch);
    bool          ok = true;
    for (int d = 0; d < t->rank && ok; d++) {
        td_symbol size = {.read = TD_SYM_SIZE,
                          .arg = arg,
                          .dim = d,
                          .hint = t->size[d]};
        td_symbol stride = {.read = TD_SYM_STRIDE,
                            .arg = arg,
                            .dim = d,
                            .hint = t->stride[d]};
        ok = must_be(e, td__arena_printf(&e->scratch, "%s.size(%d)", name, d), size,
                     m->size[d]) &&
             must_be(e, td__arena_printf(&e->scratch, "%s.stride(%d)", name, d), stride,
                     m->stride[d]);
    }
    td_symbol offset = {.read = TD_SYM_OFFSET, .arg = arg, .hint = t->offset};
    ok = ok && must_be(e, td__arena_printf(&e->scratch, "%s.offset()", name), offset,
                       m->offset);
    td__arena_reset(&e->scratch, mark);
    return ok;
}

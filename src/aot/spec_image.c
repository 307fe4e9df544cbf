/* spec_image.c -- a specialization as bytes, for the cache on disk and for files of
 * functions: flags, key, program, guards, joint graph, halves. The plan is made anew of
 * them, and code is compiled or found by its graph. */
#include "aot/cache_int.h"
#include "build/unit.h"
#include "core/sources.h"
#include "trace/sym.h"

bool td__image_library(td_buf *b) {
    td__unit_library(b);
    td__buf_printf(b, "sources %s\n", td__sources);
    return !b->failed;
}

/* ---- writing ------------------------------------------------------------ */

bool td__put_spec_head(td_buf *b, const td_spec *s) {
    td__put_uint(b, s->offsets);
    td__put_uint(b, s->views);
    td__put_uint(b, s->reads);
    td__put_uint(b, s->measures);
    td__put_uint(b, s->replayed);
    td__put_uint(b, (uint64_t)s->marks.n);
    for (int i = 0; i < s->marks.n; i++) td__put_uint(b, s->marks.v[i]);
    td__put_uint(b, (uint64_t)s->key.n);
    for (int i = 0; i < s->key.n; i++) td__put_int(b, s->key.v[i]);
    return !b->failed;
}

/* Writes the program, if the reader has none; a user's graph is the function's. */
static bool put_program(td_buf *b, const td_spec *s, bool program, const char **why) {
    td_image m = {0};
    bool     inside = program && s->program;
    td__put_uint(b, inside);
    if (!inside) return true;
    bool ok = td__image_begin(&m, b, NULL, false) && td__image_graph(&m, s->program);
    if (m.why) *why = m.why;
    td__image_end(&m);
    return ok;
}

static bool put_guards(td_buf *b, const td_spec *s, const td_graph *program) {
    td__put_uint(b, s->guards != NULL);
    if (s->guards) td__put_guards(b, s->guards, program);
    return !b->failed;
}

bool td__put_spec(td_buf *b, const td_fn *f, const td_spec *s, bool program,
                  const char **why) {
    const td_graph *of = td__spec_program(f, s);
    td_image        m = {0};
    bool            ok = put_program(b, s, program, why) && put_guards(b, s, of) &&
              td__image_begin(&m, b, of, false) && td__put_joint(&m, s->j);
    td__put_uint(b, s->h != NULL);
    ok = ok && (!s->h || td__put_halves(&m, s->h));
    if (m.why) *why = m.why;
    td__image_end(&m);
    return ok && !b->failed;
}

/* ---- reading ------------------------------------------------------------ */

/* Those of a program that was captured in this process stay. */
static bool get_marks(td_reader *r, td_spec *s) {
    int  n = td__get_count(r);
    bool captured = s->program != NULL;
    if (!captured) s->marks.n = 0;
    for (int i = 0; !r->bad && i < n; i++) {
        uint32_t marks = (uint32_t)td__get_uint(r);
        if (!captured && !td__vec_push(&s->marks, marks)) r->bad = true;
    }
    return !r->bad;
}

static bool get_key(td_reader *r, td_key *k) {
    int n = td__get_count(r);
    k->n = 0;
    for (int i = 0; !r->bad && i < n; i++)
        if (!td__vec_push(k, td__get_int(r))) r->bad = true;
    return !r->bad;
}

void td__spec_discard(td_fn *f, td_spec *s, bool captured) {
    td__joint_drop(s->j);
    td__halves_drop(s->h);
    td__guards_drop(s->guards);
    s->j = NULL;
    s->h = NULL;
    s->guards = NULL;
    s->key.n = 0;
    if (!captured) {
        td__graph_drop(s->program);
        s->program = NULL;
    }
    td_clear(f->cx);
}

/* Reads the program, unless there is one: the captured one, or the user's graph. Every
 * get_ function validates what it reads; false, or a bad reader: the bytes are
 * unusable. */
static bool get_program(td_reader *r, td_fn *f, td_spec *s) {
    bool inside = td__get_bool(r);
    if (r->bad || (inside && s->program)) return false;
    if (inside) s->program = td__image_read(r, f->cx, NULL);
    const td_graph *p = td__spec_program(f, s);
    return p && (!inside || td__graph_verify(p, TD_STAGE_PROGRAM));
}

/* Reads the joint graph; its inputs must have the types of this call's arguments. */
static td_joint *get_joint(td_reader *r, td_ctx *cx, const td_spec *s,
                           const td_graph *program) {
    td_arena  a = {0};
    int       n = program->inputs.n;
    td_value *in = td__arena_zalloc(&a, sizeof *in * ((size_t)n + 1));
    if (in) td__spec_args(s, s->cache.args, in, n);
    td_joint *j = in ? td__get_joint(r, cx, program, in) : NULL;
    td__arena_free(&a);
    return j;
}

bool td__get_spec_program(td_reader *r, td_fn *f, td_spec *s) {
    td_key words = {0};
    s->offsets = td__get_bool(r);
    s->views = td__get_bool(r);
    s->reads = td__get_bool(r);
    s->measures = td__get_bool(r);
    s->replayed = td__get_bool(r);
    bool ok = get_marks(r, s) && get_key(r, &words);
    td__vec_free(&s->key);
    s->key.v = words.v, s->key.n = words.n, s->key.cap = words.cap;
    return ok && !r->bad && get_program(r, f, s);
}

bool td__get_spec_graphs(td_reader *r, td_fn *f, td_spec *s) {
    const td_graph *program = td__spec_program(f, s);
    if (td__get_bool(r)) s->guards = td__get_guards(r, s->cache.args, program);
    if (r->bad) return false;
    if (!(s->j = get_joint(r, f->cx, s, program))) return false;
    if (s->j->order != f->n_orders) return false;
    bool halves = td__get_bool(r);
    if (r->bad || halves != (s->j->n_tangents > 0)) return false;
    if (halves) s->h = td__get_halves(r, s->j, program);
    return !r->bad && r->p == r->end;
}

bool td__spec_fits_call(td_fn *f, td_spec *s) {
    td_values args = s->cache.args;
    return td__key_find_grads(s, args) && td__key_fits(f, args, s) &&
           (!s->guards || td__guards_run(s->guards, args.v) < 0);
}

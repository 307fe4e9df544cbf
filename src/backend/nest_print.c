/* nest_print.c -- a nest as text, for people: `tandem show --after=nests`. */
#include "backend/native.h"

static void add_extent(td_buf *b, td_extent e) {
    if (e.p < 0) td__buf_printf(b, "%lld", (long long)e.c);
    else if (e.c == 1) td__buf_printf(b, "d%d", (int)e.p);
    else td__buf_printf(b, "%lld*d%d", (long long)e.c, (int)e.p);
}

static void add_list(td_buf *b, const td_extent *e, int n, char open, char close) {
    td__buf_printf(b, "%c", open);
    for (int i = 0; i < n; i++) {
        if (i) td__buf_add(b, ",");
        add_extent(b, e[i]);
    }
    td__buf_printf(b, "%c", close);
}

static void add_stmt(td_buf *b, const td_nest *n, int i) {
    static const char *const kinds[] = {"load", "num",    "given",  "place", "expr",
                                        "cast", "reduce", "column", "draw",  "store"};
    static const char *const folds[] = {"sum", "prod", "max", "min"};
    const td_stmt           *s = &n->stmt.v[i];
    bool                     fold = s->kind == TD_S_REDUCE || s->kind == TD_S_COLUMN;
    td__buf_printf(b, "  v%d: %s = %s", i, td_dtype_name((td_dtype)s->dtype),
                   s->kind == TD_S_EXPR ? td__row(s->op)->name : kinds[s->kind]);
    if (fold) td__buf_printf(b, " %s", folds[s->how]);
    if (s->kind == TD_S_LOAD || s->kind == TD_S_STORE || s->kind == TD_S_GIVEN)
        td__buf_printf(b, " p%d", s->ptr);
    if (s->stride) add_list(b, s->stride, n->n_dims, '{', '}');
    if (s->kind == TD_S_NUM && td__is_float((td_dtype)s->dtype))
        td__buf_printf(b, " %g", s->num.f);
    else if (s->kind == TD_S_NUM || s->kind == TD_S_PLACE)
        td__buf_printf(b, " %lld", (long long)s->num.i);
    for (int k = 0; k < s->n; k++) td__buf_printf(b, "%s v%d", k ? "," : "", s->a[k]);
    td__buf_add(b, "\n");
}

/* The nest as text, for TD_LOG=backend and golden files: dims, pointers, statements. */
bool td__nest_print(td_buf *b, const td_built *t) {
    const td_nest *n = &t->nest;
    td__buf_add(b, "nest rows ");
    add_list(b, n->size, n->n_outer, '[', ']');
    td__buf_add(b, " inside ");
    add_list(b, n->size + n->n_outer, n->n_dims - n->n_outer, '[', ']');
    td__buf_add(b, "\n");
    for (int i = 0; i < n->ptr.n; i++) {
        const td_bytes *y = &t->bytes.v[i];
        td__buf_printf(b, "  p%d: %s ", i, td_dtype_name((td_dtype)y->dtype));
        if (y->v->name) td__buf_printf(b, "%%%s", y->v->name);
        else td__buf_printf(b, "%%%d", y->v->id);
        if (!td__extent_is(y->offset, 0)) {
            td__buf_add(b, " + ");
            add_extent(b, y->offset);
        }
        td__buf_add(b, n->ptr.v[i].written ? ", written\n" : "\n");
    }
    for (int i = 0; i < n->stmt.n; i++) add_stmt(b, n, i);
    return !b->failed;
}

/* native_parts.c -- values of a plan on a device that are computed where a cat puts
 * them, with gaps between their rows, so that the cat copies nothing: gradients of
 * attention go straight into that of the joined query, key and value. */
#include "backend/native.h"
#include "rules/geom.h"

/* Ops whose kernels, and simpler forms, write results by their strides. */
static bool writes_strides(const td_gval *v) {
    return v->node && v->node->kind == TD_N_OP &&
           v->node->op == TD_OP__flash_attention_backward;
}

static bool is_fixed(const td_gtype *t) {
    return t && t->kind == TD_K_TENSOR && !td__dims_any_sym(t->size, t->rank) &&
           !td__dims_any_sym(t->stride, t->rank) && t->offset == 0;
}

/* Elements of dims `first` on. */
static int64_t elements_from(const td_gtype *t, int first) {
    int64_t n = 1;
    for (int d = first; d < t->rank; d++) n *= t->size[d];
    return n;
}

/* Do the last dims, in order, have so many elements? */
static bool has_rows_of(const td_gtype *t, int64_t elements) {
    for (int d = 0; d <= t->rank; d++)
        if (elements_from(t, d) == elements) return t->dense;
    return false;
}

/* May the rows be moved apart before this view? One of the same order of elements must
 * keep the rows whole. */
static bool keeps_rows(const td_gnode *n, int64_t row) {
    if (n->op == TD_OP_transpose || n->op == TD_OP_permute) return true;
    return (n->op == TD_OP_view || n->op == TD_OP_reshape) &&
           n->in[0].kind == TD_G_VALUE && has_rows_of(n->in[0].u.v->type, row) &&
           has_rows_of(n->out[0]->type, row);
}

/* Whether a node reads a value or a view of it. */
typedef struct search {
    const td_native *c;
    const td_gval   *root;
    bool             found;
} search;

static void compare(void *env, td_gval *v) {
    search *s = env;
    s->found |= s->c->low.root_of[v->id] == s->root;
}

static bool node_reads(const td_native *c, const td_gnode *n, const td_gval *root) {
    search s = {c, root, false};
    for (int i = 0; i < n->n_in; i++) td__garg_each(&n->in[i], compare, &s);
    return s.found;
}

static bool launch_reads(const td_native *c, const td_launch *k, const td_gval *root) {
    search s = {c, root, false};
    for (int i = 0; i < k->n_reads; i++) compare(&s, (td_gval *)(uintptr_t)k->reads[i]);
    return s.found;
}

/* Is `root` read only on the way to the cat, by views that keep its rows? */
static bool only_for(const td_native *c, const td_gval *root, const td_gnode *cat,
                     int64_t row) {
    search s = {c, root, false};
    for (int i = 0; i < c->steps.n; i++) {
        const td_gnode *n = c->steps.v[i].node;
        if (n ? n != cat && node_reads(c, n, root) && !keeps_rows(n, row)
              : launch_reads(c, &c->launches[c->steps.v[i].launch], root))
            return false;
    }
    for (int i = 0; i < c->g->outputs.n; i++)
        td__garg_each(&c->g->outputs.v[i], compare, &s);
    return !s.found;
}

/* The strides of `root` if rows of `row` elements are `apart`. False: a dim crosses the
 * end of a row. */
static bool spread(const td_gval *root, int64_t row, int64_t apart, td_meta *m) {
    const td_gtype *t = root->type;
    *m = (td_meta){.dtype = (td_dtype)t->dtype, .rank = t->rank, .strided = true};
    m->device = t->device;
    for (int d = 0; d < t->rank; d++) {
        bool rows = t->stride[d] >= row;
        if (rows ? t->stride[d] % row : t->stride[d] * t->size[d] > row) return false;
        m->size[d] = t->size[d];
        m->stride[d] = rows ? t->stride[d] / row * apart : t->stride[d];
    }
    return td__is_packed(t->rank, t->size, t->stride);
}

/* Operand v of the cat is put at `offset` of its rows, if it can be. False: out of
 * memory. */
static bool put_part(td_native *c, const td_gnode *cat, const td_gval *v, int dim,
                     int64_t offset) {
    const td_gval  *root = c->low.root_of[v->id], *whole = cat->out[0];
    const td_gtype *t = v->type;
    td_part         p = {.of = root, .whole = whole};
    int64_t         row = elements_from(t, dim);
    if (!writes_strides(root) || !is_fixed(t) || !is_fixed(root->type) || !t->dense ||
        t->dtype != whole->type->dtype || t->device != c->low.device || row == 0 ||
        elements_from(root->type, 0) != elements_from(t, 0) ||
        !only_for(c, root, cat, row) ||
        !spread(root, row, elements_from(whole->type, dim), &p.as))
        return true;
    p.as.offset = offset;
    return td__vec_push(&c->mem.parts, p);
}

bool td__parts_find(td_native *c) {
    for (int i = 0; c->low.device && i < c->steps.n; i++) {
        const td_gnode *n = c->steps.v[i].node;
        int64_t         offset = 0;
        if (!n || n->kind != TD_N_OP || n->op != TD_OP_cat ||
            !is_fixed(n->out[0]->type))
            continue;
        const td_gtype *t = n->out[0]->type;
        int             dim = td__wrap_dim(n->in[1].u.i, t->rank);
        for (uint32_t k = 0; t->dense && k < n->in[0].n; k++) {
            const td_gval *v = n->in[0].u.list[k].u.v;
            if (n->in[0].u.list[k].kind != TD_G_VALUE || !is_fixed(v->type) ||
                v->type->rank != t->rank)
                break;
            if (!put_part(c, n, v, dim, offset)) return false;
            offset += elements_from(v->type, dim);
        }
    }
    return true;
}

const td_part *td__parts_of(const td_native *c, const td_gval *v) {
    for (int i = 0; i < c->mem.parts.n; i++)
        if (c->mem.parts.v[i].of == v) return &c->mem.parts.v[i];
    return NULL;
}

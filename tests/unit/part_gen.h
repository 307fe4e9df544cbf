/* part_gen.h -- joint graphs made by hand, for tests and timings of the partitioners.
 * A forward program over n x n matrices is written step by step; then every step's
 * derivative is written in reverse, as backward nodes. */
#ifndef TD_PART_GEN_H
#define TD_PART_GEN_H

#include "part/part.h"

#include <stdlib.h>

typedef enum gen_op {
    GEN_SIN,
    GEN_TANH,
    GEN_EXP,
    GEN_RELU,
    GEN_MUL,
    GEN_ADD,
    GEN_MM,
    GEN_TURN, /* transpose */
    GEN_ROWS, /* sums of rows, spread again */
    GEN_DROP,
    GEN_SOFTMAX,
    GEN_OPS
} gen_op;

typedef struct gen_step {
    gen_op   op;
    int      a, b, out; /* numbers of values */
    td_gval *extra;     /* a mask */
} gen_step;

typedef struct gen {
    td_graph *g;
    int64_t   size;
    bool      backward, failed;
    uint32_t  tags; /* of the next steps */
    uint64_t  state;
    TD_VEC(td_gval *) v;    /* by number */
    TD_VEC(td_gval *) grad; /* by number; NULL: none yet */
    TD_VEC(gen_step) steps;
    const td_gtype *type;
} gen;

static inline unsigned gen_random(gen *m, unsigned n) {
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(m->state >> 33) % n;
}

static inline td_garg gen_num(double f) {
    td_garg a = {TD_G_FLOAT, 0, {0}};
    a.u.f = f;
    return a;
}
static inline td_garg gen_bool(bool x) {
    td_garg a = {TD_G_BOOL, 0, {0}};
    a.u.i = x;
    return a;
}

/* Result k of a call; all look like n x n floats unless the caller says otherwise. */
static inline td_gnode *gen_call(gen *m, td_op op, const td_garg *in, int n_in,
                                 int n_out) {
    td_gnode *n = m->failed ? NULL : td__graph_op(m->g, op, in, n_in, n_out);
    if (!n) return m->failed = true, NULL;
    n->origin = m->backward ? TD_FROM_BACKWARD : TD_FROM_FORWARD;
    n->tags = m->backward ? 0 : m->tags;
    for (int i = 0; i < n_out; i++) n->out[i]->type = m->type;
    return n;
}

static inline td_gval *gen_call2(gen *m, td_op op, td_gval *a, td_gval *b) {
    td_garg in[2] = {td__garg_value(a)};
    if (b) in[1] = td__garg_value(b);
    td_gnode *n = gen_call(m, op, in, b ? 2 : 1, 1);
    return n ? n->out[0] : NULL;
}

static inline td_gval *gen_turned(gen *m, td_gval *a) {
    td_garg   in[3] = {td__garg_value(a), td__garg_int(0), td__garg_int(1)};
    int64_t   size[2] = {m->size, m->size}, stride[2] = {1, m->size};
    td_gnode *n = gen_call(m, TD_OP_transpose, in, 3, 1);
    if (!n) return NULL;
    bool dense = !a->type || a->type->dense;
    n->out[0]->type =
        td__graph_type_of(m->g, (td_gtype){.kind = TD_K_TENSOR,
                                           .dtype = TD_F32,
                                           .rank = 2,
                                           .storage = -1,
                                           .size = size,
                                           .stride = dense ? stride : NULL});
    return n->out[0];
}

static inline td_gval *gen_rows(gen *m, td_gval *a) {
    static const int64_t dim[1] = {1};
    int64_t              size[2] = {m->size, 1}, full[2] = {m->size, m->size};
    td_garg   in[3] = {td__garg_value(a), td__garg_ints(dim, 1), gen_bool(true)};
    td_gnode *n = gen_call(m, TD_OP_sum, in, 3, 1);
    if (!n) return NULL;
    n->out[0]->type = td__graph_type_of(m->g, (td_gtype){.kind = TD_K_TENSOR,
                                                         .dtype = TD_F32,
                                                         .rank = 2,
                                                         .storage = -1,
                                                         .size = size});
    td_garg   wide[2] = {td__garg_value(n->out[0]), td__garg_ints(full, 2)};
    int64_t   stride[2] = {1, 0};
    td_gnode *e = gen_call(m, TD_OP_expand, wide, 2, 1);
    if (!e) return NULL;
    e->out[0]->type = td__graph_type_of(m->g, (td_gtype){.kind = TD_K_TENSOR,
                                                         .dtype = TD_F32,
                                                         .rank = 2,
                                                         .storage = -1,
                                                         .size = full,
                                                         .stride = stride});
    return e->out[0];
}

static inline td_gval *gen_drop(gen *m, td_gval *a, td_gval **mask) {
    td_garg   in[3] = {td__garg_value(a), gen_num(0.5), gen_bool(true)};
    td_gnode *n = gen_call(m, TD_OP_native_dropout, in, 3, 2);
    if (!n) return NULL;
    td_gtype type = *m->type;
    type.dtype = TD_BOOL;
    n->out[1]->type = td__graph_type_of(m->g, type);
    *mask = n->out[1];
    return n->out[0];
}

static inline td_gval *gen_softmax(gen *m, td_gval *a) {
    td_garg   in[3] = {td__garg_value(a), td__garg_int(1), gen_bool(false)};
    td_gnode *n = gen_call(m, TD_OP__softmax, in, 3, 1);
    return n ? n->out[0] : NULL;
}

static inline int gen_add_value(gen *m, td_gval *v) {
    if (!v || !td__vec_push(&m->v, v) || !td__vec_push(&m->grad, NULL))
        return m->failed = true, 0;
    return m->v.n - 1;
}

/* One more forward step; the number of its result. */
static inline int gen_do(gen *m, gen_op op, int a, int b) {
    gen_step s = {.op = op, .a = a, .b = b};
    td_gval *x = m->v.v[a], *y = m->v.v[b], *out = NULL;
    switch (op) {
    case GEN_SIN: out = gen_call2(m, TD_OP_sin, x, NULL); break;
    case GEN_TANH: out = gen_call2(m, TD_OP_tanh, x, NULL); break;
    case GEN_EXP: out = gen_call2(m, TD_OP_exp, x, NULL); break;
    case GEN_RELU: out = gen_call2(m, TD_OP_relu, x, NULL); break;
    case GEN_MUL: out = gen_call2(m, TD_OP_mul, x, y); break;
    case GEN_ADD: out = gen_call2(m, TD_OP_add, x, y); break;
    case GEN_MM: out = gen_call2(m, TD_OP_mm, x, y); break;
    case GEN_TURN: out = gen_turned(m, x); break;
    case GEN_ROWS: out = gen_rows(m, x); break;
    case GEN_DROP: out = gen_drop(m, x, &s.extra); break;
    case GEN_SOFTMAX: out = gen_softmax(m, x); break;
    case GEN_OPS: break;
    }
    s.out = gen_add_value(m, out);
    if (!td__vec_push(&m->steps, s)) m->failed = true;
    return s.out;
}

static inline void gen_pass(gen *m, int to, td_gval *g) {
    td_gval **at = &m->grad.v[to];
    *at = *at ? gen_call2(m, TD_OP_add, *at, g) : g;
}

static inline td_gval *gen_softmax_back(gen *m, td_gval *g, td_gval *out) {
    td_garg in[4] = {td__garg_value(g),
                     td__garg_value(out),
                     td__garg_int(1),
                     {TD_G_DTYPE, 0, {0}}};
    in[3].u.dt = TD_F32;
    td_gnode *n = gen_call(m, TD_OP__softmax_backward_data, in, 4, 1);
    return n ? n->out[0] : NULL;
}

static inline td_gval *gen_drop_back(gen *m, td_gval *g, td_gval *mask) {
    td_garg   in[3] = {td__garg_value(g), td__garg_value(mask), gen_num(2)};
    td_gnode *n = gen_call(m, TD_OP_native_dropout_backward, in, 3, 1);
    return n ? n->out[0] : NULL;
}

static inline td_gval *gen_relu_back(gen *m, td_gval *g, td_gval *out) {
    td_garg   in[3] = {td__garg_value(g), td__garg_value(out), gen_num(0)};
    td_gnode *n = gen_call(m, TD_OP_threshold_backward, in, 3, 1);
    return n ? n->out[0] : NULL;
}

static inline void gen_undo(gen *m, const gen_step *s) {
    td_gval *g = m->grad.v[s->out], *x = m->v.v[s->a], *y = m->v.v[s->b];
    td_gval *out = m->v.v[s->out];
    if (!g || m->failed) return;
    switch (s->op) {
    case GEN_SIN:
        gen_pass(m, s->a, gen_call2(m, TD_OP_mul, g, gen_call2(m, TD_OP_cos, x, NULL)));
        break;
    case GEN_TANH: gen_pass(m, s->a, gen_call2(m, TD_OP_tanh_backward, g, out)); break;
    case GEN_EXP: gen_pass(m, s->a, gen_call2(m, TD_OP_mul, g, out)); break;
    case GEN_RELU: gen_pass(m, s->a, gen_relu_back(m, g, out)); break;
    case GEN_MUL:
        gen_pass(m, s->a, gen_call2(m, TD_OP_mul, g, y));
        gen_pass(m, s->b, gen_call2(m, TD_OP_mul, g, x));
        break;
    case GEN_ADD:
        gen_pass(m, s->a, g);
        gen_pass(m, s->b, g);
        break;
    case GEN_MM:
        gen_pass(m, s->a, gen_call2(m, TD_OP_mm, g, gen_turned(m, y)));
        gen_pass(m, s->b, gen_call2(m, TD_OP_mm, gen_turned(m, x), g));
        break;
    case GEN_TURN: gen_pass(m, s->a, gen_turned(m, g)); break;
    case GEN_ROWS: gen_pass(m, s->a, gen_rows(m, g)); break;
    case GEN_DROP: gen_pass(m, s->a, gen_drop_back(m, g, s->extra)); break;
    case GEN_SOFTMAX: gen_pass(m, s->a, gen_softmax_back(m, g, out)); break;
    case GEN_OPS: break;
    }
}

static inline void gen_begin(gen *m, td_ctx *cx, int64_t size, int n_in) {
    int64_t dims[2] = {size, size};
    *m = (gen){.g = td__graph_make(cx, "gen"), .size = size, .state = 1};
    m->failed = !m->g;
    if (m->failed) return;
    m->type = td__graph_type_of(m->g, (td_gtype){.kind = TD_K_TENSOR,
                                                 .dtype = TD_F32,
                                                 .rank = 2,
                                                 .storage = -1,
                                                 .size = dims});
    for (int i = 0; i < n_in; i++)
        gen_add_value(m, td__graph_input(m->g, NULL, m->type, TD_PLAIN_DESC));
}

/* Values out[] become outputs; the backward nodes of all that leads to them follow.
 * The joint graph, NULL when something failed. */
static inline td_graph *gen_end(gen *m, const int *out, int n_out, int n_in) {
    for (int i = 0; i < n_out && !m->failed; i++) {
        td_desc  d = {TD_D_TANGENT, i, NULL};
        td_gval *t = td__graph_input(m->g, NULL, m->type, d);
        m->failed |= !t || !td__graph_output(m->g, td__garg_value(m->v.v[out[i]]),
                                             TD_PLAIN_DESC);
        m->backward = true;
        if (!m->failed) gen_pass(m, out[i], t);
    }
    m->backward = true;
    for (int i = m->steps.n - 1; i >= 0 && !m->failed; i--) gen_undo(m, &m->steps.v[i]);
    for (int i = 0; i < n_in && !m->failed; i++) {
        td_garg a = {TD_G_NONE, 0, {0}};
        if (m->grad.v[i]) a = td__garg_value(m->grad.v[i]);
        m->failed |= !td__graph_output(m->g, a, (td_desc){TD_D_GRAD, i, NULL});
    }
    td__vec_free(&m->v);
    td__vec_free(&m->grad);
    td__vec_free(&m->steps);
    if (m->failed) td__graph_drop(m->g);
    else td__graph_pack(m->g);
    return m->failed ? NULL : m->g;
}

/* ---- shapes of programs ------------------------------------------------- */

/* Anything: `steps` random steps over n_in inputs. */
static inline td_graph *gen_mixed(td_ctx *cx, int64_t size, int n_in, int steps,
                                  unsigned seed) {
    gen m;
    gen_begin(&m, cx, size, n_in);
    m.state = seed * 2654435761u + 1;
    for (int i = 0; i < steps && !m.failed; i++) {
        unsigned near = (unsigned)m.v.n < 6 ? (unsigned)m.v.n : 6;
        int      a = m.v.n - 1 - (int)gen_random(&m, near);
        int      b = (int)gen_random(&m, (unsigned)m.v.n);
        gen_do(&m, (gen_op)gen_random(&m, GEN_OPS), a, b);
    }
    int out[2] = {m.v.n - 1, (int)gen_random(&m, (unsigned)m.v.n)};
    if (out[1] < n_in) out[1] = out[0];
    return gen_end(&m, out, out[1] == out[0] ? 1 : 2, n_in);
}

/* Layers of a product, a bend, and a sum with what came in; one weight for each of
 * the first `n_in - 1` layers and again from the start. */
static inline td_graph *gen_mlp(td_ctx *cx, int64_t size, int n_in, int layers) {
    gen m;
    gen_begin(&m, cx, size, n_in);
    int x = 0;
    for (int i = 0; i < layers && !m.failed; i++) {
        int h = gen_do(&m, GEN_MM, x, 1 + i % (n_in - 1));
        h = gen_do(&m, GEN_RELU, h, h);
        x = gen_do(&m, GEN_ADD, h, x);
    }
    return gen_end(&m, &x, 1, n_in);
}

/* Blocks like attention: three products, scores, softmax, dropout, a norm of sorts. */
static inline td_graph *gen_attention(td_ctx *cx, int64_t size, int n_in, int blocks) {
    gen m;
    gen_begin(&m, cx, size, n_in);
    int x = 0, w = 0;
    for (int i = 0; i < blocks && !m.failed; i++) {
        int part[3];
        for (int k = 0; k < 3; k++)
            part[k] = gen_do(&m, GEN_MM, x, 1 + w++ % (n_in - 1));
        int turned = gen_do(&m, GEN_TURN, part[1], part[1]);
        int score = gen_do(&m, GEN_MM, part[0], turned);
        int p = gen_do(&m, GEN_SOFTMAX, score, score);
        p = gen_do(&m, GEN_DROP, p, p);
        int h = gen_do(&m, GEN_MM, p, part[2]);
        h = gen_do(&m, GEN_ADD, h, x);
        int mean = gen_do(&m, GEN_ROWS, h, h);
        h = gen_do(&m, GEN_MUL, h, mean);
        x = gen_do(&m, GEN_TANH, h, h);
    }
    return gen_end(&m, &x, 1, n_in);
}

/* A long chain of pointwise steps. */
static inline td_graph *gen_chain(td_ctx *cx, int64_t size, int steps) {
    gen m;
    gen_begin(&m, cx, size, 1);
    int x = 0;
    for (int i = 0; i < steps && !m.failed; i++)
        x = gen_do(&m, i % 3 == 2 ? GEN_TANH : GEN_SIN, x, x);
    return gen_end(&m, &x, 1, 1);
}

#endif

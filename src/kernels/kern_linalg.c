/* kern_linalg.c -- kernels of the products: they describe their operands to td__gemm by
 * strides, so no operand is ever copied here. */
#include "kernels/gemm.h"
#include "ops/cast.h"
#include "rules/shape_rules.h"

/* Strides of the last two dims and the stack, by how many dims there are. */
static void describe(td_gemm *p, const td_tensor *a, const td_tensor *b,
                     const td_tensor *out) {
    int ra = a->rank, rb = b->rank, ro = out->rank;
    p->dtype = (td_dtype)out->dtype;
    p->a = td__ptr(a);
    p->b = td__ptr(b);
    p->c = td__ptr(out);
    p->k = a->size[ra - 1];
    p->m = ra > 1 ? a->size[ra - 2] : 1;
    p->n = rb > 1 ? b->size[rb - 1] : 1;
    p->batch = ra > 2 ? a->size[0] : 1;
    p->a_col = a->stride[ra - 1];
    p->a_row = ra > 1 ? a->stride[ra - 2] : 0;
    p->b_row = rb > 1 ? b->stride[rb - 2] : b->stride[0];
    p->b_col = rb > 1 ? b->stride[rb - 1] : 1;
    p->c_row = rb > 1 ? out->stride[ro - 2] : ro > 0 ? out->stride[0] : 1;
    p->c_col = rb > 1 ? out->stride[ro - 1] : 1;
    p->a_batch = ra > 2 ? a->stride[0] : 0;
    p->b_batch = rb > 2 ? b->stride[0] : 0;
    p->c_batch = ra > 2 ? out->stride[0] : 0;
}

/* out = alpha * in[i] @ in[i+1] + beta * out. An empty k leaves beta * out, which
 * td__gemm handles. */
static bool multiply(td_opcall *c, int i, td_value alpha, td_value beta) {
    td_gemm p = {.alpha = td__value_f(alpha), .beta = td__value_f(beta)};
    p.alpha_int = td__value_i(alpha);
    p.beta_int = td__value_i(beta);
    if (c->out[0]->numel == 0) return true;
    describe(&p, td__in(c, i), td__in(c, i + 1), c->out[0]);
    return td__gemm(&p) || td__fail_memory(c->cx);
}

/* in[0] @ in[1]. */
static bool product(td_opcall *c) {
    return multiply(c, 0, td_value_int(1), td_value_int(0));
}

/* Rows mm, bmm and mv differ in rank only. */
bool td__kern_mm(td_opcall *c) { return product(c); }
bool td__kern_bmm(td_opcall *c) { return product(c); }
bool td__kern_mv(td_opcall *c) { return product(c); }
/* The sum of the products goes by the layout of the vectors. Elements that lie apart
 * are put together first: a vector has one product, whoever laid it out. */
bool td__kern_dot(td_opcall *c) {
    td_value   in[2] = {c->in[0], c->in[1]};
    td_tensor *own[2] = {NULL, NULL};
    bool       ok = true;
    for (int i = 0; ok && i < 2; i++) {
        td_tensor *t = in[i].u.t;
        td_meta    m;
        if (t->numel < 2 || t->stride[0] == 1) continue;
        td__meta_dense(&m, (td_dtype)t->dtype, t->rank, t->size);
        own[i] = td__tensor_make(c->cx, &m, false);
        ok = own[i] && td__copy_into(own[i], t);
        if (ok) c->in[i].u.t = own[i];
    }
    ok = ok && product(c);
    for (int i = 0; i < 2; i++) {
        c->in[i] = in[i];
        if (own[i]) td_drop(own[i]);
    }
    return ok;
}

/* Which kernel multiplies goes by the layout of the result: what is written in place
 * gets the bits of a fresh result all the same. */
static bool add_beside(td_opcall *c, td_tensor *self) {
    td_meta m;
    td__meta_dense(&m, (td_dtype)self->dtype, self->rank, self->size);
    td_tensor *t = td__tensor_make(c->cx, &m, false);
    if (!t) return false;
    c->out[0] = t;
    bool ok = td__copy_into(t, self) && multiply(c, 1, c->in[4], c->in[3]);
    ok = ok && td__copy_into(self, t);
    c->out[0] = self;
    td_drop(t);
    return ok;
}

/* in: self, a, b, beta, alpha. self is copied, broadcast, into the result, which is
 * then scaled by beta; with beta 0 it is not read, so that its NaN do not count. */
bool td__kern_addmm(td_opcall *c) {
    td_tensor *self = td__in(c, 0);
    bool       ints = !td__is_differentiable((td_dtype)self->dtype);
    bool       adds = ints ? td__value_i(c->in[3]) != 0 : td__in_f(c, 3) != 0;
    if (c->out[0] == self && !td__is_dense(self->rank, self->size, self->stride))
        return add_beside(c, self);
    if (adds && c->out[0] != self && !td__copy_into(c->out[0], self)) return false;
    return multiply(c, 1, c->in[4], c->in[3]);
}
bool td__kern_baddbmm(td_opcall *c) { return td__kern_addmm(c); }
bool td__kern_addmv(td_opcall *c) { return td__kern_addmm(c); }

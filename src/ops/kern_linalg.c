/* kern_linalg.c -- shape rules and kernels of the products: they describe their
 * operands to td__gemm by strides, so no operand is ever copied here. */
#include "ops/cast.h"
#include "ops/gemm.h"
#include "ops/ops.h"

/* ---- shape rules -------------------------------------------------------- */

static bool want_rank(td_opcall *c, int i, int rank) {
    const td_tensor *t = td__in(c, i);
    if (t->rank == rank) return true;
    return td__op_fail(c, TD_E_SHAPE, "%s must have %d dims, got %s",
                       c->info->s.in[i].name, rank, td__type_str(t));
}

static bool same_dtype(td_opcall *c, int i, int k) {
    const td_tensor *a = td__in(c, i), *b = td__in(c, k);
    if (a->dtype != b->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "%s and %s must have one dtype, got %s and %s",
                           c->info->s.in[i].name, c->info->s.in[k].name,
                           td__type_str(a), td__type_str(b));
    if (a->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "not defined for bool, got %s",
                           td__type_str(a));
    return true;
}

static bool inner_fits(td_opcall *c, int i, int dim_a, int k, int dim_b) {
    const td_tensor *a = td__in(c, i), *b = td__in(c, k);
    if (td__dim_eq(a->size[dim_a], b->size[dim_b])) return true;
    return td__op_fail(c, TD_E_SHAPE, "inner sizes differ, %s @ %s", td__type_str(a),
                       td__type_str(b));
}

static void result(td_opcall *c, int i, int rank, const int64_t *size) {
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, i)->dtype, rank, size);
}

/* The product of arguments i and i+1, matrices. */
static bool shape_product(td_opcall *c, int i) {
    if (!want_rank(c, i, 2) || !want_rank(c, i + 1, 2) || !same_dtype(c, i, i + 1) ||
        !inner_fits(c, i, 1, i + 1, 0))
        return false;
    result(c, i, 2, (int64_t[]){td__in(c, i)->size[0], td__in(c, i + 1)->size[1]});
    return true;
}

static bool shape_batch_product(td_opcall *c, int i) {
    if (!want_rank(c, i, 3) || !want_rank(c, i + 1, 3) || !same_dtype(c, i, i + 1))
        return false;
    const td_tensor *a = td__in(c, i), *b = td__in(c, i + 1);
    if (!td__dim_eq(a->size[0], b->size[0]))
        return td__op_fail(c, TD_E_SHAPE,
                           "the stacks have different lengths, %s and %s",
                           td__type_str(a), td__type_str(b));
    if (!inner_fits(c, i, 2, i + 1, 1)) return false;
    result(c, i, 3, (int64_t[]){a->size[0], a->size[1], b->size[2]});
    return true;
}

static bool shape_vector_product(td_opcall *c, int i) {
    if (!want_rank(c, i, 2) || !want_rank(c, i + 1, 1) || !same_dtype(c, i, i + 1) ||
        !inner_fits(c, i, 1, i + 1, 0))
        return false;
    result(c, i, 1, &td__in(c, i)->size[0]);
    return true;
}

bool td__shape_mm(td_opcall *c) { return shape_product(c, 0); }
bool td__shape_bmm(td_opcall *c) { return shape_batch_product(c, 0); }
bool td__shape_mv(td_opcall *c) { return shape_vector_product(c, 0); }

bool td__shape_dot(td_opcall *c) {
    if (!want_rank(c, 0, 1) || !want_rank(c, 1, 1) || !same_dtype(c, 0, 1) ||
        !inner_fits(c, 0, 0, 1, 0))
        return false;
    result(c, 0, 0, NULL);
    return true;
}

/* self (argument 0) broadcasts to the product; beta and alpha are 3 and 4. They
 * fit the dtype of computation, f32 for halves; for addmv, as in ATen, a half. */
static bool shape_add_form(td_opcall *c, bool half) {
    const td_tensor *self = td__in(c, 0);
    int64_t          stride[TD_MAX_RANK];
    if (!same_dtype(c, 0, 1)) return false;
    if (!td__expand_strides(self, c->meta[0].rank, c->meta[0].size, stride))
        return td__op_fail(c, TD_E_SHAPE,
                           "self %s does not broadcast to the product %s",
                           td__type_str(self),
                           td__sizes_str(c->meta[0].rank, c->meta[0].size));
    td_dtype dt = (td_dtype)self->dtype;
    td_dtype number = td__is_half(dt) && !half ? TD_F32 : dt;
    return td__number_fits(c, 3, number) && td__number_fits(c, 4, number);
}

bool td__shape_addmm(td_opcall *c) {
    return shape_product(c, 1) && shape_add_form(c, false);
}
bool td__shape_baddbmm(td_opcall *c) {
    return shape_batch_product(c, 1) && shape_add_form(c, false);
}
bool td__shape_addmv(td_opcall *c) {
    return shape_vector_product(c, 1) && shape_add_form(c, true);
}

/* ---- kernels ------------------------------------------------------------ */

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

static bool multiply(td_opcall *c, int i, td_value alpha, td_value beta) {
    td_gemm p = {.alpha = td__value_f(alpha), .beta = td__value_f(beta)};
    p.alpha_int = td__value_i(alpha);
    p.beta_int = td__value_i(beta);
    if (c->out[0]->numel == 0) return true;
    describe(&p, td__in(c, i), td__in(c, i + 1), c->out[0]);
    return td__gemm(&p) || td__fail_memory(c->cx);
}

static bool product(td_opcall *c) {
    return multiply(c, 0, td_value_int(1), td_value_int(0));
}

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

bool td__kern_addmm(td_opcall *c) {
    td_tensor *self = td__in(c, 0);
    bool       adds = td__is_float((td_dtype)self->dtype) ? td__in_f(c, 3) != 0
                                                          : td__value_i(c->in[3]) != 0;
    if (c->out[0] == self && !td__is_dense(self->rank, self->size, self->stride))
        return add_beside(c, self);
    if (adds && c->out[0] != self && !td__copy_into(c->out[0], self)) return false;
    return multiply(c, 1, c->in[4], c->in[3]);
}
bool td__kern_baddbmm(td_opcall *c) { return td__kern_addmm(c); }
bool td__kern_addmv(td_opcall *c) { return td__kern_addmm(c); }

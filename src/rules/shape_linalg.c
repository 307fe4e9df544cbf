/* shape_linalg.c -- sizes, dtypes and argument checks of the products mm, bmm, mv, dot
 * and of their forms that add a tensor. Results are row-major, whatever the operands
 * are. */
#include "rules/shape_rules.h"

/* Argument i has exactly this many dims. */
static bool want_rank(td_opcall *c, int i, int rank) {
    const td_tensor *t = td__in(c, i);
    if (t->rank == rank) return true;
    return td__op_fail(c, TD_E_SHAPE, "%s must have %d dims, got %s",
                       c->info->s.in[i].name, rank, td__type_str(t));
}

/* Products promote nothing: arguments i and k have one dtype, and none is bool. */
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

/* The summed dim has one size on both sides. */
static bool inner_fits(td_opcall *c, int i, int dim_a, int k, int dim_b) {
    const td_tensor *a = td__in(c, i), *b = td__in(c, k);
    if (td__dim_eq(a->size[dim_a], b->size[dim_b])) return true;
    return td__op_fail(c, TD_E_SHAPE, "inner sizes differ, %s @ %s", td__type_str(a),
                       td__type_str(b));
}

/* Meta 0: fresh, row-major, of the dtype of argument i. */
static void result(td_opcall *c, int i, int rank, const int64_t *size) {
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, i)->dtype, rank, size);
}

/* Arguments i [n,k] and i+1 [k,m] give [n,m]. */
static bool shape_product(td_opcall *c, int i) {
    if (!want_rank(c, i, 2) || !want_rank(c, i + 1, 2) || !same_dtype(c, i, i + 1) ||
        !inner_fits(c, i, 1, i + 1, 0))
        return false;
    result(c, i, 2, (int64_t[]){td__in(c, i)->size[0], td__in(c, i + 1)->size[1]});
    return true;
}

/* Arguments i [b,n,k] and i+1 [b,k,m] give [b,n,m]; the batch does not broadcast. */
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

/* Arguments i [n,k] and i+1 [k] give [n]. */
static bool shape_vector_product(td_opcall *c, int i) {
    if (!want_rank(c, i, 2) || !want_rank(c, i + 1, 1) || !same_dtype(c, i, i + 1) ||
        !inner_fits(c, i, 1, i + 1, 0))
        return false;
    result(c, i, 1, &td__in(c, i)->size[0]);
    return true;
}

bool td__shape_mm(td_opcall *c) { return shape_product(c, 0); }

/* a [m,k] and strips [s,k,16] give [m,16 s]. */
bool td__shape_mm_strips(td_opcall *c) {
    const td_tensor *a = td__in(c, 0), *s = td__in(c, 1);
    if (!want_rank(c, 0, 2) || !want_rank(c, 1, 3) || !same_dtype(c, 0, 1) ||
        !inner_fits(c, 0, 1, 1, 1))
        return false;
    if (!td__dim_eq(s->size[2], 16))
        return td__op_fail(c, TD_E_SHAPE, "strips have 16 columns, got %s",
                           td__type_str(s));
    result(c, 0, 2, (int64_t[]){a->size[0], td__dim_mul(s->size[0], 16)});
    return true;
}

bool td__shape_bmm(td_opcall *c) { return shape_batch_product(c, 0); }
bool td__shape_mv(td_opcall *c) { return shape_vector_product(c, 0); }

/* Two vectors of one length give a 0-dim tensor. */
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

/* decomp_linalg.c -- products made of mm, bmm, mv and dot, as ATen folds them. Which of
 * these computes a product decides in which order terms are added, and so the last
 * bits; the cases here are ATen's. */
#include "rules/shape_rules.h"
#include "ops/call.h"

#include <string.h>

/* a * f for derivatives of addmm and others; f = 1, the common case, costs no op. */
bool td__decomp_scale(td_opcall *c) {
    td_value f = c->in[1];
    bool     one = td__value_f(f) == 1;
    c->out[0] = one ? td__in(c, 0) : td_op_mul(td__in(c, 0), f);
    return true;
}

/* a @ b for the gradient of an argument with strides c->in[2]. Where that argument is
 * column-major, the product is computed transposed, so that the gradient gets the
 * argument's layout, as ATen's does. */
bool td__decomp_mm_for(td_opcall *c) {
    td_tensor     *a = td__in(c, 0), *b = td__in(c, 1);
    const int64_t *s = c->in[2].u.ints;
    bool           columns = c->in[2].n == 2 && a->rank == 2 && td__dim_eq(s[0], 1) &&
                   td__dim_eq(s[1], a->size[0]);
    c->out[0] = columns ? td_op_t(td_op_mm(td_op_t(b), td_op_t(a))) : td_op_mm(a, b);
    return true;
}

/* a [n] and b [m] to [n, m]. */
bool td__decomp_outer(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    if (a->rank != 1 || b->rank != 1)
        return td__op_fail(c, TD_E_SHAPE, "takes two vectors, got %s and %s",
                           td__type_str(a), td__type_str(b));
    c->out[0] = td_op_mul(td_op_unsqueeze(a, 1), td_value_tensor(b));
    return true;
}

/* in: self, a, b, beta, alpha: a pointwise op on a column and a row of one dtype, so
 * that its gradients are products of matrix and vector. self may broadcast to the
 * product, not the product to self. */
bool td__decomp_addr(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *a = td__in(c, 1), *b = td__in(c, 2);
    if (a->rank != 1 || b->rank != 1)
        return td__op_fail(c, TD_E_SHAPE, "a and b must be vectors, got %s and %s",
                           td__type_str(a), td__type_str(b));
    int64_t  size[] = {a->size[0], b->size[0]};
    td_dtype dt = td__result_type(c->cx, c->in, 3);
    if (!td__factor_suits(c, 3, dt) || !td__factor_suits(c, 4, dt)) return false;
    self = td_op_to(td_op_expand(self, (td_ints){size, 2}), dt, false);
    a = td_op_unsqueeze(td_op_to(a, dt, false), 1);
    c->out[0] = td_op__addr(self, a, td_op_to(b, dt, false), c->in[3], c->in[4]);
    return true;
}

/* addr_ is one loop over self, a column and a row, which reads none of them first. */
bool td__decomp_addr_write(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *a = td__in(c, 1);
    td_value   vector = c->in[1];
    if (a->rank == 1) c->in[1] = td_value_tensor(td_op_unsqueeze(a, 1));
    bool apart = !td_is_nil(td__in(c, 1)) && td__may_read_beside(c, 1, self, false) &&
                 td__may_read_beside(c, 2, self, false);
    c->in[1] = vector;
    return apart && td__call_twin(c);
}

/* in: self, a [batch, n, k], b [batch, k, m], beta, alpha. The sum of the products is
 * one product over batch and k together. */
bool td__decomp_addbmm(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *a = td__in(c, 1), *b = td__in(c, 2);
    if (a->rank != 3 || b->rank != 3 || !td__dim_eq(a->size[0], b->size[0]) ||
        !td__dim_eq(a->size[2], b->size[1]))
        return td__op_fail(c, TD_E_SHAPE,
                           "a must be [batch, n, k] and b [batch, k, m], got %s and %s",
                           td__type_str(a), td__type_str(b));
    int64_t    all = td__dim_mul(a->size[0], a->size[2]);
    int64_t    left[] = {a->size[1], all}, right[] = {all, b->size[2]};
    td_tensor *x =
        td_op_reshape(td_op_permute(a, TD_DIMS(1, 0, 2)), (td_ints){left, 2});
    td_tensor *y = td_op_reshape(b, (td_ints){right, 2});
    c->out[0] = td_op_addmm(self, x, y, c->in[3], c->in[4]);
    return true;
}

/* ---- matmul ------------------------------------------------------------- */

/* All dims of `a` but the last become one: a stack times a matrix (or vector) is
 * one product. */
static td_tensor *fold(td_tensor *a, td_tensor *b) {
    int64_t size[TD_MAX_RANK], rows = 1;
    int     n = a->rank - 1;
    for (int i = 0; i < n; i++) rows = td__dim_mul(rows, size[i] = a->size[i]);
    td_tensor *flat = td_op_reshape(a, TD_SHAPE(rows, a->size[n])); /* [rows, k] */
    /* [rows] and [rows, m] as the leading dims of a again; nobody else holds the
     * product, so it need not be a view */
    if (b->rank == 1) return td_op__unsafe_view(td_op_mv(flat, b), (td_ints){size, n});
    size[n] = b->size[1];
    return td_op__unsafe_view(td_op_mm(flat, b), (td_ints){size, n + 1});
}

/* a [.., m, k] @ b [.., k, p], of which at least one has leading dims: these are
 * broadcast, flattened into one batch, multiplied by bmm, restored. Nil after
 * td__op_fail when they do not broadcast. */
static td_tensor *stack_product(td_opcall *c, td_tensor *a, td_tensor *b) {
    int     na = a->rank - 2, nb = b->rank - 2, n = na;
    int64_t lead[TD_MAX_RANK], full[TD_MAX_RANK], batch = 1;
    if (td_is_nil(a)) return a;
    memcpy(lead, a->size, sizeof(int64_t) * (size_t)na);
    if (!td__broadcast(&n, lead, nb, b->size)) {
        td__op_fail(c, TD_E_SHAPE, "leading sizes do not broadcast, %s @ %s",
                    td__type_str(a), td__type_str(b));
        return &c->cx->nil;
    }
    for (int i = 0; i < n; i++) batch = td__dim_mul(batch, full[i] = lead[i]);
    int64_t m = a->size[na], k = a->size[na + 1], k2 = b->size[nb], p = b->size[nb + 1];
    /* a [lead, m, k] and b [lead, k2, p] become [batch, m, k] and [batch, k2, p] */
    full[n] = m, full[n + 1] = k;
    td_tensor *x =
        td_op_reshape(td_op_expand(a, (td_ints){full, n + 2}), TD_SHAPE(batch, m, k));
    full[n] = k2, full[n + 1] = p;
    td_tensor *y =
        td_op_reshape(td_op_expand(b, (td_ints){full, n + 2}), TD_SHAPE(batch, k2, p));
    full[n] = m;
    return td_op__unsafe_view(td_op_bmm(x, y), (td_ints){full, n + 2});
}

/* t, whose leading dims are all 1, as a matrix; NULL: they are not. */
static td_tensor *as_matrix(td_tensor *t) {
    for (int i = 0; i < t->rank - 2; i++)
        if (!td__dim_same(t->size[i], 1)) return NULL;
    while (t->rank > 2) {
        t = td_op_squeeze_dim(t, 0);
        if (td_is_nil(t)) break;
    }
    return t;
}

/* A matrix times a stack, transposed: a stack times a matrix. It copies the stack and
 * the result, and the gradient of the matrix is one product over the whole stack, not a
 * sum of products that were each rounded to a half. */
static td_tensor *fold_transposed(td_tensor *a, td_tensor *b) {
    return td_op_contiguous(
        td_op_transpose(fold(td_op_transpose(b, -2, -1), td_op_t(a)), -2, -1));
}

/* The cases of ATen's matmul by rank, in its order. Which product is chosen decides how
 * gradients of broadcast operands are summed, so the order is part of the contract. */
static td_tensor *matmul(td_opcall *c, td_tensor *a, td_tensor *b) {
    td_tensor *one;
    if (a->rank == 1 && b->rank == 1) return td_op_dot(a, b);
    if (a->rank == 2 && b->rank == 1) return td_op_mv(a, b);
    if (a->rank == 1 && b->rank == 2)
        return td_op_squeeze_dim(td_op_mm(td_op_unsqueeze(a, 0), b), 0);
    if (a->rank == 2 && b->rank == 2) return td_op_mm(a, b);
    if (b->rank <= 2) return fold(a, b);
    if (a->rank == 1)
        return td_op_squeeze_dim(stack_product(c, td_op_unsqueeze(a, 0), b), -2);
    if (a->rank >= b->rank && (one = as_matrix(b))) return fold(a, one);
    if (td__is_half((td_dtype)a->dtype) && b->rank >= a->rank && (one = as_matrix(a)))
        return fold_transposed(one, b);
    return stack_product(c, a, b);
}

/* in: a, b, each with at least one dim and one dtype. Checks the inner sizes, then
 * chooses the product by rank. */
bool td__decomp_matmul(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    if (a->rank == 0 || b->rank == 0)
        return td__op_fail(c, TD_E_SHAPE,
                           "both must have at least one dim, got %s and %s",
                           td__type_str(a), td__type_str(b));
    if (a->dtype != b->dtype)
        return td__op_fail(c, TD_E_DTYPE, "a and b must have one dtype, got %s and %s",
                           td__type_str(a), td__type_str(b));
    int64_t inner = b->size[b->rank > 1 ? b->rank - 2 : 0];
    if (!td__dim_eq(a->size[a->rank - 1], inner))
        return td__op_fail(c, TD_E_SHAPE, "inner sizes differ, %s @ %s",
                           td__type_str(a), td__type_str(b));
    c->out[0] = matmul(c, a, b);
    return true;
}

/* ---- linear ------------------------------------------------------------- */

/* Does ATen add the bias by addmm? Elsewhere it adds it to the product in place. */
static bool adds_by_addmm(const td_tensor *x, const td_tensor *bias) {
    return x->rank == 2 || (bias->rank == 1 && td_is_contiguous(x));
}

/* The bias of addmm has the dtype of the weight, which is a matrix. One that is added
 * in place may have another, if the result can have the weight's. Both broadcast to the
 * result. */
static bool check_bias(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *bias = td__in(c, 2);
    int64_t          size[TD_MAX_RANK], stride[TD_MAX_RANK];
    bool             addmm = adds_by_addmm(x, bias);
    td_dtype         from = (td_dtype)bias->dtype, to = (td_dtype)w->dtype;
    if (addmm ? from != to : !td__can_cast(from, to))
        return td__op_fail(c, TD_E_DTYPE,
                           "bias must have the dtype of weight %s, got %s",
                           td__type_str(w), td__type_str(bias));
    if (addmm && w->rank != 2)
        return td__op_fail(c, TD_E_SHAPE,
                           "with a bias weight must be [out, in], got %s",
                           td__type_str(w));
    int rank = x->rank + w->rank - 2;
    memcpy(size, x->size, sizeof(int64_t) * (size_t)(x->rank - 1));
    if (w->rank == 2) size[x->rank - 1] = w->size[0];
    return td__expand_strides(bias, rank, size, stride) ||
           td__op_fail(c, TD_E_SHAPE, "bias %s does not broadcast to the result %s",
                       td__type_str(bias), td__sizes_str(rank, size));
}

/* x [.., in] by wt [in, out], with the bias in the product's own pass: halves are
 * rounded once. */
static td_tensor *with_bias(td_tensor *x, td_tensor *wt, td_tensor *bias) {
    td_value one = td_value_int(1);
    int64_t  size[TD_MAX_RANK], rows = 1;
    if (x->rank == 2) return td_op_addmm(bias, x, wt, one, one);
    for (int i = 0; i < x->rank - 1; i++)
        rows = td__dim_mul(rows, size[i] = x->size[i]);
    size[x->rank - 1] = wt->size[1];
    td_tensor *flat = td_op_view(x, TD_SHAPE(rows, x->size[x->rank - 1]));
    flat = td_op_addmm(bias, flat, wt, one, one);
    return td_op__unsafe_view(flat, (td_ints){size, x->rank});
}

/* in: input [.., in], weight [out, in] or [in], bias. With a bias, addmm where the
 * input is a matrix or a contiguous stack of rows; else a matmul and an add, as ATen
 * does. */
bool td__decomp_linear(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *bias = td__in(c, 2);
    if (w->rank < 1 || w->rank > 2 || x->rank < 1)
        return td__op_fail(c, TD_E_SHAPE,
                           "takes input [.., in] and weight [out, in], got %s and %s",
                           td__type_str(x), td__type_str(w));
    if (!td__dim_eq(x->size[x->rank - 1], w->size[w->rank - 1]))
        return td__op_fail(c, TD_E_SHAPE, "inner sizes differ, input %s and weight %s",
                           td__type_str(x), td__type_str(w));
    if (x->dtype != w->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "input and weight must have one dtype, got %s and %s",
                           td__type_str(x), td__type_str(w));
    if (bias && !check_bias(c)) return false;
    td_tensor *wt = w->rank == 2 ? td_op_t(w) : w;
    if (td_is_nil(wt)) return false;
    if (bias && adds_by_addmm(x, bias)) return c->out[0] = with_bias(x, wt, bias), true;
    c->out[0] = td_op_matmul(x, wt);
    if (!bias) return true;
    c->out[0] = td_op_add(c->out[0], td_value_tensor(bias), td_value_int(1));
    c->out[0] = td_op_to(c->out[0], (td_dtype)w->dtype, false);
    return true;
}

/* sparse_type.c -- ops of the table that sparse tensors have: products, sums, scaling.
 * What an op gives is PyTorch's, but the sum of two sparse_coo tensors has the entries
 * of both, so that its size does not depend on indices. */
#include "ops/call.h"
#include "ops/sparse.h"

/* ---- unary -------------------------------------------------------------- */

static td_tensor *do_neg(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    return td__sparse_with(t, td_op_neg(td__sparse_values(t)));
}

static td_tensor *do_cast(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_dtype   dt = td__in_dtype(c, 1, (td_dtype)t->dtype);
    return td__sparse_with(t, td_op__to_copy(td__sparse_values(t), dt));
}

static td_tensor *do_clone(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    return td__sparse_with(t, td_op_clone(td__sparse_values(t), true));
}

/* Views of all elements: detach, alias. */
static td_tensor *do_alias(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    return td__sparse_with(t, td__sparse_values(t));
}

/* in: self, dim, keepdim, dtype. Over all dims. */
static td_tensor *do_sum(td_opcall *c) {
    if (c->in[1].kind == TD_K_INTS && (int)c->in[1].n != td__in(c, 0)->rank &&
        c->in[1].n) {
        td__op_fail(c, TD_E_UNSUPPORTED,
                    "unsupported: a sum of a sparse tensor over some dims; convert it "
                    "with td_to_dense, or multiply it by a matrix of ones "
                    "(td_sparse_mm)");
        return NULL;
    }
    td_tensor *r = td_op_sum(td__sparse_values(td__in(c, 0)), TD_ALL, false,
                             td__in_dtype(c, 3, TD_DTYPE_NONE));
    td_ints    size = {c->meta[0].size, c->meta[0].rank};
    return c->meta[0].rank ? td_op_reshape(r, size) : r;
}

/* ---- times and over ----------------------------------------------------- */

static bool is_number(const td_value *v) {
    return v->kind != TD_K_TENSOR || v->u.t->rank == 0;
}

/* The values that operand b has at the entries of t; a number stays one. *b: none,
 * after td__fail. */
static bool operand_at(td_opcall *c, td_tensor *t, td_value *b) {
    if (is_number(b)) return true;
    td_tensor *d = b->u.t;
    if (c->meta[0].rank != t->rank ||
        !td__dims_seem_eq(c->meta[0].size, t->size, t->rank))
        return td__op_fail(
            c, TD_E_SHAPE,
            "a sparse tensor does not broadcast: it is %s, and the other "
            "operand %s",
            td__type_str(t), td__type_str(d));
    if (!td__is_sparse(d)) {
        if (d->typed)
            return td__op_fail(c, TD_E_UNSUPPORTED,
                               "unsupported: a sparse tensor with a tensor of type %s",
                               d->typed->type->opts.name);
        d = td_op_expand(d, (td_ints){t->size, t->rank});
    } else if (!td__same_sizes(d, t))
        return td__op_fail(c, TD_E_SHAPE, "two sparse tensors must have equal sizes");
    *b = td_value_tensor(td__sparse_values_at(d, t));
    return !td_is_nil(b->u.t);
}

static td_tensor *do_mul(td_opcall *c) {
    bool       second = !td__in(c, 0) || !td__is_sparse(td__in(c, 0));
    td_value   b = c->in[!second];
    td_tensor *t = td__in(c, second);
    /* of two sparse tensors that may repeat places, the first has sums */
    if (!operand_at(c, t, &b)) return NULL;
    return td__sparse_with(t, td_op_mul(td__sparse_values(t), b));
}

/* in: a, b, rounding_mode. */
static td_tensor *do_div(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_value   b = c->in[1];
    if (!t || !td__is_sparse(t) || !is_number(&b) || c->in[2].u.s[0]) {
        td__op_fail(c, TD_E_UNSUPPORTED,
                    "a sparse tensor can be divided by a number; convert it with "
                    "td_to_dense for other quotients");
        return NULL;
    }
    return td__sparse_with(t, td_op_div(td__sparse_values(t), b, ""));
}

/* ---- plus --------------------------------------------------------------- */

static td_tensor *cat2(td_tensor *a, td_tensor *b, int dim) {
    td_tensor *both[] = {a, b};
    return td_op_cat((td_tensors){both, 2}, dim);
}

/* Both are sparse_csr: their patterns must be equal, as those of gradients are. */
static td_tensor *add_csr(td_tensor *a, td_tensor *b, td_value alpha) {
    td_tensor *crow =
        td_op__csr_same(td__sparse_part(a, TD_CSR_CROW), td__sparse_part(a, TD_CSR_COL),
                        td__sparse_part(b, TD_CSR_CROW),
                        td__sparse_part(b, TD_CSR_COL));
    td_tensor *values =
        td_op_add(td__sparse_values(a), td_value_tensor(td__sparse_values(b)), alpha);
    return td__csr_wrap(crow, td__sparse_part(a, TD_CSR_COL), values,
                        (td_ints){a->size, a->rank});
}

static td_tensor *scaled(td_tensor *values, td_value alpha) {
    bool one = alpha.kind == TD_K_FLOAT ? alpha.u.f == 1 : alpha.u.i == 1;
    return one ? values : td_op_mul(values, alpha);
}

/* Both are sparse, of equal sizes. */
static td_tensor *add_sparse(td_opcall *c, td_tensor *a, td_tensor *b, td_value alpha) {
    if (td__is_csr(a) && td__is_csr(b)) return add_csr(a, b, alpha);
    a = td__sparse_as_coo(a);
    b = td__sparse_as_coo(b);
    if (td_is_nil(a) || td_is_nil(b)) return NULL;
    if (td__sparse_dims(a) != td__sparse_dims(b)) {
        td__op_fail(c, TD_E_SHAPE,
                    "two sparse tensors must have as many sparse dims, got %d and %d",
                    td__sparse_dims(a), td__sparse_dims(b));
        return NULL;
    }
    return td__coo_wrap(cat2(td__sparse_indices(a), td__sparse_indices(b), 1),
                        cat2(td__sparse_values(a), scaled(td__sparse_values(b), alpha),
                             0),
                        (td_ints){a->size, a->rank}, false);
}

/* t is plain, of the sizes of s. */
static td_tensor *add_to_plain(td_tensor *t, td_tensor *s, td_value alpha) {
    td_tensor *at[TD_MAX_RANK];
    int        n = td__sparse_places(s, at);
    if (!n) return NULL;
    return td_op__index_put(t, (td_tensors){at, n}, scaled(td__sparse_values(s), alpha),
                            true);
}

/* a + alpha * b; one of them is sparse, and results have the dtype of both. */
static td_tensor *sum_of(td_opcall *c, td_tensor *a, td_tensor *b, td_value alpha) {
    bool same = a && b && td__same_sizes(a, b);
    if (!same || a->dtype != b->dtype || (a->typed && !td__is_sparse(a)) ||
        (b->typed && !td__is_sparse(b))) {
        td__op_fail(c, TD_E_UNSUPPORTED,
                    "a sparse tensor can be added to a tensor of its sizes and dtype; "
                    "convert it with td_to_dense to add a number or to broadcast");
        return NULL;
    }
    if (a->typed && b->typed) return add_sparse(c, a, b, alpha);
    if (b->typed) return add_to_plain(a, b, alpha);
    return add_to_plain(scaled(b, alpha), a, td_value_int(1));
}

static td_value negative(td_value v) {
    return v.kind == TD_K_FLOAT ? td_value_float(-v.u.f) : td_value_int(-v.u.i);
}

static td_tensor *do_add(td_opcall *c) {
    return sum_of(c, td__in(c, 0), td__in(c, 1), c->in[2]);
}

static td_tensor *do_sub(td_opcall *c) {
    return sum_of(c, td__in(c, 0), td__in(c, 1), negative(c->in[2]));
}

/* ---- products ----------------------------------------------------------- */

static td_tensor *do_mm(td_opcall *c) {
    return td__sparse_product(c, td__in(c, 0), td__in(c, 1));
}

static td_tensor *do_mv(td_opcall *c) {
    td_tensor *v = td__in(c, 1);
    if (!td__is_sparse(td__in(c, 0)) || v->typed) return NULL;
    td_tensor *y = td__sparse_product(c, td__in(c, 0), td_op_unsqueeze(v, 1));
    return td_op_select(y, 1, 0);
}

/* in: self, a, b, beta, alpha. */
static td_tensor *do_addmm(td_opcall *c) {
    td_tensor *self = td__in(c, 0);
    if (self->typed) return NULL;
    td_tensor *y = td__sparse_product(c, td__in(c, 1), td__in(c, 2));
    y = scaled(y, c->in[4]);
    double beta = td__value_f(c->in[3]);
    return beta == 0
               ? y
               : td_op_add(y, td_value_tensor(scaled(self, c->in[3])), td_value_int(1));
}

/* A gradient's copies: into the strides that it states. */
static td_tensor *do_new_zeros(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_ints    size = {c->meta[0].size, c->meta[0].rank};
    return td_op_new_zeros(td__sparse_values(t), size, (td_dtype)c->meta[0].dtype);
}

/* ---- which op ----------------------------------------------------------- */

typedef td_tensor *do_fn(td_opcall *c);

static const struct {
    td_op  op;
    do_fn *fn;
} ops[] = {
    {TD_OP_neg, do_neg},
    {TD_OP__to_copy, do_cast},
    {TD_OP_clone, do_clone},
    {TD_OP_detach, do_alias},
    {TD_OP_alias, do_alias},
    {TD_OP__late, do_alias},
    {TD_OP_sum, do_sum},
    {TD_OP_mul, do_mul},
    {TD_OP_div, do_div},
    {TD_OP_add, do_add},
    {TD_OP_sub, do_sub},
    {TD_OP_mm, do_mm},
    {TD_OP_mv, do_mv},
    {TD_OP_addmm, do_addmm},
    {TD_OP_new_zeros, do_new_zeros},
};

bool td__sparse_call(void *env, td_mode_call *h) {
    td_opcall *c = h->c;
    (void)env;
    for (int i = 0; i < TD_COUNT(ops); i++) {
        if (ops[i].op != c->info->op) continue;
        c->out[0] = ops[i].fn(c);
        if (c->out[0] && !td_is_nil(c->out[0])) return true;
        if (!td_ok(c->cx)) return false;
        break;
    }
    return td__op_fail(c, TD_E_UNSUPPORTED,
                       "unsupported for a sparse tensor in this place; convert it with "
                       "td_to_dense, or compute with its values (td_values)");
}

/* attention.c -- MultiheadAttention, with PyTorch's parameter names and mask
 * conventions. */
#include "nn/nn.h"

#include <math.h>

/* The module's state. in_weight is [3*dim, dim]: the projections of query, key and
 * value. */
typedef struct attention {
    td_tensor *in_weight, *in_bias;
    td_module *out;
    int64_t    dim, heads;
    double     dropout;
    bool       batch_first, causal;
} attention;

/* ---- projections -------------------------------------------------------- */

/* Projection `which` (0 query, 1 key, 2 value) of x [B,T,dim]. */
static td_tensor *project(const attention *a, td_tensor *x, int which) {
    td_tensor *w = td_narrow(a->in_weight, 0, which * a->dim, a->dim);
    td_tensor *b = a->in_bias ? td_narrow(a->in_bias, 0, which * a->dim, a->dim) : NULL;
    return td_linear(x, w, b);
}

/* [B,T,dim] to [B,heads,T,dim/heads]. */
static td_tensor *split_heads(const attention *a, td_tensor *x) {
    td_tensor *y = td_unflatten(x, -1, TD_SHAPE(a->heads, a->dim / a->heads));
    return td_transpose(y, 1, 2);
}

/* Query, key and value as [B,heads,T,dim/heads]. Self-attention projects all three in
 * one product. */
static void project_all(const attention *a, td_tensor *const in[3], td_tensor **qkv) {
    if (in[0] == in[1] && in[1] == in[2]) {
        td_tensor *all = td_linear(in[0], a->in_weight, a->in_bias);
        for (int i = 0; i < 3; i++) qkv[i] = td_narrow(all, -1, i * a->dim, a->dim);
    } else {
        for (int i = 0; i < 3; i++) qkv[i] = project(a, in[i], i);
    }
    for (int i = 0; i < 3; i++) qkv[i] = split_heads(a, qkv[i]);
}

/* ---- masks -------------------------------------------------------------- */

/* The layer's bool masks mark positions to ignore, those of the attention op
 * positions to attend to, as in PyTorch. */
static td_tensor *invert_bool(td_tensor *mask) {
    if (!mask || td_dtype_of(mask) != TD_BOOL) return mask;
    return td_logical_not(mask);
}

/* [T,S] stays, [B*heads,T,S] becomes [B,heads,T,S]. */
static td_tensor *shape_mask(const attention *a, td_tensor *mask) {
    if (!mask || td_rank(mask) != 3) return mask;
    return td_unflatten(mask, 0, TD_SHAPE(-1, a->heads));
}

/* A bool mask as a float mask: 0 to attend, -inf to ignore. */
static td_tensor *as_float_mask(td_tensor *seen, td_tensor *like) {
    if (td_dtype_of(seen) != TD_BOOL) return seen;
    td_tensor *zero = td_zeros(td_ctx_of(like), td_sym_sizes(seen), td_dtype_of(like));
    return td_masked_fill(zero, td_logical_not(seen), -INFINITY);
}

/* Combines the attention mask, the key padding mask and, if causal, the triangle.
 * NULL: no mask, every position is attended to. If causal is the only restriction,
 * the op applies it itself, which is faster. */
static td_tensor *join_masks(const attention *a, td_tensor *mask, td_tensor *padding,
                             td_tensor *const *qkv) {
    td_tensor *seen = invert_bool(shape_mask(a, mask)), *keys = invert_bool(padding);
    td_ctx    *cx = td_ctx_of(qkv[0]);
    if (keys) keys = td_unsqueeze(td_unsqueeze(keys, -2), -2); /* [B,1,1,S] */
    if (a->causal && (seen || keys)) {
        td_ints    square = TD_SHAPE(td_sym_size(qkv[0], 2), td_sym_size(qkv[1], 2));
        td_tensor *before = td_tril(td_ones(cx, square, TD_BOOL));
        keys = !keys ? before
               : td_dtype_of(keys) == TD_BOOL
                   ? td_logical_and(keys, before)
                   : td_add(keys, as_float_mask(before, keys));
    }
    if (!seen || !keys) return seen ? seen : keys;
    if (td_dtype_of(seen) == TD_BOOL && td_dtype_of(keys) == TD_BOOL)
        return td_logical_and(seen, keys);
    return td_add(as_float_mask(seen, qkv[0]), as_float_mask(keys, qkv[0]));
}

/* ---- forward ------------------------------------------------------------ */

/* Argument i; NULL if absent. */
static td_tensor *optional(td_call *c, int i) {
    return i < td_arg_count(c) && !td_arg_absent(c, i) ? td_arg(c, i) : NULL;
}

/* Query, key and value as [B,T,dim]; an absent key or value is the one before it.
 * False after td__fail. */
static bool read_inputs(const attention *a, td_call *c, td_tensor **in) {
    td_tensor *given[3] = {td_arg(c, 0), optional(c, 1), optional(c, 2)};
    td_ctx    *cx = td_call_ctx(c);
    for (int i = 0; i < 3; i++) {
        td_tensor *x = given[i];
        if (!x) {
            in[i] = in[i - 1];
            continue;
        }
        if (td_is_nil(x)) return false;
        if ((td_rank(x) != 2 && td_rank(x) != 3) || td_rank(x) != td_rank(given[0]) ||
            td_size(x, -1) != a->dim)
            return td__fail(cx, TD_E_SHAPE,
                            "MultiheadAttention: argument %d is %s; it must have 2 or "
                            "3 dims, as many as the query, and last size %lld",
                            i, td__type_str(x), (long long)a->dim);
        if (td_rank(x) == 2) in[i] = td_unsqueeze(x, 0);
        else in[i] = a->batch_first ? x : td_transpose(x, 0, 1);
        if (i && given[i] == given[i - 1]) in[i] = in[i - 1];
    }
    return td_ok(cx);
}

/* Arguments: query, key, value, attention mask, key padding mask; all but the first
 * optional. */
static bool attention_forward(td_module *m, td_call *c) {
    const attention *a = td_module_state(m);
    td_tensor       *in[3], *qkv[3];
    if (!td__nn_takes(m, c, 5) || !read_inputs(a, c, in)) return false;
    project_all(a, in, qkv);
    td_tensor *padding = optional(c, 4);
    bool       single = td_rank(td_arg(c, 0)) == 2;
    if (padding && single && !td_is_nil(padding)) padding = td_unsqueeze(padding, 0);
    td_tensor *mask = join_masks(a, optional(c, 3), padding, qkv);
    double     p = td_module_training(m) ? a->dropout : 0;
    td_tensor *y = td_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], mask, p,
                                                   a->causal && !mask);
    y = td_flatten(td_transpose(y, 1, 2), -2, -1);
    y = td_module_call(a->out, TD_ARGS(y));
    if (single) y = td_squeeze_dim(y, 0);
    else if (!a->batch_first) y = td_transpose(y, 0, 1);
    return td_return(c, y);
}

static const td_module_type attention_type = {.name = "MultiheadAttention",
                                              .bytes = sizeof(attention),
                                              .forward = attention_forward};

/* ---- making ------------------------------------------------------------- */

/* Sets the options and makes the parameters: Xavier uniform weights, zero biases. */
static void fill(td_making *k, const td_nn_attention_opts *o, int64_t dim,
                 int64_t heads) {
    attention        *a = td_module_state(k->m);
    td_nn_linear_opts plain = {TD_NN_LINEAR_OPTS, .no_bias = o->no_bias};
    a->dim = dim;
    a->heads = heads;
    a->dropout = o->dropout;
    a->batch_first = o->batch_first;
    a->causal = o->causal;
    td_tensor *w = td_init_xavier_uniform(td_empty(k->cx, TD_SHAPE(3 * dim, dim)), 1);
    td_tensor *b = o->no_bias ? NULL : td_zeros(k->cx, TD_SHAPE(3 * dim));
    td__nn_param(k, "in_proj_weight", w, &a->in_weight);
    td__nn_param(k, "in_proj_bias", b, &a->in_bias);
    td_module *out = td_nn_linear(k->cx, dim, dim, &plain);
    if (out && !o->no_bias) td_init_zeros(td_module_get(out, "bias"));
    td__nn_child(k, "out_proj", out, &a->out);
}

td_module *td_nn_multihead_attention(td_ctx *cx, int64_t dim, int64_t heads,
                                     const td_nn_attention_opts *opts) {
    static const char    who[] = "MultiheadAttention";
    td_nn_attention_opts o;
    if (!td__opts_take(td__ctx_of_any(cx), who, &o, sizeof o, opts,
                       "TD_NN_ATTENTION_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!td__nn_positive(cx, who, "dim", dim) ||
        !td__nn_positive(cx, who, "heads", heads) ||
        !td__nn_fraction(cx, who, "dropout", o.dropout))
        return TD_NIL(cx, MODULE);
    if (dim % heads) {
        td__fail(cx, TD_E_ARG, "%s: dim is %lld, not divisible by %lld heads", who,
                 (long long)dim, (long long)heads);
        return TD_NIL(cx, MODULE);
    }
    td_making k = td__nn_begin(cx, &attention_type);
    if (k.m) fill(&k, &o, dim, heads);
    return td__nn_end(&k);
}

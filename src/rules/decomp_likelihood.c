/* decomp_likelihood.c -- negative log likelihoods of numbers, counts, classes and
 * sequences. */
#include "rules/loss_args.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

/* in: self, target, weight, reduction. */
bool td__decomp_binary_cross_entropy(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1), *weight = td__in(c, 2);
    if (!check_reduction(c, 3, false) || !check_float(c, 0) || !check_float(c, 1) ||
        !check_sizes(c, 1))
        return false;
    if (x->dtype != y->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "self and target must have one dtype, got %s and %s",
                           td__type_str(x), td__type_str(y));
    x = td_op__expect_range(x, 0, 1, "a probability in self");
    td_tensor *loss = td_op__binary_cross_entropy(x, y);
    if (weight) loss = t_mul(loss, weight);
    c->out[0] = reduce(loss, c->in[3].u.s);
    return true;
}

/* in: input, target, log_input, full, eps, reduction. */
bool td__decomp_poisson_nll_loss(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1), *loss;
    if (!check_reduction(c, 5, false)) return false;
    if (td__in_bool(c, 2)) loss = t_sub(td_op_exp(x), t_mul(y, x));
    else {
        td_tensor *safe = td_op_add(x, td_value_float(td__in_f(c, 4)), td_value_int(1));
        loss = t_sub(x, t_mul(y, td_op_log(safe)));
    }
    if (td__in_bool(c, 3)) {
        td_tensor *stirling = t_sub(t_mul(y, td_op_log(y)), y);
        stirling = t_add(stirling, t_scale(td_op_log(t_scale(y, 2 * PI)), 0.5));
        td_tensor *small = td_op_le(y, td_value_int(1));
        stirling = td_op_masked_fill(stirling, small, td_value_int(0));
        /* PyTorch adds in place. */
        loss = t_as(t_add(loss, stirling), (td_dtype)loss->dtype);
    }
    c->out[0] = reduce(loss, c->in[5].u.s);
    return true;
}

/* The variance in sizes that broadcast to those of input: its own, or without the last
 * dim, or 1 in one dim. NULL after td__op_fail. */
static td_tensor *spread(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *var = td__in(c, 2);
    int        differ = 0, ones = 0;
    if (td__same_sizes(x, var)) return var;
    if (var->rank == x->rank - 1 && td__dims_eq(x->size, var->size, var->rank))
        return td_op_unsqueeze(var, -1);
    for (int i = 0; i < x->rank && x->rank == var->rank; i++) {
        bool same = td__dim_eq(x->size[i], var->size[i]);
        differ += !same;
        ones += !same && td__dim_eq(var->size[i], 1);
    }
    if (differ == 1 && ones == 1) return var;
    td__op_fail(c, TD_E_SHAPE,
                "var %s must have the sizes of input %s, or lack the last dim, or have "
                "size 1 in one dim",
                td__type_str(var), td__type_str(x));
    return NULL;
}

/* in: input, target, var, full, eps, reduction. The limit eps is no part of the
 * derivative. */
bool td__decomp_gaussian_nll_loss(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1);
    if (!check_reduction(c, 5, false) || !check_float(c, 2)) return false;
    td_tensor *var = spread(c);
    if (!var) return false;
    var = td_op__expect_range(var, 0, (double)INFINITY, "a variance in var");
    td_tensor *lift = td_op_rsub(var, td_value_float(td__in_f(c, 4)), td_value_int(1));
    var = t_add(var, td_op_detach(td_op_clamp_min(lift, td_value_int(0))));
    td_tensor *loss = t_div(td_op_square(t_sub(x, y)), var);
    loss = t_scale(t_add(td_op_log(var), loss), 0.5);
    if (td__in_bool(c, 3))
        loss = td_op_add(loss, td_value_float(0.5 * log(2 * PI)), td_value_int(1));
    c->out[0] = reduce(loss, c->in[5].u.s);
    return true;
}

/* in: input, linear_weight, target, linear_bias, weight, reduction, ignore_index,
 * label_smoothing. */
bool td__decomp_linear_cross_entropy(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *bias = td__in(c, 3);
    int64_t    size[TD_MAX_RANK];
    if (x->rank < 1 || x->rank > 2 || w->rank < 2 || (w->rank > 2 && x->rank < 2) ||
        (bias &&
         !(bias->rank == w->rank - 1 && td__dims_eq(bias->size, w->size, bias->rank))))
        return td__op_fail(
            c, TD_E_SHAPE,
            "takes input [N,D] with linear_weight [C,..,D] and linear_bias "
            "[C,..], or [D] with [C,D] and [C], got %s, %s and %s",
            td__type_str(x), td__type_str(w), bias ? td__type_str(bias) : "none");
    size[0] = x->size[0];
    memcpy(size + 1, w->size, sizeof(int64_t) * (size_t)(w->rank - 1));
    if (w->rank > 2) w = td_op_flatten(w, 0, -2);
    if (bias && bias->rank > 1) bias = td_op_flatten(bias, 0, -1);
    td_tensor *logits = td_op_linear(x, w, bias);
    if (td__in(c, 1)->rank > 2)
        logits = td_op_reshape(logits, (td_ints){size, td__in(c, 1)->rank});
    if (td_is_nil(logits)) return false;
    bool ignore = !td__in_none(c, 6);
    if (ignore && td__same_sizes(logits, td__in(c, 2)))
        return td__op_fail(c, TD_E_ARG,
                           "ignore_index is of class indices; target %s has "
                           "probabilities",
                           td__type_str(td__in(c, 2)));
    c->out[0] = td_op_cross_entropy(logits, td__in(c, 2), td__in(c, 4), c->in[5].u.s,
                                    ignore ? td__in_int(c, 6) : -100, td__in_f(c, 7));
    return true;
}

/* ---- connectionist temporal classification ------------------------------ */

enum { LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, BLANK, HOW, ZERO_INFINITY };

/* A batch of sequences. The labels of a target of S classes are S + 1 blanks with the
 * classes between them; alpha[n, l] is the log probability of all alignments that have
 * reached label l. */
typedef struct sequences {
    td_tensor *log_p;                    /* [T,N,C] */
    td_tensor *targets;                  /* [N,S] */
    td_tensor *in_len, *target_len;      /* [N] */
    int64_t    blank, time, batch, most; /* T, N, S */
} sequences;

/* Targets of all sequences in one vector, as rows; entries behind a target's end are
 * those of its neighbours. */
static td_tensor *as_rows(sequences *s, td_tensor *t) {
    int64_t    all = t->size[0];
    td_tensor *end = td_op_cumsum(s->target_len, 0, TD_DTYPE_NONE);
    end = td_op__expect_range(end, 0, (double)td__dim_fixed(all),
                              "the sum of target_lengths");
    td_tensor *at = td_op_arange(t->cx, td_value_int(0), td_value_int(all),
                                 td_value_int(1), TD_I64);
    at = t_add(td_op_unsqueeze(t_sub(end, s->target_len), 1), at);
    at = td_op_clamp_max(at, td_value_int(td__dim_sub(all, 1)));
    return td_op_take(t, at);
}

/* Sizes and dtypes; lengths within the sizes. */
static bool read_sequences(td_opcall *c, sequences *s) {
    td_tensor *p = td__in(c, LOG_PROBS), *t = td__in(c, TARGETS);
    td_tensor *len[2] = {td__in(c, INPUT_LENGTHS), td__in(c, TARGET_LENGTHS)};
    bool       one = p->rank == 2;
    if ((p->dtype != TD_F32 && p->dtype != TD_F64) || t->dtype != TD_I64 ||
        len[0]->dtype != TD_I64 || len[1]->dtype != TD_I64)
        return td__op_fail(c, TD_E_DTYPE,
                           "takes log_probs of f32 or f64 with targets and lengths of "
                           "i64, got %s, %s, %s and %s",
                           td__type_str(p), td__type_str(t), td__type_str(len[0]),
                           td__type_str(len[1]));
    if (p->rank != 3 && !(one && t->rank == 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "takes log_probs [T,N,C], or [T,C] with targets [S], got %s "
                           "and %s",
                           td__type_str(p), td__type_str(t));
    s->log_p = one ? td_op_unsqueeze(p, 1) : p;
    s->time = td__dim_fixed(p->size[0]);
    s->batch = one ? 1 : p->size[1];
    s->blank = td__in_int(c, BLANK);
    for (int i = 0; i < 2; i++) {
        bool fits = one ? len[i]->rank == 0 ||
                              (len[i]->rank == 1 && td__dim_eq(len[i]->size[0], 1))
                        : len[i]->rank == 1 && td__dim_eq(len[i]->size[0], s->batch);
        if (!fits)
            return td__op_fail(c, TD_E_SHAPE,
                               "%s must have one entry per sequence, got %s",
                               c->info->s.in[INPUT_LENGTHS + i].name,
                               td__type_str(len[i]));
        if (one) len[i] = td_op_reshape(len[i], TD_SHAPE(1));
    }
    if (s->blank < 0 || !td__dim_lt(s->blank, t_last(p, 1)))
        return td__op_fail(c, TD_E_ARG, "blank %lld must be a class of log_probs %s",
                           (long long)s->blank, td__type_str(p));
    if (t->rank < 1 || t->rank > 2 ||
        (t->rank == 2 && !td__dim_eq(t->size[0], s->batch)))
        return td__op_fail(c, TD_E_SHAPE,
                           "targets must be [N,S], or all in one vector, got %s for %s",
                           td__type_str(t), td__type_str(p));
    s->most = t_last(t, 1);
    s->in_len = td_op__expect_range(len[0], 0, (double)s->time, "one of input_lengths");
    s->target_len = td_op__expect_range(len[1], 0, (double)td__dim_fixed(s->most),
                                        "one of target_lengths");
    s->targets = t->rank == 2 ? t
                 : one        ? td_op_unsqueeze(t, 0)
                 : td__dim_eq(s->most, 0)
                     ? td_op_new_zeros(t, TD_SHAPE(s->batch, 0), TD_DTYPE_NONE)
                     : as_rows(s, t);
    return !td_is_nil(s->targets);
}

/* [N, 2 S + 1]: a blank before, between and behind the classes; blanks behind the end
 * of a target. */
static td_tensor *labels(const sequences *s) {
    td_tensor *at = td_op_arange(s->log_p->cx, td_value_int(0), td_value_int(s->most),
                                 td_value_int(1), TD_I64);
    td_tensor *over = td_op_ge(at, T(td_op_unsqueeze(s->target_len, 1)));
    td_tensor *t = td_op_masked_fill(s->targets, over, td_value_int(s->blank));
    td_tensor *blank = td_op_full_like(t, td_value_int(s->blank), TD_DTYPE_NONE);
    td_tensor *pair = td_op_stack((td_tensors){(td_tensor *[]){blank, t}, 2}, 2);
    return td_op_constant_pad_nd(td_op_flatten(pair, 1, 2), TD_DIMS(0, 1),
                                 td_value_int(s->blank));
}

/* 0 where a path may skip the blank between label l - 2 and label l, else -inf. */
static td_tensor *skips(const sequences *s, td_tensor *label) {
    int64_t    n = td__dim_add(td__dim_mul(s->most, 2), 1);
    td_tensor *before =
        td_op_constant_pad_nd(label, TD_DIMS(2, 0), td_value_int(s->blank));
    before = td_op_slice(before, 1, td_value_int(0), td_value_int(n), 1);
    td_tensor *same = td_op_logical_or(td_op_eq(label, T(before)),
                                       td_op_eq(label, td_value_int(s->blank)));
    td_tensor *none = td_op_new_zeros(s->log_p, td__sizes(label), TD_DTYPE_NONE);
    return td_op_masked_fill(none, same, td_value_float(-(double)INFINITY));
}

/* `count` columns from `first` on. */
static td_tensor *columns(td_tensor *t, int64_t first, int64_t count) {
    return td_op_slice(t, 1, td_value_int(first),
                       td_value_int(td__dim_add(first, count)), 1);
}

/* The log of the sum of exponentials along dim; of -inf alone it is -inf and has
 * gradients of 0, where those of logsumexp are NaN. */
static td_tensor *log_sum(td_tensor *t, int64_t dim) {
    td_value   none = td_value_float(-(double)INFINITY);
    td_tensor *dead = td_op_eq(td_op_amax(t, TD_DIMS(dim), true), none);
    td_tensor *sum = td_op_logsumexp(td_op_masked_fill(t, dead, td_value_int(0)),
                                     TD_DIMS(dim), false);
    return td_op_masked_fill(sum, td_op_squeeze_dim(dead, dim), none);
}

/* The negative log likelihoods [N]. alpha has two columns of -inf before label 0. */
static td_tensor *likelihoods(const sequences *s) {
    td_value   none = td_value_float(-(double)INFINITY);
    td_tensor *label = labels(s), *skip = skips(s, label);
    int64_t    n = td__dim_add(td__dim_mul(s->most, 2), 1);
    int64_t    all[3] = {s->time, s->batch, n};
    td_tensor *p =
        td_op_gather(s->log_p, 2,
                     td_op_expand(td_op_unsqueeze(label, 0), (td_ints){all, 3}));
    td_tensor *start = td_op_new_zeros(s->log_p, TD_SHAPE(s->batch, 1), TD_DTYPE_NONE);
    td_tensor *alpha =
        td_op_constant_pad_nd(start, TD_DIMS(2, td__dim_mul(s->most, 2)), none);
    td_tensor *in_len = td_op_unsqueeze(s->in_len, 1);
    for (int64_t t = 0; t < s->time && !td_is_nil(alpha); t++) {
        td_tensor *from[3] = {columns(alpha, 2, n), columns(alpha, 1, n),
                              t_add(columns(alpha, 0, n), skip)};
        td_tensor *next = log_sum(td_op_stack((td_tensors){from, 3}, 0), 0);
        next = td_op_constant_pad_nd(t_add(next, td_op_select(p, 0, t)), TD_DIMS(2, 0),
                                     none);
        alpha = td_op_where(td_op_gt(in_len, td_value_int(t)), T(next), T(alpha));
    }
    /* the last label and the blank behind it; of an empty target the blank alone */
    td_tensor *end = td_op_unsqueeze(td_op_mul(s->target_len, td_value_int(2)), 1);
    td_tensor *last[2] = {td_op_add(end, td_value_int(1), td_value_int(1)),
                          td_op_add(end, td_value_int(2), td_value_int(1))};
    td_tensor *both = td_op_gather(alpha, 1, td_op_cat((td_tensors){last, 2}, 1));
    return td_op_neg(log_sum(both, 1));
}

/* in: see the enum above. */
bool td__decomp_ctc_loss(td_opcall *c) {
    const char *how = c->in[HOW].u.s;
    sequences   s = {0};
    if (!check_reduction(c, HOW, false) || !read_sequences(c, &s)) return false;
    td_tensor *loss = likelihoods(&s);
    if (td__in_bool(c, ZERO_INFINITY))
        loss = td_op_where(td_op_eq(loss, td_value_float((double)INFINITY)),
                           td_value_float(0), T(loss));
    if (!strcmp(how, "mean"))
        loss = t_div(loss, td_op_clamp_min(s.target_len, td_value_int(1)));
    else if (!strcmp(how, "none") && td__in(c, LOG_PROBS)->rank == 2)
        loss = td_op_squeeze_dim(loss, 0);
    c->out[0] = reduce(loss, how);
    return true;
}

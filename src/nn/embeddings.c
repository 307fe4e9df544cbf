/* embeddings.c -- Embedding and EmbeddingBag: a table of rows, and sums of rows. */
#include "nn/plain.h"

#include <string.h>

/* The state of both; weight [count, dim]. */
typedef struct embedding {
    td_tensor *weight;
    int64_t    padding;  /* row whose gradient is zero; -1: none */
    double     max_norm; /* longer rows are shortened when they are read; 0: none */
    double     norm_type;
    bool       by_freq; /* gradients of a row are divided by how often it was read */
    char       mode[8]; /* of a bag */
    bool       last;    /* of a bag: include_last_offset */
    bool       sparse;  /* its gradient is sparse */
} embedding;

/* Shortens the rows that are read to max_norm, in place, as embedding_renorm_ does. A
 * row that is read twice is written twice, with the same values. */
static void renorm(const embedding *e, td_tensor *indices) {
    td_ctx      *cx = td_ctx_of(indices);
    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *at = td_reshape(indices, TD_SHAPE(-1));
    td_tensor   *rows = td_index_select(e->weight, 0, at);
    td_tensor   *norm = td_linalg_vector_norm(rows, e->norm_type, TD_SHAPE(1), true);
    td_tensor   *scale = td_mul(td_reciprocal(td_add(norm, 1e-7)), e->max_norm);
    td_tensor   *short_rows =
        td_where(td_gt(norm, e->max_norm), td_mul(rows, scale), rows);
    td_index_copy_(e->weight, 0, at, short_rows);
    td_no_grad_end(cx, was);
}

static bool embedding_forward(td_module *m, td_call *c) {
    const embedding *e = td_module_state(m);
    td_tensor       *at = td__nn_arg(m, c);
    if (e->max_norm != 0 && !td_is_nil(at)) renorm(e, at);
    return td_return(c, td_embedding(e->weight, at, e->padding, e->by_freq, e->sparse));
}

/* Arguments: indices, offsets, weights of the indices; the last two optional. */
static bool bag_forward(td_module *m, td_call *c) {
    const embedding *e = td_module_state(m);
    td_tensor       *at = td_arg(c, 0);
    if (!td__nn_takes(m, c, 3) || td_is_nil(at)) return false;
    if (e->max_norm != 0) renorm(e, at);
    td_value padding = e->padding >= 0 ? td_value_int(e->padding) : TD_NONE;
    return td_return(c, td_embedding_bag(e->weight, at, td__nn_optional(c, 1),
                                         e->by_freq, e->mode, td__nn_optional(c, 2),
                                         e->last, padding, e->sparse));
}

static const td_module_type embedding_type = {.name = "Embedding",
                                              .bytes = sizeof(embedding),
                                              .forward = embedding_forward};
static const td_module_type bag_type = {.name = "EmbeddingBag",
                                        .bytes = sizeof(embedding),
                                        .forward = bag_forward};

/* Resolves a negative padding_idx. False after td__fail. */
static bool read_padding(td_ctx *cx, const char *who, int64_t count,
                         const td_nn_embedding_opts *o, int64_t *padding) {
    int64_t at = o->padding_idx < 0 ? o->padding_idx + count : o->padding_idx;
    *padding = o->padded ? at : -1;
    if (!o->padded || (at >= 0 && at < count)) return true;
    return td__fail(cx, TD_E_INDEX,
                    "%s: padding_idx is %lld; it must be a row, from %lld to %lld", who,
                    (long long)o->padding_idx, (long long)-count,
                    (long long)(count - 1));
}

/* False after td__fail. */
static bool read_mode(td_ctx *cx, const char *who, const char *mode, char *to) {
    if (!mode) mode = "mean";
    if (strcmp(mode, "mean") && strcmp(mode, "sum") && strcmp(mode, "max"))
        return td__fail(cx, TD_E_ARG,
                        "%s: mode is \"%.40s\"; it must be mean, sum or max", who,
                        mode);
    memcpy(to, mode, strlen(mode) + 1);
    return true;
}

/* Rows are normal numbers; of an Embedding row padding_idx is zero, and of an
 * EmbeddingBag too. */
static td_module *make(td_ctx *cx, const td_module_type *type, int64_t count,
                       int64_t dim, const td_nn_embedding_opts *opts) {
    const char          *who = type->name;
    td_nn_embedding_opts o;
    embedding            e = {.padding = -1};
    if (!td__opts_take(td__ctx_of_any(cx), who, &o, sizeof o, opts,
                       "TD_NN_EMBEDDING_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!td__nn_positive(cx, who, "count", count) ||
        !td__nn_positive(cx, who, "dim", dim) ||
        !read_padding(cx, who, count, &o, &e.padding) ||
        !read_mode(cx, who, o.mode, e.mode))
        return TD_NIL(cx, MODULE);
    if (!(o.max_norm >= 0)) {
        td__fail(cx, TD_E_ARG, "%s: max_norm is %g; it must be positive", who,
                 o.max_norm);
        return TD_NIL(cx, MODULE);
    }
    e.max_norm = o.max_norm;
    e.norm_type = o.norm_type != 0 ? o.norm_type : 2;
    e.by_freq = o.scale_grad_by_freq;
    e.last = o.include_last_offset;
    e.sparse = o.sparse;
    td_making  k = td__nn_begin(cx, type);
    embedding *s = k.m ? td_module_state(k.m) : NULL;
    td_tensor *weight = td_randn(cx, TD_SHAPE(count, dim));
    if (o.padded) td_zero_(td_select(weight, 0, e.padding));
    if (s) {
        *s = e;
        td__nn_param(&k, "weight", weight, &s->weight);
    }
    return td__nn_end(&k);
}

td_module *td_nn_embedding(td_ctx *cx, int64_t count, int64_t dim,
                           const td_nn_embedding_opts *opts) {
    return make(cx, &embedding_type, count, dim, opts);
}
td_module *td_nn_embedding_bag(td_ctx *cx, int64_t count, int64_t dim,
                               const td_nn_embedding_opts *opts) {
    return make(cx, &bag_type, count, dim, opts);
}

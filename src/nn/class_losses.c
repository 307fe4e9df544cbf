/* class_losses.c -- losses with parameters: LinearCrossEntropyLoss and
 * AdaptiveLogSoftmaxWithLoss, with PyTorch's names. */
#include "nn/nn.h"
#include "tandem/losses.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- LinearCrossEntropyLoss ------------------------------------------------ */

typedef struct linear_ce {
    td_module *linear;
    td_tensor *weight; /* buffer [classes]; or NULL */
    int64_t    sizes[TD_MAX_RANK];
    int        n; /* classes, then out_features */
    char       reduction[8];
    bool       ignored;
    int64_t    ignore_index;
    double     smoothing;
} linear_ce;

static bool linear_ce_forward(td_module *m, td_call *c) {
    const linear_ce *l = td_module_state(m);
    if (!td__nn_takes(m, c, 2)) return false;
    td_tensor *w = td_module_get(l->linear, "weight");
    td_tensor *b = td_module_get(l->linear, "bias");
    int64_t    sizes[TD_MAX_RANK + 1];
    memcpy(sizes, l->sizes, sizeof *sizes * (size_t)l->n);
    sizes[l->n] = td_is_nil(w) ? 0 : td_size(w, 1);
    if (b) b = td_reshape(b, ((td_ints){sizes, l->n}));
    w = td_reshape(w, ((td_ints){sizes, l->n + 1}));
    td_value ignore = l->ignored ? td_value_int(l->ignore_index) : TD_NONE;
    return td_return(c, td_linear_cross_entropy(td_arg(c, 0), w, td_arg(c, 1), b,
                                                l->weight, l->reduction, ignore,
                                                l->smoothing));
}

static const td_module_type linear_ce_type = {.name = "LinearCrossEntropyLoss",
                                              .bytes = sizeof(linear_ce),
                                              .forward = linear_ce_forward};

/* Fills *l from the options; *scores is the number of scores of a row. False after
 * td__fail. */
static bool read_linear_ce(td_ctx *cx, linear_ce *l, const td_nn_linear_ce_opts *o,
                           int64_t classes, int64_t *scores) {
    const char *who = linear_ce_type.name;
    const char *reduction = o->loss.reduction ? o->loss.reduction : "mean";
    if (!td__nn_positive(cx, who, "classes", classes) ||
        !td__nn_fraction(cx, who, "label_smoothing", o->loss.label_smoothing))
        return false;
    if (o->out_features.n < 0 || o->out_features.n > TD_MAX_RANK - 2)
        return td__fail(cx, TD_E_ARG,
                        "%s: out_features has %d entries; at most %d are possible", who,
                        o->out_features.n, TD_MAX_RANK - 2);
    if (strcmp(reduction, "mean") && strcmp(reduction, "sum") &&
        strcmp(reduction, "none"))
        return td__fail(cx, TD_E_ARG,
                        "%s: reduction is \"%.40s\"; it must be mean, sum or none", who,
                        reduction);
    memcpy(l->reduction, reduction, strlen(reduction) + 1);
    l->sizes[l->n++] = *scores = classes;
    for (int i = 0; i < o->out_features.n; i++) {
        int64_t f = o->out_features.v[i];
        if (!td__nn_positive(cx, who, "an entry of out_features", f)) return false;
        l->sizes[l->n++] = f;
        *scores *= f;
    }
    l->ignored = o->loss.ignored;
    l->ignore_index = o->loss.ignore_index;
    l->smoothing = o->loss.label_smoothing;
    return true;
}

td_module *td_nn_linear_cross_entropy_loss(td_ctx *cx, int64_t in, int64_t classes,
                                           const td_nn_linear_ce_opts *opts) {
    const char          *who = linear_ce_type.name;
    td_nn_linear_ce_opts o;
    linear_ce            l = {.n = 0};
    int64_t              scores = 0;
    if (!td__opts_take(td__ctx_of_any(cx), who, &o, sizeof o, opts,
                       "TD_NN_LINEAR_CE_OPTS") ||
        !td__nn_positive(cx, who, "in", in) ||
        !read_linear_ce(cx, &l, &o, classes, &scores))
        return TD_NIL(cx, MODULE);
    td_nn_linear_opts plain = {TD_NN_LINEAR_OPTS, .no_bias = !o.bias};
    td_making         k = td__nn_begin(cx, &linear_ce_type);
    linear_ce        *s = k.m ? td_module_state(k.m) : NULL;
    td_module        *linear = td_nn_linear(cx, in, scores, &plain);
    if (s) {
        *s = l;
        td__nn_buffer(&k, "weight", o.loss.weight, &s->weight);
        td__nn_child(&k, "linear", linear, &s->linear);
    } else {
        td_module_free(linear);
    }
    return td__nn_end(&k);
}

/* ---- AdaptiveLogSoftmaxWithLoss --------------------------------------------- */

enum { MOST_CUTOFFS = 32 };

/* Cluster i of the tail has classes cut[i] to cut[i + 1] - 1; the head has scores of
 * the first cut[0] classes and of each cluster. */
typedef struct adaptive {
    td_module *head, *tail;
    int64_t    in, cut[MOST_CUTOFFS + 1];
    int        clusters;
} adaptive;

static td_tensor *cluster_scores(const adaptive *a, int i, td_tensor *x) {
    td_module *m = td_module_child_at(a->tail, i, NULL);
    return td_log_softmax(td_module_call(m, TD_ARGS(x)), 1);
}

/* The log-probability of each target: the head's, of its class or of its cluster, and
 * within the cluster the class's. A target that is no class stays an index that the
 * head does not have, so that `gather` refuses it. */
static td_tensor *target_scores(const adaptive *a, td_tensor *x, td_tensor *target) {
    td_ctx    *cx = td_ctx_of(x);
    td_tensor *within = td_zeros(cx, TD_SHAPE(td_sym_size(x, 0)), td_dtype_of(x));
    td_tensor *at = target;
    for (int i = 0; i < a->clusters; i++) {
        td_tensor *in =
            td_logical_and(td_ge(target, a->cut[i]), td_lt(target, a->cut[i + 1]));
        td_tensor *rows = td_squeeze_dim(td_nonzero(in), 1);
        td_tensor *class = td_sub(td_index_select(target, 0, rows), a->cut[i]);
        td_tensor *scores = cluster_scores(a, i, td_index_select(x, 0, rows));
        td_tensor *one = td_gather(scores, 1, td_unsqueeze(class, 1));
        within = td_index_copy(within, 0, rows, td_squeeze_dim(one, 1));
        at = td_masked_fill(at, in, a->cut[0] + i);
    }
    td_tensor *head = td_log_softmax(td_module_call(a->head, TD_ARGS(x)), 1);
    td_tensor *first = td_gather(head, 1, td_unsqueeze(at, 1));
    return td_add(within, td_squeeze_dim(first, 1));
}

static bool adaptive_forward(td_module *m, td_call *c) {
    const adaptive *a = td_module_state(m);
    td_tensor      *x = td_arg(c, 0), *target = td_arg(c, 1);
    if (!td__nn_takes(m, c, 2) || td_is_nil(x) || td_is_nil(target)) return false;
    bool single = td_rank(target) == 0;
    if (td_rank(target) > 1 || td_rank(x) != td_rank(target) + 1 ||
        td_size(x, -1) != a->in ||
        (!single && td_sym_size(x, 0) != td_sym_size(target, 0) &&
         td_size(x, 0) != td_size(target, 0))) {
        char of[64];
        snprintf(of, sizeof of, "%s", td__type_str(target));
        return td__fail(td_module_ctx(m), TD_E_SHAPE,
                        "%s: the input is %s and the target %s; they must be [N,%lld] "
                        "and [N], or [%lld] and []",
                        td_module_name(m), td__type_str(x), of, (long long)a->in,
                        (long long)a->in);
    }
    if (single) {
        x = td_unsqueeze(x, 0);
        target = td_unsqueeze(target, 0);
    }
    td_tensor *scores = target_scores(a, x, target);
    td_tensor *loss = td_mean(td_neg(scores));
    return td_return(c, single ? td_squeeze_dim(scores, 0) : scores, loss);
}

static const td_module_type adaptive_type = {.name = "AdaptiveLogSoftmaxWithLoss",
                                             .bytes = sizeof(adaptive),
                                             .forward = adaptive_forward};

td_tensor *td_nn_adaptive_log_prob(td_module *m, td_tensor *input) {
    if (!TD_ENTER(m, MODULE) || !TD_ENTER(input, TENSOR)) return TD_NIL_BY(m, TENSOR);
    td_ctx *cx = td_module_ctx(m);
    if (td_module_name(m) != adaptive_type.name)
        return td_fail(cx, TD_E_ARG,
                       "td_nn_adaptive_log_prob: the module is a %s; it must be a %s",
                       td_module_name(m), adaptive_type.name);
    const adaptive *a = td_module_state(m);
    td_tensor      *part[MOST_CUTOFFS + 1];
    td_tensor      *head = td_log_softmax(td_module_call(a->head, TD_ARGS(input)), 1);
    part[0] = td_narrow(head, 1, 0, a->cut[0]);
    for (int i = 0; i < a->clusters; i++)
        part[i + 1] =
            td_add(cluster_scores(a, i, input), td_narrow(head, 1, a->cut[0] + i, 1));
    return td_cat(td__nn_list(part, a->clusters + 1), 1);
}

td_tensor *td_nn_adaptive_predict(td_module *m, td_tensor *input) {
    td_tensor *p = td_nn_adaptive_log_prob(m, input);
    return td_is_nil(p) ? p : td_argmax(p, 1);
}

/* False after td__fail. */
static bool read_cutoffs(td_ctx *cx, adaptive *a, int64_t classes, td_ints cutoffs) {
    const char *who = adaptive_type.name;
    if (!cutoffs.v || cutoffs.n < 1 || cutoffs.n > MOST_CUTOFFS)
        return td__fail(cx, TD_E_ARG, "%s: there are %d cutoffs; pass 1 to %d", who,
                        cutoffs.v ? cutoffs.n : 0, MOST_CUTOFFS);
    int64_t least = 1;
    for (int i = 0; i < cutoffs.n; i++) {
        int64_t at = cutoffs.v[i];
        if (at < least || at >= classes)
            return td__fail(cx, TD_E_ARG,
                            "%s: cutoff %d is %lld; cutoffs must ascend, from 1 to "
                            "classes - 1, %lld",
                            who, i, (long long)at, (long long)classes - 1);
        a->cut[i] = at;
        least = at + 1;
    }
    a->clusters = cutoffs.n;
    a->cut[cutoffs.n] = classes;
    return true;
}

/* A cluster of the tail: a projection and the scores of its classes. */
static td_module *make_cluster(td_ctx *cx, int64_t in, int64_t inner, int64_t classes) {
    td_nn_linear_opts bare = {TD_NN_LINEAR_OPTS, .no_bias = true};
    return td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, in, inner, &bare),
                                           td_nn_linear(cx, inner, classes, &bare)));
}

td_module *td_nn_adaptive_log_softmax_with_loss(
    td_ctx *cx, int64_t in, int64_t classes, td_ints cutoffs,
    const td_nn_adaptive_softmax_opts *opts) {
    const char                 *who = adaptive_type.name;
    td_nn_adaptive_softmax_opts o;
    adaptive                    a = {.in = in};
    if (!td__opts_take(td__ctx_of_any(cx), who, &o, sizeof o, opts,
                       "TD_NN_ADAPTIVE_SOFTMAX_OPTS") ||
        !td__nn_positive(cx, who, "in", in) || !read_cutoffs(cx, &a, classes, cutoffs))
        return TD_NIL(cx, MODULE);
    td_nn_linear_opts head = {TD_NN_LINEAR_OPTS, .no_bias = !o.head_bias};
    double            by = o.div_value != 0 ? o.div_value : 4;
    td_making         k = td__nn_begin(cx, &adaptive_type);
    adaptive         *s = k.m ? td_module_state(k.m) : NULL;
    if (!s) return td__nn_end(&k);
    *s = a;
    td__nn_child(&k, "head", td_nn_linear(cx, in, a.cut[0] + a.clusters, &head),
                 &s->head);
    td_module *tail = td_nn_list(cx, (td_modules){NULL, 0});
    for (int i = 0; i < a.clusters; i++) {
        int64_t inner = (int64_t)floor((double)in / pow(by, i + 1));
        td_nn_append(tail, make_cluster(cx, in, inner, a.cut[i + 1] - a.cut[i]));
    }
    td__nn_child(&k, "tail", tail, &s->tail);
    return td__nn_end(&k);
}

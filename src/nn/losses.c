/* losses.c -- losses as modules: each is a row with PyTorch's name, the number of its
 * inputs, and a function of them and a few numbers. */
#include "tandem/losses.h"

#include "nn/nn.h"

#include <string.h>

enum { MOST_INPUTS = 4 };

typedef struct loss loss;
typedef td_tensor  *loss_fn(const loss *l, td_tensor *const *in);

/* The state of a module. */
struct loss {
    loss_fn        *fn;
    int             inputs;
    char            reduction[12];
    td_tensor      *weight, *pos_weight; /* buffers; or NULL */
    double          margin;              /* or beta, delta */
    int64_t         power;
    td_nn_loss_opts o; /* numbers and flags; its pointers are not used */
    td_distance_fn *distance;
    void           *env;
};

static bool loss_forward(td_module *m, td_call *c) {
    const loss *l = td_module_state(m);
    td_tensor  *in[MOST_INPUTS];
    if (!td__nn_takes(m, c, l->inputs)) return false;
    for (int i = 0; i < l->inputs; i++) {
        in[i] = td_arg(c, i);
        if (!in[i])
            return td__fail(td_module_ctx(m), TD_E_ARG,
                            "%s: argument %d is absent; it takes %d tensors",
                            td_module_name(m), i, l->inputs);
    }
    return td_return(c, l->fn(l, in));
}

/* ---- functions --------------------------------------------------------------- */

static int64_t ignored(const loss *l) {
    return l->o.ignored ? l->o.ignore_index : -100;
}
static double or_else(double given, double none) { return given != 0 ? given : none; }

#define LOSS(name, call) \
    static td_tensor *name(const loss *l, td_tensor *const *in) { return (call); }
LOSS(l1, td_l1_loss(in[0], in[1], l->reduction))
LOSS(mse, td_mse_loss(in[0], in[1], l->reduction))
LOSS(smooth_l1, td_smooth_l1_loss(in[0], in[1], l->reduction, l->margin))
LOSS(huber, td_huber_loss(in[0], in[1], l->reduction, l->margin))
LOSS(cross_entropy, td_cross_entropy(in[0], in[1], l->weight, l->reduction, ignored(l),
                                     l->o.label_smoothing))
LOSS(nll, td_nll_loss(in[0], in[1], l->weight, l->reduction, ignored(l)))
LOSS(bce, td_binary_cross_entropy(in[0], in[1], l->weight, l->reduction))
LOSS(bce_logits,
     td_bce_with_logits(in[0], in[1], l->weight, l->pos_weight, l->reduction))
LOSS(kl_div, td_kl_div(in[0], in[1], l->reduction, l->o.log_target))
LOSS(poisson, td_poisson_nll_loss(in[0], in[1], !l->o.no_log_input, l->o.full,
                                  or_else(l->o.eps, 1e-8), l->reduction))
LOSS(gaussian, td_gaussian_nll_loss(in[0], in[1], in[2], l->o.full,
                                    or_else(l->o.eps, 1e-6), l->reduction))
LOSS(soft_margin, td_soft_margin_loss(in[0], in[1], l->reduction))
LOSS(hinge, td_hinge_embedding_loss(in[0], in[1], l->margin, l->reduction))
LOSS(multi_margin,
     td_multi_margin_loss(in[0], in[1], l->power, l->margin, l->weight, l->reduction))
LOSS(multilabel, td_multilabel_margin_loss(in[0], in[1], l->reduction))
LOSS(multilabel_soft,
     td_multilabel_soft_margin_loss(in[0], in[1], l->weight, l->reduction))
LOSS(ranking, td_margin_ranking_loss(in[0], in[1], in[2], l->margin, l->reduction))
LOSS(cosine, td_cosine_embedding_loss(in[0], in[1], in[2], l->margin, l->reduction))
LOSS(ctc, td_ctc_loss(in[0], in[1], in[2], in[3], l->o.blank, l->reduction,
                      l->o.zero_infinity))
LOSS(triplet, td_triplet_margin_loss(in[0], in[1], in[2], l->margin, or_else(l->o.p, 2),
                                     or_else(l->o.eps, 1e-6), l->o.swap, l->reduction))

static td_tensor *distance(const loss *l, td_tensor *a, td_tensor *b) {
    return l->distance ? l->distance(l->env, a, b) : td_pairwise_distance(a, b);
}

static td_tensor *reduced(const loss *l, td_tensor *t) {
    if (!strcmp(l->reduction, "none")) return t;
    return !strcmp(l->reduction, "sum") ? td_sum(t) : td_mean(t);
}

static td_tensor *triplet_by(const loss *l, td_tensor *const *in) {
    td_tensor *near = distance(l, in[0], in[1]), *far = distance(l, in[0], in[2]);
    if (l->o.swap) far = td_minimum(far, distance(l, in[1], in[2]));
    return reduced(l, td_clamp_min(td_add(td_sub(near, far), l->margin), 0.0));
}

/* ---- rows ---------------------------------------------------------------------- */

typedef struct row {
    td_module_type type;
    loss_fn       *fn;
    int            inputs;
} row;
#define ROW(name_, fn_, inputs_)                                                  \
    {                                                                             \
        {.name = (name_), .bytes = sizeof(loss), .forward = loss_forward}, (fn_), \
            (inputs_)                                                             \
    }

/* Is it a reduction that the loss has? False after td__fail. */
static bool check_reduction(td_ctx *cx, const row *r, const char *reduction) {
    static const char *const known[] = {"mean", "sum", "none", "batchmean"};
    for (size_t i = 0; i < 3u + (r->fn == kl_div); i++)
        if (!strcmp(reduction, known[i])) return true;
    return td__fail(cx, TD_E_ARG, "%s: reduction is \"%.40s\"; it must be %s",
                    r->type.name, reduction,
                    r->fn == kl_div ? "mean, batchmean, sum or none"
                                    : "mean, sum or none");
}

/* Has the loss weights of classes or elements? */
static bool weighted(const row *r) {
    return r->fn == cross_entropy || r->fn == nll || r->fn == bce ||
           r->fn == bce_logits || r->fn == multi_margin || r->fn == multilabel_soft;
}

/* Are weights given only where the loss has them? False after td__fail. */
static bool check_weights(td_ctx *cx, const row *r, const td_nn_loss_opts *o) {
    if (o->weight && !weighted(r))
        return td__fail(cx, TD_E_ARG, "%s: the loss has no weight", r->type.name);
    return !o->pos_weight || r->fn == bce_logits ||
           td__fail(cx, TD_E_ARG,
                    "%s: the loss has no pos_weight; BCEWithLogitsLoss has one",
                    r->type.name);
}

/* Makes the loss of a row; l has the numbers of its own. */
static td_module *make(td_ctx *cx, const row *r, loss l, const td_nn_loss_opts *opts) {
    const char *who = r->type.name;
    if (!td__opts_take(td__ctx_of_any(cx), who, &l.o, sizeof l.o, opts,
                       "TD_NN_LOSS_OPTS"))
        return TD_NIL(cx, MODULE);
    const char *reduction = l.o.reduction ? l.o.reduction : "mean";
    if (!check_reduction(cx, r, reduction) || !check_weights(cx, r, &l.o) ||
        !td__nn_fraction(cx, who, "label_smoothing", l.o.label_smoothing))
        return TD_NIL(cx, MODULE);
    td_making k = td__nn_begin(cx, &r->type);
    loss     *s = k.m ? td_module_state(k.m) : NULL;
    if (s) {
        *s = l;
        s->fn = r->fn;
        s->inputs = r->inputs;
        memcpy(s->reduction, reduction, strlen(reduction) + 1);
        if (weighted(r)) td__nn_buffer(&k, "weight", l.o.weight, &s->weight);
        if (r->fn == bce_logits)
            td__nn_buffer(&k, "pos_weight", l.o.pos_weight, &s->pos_weight);
    }
    return td__nn_end(&k);
}

/* A constructor whose loss has options only. */
#define SIMPLE(name, type, by)                                         \
    td_module *td_nn_##name(td_ctx *cx, const td_nn_loss_opts *opts) { \
        static const row r = ROW(type, by, 2);                         \
        return make(cx, &r, (loss){.fn = NULL}, opts);                 \
    }
/* One with a margin, beta or delta. */
#define WITH_MARGIN(name, type, by, inputs)                                           \
    td_module *td_nn_##name(td_ctx *cx, double margin, const td_nn_loss_opts *opts) { \
        static const row r = ROW(type, by, inputs);                                   \
        return make(cx, &r, (loss){.margin = margin}, opts);                          \
    }
SIMPLE(l1_loss, "L1Loss", l1)
SIMPLE(mse_loss, "MSELoss", mse)
SIMPLE(cross_entropy_loss, "CrossEntropyLoss", cross_entropy)
SIMPLE(nll_loss, "NLLLoss", nll)
SIMPLE(bce_loss, "BCELoss", bce)
SIMPLE(bce_with_logits_loss, "BCEWithLogitsLoss", bce_logits)
SIMPLE(kl_div_loss, "KLDivLoss", kl_div)
SIMPLE(poisson_nll_loss, "PoissonNLLLoss", poisson)
SIMPLE(soft_margin_loss, "SoftMarginLoss", soft_margin)
SIMPLE(multilabel_margin_loss, "MultiLabelMarginLoss", multilabel)
SIMPLE(multilabel_soft_margin_loss, "MultiLabelSoftMarginLoss", multilabel_soft)
WITH_MARGIN(smooth_l1_loss, "SmoothL1Loss", smooth_l1, 2)
WITH_MARGIN(huber_loss, "HuberLoss", huber, 2)
WITH_MARGIN(hinge_embedding_loss, "HingeEmbeddingLoss", hinge, 2)
WITH_MARGIN(margin_ranking_loss, "MarginRankingLoss", ranking, 3)
WITH_MARGIN(cosine_embedding_loss, "CosineEmbeddingLoss", cosine, 3)
WITH_MARGIN(triplet_margin_loss, "TripletMarginLoss", triplet, 3)

td_module *td_nn_gaussian_nll_loss(td_ctx *cx, const td_nn_loss_opts *opts) {
    static const row r = ROW("GaussianNLLLoss", gaussian, 3);
    return make(cx, &r, (loss){.fn = NULL}, opts);
}
td_module *td_nn_ctc_loss(td_ctx *cx, const td_nn_loss_opts *opts) {
    static const row r = ROW("CTCLoss", ctc, 4);
    return make(cx, &r, (loss){.fn = NULL}, opts);
}
td_module *td_nn_multi_margin_loss(td_ctx *cx, int64_t p, double margin,
                                   const td_nn_loss_opts *opts) {
    static const row r = ROW("MultiMarginLoss", multi_margin, 2);
    return make(cx, &r, (loss){.power = p, .margin = margin}, opts);
}
td_module *td_nn_triplet_margin_with_distance_loss(td_ctx *cx, td_distance_fn *by,
                                                   void *env, double margin,
                                                   const td_nn_loss_opts *opts) {
    static const row r = ROW("TripletMarginWithDistanceLoss", triplet_by, 3);
    if (!(margin > 0)) {
        td__fail(cx, TD_E_ARG, "%s: margin is %g; it must be above 0", r.type.name,
                 margin);
        return TD_NIL(cx, MODULE);
    }
    return make(cx, &r, (loss){.distance = by, .env = env, .margin = margin}, opts);
}

/* tower_help.h -- a network with everything a compiled module has to care for: a tied
 * weight, a buffer that is written in training, a mode that changes what it does. */
#ifndef TD_TOWER_HELP_H
#define TD_TOWER_HELP_H

#include "tandem/tandem.h"

#include <stdio.h>
#include <string.h>

typedef struct norm {
    td_tensor *weight, *bias, *mean, *var;
} norm;

static inline bool norm_forward(td_module *m, td_call *c) {
    norm *n = td_module_state(m);
    return td_return(c, td_batch_norm(td_arg(c, 0), n->weight, n->bias, n->mean, n->var,
                                      td_module_training(m), 0.1, 1e-5));
}

static const td_module_type norm_type = {.name = "BatchNorm1d",
                                         .bytes = sizeof(norm),
                                         .forward = norm_forward};

typedef struct tower {
    td_tensor *in, *out; /* one tensor, unless untied */
    td_module *norm;
} tower;

/* [N,3] -> [N,3]: in' norm(in x), and a sum of it. */
static inline bool tower_forward(td_module *m, td_call *c) {
    tower     *t = td_module_state(m);
    td_tensor *h = td_matmul(td_arg(c, 0), t->in);
    h = td_tanh(td_module_call(t->norm, TD_ARGS(h)));
    h = td_matmul(h, td_transpose(t->out, 0, 1));
    return td_return(c, h, td_sum(h));
}

static const td_module_type tower_type = {.name = "Tower",
                                          .bytes = sizeof(tower),
                                          .forward = tower_forward};

static inline td_module *norm_make(td_ctx *cx) {
    td_module *m = td_module_make(cx, &norm_type);
    if (td_is_nil(m)) return NULL;
    norm *n = td_module_state(m);
    n->weight = td_module_param(m, "weight", td_ones(cx, TD_SHAPE(2)));
    n->bias = td_module_param(m, "bias", td_zeros(cx, TD_SHAPE(2)));
    n->mean = td_module_buffer(m, "mean", td_zeros(cx, TD_SHAPE(2)), true);
    n->var = td_module_buffer(m, "var", td_ones(cx, TD_SHAPE(2)), true);
    if (td_ok(cx)) return m;
    td_module_free(m);
    return NULL;
}

/* NULL after a failure. */
static inline td_module *tower_make(td_ctx *cx) {
    td_module *m = td_module_make(cx, &tower_type), *n = m ? norm_make(cx) : NULL;
    if (td_is_nil(m)) return NULL;
    tower *t = td_module_state(m);
    td_module_param(m, "in", td_randn(cx, TD_SHAPE(3, 2)));
    if (td_ok(cx)) td_module_param(m, "out", td_module_get(m, "in"));
    if (n && !(t->norm = td_module_child(m, "norm", n))) td_module_free(n);
    if (td_ok(cx) && td_module_follow(m, "in", &t->in) &&
        td_module_follow(m, "out", &t->out))
        return m;
    td_module_free(m);
    return NULL;
}

static inline bool aot_near(td_tensor *a, td_tensor *b) {
    return !td_is_nil(a) && !td_is_nil(b) && td_numel(a) == td_numel(b) &&
           td_item(td_max(td_abs(td_sub(a, b)))) < 1e-5;
}

static inline bool aot_says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static inline const char *aot_text(const td_graph *g) {
    static char text[20000];
    td_graph_format(g, text, sizeof text);
    return text;
}

#endif

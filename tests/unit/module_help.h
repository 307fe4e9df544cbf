/* module_help.h -- the model of module_torch.h as a module: an embedding whose weight
 * is the head's too, two linear layers, one buffer for files and one not. */
#ifndef TD_MODULE_HELP_H
#define TD_MODULE_HELP_H

#include "tandem/tandem.h"

typedef struct linear {
    td_tensor *weight, *bias;
} linear;

static inline bool linear_forward(td_module *m, td_call *c) {
    linear *l = td_module_state(m);
    return td_return(c, td_linear(td_arg(c, 0), l->weight, l->bias));
}

static const td_module_type linear_type = {.name = "Linear",
                                           .bytes = sizeof(linear),
                                           .forward = linear_forward};

static inline td_module *linear_make(td_ctx *cx, int in, int out, bool bias) {
    td_module *m = td_module_make(cx, &linear_type);
    if (td_is_nil(m)) return NULL;
    linear *l = td_module_state(m);
    td_module_param(m, "weight", td_randn(cx, TD_SHAPE(out, in)));
    td_module_param(m, "bias", bias ? td_randn(cx, TD_SHAPE(out)) : NULL);
    if (td_ok(cx) && td_module_follow(m, "weight", &l->weight) &&
        td_module_follow(m, "bias", &l->bias))
        return m;
    td_module_free(m);
    return NULL;
}

static const td_module_type list_type = {.name = "ModuleList"};
static const td_module_type tok_type = {.name = "Embedding"};

static inline bool net_forward(td_module *m, td_call *c) {
    td_tensor *h = td_embedding(td_module_get(m, "tok.weight"), td_arg(c, 0));
    td_module *layers = td_module_find(m, "layers");
    for (int i = 0; i < td_module_children(layers); i++)
        h = td_tanh(td_module_call(td_module_child_at(layers, i, NULL), TD_ARGS(h)));
    h = td_mul(h, td_module_get(m, "mask"));
    return td_return(c, td_module_call(td_module_find(m, "head"), TD_ARGS(h)));
}

static const td_module_type net_type = {.name = "Net", .forward = net_forward};

/* Adds the child, or frees it: what failed is of no use. */
static inline td_module *net_add(td_module *m, const char *name, td_module *child) {
    if (child && td_is_nil(td_module_child(m, name, child)))
        td_module_free(child), child = NULL;
    return child;
}

/* NULL after a failure. */
static inline td_module *net_make(td_ctx *cx) {
    static const float mask[] = {1, 0, 1};
    td_module         *m = td_module_make(cx, &net_type);
    if (td_is_nil(m)) return NULL;
    td_module *tok = net_add(m, "tok", td_module_make(cx, &tok_type));
    td_module *layers = net_add(m, "layers", td_module_make(cx, &list_type));
    td_module *head = net_add(m, "head", linear_make(cx, 3, 4, false));
    if (tok) td_module_param(tok, "weight", td_randn(cx, TD_SHAPE(4, 3)));
    if (layers) net_add(layers, "0", linear_make(cx, 3, 3, true));
    if (layers) net_add(layers, "1", linear_make(cx, 3, 3, false));
    td_module_buffer(m, "steps", td_zeros(cx, TD_SHAPE(), TD_I64), true);
    td_module_buffer(m, "mask", td_from(cx, TD_F32, TD_SHAPE(3), mask), false);
    if (td_ok(cx) && head)
        td_module_set(head, "weight", td_module_get(m, "tok.weight"));
    if (td_ok(cx)) return m;
    td_module_free(m);
    return NULL;
}

#endif

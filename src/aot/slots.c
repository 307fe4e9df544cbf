/* slots.c -- td_slot, the public description of a graph's inputs and outputs, from
 * the descriptors of the graph. */
#include "aot/slots.h"

/* A slot with the type in l, which may be NULL; its index is -1. */
static td_slot typed(const td_gtype *l) {
    td_slot s = {.index = -1};
    if (!l || l->kind != TD_K_TENSOR) return s;
    s.tensor = true;
    s.requires_grad = l->grad;
    s.dtype = (td_dtype)l->dtype;
    s.rank = l->rank;
    s.size = l->size;
    return s;
}

static td_slot_kind kind_of(const td_desc *d) {
    switch ((td_desc_kind)d->kind) {
    case TD_D_PARAM: return TD_SLOT_PARAM;
    case TD_D_BUFFER: return TD_SLOT_BUFFER;
    case TD_D_CONST: return TD_SLOT_CONST;
    case TD_D_TANGENT: return TD_SLOT_TANGENT;
    case TD_D_UPDATE: return TD_SLOT_UPDATE;
    case TD_D_META_UPDATE: return TD_SLOT_META_UPDATE;
    case TD_D_BASE: return TD_SLOT_BASE;
    case TD_D_LOSS: return TD_SLOT_LOSS;
    case TD_D_GRAD: return TD_SLOT_GRAD;
    case TD_D_SEED: return TD_SLOT_SEED;
    case TD_D_OFFSET: return TD_SLOT_OFFSET;
    case TD_D_TOKEN: return TD_SLOT_TOKEN;
    default: return TD_SLOT_PLAIN;
    }
}

/* The number of descriptors before i that have its kind, or the kind `or`. */
static int nth(const td_desc *d, int i, uint8_t or) {
    int n = 0;
    for (int k = 0; k < i; k++) n += d[k].kind == d[i].kind || d[k].kind == or ;
    return n;
}

td_slot td__slot_in(const td_graph *g, int i) {
    if (i < 0 || i >= g->inputs.n) return (td_slot){.index = -1};
    const td_desc *d = &g->in_desc.v[i];
    td_slot        s = typed(g->inputs.v[i]->type);
    s.kind = kind_of(d);
    s.index = d->index >= 0 ? d->index : nth(g->in_desc.v, i, d->kind);
    s.name = d->name;
    return s;
}

/* For an update or a gradient: the name of the input that it belongs to. */
static const char *name_of(const td_graph *g, const td_slot *s) {
    bool about = s->kind == TD_SLOT_UPDATE || s->kind == TD_SLOT_META_UPDATE ||
                 s->kind == TD_SLOT_GRAD;
    if (!about || s->index < 0 || s->index >= g->inputs.n) return NULL;
    return g->in_desc.v[s->index].name;
}

/* The description of an output for users; a loss without an index is numbered among the
 * losses. */
td_slot td__slot_out(const td_graph *g, int i) {
    if (i < 0 || i >= g->outputs.n) return (td_slot){.index = -1};
    const td_desc *d = &g->out_desc.v[i];
    const td_garg *a = &g->outputs.v[i];
    td_slot        s = typed(a->kind == TD_G_VALUE ? a->u.v->type : NULL);
    s.tensor = a->kind == TD_G_VALUE;
    s.kind = kind_of(d);
    s.index = d->index >= 0 ? d->index : nth(g->out_desc.v, i, TD_D_LOSS);
    s.name = d->name ? d->name : name_of(g, &s);
    return s;
}

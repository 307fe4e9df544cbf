/* graph_json.c -- a graph as JSON, for tools; docs/text-format.md has its keys. */
#include "core/utf8.h"
#include "graph/graph_int.h"

/* ---- strings and numbers ------------------------------------------------ */

/* JSON is UTF-8: other bytes are written as \\xHH, as in the text form. */
void td__json_string(td_buf *b, const char *s) {
    td__buf_add(b, "\"");
    while (*s) {
        unsigned char c = (unsigned char)*s;
        int           n = td__utf8_step(s);
        if (c == '"' || c == '\\') td__buf_printf(b, "\\%c", c);
        else if (c < 0x20 || c == 0x7f) td__buf_printf(b, "\\u%04x", c);
        else if (!n) td__buf_printf(b, "\\\\x%02x", c);
        else td__buf_addn(b, s, (size_t)n);
        s += n ? n : 1;
    }
    td__buf_add(b, "\"");
}

/* inf and nan are strings, because JSON has no numbers for them. */
void td__json_float(td_buf *b, td_dtype dt, double f) {
    bool plain = f - f == 0;
    if (!plain) td__buf_add(b, "\"");
    td__text_float_as(b, dt, f);
    if (!plain) td__buf_add(b, "\"");
}

/* A size: a number, or a string for a symbolic one. */
static void json_dim(td_buf *b, const td_graph *g, int64_t dim) {
    bool symbolic = td__gdim_at(g, dim) != NULL;
    if (symbolic) td__buf_add(b, "\"");
    td__text_dim(b, g, dim);
    if (symbolic) td__buf_add(b, "\"");
}

static void json_dims(td_buf *b, const td_graph *g, const int64_t *v, int n) {
    td__buf_add(b, "[");
    for (int i = 0; i < n; i++) {
        if (i) td__buf_add(b, ",");
        json_dim(b, g, v[i]);
    }
    td__buf_add(b, "]");
}

/* ---- values ------------------------------------------------------------- */

/* All fields, also where the text format leaves out defaults. */
static void json_type(td_buf *b, const td_labels *l, const td_gtype *type) {
    static const char *const kinds[] = {
        [TD_K_INT] = "int", [TD_K_FLOAT] = "float", [TD_K_BOOL] = "bool"};
    if (type->kind != TD_K_TENSOR) {
        td__buf_printf(b, ",\"type\":\"%s\"", kinds[type->kind]);
        if (!td__dim_is_sym(type->offset)) return;
        td__buf_add(b, ",\"size\":");
        json_dim(b, l->g, type->offset);
        return;
    }
    td__buf_printf(b, ",\"type\":\"tensor\",\"dtype\":\"%s\",\"sizes\":",
                   td_dtype_name((td_dtype)type->dtype));
    json_dims(b, l->g, type->size, type->rank);
    td__buf_add(b, ",\"strides\":");
    json_dims(b, l->g, type->stride, type->rank);
    td__buf_add(b, ",\"offset\":");
    json_dim(b, l->g, type->offset);
    td__buf_printf(b, ",\"requires_grad\":%s", type->grad ? "true" : "false");
    if (type->storage >= 0 && l->storage[type->storage] >= 0)
        td__buf_printf(b, ",\"storage\":%d", (int)l->storage[type->storage]);
}

static void json_value(td_buf *b, const td_labels *l, const td_gval *v) {
    td__buf_add(b, "{\"name\":");
    td__json_string(b, l->name[v->id]);
    if (v->type) json_type(b, l, v->type);
}

static void json_desc(td_buf *b, const td_desc *d) {
    if (d->kind == TD_D_PLAIN && d->index < 0 && !d->name) return;
    td__buf_printf(b, ",\"is\":\"%s\"", td__desc_words[d->kind]);
    if (d->index >= 0) td__buf_printf(b, ",\"of\":%d", (int)d->index);
    if (!d->name) return;
    td__buf_add(b, ",\"called\":");
    td__json_string(b, d->name);
}

/* ---- arguments ---------------------------------------------------------- */

static void json_graph(td_buf *b, const td_graph *g);

static void json_list(td_buf *b, const td_labels *l, const td_garg *a);

static void json_arg(td_buf *b, const td_labels *l, const td_garg *a) {
    switch ((td_gkind)a->kind) {
    case TD_G_NONE: td__buf_add(b, "null"); break;
    case TD_G_VALUE:
        td__buf_add(b, "{\"value\":");
        td__json_string(b, l->name[a->u.v->id]);
        td__buf_add(b, "}");
        break;
    case TD_G_INT: td__buf_printf(b, "%lld", (long long)a->u.i); break;
    case TD_G_SYM:
        td__buf_add(b, "{\"size\":");
        json_dim(b, l->g, a->u.i);
        td__buf_add(b, "}");
        break;
    case TD_G_FLOAT: /* tagged, because many JSON readers do not tell 1.0 from 1 */
        td__buf_add(b, "{\"float\":");
        td__json_float(b, TD_F64, a->u.f);
        td__buf_add(b, "}");
        break;
    case TD_G_BOOL: td__buf_add(b, a->u.i ? "true" : "false"); break;
    case TD_G_DTYPE:
        td__buf_printf(b, "{\"dtype\":\"%s\"}", td_dtype_name(a->u.dt));
        break;
    case TD_G_INTS: json_dims(b, l->g, a->u.ints, (int)a->n); break;
    case TD_G_LIST: json_list(b, l, a); break;
    case TD_G_STR: td__json_string(b, a->u.s); break;
    case TD_G_GRAPH:
        td__buf_add(b, "{\"graph\":");
        json_graph(b, a->u.g);
        td__buf_add(b, "}");
        break;
    }
}

static void json_list(td_buf *b, const td_labels *l, const td_garg *a) {
    td__buf_add(b, "[");
    for (uint32_t i = 0; i < a->n; i++) {
        if (i) td__buf_add(b, ",");
        json_arg(b, l, &a->u.list[i]);
    }
    td__buf_add(b, "]");
}

/* ---- graphs ------------------------------------------------------------- */

/* Field names are part of the interface of `tandem show --json` (docs/text-
 * format.md). */
static void json_node(td_buf *b, const td_labels *l, const td_gnode *n) {
    if (n->kind != TD_N_OP) {
        if (n->kind == TD_N_LEAVE) td__buf_add(b, "{\"leave\":true}");
        else td__buf_printf(b, "{\"enter\":\"%s\"}", td__region_words[n->region]);
        return;
    }
    td__buf_printf(b, "{\"op\":\"%s\",\"args\":[", td__row(n->op)->name);
    for (int i = 0; i < n->n_in; i++) {
        if (i) td__buf_add(b, ",");
        json_arg(b, l, &n->in[i]);
    }
    td__buf_add(b, "],\"results\":[");
    for (int i = 0; i < n->n_out; i++) {
        if (i) td__buf_add(b, ",");
        json_value(b, l, n->out[i]);
        td__buf_add(b, "}");
    }
    td__buf_add(b, "]");
    if (n->origin == TD_FROM_BACKWARD) td__buf_add(b, ",\"backward\":true");
    if (n->origin == TD_FROM_AGAIN) td__buf_add(b, ",\"again\":true");
    if (n->tags)
        td__buf_printf(b, ",\"%s\":%d", td__policy_words[TD_TAG_POLICY(n->tags)],
                       TD_TAG_REGION(n->tags));
    if (n->here.file) {
        td__buf_add(b, ",\"file\":");
        td__json_string(b, n->here.file);
        td__buf_printf(b, ",\"line\":%d", n->here.line);
    }
    if (n->stack) {
        td__buf_add(b, ",\"stack\":[");
        for (const td_place *p = n->stack; p; p = p->up) {
            td__buf_add(b, "{\"file\":");
            td__json_string(b, p->here.file);
            td__buf_printf(b, ",\"line\":%d}%s", p->here.line, p->up ? "," : "]");
        }
    }
    if (n->scope) {
        td__buf_add(b, ",\"scope\":");
        td__json_string(b, n->scope);
    }
    td__buf_add(b, "}");
}

static void json_inputs(td_buf *b, const td_labels *l) {
    const td_graph *g = l->g;
    for (int i = 0; i < g->inputs.n; i++) {
        td__buf_add(b, i ? ",\n  " : "\n  ");
        json_value(b, l, g->inputs.v[i]);
        json_desc(b, &g->in_desc.v[i]);
        if (td__is_literal(g, i)) {
            td__buf_add(b, ",\"elements\":");
            td__json_elements(b, g->consts.v[g->in_desc.v[i].index]);
        }
        td__buf_add(b, "}");
    }
}

static void json_graph(td_buf *b, const td_graph *g) {
    td_labels l;
    if (!td__labels_make(&l, g, TD_PRINT_TYPES)) {
        b->failed = true;
        return;
    }
    td__buf_add(b, "{\"name\":");
    td__json_string(b, g->name);
    td__buf_add(b, ",\n \"inputs\":[");
    json_inputs(b, &l);
    td__buf_add(b, "],\n \"nodes\":[");
    for (int i = 0, any = 0; i < g->nodes.n; i++) {
        if (g->nodes.v[i]->dead) continue;
        td__buf_add(b, any++ ? ",\n  " : "\n  ");
        json_node(b, &l, g->nodes.v[i]);
    }
    td__buf_add(b, "],\n \"outputs\":[");
    for (int i = 0; i < g->outputs.n; i++) {
        td__buf_add(b, i ? ",\n  {\"arg\":" : "\n  {\"arg\":");
        json_arg(b, &l, &g->outputs.v[i]);
        json_desc(b, &g->out_desc.v[i]);
        td__buf_add(b, "}");
    }
    td__buf_add(b, "]}");
    td__labels_free(&l);
}

bool td__graph_json(td_buf *b, const td_graph *g) {
    json_graph(b, g);
    return !b->failed || td__fail_memory(g->cx);
}

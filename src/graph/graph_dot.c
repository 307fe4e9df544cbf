/* graph_dot.c -- a graph in Graphviz format: `tandem show --dot f.td | dot
 * -Tsvg`. Boxes are ops, arrows are values; writing ops have a double border,
 * backward nodes are tinted, region edges are labels. */
#include "graph/graph_int.h"

/* Escapes quotes and backslashes; control characters become blanks. */
static void dot_text(td_buf *b, const char *s) {
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') td__buf_add(b, "\\");
        td__buf_addn(b, (unsigned char)*s < 0x20 ? " " : s, 1);
    }
}

static void dot_type(td_buf *b, const td_labels *l, const td_gval *v) {
    td_buf t = {0};
    if (!v->type) return;
    td__text_type(&t, l, v->type);
    dot_text(b, td__buf_str(&t));
    td__buf_free(&t);
}

/* The node name an arrow starts at. */
static void dot_source(td_buf *b, const td_gval *v) {
    if (v->node) td__buf_printf(b, "n%d", (int)v->node->id);
    else td__buf_printf(b, "i%d", (int)v->nr);
}

/* Where arrows end. */
typedef struct arrow {
    td_buf          *b;
    const td_labels *l;
    int              to;
    char             kind; /* n: node, o: output */
} arrow;

static void dot_arrow(void *env, td_gval *v) {
    arrow *a = env;
    td__buf_add(a->b, "  ");
    dot_source(a->b, v);
    td__buf_printf(a->b, " -> %c%d [label=\"%%", a->kind, a->to);
    dot_text(a->b, a->l->name[v->id]);
    td__buf_add(a->b, " ");
    dot_type(a->b, a->l, v);
    td__buf_add(a->b, "\"];\n");
}

static bool has_value(const td_garg *a) {
    return a->kind == TD_G_VALUE || (a->kind == TD_G_LIST && a->n > 0) ||
           a->kind == TD_G_GRAPH;
}

/* Ops that write have a double border, backward nodes a colour; arguments that are no
 * values are in the label. */
static void dot_node(td_buf *b, const td_labels *l, const td_gnode *n) {
    td__buf_printf(b, "  n%d [label=\"%s", (int)n->id, td__row(n->op)->name);
    for (int i = 0; i < n->n_in; i++) {
        td_buf t = {0};
        if (has_value(&n->in[i])) continue;
        td__text_arg(&t, l, &n->in[i], 0);
        td__buf_add(b, "\\n");
        td__buf_printf(b, "%s ", td__opinfo(n->op)->s.in[i].name);
        dot_text(b, td__buf_str(&t));
        td__buf_free(&t);
    }
    td__buf_printf(b, "\"%s%s];\n", td__opinfo(n->op)->writes ? ", peripheries=2" : "",
                   n->origin == TD_FROM_BACKWARD ? ", style=filled, fillcolor=mistyrose"
                                                 : "");
    arrow a = {b, l, n->id, 'n'};
    for (int i = 0; i < n->n_in; i++) td__garg_each(&n->in[i], dot_arrow, &a);
}

/* Inputs and outputs as ellipses with their types and descriptors. */
static void dot_ends(td_buf *b, const td_labels *l) {
    const td_graph *g = l->g;
    for (int i = 0; i < g->inputs.n; i++) {
        td__buf_printf(b, "  i%d [shape=ellipse, label=\"%%", i);
        dot_text(b, l->name[g->inputs.v[i]->id]);
        td__buf_add(b, "\\n");
        dot_type(b, l, g->inputs.v[i]);
        td_buf t = {0};
        td__text_desc(&t, &g->in_desc.v[i]);
        dot_text(b, td__buf_str(&t));
        td__buf_free(&t);
        td__buf_add(b, "\"];\n");
    }
    for (int i = 0; i < g->outputs.n; i++) {
        td_buf t = {0};
        td__text_arg(&t, l, &g->outputs.v[i], 0);
        td__text_desc(&t, &g->out_desc.v[i]);
        td__buf_printf(b, "  o%d [shape=ellipse, label=\"output %d\\n", i, i);
        dot_text(b, td__buf_str(&t));
        td__buf_add(b, "\"];\n");
        td__buf_free(&t);
        arrow a = {b, l, i, 'o'};
        td__garg_each(&g->outputs.v[i], dot_arrow, &a);
    }
}

/* The begin or end of a region. */
static void dot_edge(td_buf *b, const td_gnode *n) {
    bool enter = n->kind == TD_N_ENTER;
    td__buf_printf(b, "  n%d [shape=plaintext, label=\"%s%s\"];\n", (int)n->id,
                   enter ? "begin " : "end", enter ? td__region_words[n->region] : "");
}

bool td__graph_dot(td_buf *b, const td_graph *g) {
    td_labels l;
    if (!td__labels_make(&l, g, TD_PRINT_TYPES)) return false;
    td__buf_add(b, "digraph \"");
    dot_text(b, g->name);
    td__buf_add(b, "\" {\n  node [shape=box, fontname=monospace];\n"
                   "  edge [fontname=monospace, fontsize=10];\n");
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->dead) continue;
        if (n->kind == TD_N_OP) dot_node(b, &l, n);
        else dot_edge(b, n);
    }
    dot_ends(b, &l);
    td__buf_add(b, "}\n");
    td__labels_free(&l);
    return !b->failed || td__fail_memory(g->cx);
}

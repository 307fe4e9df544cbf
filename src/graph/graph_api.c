/* graph_api.c -- the public functions of graphs (tandem/graph.h). */
#include "tandem/graph.h"

#include "graph/graph_int.h"

static void end(void *object) { td__gfile_drop(object); }

static td_gfile *own(td_ctx *cx, td_gfile *f) {
    return f ? td__handle_own(f, end) : TD_NIL(cx, GFILE);
}

td_gfile *td_graphs_read(td_ctx *cx, const char *path) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, GFILE);
    return own(cx, td__gfile_read(cx, path));
}

td_gfile *td_graphs_parse(td_ctx *cx, const char *text, size_t n, const char *name) {
    if (!TD_ENTER_CTX(cx) || (n && !td__has(cx, "td_graphs_parse", "the text", text)))
        return TD_NIL(cx, GFILE);
    return own(cx, td__gfile_parse(cx, text, n, name ? name : "text"));
}

void td_graphs_drop(td_gfile *f) {
    if (TD_MAY_FREE(f, GFILE)) td__gfile_drop(f);
}
int td_graphs_count(const td_gfile *f) {
    if (!TD_ENTER(f, GFILE)) return 0;
    return f->graphs.n;
}
td_graph *td_graphs_at(const td_gfile *f, int i) {
    if (!TD_ENTER(f, GFILE)) return NULL;
    return i >= 0 && i < f->graphs.n ? f->graphs.v[i] : NULL;
}
td_graph *td_graphs_find(const td_gfile *f, const char *name) {
    if (!TD_ENTER(f, GFILE)) return NULL;
    return name ? td__gfile_find(f, name) : NULL;
}

td_ctx *td_graph_ctx(const td_graph *g) {
    if (!TD_ENTER(g, GRAPH)) return td__ctx_of_any(g);
    return g->cx;
}
const char *td_graph_name(const td_graph *g) {
    if (!TD_ENTER(g, GRAPH)) return "";
    return g->name;
}
int td_graph_outputs(const td_graph *g) {
    if (!TD_ENTER(g, GRAPH)) return 0;
    return g->outputs.n;
}
int td_graph_nodes(const td_graph *g) {
    if (!TD_ENTER(g, GRAPH)) return 0;
    return g->nodes.n;
}
uint64_t td_graph_hash(const td_graph *g) {
    if (!TD_ENTER(g, GRAPH)) return 0;
    return td__graph_hash(g);
}

/* Consts are not counted: the graph supplies them itself. */
int td_graph_inputs(const td_graph *g) {
    if (!TD_ENTER(g, GRAPH)) return 0;
    int n = 0;
    for (int i = 0; i < g->inputs.n; i++) n += !td__is_const_input(g, i);
    return n;
}

size_t td_graph_format(const td_graph *g, char *out, size_t cap) {
    if (!TD_ENTER(g, GRAPH)) return td__text_out("", 0, out, cap);
    td_buf b = {0};
    size_t n = td__graph_print(&b, g, TD_PRINT_TYPES) ? b.n : 0;
    td__text_out(td__buf_str(&b), n, out, cap);
    td__buf_free(&b);
    return n;
}

/* Can x be input i of g? An absent value can, if the graph does not read it, as in a
 * backward some of whose tangents are missing. */
static bool check_input(const td_graph *g, int i, td_value x, bool reads) {
    static const char who[] = "td_graph_run";
    const char       *name = g->inputs.v[i]->name ? g->inputs.v[i]->name : "";
    if (x.kind == TD_K_TENSOR && x.u.t && !td__enter_in(g->cx, x.u.t, TD_H_TENSOR, who))
        return false;
    if (x.kind == TD_K_TENSOR && (!x.u.t || x.u.t->cx != g->cx))
        return td__fail(g->cx, TD_E_ARG,
                        "%s: input %%%.60s of @%.60s is NULL or a tensor of another "
                        "context",
                        who, name, g->name);
    if (x.kind == TD_K_TENSOR || x.kind == TD_K_INT || x.kind == TD_K_FLOAT ||
        x.kind == TD_K_BOOL || (x.kind == TD_K_NONE && !reads))
        return true;
    return td__fail(g->cx, TD_E_ARG,
                    "%s: input %%%.60s of @%.60s is %s; pass a tensor or a number", who,
                    name, g->name,
                    x.kind == TD_K_NONE ? "absent, and the graph reads it"
                                        : "neither a tensor nor a number");
}

/* all[0..g->inputs.n) gets the caller's inputs; constants, which the graph supplies
 * itself, stay absent. */
static bool take_inputs(const td_graph *g, const td_value *in, int n_in,
                        td_value *all) {
    int   want = td_graph_inputs(g), k = 0;
    bool *reads = td__zalloc((size_t)g->inputs.n + 1);
    bool  ok = reads || td__fail_memory(g->cx);
    if (ok && n_in != want)
        ok = td__fail(g->cx, TD_E_ARG, "td_graph_run: @%.60s takes %d inputs, got %d",
                      g->name, want, n_in);
    if (ok) td__graph_reads(g, reads);
    for (int i = 0; ok && i < g->inputs.n; i++) {
        if (td__is_const_input(g, i)) continue;
        all[i] = in[k++];
        ok = check_input(g, i, all[i], reads[i]);
    }
    td__free(reads);
    return ok;
}

bool td_graph_run(const td_graph *g, const td_value *in, int n_in, td_value *out,
                  int n_out) {
    static const char who[] = "td_graph_run";
    if (!TD_ENTER(g, GRAPH) || !td__has_list(g->cx, who, in, n_in) ||
        !td__has_room(g->cx, who, out, n_out)) {
        td__nil_values(td__ctx_of_any(g), out, n_out);
        return false;
    }
    td_value *all = td__zalloc(sizeof *all * ((size_t)g->inputs.n + 1));
    bool      ok = all || td__fail_memory(g->cx);
    ok = ok && take_inputs(g, in, n_in, all);
    if (ok && n_out != g->outputs.n)
        ok = td__fail(g->cx, TD_E_ARG,
                      "td_graph_run: @%.60s has %d outputs, but n_out is %d", g->name,
                      g->outputs.n, n_out);
    ok = ok && td__graph_replay(g, all, out);
    for (int i = 0; !ok && i < n_out; i++) out[i] = td_value_tensor(td_nil(g->cx));
    td__free(all);
    return ok;
}

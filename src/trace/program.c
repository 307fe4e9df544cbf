/* program.c -- a captured body as users hold it: the graph, and what it was captured
 * for. */
#include "trace/trace.h"

#include <string.h>

struct td_program {
    td_graph *g;
    int       n_args;
    td_value *args; /* numbers and what is absent; tensors are NULL */
};

void td_program_drop(td_program *p) {
    if (!p) return;
    td__graph_drop(p->g);
    td__free(p->args);
    td__free(p);
}

td_program *td_capture(td_ctx *cx, td_body *body, void *env, td_values args) {
    td_program *p = td__zalloc(sizeof *p);
    td_value   *v = td__alloc(sizeof *v * ((size_t)args.n + 1));
    td_graph   *g = p && v ? td__capture(cx, body, env, args) : NULL;
    if (!g) {
        if (!p || !v) td__fail_memory(cx);
        td__free(p);
        td__free(v);
        return NULL;
    }
    for (int i = 0; i < args.n; i++) {
        v[i] = args.v[i];
        if (v[i].kind != TD_K_TENSOR) continue;
        v[i] = v[i].u.t ? td_value_tensor(NULL) : TD_NONE;
    }
    *p = (td_program){.g = g, .n_args = args.n, .args = v};
    return p;
}

int td_program_results(const td_program *p) { return p->g->outputs.n; }

size_t td_program_text(const td_program *p, char *out, size_t cap) {
    td_buf b = {0};
    size_t n = td__graph_print(&b, p->g, TD_PRINT_TYPES) ? b.n : 0;
    if (cap) {
        size_t fits = n < cap - 1 ? n : cap - 1;
        memcpy(out, td__buf_str(&b), fits);
        out[fits] = 0;
    }
    td__buf_free(&b);
    return n;
}

/* ---- running ------------------------------------------------------------ */

static bool looks_like(const td_tensor *t, const td_look *l) {
    size_t n = sizeof(int64_t) * t->rank;
    return l->dtype == t->dtype && l->rank == t->rank && !memcmp(l->size, t->size, n) &&
           !memcmp(l->stride, t->stride, n) && l->grad == td__needs_grad(t);
}

/* Argument i as an input of the graph; *at counts inputs. */
static bool take_arg(td_program *p, td_value v, int i, td_value *in, int *at) {
    td_ctx  *cx = p->g->cx;
    td_value was = p->args[i];
    if (v.kind == TD_K_TENSOR && !v.u.t) v = TD_NONE;
    if (was.kind == TD_K_TENSOR) {
        const td_look *l = p->g->inputs.v[*at]->look;
        if (v.kind != TD_K_TENSOR || td_is_nil(v.u.t) || v.u.t->cx != cx)
            return td__fail(cx, TD_E_ARG, "program: argument %d must be a tensor", i);
        if (!looks_like(v.u.t, l))
            return td__fail(cx, TD_E_ARG,
                            "program: argument %d is %s, captured was one of another "
                            "dtype, size, stride or requires-grad: %s[%d dims]",
                            i, td__type_str(v.u.t), td_dtype_name((td_dtype)l->dtype),
                            l->rank);
        in[(*at)++] = v;
        return true;
    }
    bool same = v.kind == was.kind &&
                (v.kind == TD_K_NONE || !memcmp(&v.u.i, &was.u.i, sizeof v.u.i));
    return same || td__fail(cx, TD_E_ARG,
                            "program: argument %d is another number than at capture; "
                            "numbers are part of a program",
                            i);
}

/* Which arguments share storage decides what a write does to the others. */
static bool same_sharing(td_program *p, const td_value *in, int n) {
    td_graph *g = p->g;
    td_ptrmap first = {0}; /* by bytes and by look: the first input with them */
    bool      ok = true;
    for (int i = 0; i < n && ok; i++) {
        const td_storage *st = in[i].u.t->st;
        const void       *bytes = st->data ? st->data : (const void *)st;
        const void       *look = &g->inputs.v[g->inputs.v[i]->look->storage];
        td_gval          *a = td__ptrmap_get(&first, bytes);
        td_gval          *b = td__ptrmap_get(&first, look);
        if (a != b)
            ok = td__fail(
                g->cx, TD_E_ARG,
                "program: tensor %d %s storage with another, unlike at capture", i,
                a ? "shares" : "does not share");
        else if (!a)
            ok = (td__ptrmap_put(&first, bytes, g->inputs.v[i]) &&
                  td__ptrmap_put(&first, look, g->inputs.v[i])) ||
                 td__fail_memory(g->cx);
    }
    td__ptrmap_free(&first);
    return ok;
}

static bool run(td_program *p, td_values args, td_value *in, td_value *out) {
    int at = 0;
    for (int i = 0; i < args.n; i++)
        if (!take_arg(p, args.v[i], i, in, &at)) return false;
    return same_sharing(p, in, at) && td__graph_replay(p->g, in, out);
}

bool td_program_run(td_program *p, td_values args, td_value *out, int n_out) {
    const td_graph *g = p->g;
    td_ctx         *cx = g->cx;
    size_t          n = (size_t)(g->inputs.n + g->outputs.n + 1);
    td_value       *in = td__zalloc(sizeof *in * n);
    bool            ok = false;
    if (!in) td__fail_memory(cx);
    else if (args.n != p->n_args)
        td__fail(cx, TD_E_ARG, "program: %d arguments, it takes %d", args.n, p->n_args);
    else ok = run(p, args, in, in + g->inputs.n);
    for (int i = 0; i < n_out; i++)
        out[i] = ok && i < g->outputs.n ? in[g->inputs.n + i]
                 : ok                   ? TD_NONE
                                        : td_value_tensor(td_nil(cx));
    td__free(in);
    return ok;
}

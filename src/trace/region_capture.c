/* region_capture.c -- td_call_region: a body that is called many times. In a capture it
 * becomes a nested graph, and the call one op, region, whose operands are the arguments
 * and the tensors that the body closes over. Bodies that give equal graphs share
 * one. */
#include "trace/trace_int.h"

#include "core/config.h"
#include "core/typed.h"

#include <stdio.h>
#include <string.h>

/* One call of td_call_region. */
typedef struct region_call {
    td_ctx        *cx;
    td_region_body of;
    td_values      args;
    int            n_out;
    bool           plain; /* results are new tensors, never written */
    td_lift        lift;  /* tensors the body closes over */
    td_graph      *g;     /* referenced */
} region_call;

/* Calls the body, which must return n_out tensors. */
static bool call_body(const region_call *k, td_values args, td_value *out) {
    int n = k->n_out, got = td_call_body(k->cx, k->of.body, k->of.env, args, out, n);
    if (got < 0) return false;
    if (got != n)
        return td__fail(
            k->cx, TD_E_ARG,
            "td_call_region: the body returns %d results; the call expects %d", got, n);
    for (int i = 0; i < n; i++)
        if (out[i].kind != TD_K_TENSOR)
            return td__fail(
                k->cx, TD_E_ARG,
                "td_call_region: result %d of the body is a number or absent; a "
                "region returns tensors",
                i);
    return true;
}

/* The body that is captured. */
static bool region_body(td_call *c) {
    region_call *k = td_call_env(c);
    td_values    args = td__call_args(c);
    td_value    *out = td__zalloc(sizeof *out * ((size_t)k->n_out + 1));
    if (!out) return td__fail_memory(k->cx);
    bool ok = call_body(k, args, out);
    for (int i = 0; i < k->n_out && ok; i++) {
        bool outside;
        ok = td__result_copy(k->cx, &out[i].u.t, &outside);
        const td_tensor *t = out[i].u.t;
        k->plain &= ok && !outside && !t->base && !atomic_load(&t->st->version) &&
                    !td__shares_storage(t, args.v, args.n) &&
                    !td__shares_storage(t, out, i);
    }
    ok = ok && td_return_values(c, (td_values){out, k->n_out});
    td__free(out);
    return ok;
}

/* ---- regions of a capture ----------------------------------------------- */

/* Writes the key of a call: kinds, types, numbers and origins of the arguments, and
 * the modes, on which a body may depend besides its env: nothing has a gradient with
 * respect to a view that was made in no_grad mode. */
static int put_key(const region_call *k, int64_t *to) {
    int      n = 0;
    td_modes now = td__modes_of(&k->cx->ambient);
#define PUT(x) (to ? (void)(to[n] = (int64_t)(x)) : (void)0, n++)
    PUT(k->n_out);
    PUT(k->cx->grad_enabled | k->cx->inference << 1);
    PUT(now.default_dtype | now.device << 8);
    PUT(now.autocast);
    for (int i = 0; i < k->args.n; i++) {
        td_value         v = k->args.v[i];
        const td_tensor *t = v.kind == TD_K_TENSOR ? v.u.t : NULL;
        PUT(v.kind);
        if (!t) {
            PUT(v.kind == TD_K_NONE || v.kind == TD_K_TENSOR ? 0 : v.u.i);
            continue;
        }
        PUT(t->dtype | t->rank << 8 | td__needs_grad(t) << 16 | t->st->device << 20);
        PUT(t->creation | (t->base != NULL) << 8 | td_is_inference(t) << 9);
        for (int d = 0; d < t->rank; d++) PUT(t->size[d]);
        for (int d = 0; d < t->rank; d++) PUT(t->stride[d]);
        n += td__typed_key(t->typed, to ? to + n : NULL);
        int same = 0; /* the first argument that is this tensor */
        while (k->args.v[same].kind != TD_K_TENSOR || k->args.v[same].u.t != t) same++;
        PUT(same);
    }
#undef PUT
    return n;
}

/* A region with this key; NULL: none. *n and *key are for td__free. */
static td_captured_region *find_key(td_record *top, const region_call *k, int64_t **key,
                                    int *n) {
    *n = put_key(k, NULL);
    if (!(*key = td__alloc(sizeof **key * (size_t)*n))) return NULL;
    put_key(k, *key);
    for (int i = 0; i < top->regions.n; i++) {
        td_captured_region *r = &top->regions.v[i];
        if (r->key && r->body == k->of.body && r->env == k->of.env && r->n_key == *n &&
            !memcmp(r->key, *key, sizeof **key * (size_t)*n))
            return r;
    }
    return NULL;
}

/* Frees what it owns, except for the reference to its graph. */
static void free_region(td_captured_region *r) {
    td__free(r->key);
    td__buf_free(&r->text);
    td__lift_free(&r->lift);
}

void td__regions_free(td_record *r) {
    for (int i = 0; i < r->regions.n; i++) {
        td__graph_drop(r->regions.v[i].g);
        free_region(&r->regions.v[i]);
    }
    td__vec_free(&r->regions);
}

/* Names g "block", "block_2" and so on, like no other region of the capture. */
static bool name_region(const td_record *top, td_graph *g, const char *of) {
    char name[100];
    int  nr = 1;
    snprintf(name, sizeof name, "%.80s", of);
    for (int i = 0; i < top->regions.n; i++)
        if (!strcmp(top->regions.v[i].g->name, name)) {
            snprintf(name, sizeof name, "%.80s_%d", of, ++nr);
            i = -1;
        }
    return (g->name = td__graph_str(g, name)) != NULL;
}

/* Graphs are equal if their texts without names are (td__graph_equal). A region stores
 * its text, because a captured body is compared at each of its calls. */
static bool make_text(td_captured_region *r) {
    return td__graph_print(&r->text, r->g, TD_PRINT_TYPES | TD_PRINT_BARE) ||
           td__fail_memory(r->g->cx);
}

/* The graph with this text among the regions of the capture; NULL: none. */
static td_graph *find_equal(const td_record *top, const td_buf *text) {
    for (int i = 0; i < top->regions.n; i++) {
        const td_buf *t = &top->regions.v[i].text;
        if (t->n == text->n && !memcmp(t->s, text->s, t->n)) return top->regions.v[i].g;
    }
    return NULL;
}

td_graph *td__region_shared(td_record *r, td_graph *g, const char *name) {
    td_captured_region of = {.g = g};
    while (r->outer) r = r->outer;
    td_graph *equal = make_text(&of) ? find_equal(r, &of.text) : NULL;
    if (!equal && td_ok(g->cx) && name_region(r, g, name)) {
        if (td__vec_push(&r->regions, of)) return td__graph_keep(g), g;
        td__fail_memory(g->cx);
    }
    if (equal) td__graph_keep(equal);
    td__buf_free(&of.text);
    td__graph_drop(g);
    return equal;
}

/* References the tensors that the body closes over, for calls with the same key. */
static bool keep_lifted(td_captured_region *r, const td_lift *from) {
    for (int i = 0; r->key && i < from->tensors.n; i++) {
        if (!td__vec_push(&r->lift.tensors, from->tensors.v[i])) return false;
        td__ref(from->tensors.v[i]);
    }
    return true;
}

/* Replaces k->g by an equal graph of the capture, or adds it to them. Takes over
 * key. */
static bool share_graph(td_record *top, region_call *k, int64_t *key, int n) {
    td_captured_region r = {.g = k->g,
                            .body = k->of.body,
                            .env = k->of.env,
                            .key = key,
                            .n_key = n,
                            .plain = k->plain};
    const char        *name = k->of.name ? k->of.name : "region";
    bool               ok = make_text(&r);
    td_graph          *found = ok ? find_equal(top, &r.text) : NULL;
    if (found) {
        td__graph_drop(k->g);
        td__graph_keep(r.g = k->g = found);
    }
    ok = ok && (found || name_region(top, k->g, name));
    if (ok && (!found || key)) {
        ok = keep_lifted(&r, &k->lift) && td__vec_push(&top->regions, r);
        if (ok) return td__graph_keep(r.g), true;
        td__fail_memory(k->cx);
    }
    free_region(&r);
    return ok;
}

/* Uses the graph that an earlier call captured, and the tensors that it closes over. */
static bool take_known(region_call *k, const td_captured_region *r) {
    td__graph_keep(k->g = r->g);
    k->plain = r->plain;
    for (int i = 0; i < r->lift.tensors.n; i++) {
        if (!td__vec_push(&k->lift.tensors, r->lift.tensors.v[i]))
            return td__fail_memory(k->cx);
        td__ref(r->lift.tensors.v[i]);
    }
    return true;
}

/* Sets k->g to the graph of the body. */
static bool find_graph(region_call *k) {
    td_record *top = td__recorder_of(k->cx);
    int64_t   *key = NULL;
    int        n = 0;
    while (top->outer) top = top->outer;
    if (k->of.once) {
        const td_captured_region *known = find_key(top, k, &key, &n);
        if (!key) return td__fail_memory(k->cx);
        if (known) return td__free(key), take_known(k, known);
    }
    k->plain = true;
    k->g = td__capture_nested(k->cx, region_body, k, k->args, &k->lift);
    if (!k->g) return td__free(key), false;
    /* other arguments may have other histories, or not be the closed-over tensor */
    if (k->lift.grads || k->lift.args) {
        td__free(key);
        key = NULL;
    }
    return share_graph(top, k, key, n);
}

/* ---- the call ----------------------------------------------------------- */

/* Why the ops of the body must be inlined in the program; NULL: they need not. */
static const char *why_inline(const region_call *k, const td_input_write *by) {
    const td_graph *g = k->g;
    if (!k->plain) return "it returns a view, an operand or a tensor it has written";
    if (g->left) return "it changes the grad mode";
    for (int i = 0; i < g->inputs.n; i++)
        if (by[i].how) return "it writes an operand";
    for (int i = 0; i < g->outputs.n; i++)
        for (int j = 0; j < g->inputs.n; j++)
            if (g->inputs.v[j]->type->storage == g->outputs.v[i].u.v->type->storage &&
                g->inputs.v[j]->type->storage >= 0)
                return "it returns a view, an operand or a tensor it has written";
    return NULL;
}

/* The operands: tensors among the arguments, then those the body closes over. */
static td_tensor **make_operands(const region_call *k) {
    td_tensor **ts = td__zalloc(sizeof *ts * ((size_t)k->g->inputs.n + 1));
    int         at = 0;
    if (!ts) return td__fail_memory(k->cx), NULL;
    for (int i = 0; i < k->args.n; i++)
        if (k->args.v[i].kind == TD_K_TENSOR && k->args.v[i].u.t)
            ts[at++] = k->args.v[i].u.t;
    for (int i = 0; at < k->g->inputs.n && i < k->lift.tensors.n; i++)
        ts[at++] = k->lift.tensors.v[i];
    return ts;
}

/* Replays the graph: its ops are recorded in the program around it. */
static bool replay(const region_call *k, td_tensor **ts, td_tensor **out) {
    size_t    n = (size_t)k->g->inputs.n;
    td_value *in = td__zalloc(sizeof *in * (n + (size_t)k->n_out + 1));
    if (!in) return td__fail_memory(k->cx);
    for (size_t i = 0; i < n; i++) in[i] = td_value_tensor(ts[i]);
    bool ok = td__graph_replay(k->g, in, in + n);
    for (int i = 0; i < k->n_out && ok; i++) out[i] = in[n + (size_t)i].u.t;
    td__free(in);
    return ok;
}

/* Calls op region, or the ops of the body. Autocast is off: casts are nodes of the
 * graph. */
static bool call_region(const region_call *k, td_tensor **ts, td_tensor **out) {
    td_input_write *by = td__graph_writes(k->g, k->cx->grad_enabled);
    if (!by) return false;
    const char *why = why_inline(k, by);
    td__free(by);
    if (why)
        td__log(k->cx, TD_LOG_capture, "region @%.60s is inlined: %s", k->g->name, why);
    td_value         in[] = {td__value_graph(k->g),
                             td__value_tensors((td_tensors){ts, k->g->inputs.n})};
    td_autocast_mode was = td_autocast_off_begin(k->cx);
    bool             ok;
    if (why) ok = replay(k, ts, out);
    else ok = td__call_list(k->cx, TD_OP_region, in, 2, out, k->n_out) >= 0;
    td_autocast_end(k->cx, was);
    return ok;
}

/* The arguments as the capture knows them, so that one tensor is one operand: a body
 * may pass a tensor from outside, and its copy, which an op in place returned. */
static bool take_args(region_call *k, td_values from, td_value *to) {
    td_record *r = td__recorder_of(k->cx);
    for (int i = 0; i < from.n; i++) {
        to[i] = from.v[i];
        const td_tensor *t = to[i].kind == TD_K_TENSOR ? to[i].u.t : NULL;
        if (!t || td_is_nil(t) || t->cx != k->cx || td__record_tag(r, t)) continue;
        if (!td__record_value(r, &to[i].u.t, "an argument of a region")) return false;
    }
    k->args.v = to;
    return true;
}

static bool eager_region(const region_call *k, td_tensor **out) {
    td_value *got = td__zalloc(sizeof *got * ((size_t)k->n_out + 1));
    if (!got) return td__fail_memory(k->cx);
    bool ok = call_body(k, k->args, got);
    for (int i = 0; i < k->n_out && ok; i++) out[i] = got[i].u.t;
    td__free(got);
    return ok;
}

/* The body cannot be captured by itself. One that takes gradients through the history
 * of its operands runs once more, as a part of the program around it, which has that
 * history. */
static bool run_inside(const region_call *k, td_tensor **out) {
    if (!k->lift.grads || td_error(k->cx) != TD_E_UNSUPPORTED) return false;
    td__log(k->cx, TD_LOG_capture, "a region is inlined: %s", td_message(k->cx));
    td_clear(k->cx);
    return eager_region(k, out);
}

static bool capture_region(region_call *k, td_tensor **out) {
    td_values from = k->args;
    td_value *args = td__zalloc(sizeof *args * ((size_t)from.n + 1));
    if (!args) return td__fail_memory(k->cx);
    td_tensor **ts = NULL;
    bool        ok = take_args(k, from, args);
    if (ok && !find_graph(k)) ok = run_inside(k, out);
    else ok = ok && (ts = make_operands(k)) && call_region(k, ts, out);
    td__free(ts);
    td__free(args);
    return ok;
}

bool(td_call_region)(td_ctx *cx, td_region_body of, td_values args, td_tensor **out,
                     int n_out) {
    static const char who[] = "td_call_region";
    if (!TD_ENTER(cx, CTX)) return false;
    td__nil_tensors(cx, out, n_out);
    if (!td_ok(cx) || !td__has(cx, who, "the body", of.body) ||
        !td__has_list(cx, who, args.v, args.n) || !td__has_room(cx, who, out, n_out))
        return false;
    region_call k = {.cx = cx, .of = of, .args = args, .n_out = n_out};
    bool        captured = cx->fake && td__recorder_of(cx);
    bool        ok = captured ? capture_region(&k, out) : eager_region(&k, out);
    for (int i = 0; i < n_out && !ok; i++) out[i] = td_nil(cx);
    td__graph_drop(k.g);
    td__lift_free(&k.lift);
    return ok;
}

/* module_fn.c -- compiled modules, and the state of compiled training steps. A
 * module's members are arguments before the user's own; each call passes the current
 * ones. The module's form (names, ties, train or eval mode) is numbered, and a
 * specialization is valid for one number. */
#include "aot/aot.h"
#include "module/modules.h"

#include <stdio.h>
#include <string.h>

/* The members of a compiled module or step. */
typedef struct td_state {
    td_module *m;     /* NULL: none */
    td_weak    alive; /* detects that m was freed */
    bool       fixed; /* members must not change (td_aot_module_flat) */
    td_tensors more;  /* members after the module's; one reference each */
    uint64_t   epoch; /* td__module_epoch when flat and td_fn.mode were read */
    td_flat   *flat;  /* owned: the module's members */
    td_arena   arena;
    TD_VEC(const char *) forms; /* every form so far, by td_fn.mode */
    td_scratch args;            /* scratch memory for td__state_args */
} td_state;

/* ---- forms -------------------------------------------------------------- */

/* The number of this form, added if it is new; -1 after td__fail. */
static int form_nr(td_state *s, td_ctx *cx, const char *form) {
    for (int i = 0; i < s->forms.n; i++)
        if (!strcmp(s->forms.v[i], form)) return i;
    const char *copy = td__arena_strdup(&s->arena, form);
    if (copy && td__vec_push(&s->forms, copy)) return s->forms.n - 1;
    td__fail_memory(cx);
    return -1;
}

int td__state_form_nr(td_fn *f, const char *form) {
    return f->state ? form_nr(f->state, f->cx, form) : 0;
}

const char *td__state_form(const td_fn *f) {
    const td_state *s = f->state;
    return s && f->mode < s->forms.n ? s->forms.v[f->mode] : NULL;
}

/* Why another form of the module (modes, names, ties) was needed. */
void td__state_difference(td_buf *b, const td_fn *f, const td_spec *spec) {
    const td_state *s = f->state;
    if (!s || !s->m || spec->mode == f->mode) return;
    td__form_difference(b, td_module_name(s->m), s->forms.v[f->mode],
                        s->forms.v[spec->mode]);
}

td_module *td__state_module(const td_fn *f) { return f->state ? f->state->m : NULL; }

/* The same tensors in the same order? */
static bool same_members(const td_flat *a, const td_flat *b) {
    int n = a->n_params + a->n_buffers;
    if (n != b->n_params + b->n_buffers) return false;
    for (int i = 0; i < n; i++)
        if (a->entries[i].t != b->entries[i].t) return false;
    return true;
}

/* Makes `now` and `mode` the current ones, taking over `now`. False after td__fail:
 * the members are fixed and have changed. */
static bool take(td_fn *f, td_flat *now, int mode) {
    td_state *s = f->state;
    if (s->fixed && s->flat && (mode != f->mode || !same_members(s->flat, now)))
        return td__fail(f->cx, TD_E_ARG,
                        "%s: the module's members or mode changed after "
                        "td_aot_module_flat; compile it once more, or use "
                        "td_aot_module, which follows such changes",
                        f->name);
    td_flat *was = s->flat;
    s->flat = now;
    f->mode = mode;
    f->n_state = now->n_params + now->n_buffers + s->more.n;
    td__flat_free(was);
    return true;
}

/* Cheap if no module changed since the last call: the epoch is global. */
bool td__state_renew(td_fn *f) {
    td_state *s = f->state;
    uint64_t  epoch = td__module_epoch();
    if (!s->m) return f->n_state = s->more.n, true;
    if (!td__weak_live(s->alive, TD_H_MODULE))
        return td__fail(f->cx, TD_E_ARG,
                        "%s: the module of this function was freed; drop the function "
                        "before the module",
                        f->name);
    if (s->flat && s->epoch == epoch) return true;
    td_buf   form = {0};
    td_flat *now = td__module_flat(s->m);
    bool     ok = now && td__form_write(&form, s->m, false);
    int      mode = ok ? form_nr(s, f->cx, td__buf_str(&form)) : -1;
    td__buf_free(&form);
    if (mode < 0 || !take(f, now, mode)) {
        td__flat_free(now);
        return false;
    }
    s->epoch = epoch;
    return true;
}

void td__state_drop(td_state *s) {
    if (!s) return;
    td__flat_free(s->flat);
    for (int i = 0; i < s->more.n; i++) td__unref(s->more.v[i]);
    td__vec_free(&s->forms);
    td__scratch_free(&s->args);
    td__arena_free(&s->arena);
    td__free(s);
}

/* ---- calling ------------------------------------------------------------ */

/* The arguments of the graph: members of the module, further state, then the user's
 * arguments. Give the list back with td__state_give. */
bool td__state_args(td_fn *f, td_values args, td_values *all) {
    const td_state *s = f->state;
    int             n = f->n_state, own = n - s->more.n;
    td_value       *v =
        td__scratch_take(&f->state->args, sizeof *v * (size_t)(n + args.n + 1));
    if (!v) return td__fail_memory(f->cx);
    for (int i = 0; i < n; i++)
        v[i] = td_value_tensor(i < own ? s->flat->entries[i].t : s->more.v[i - own]);
    if (args.n) memcpy(v + n, args.v, sizeof *v * (size_t)args.n);
    *all = (td_values){v, n + args.n};
    f->members = v;
    f->calls++;
    return true;
}

/* own has no entries for members, which are never the call's to drop. */
static int call_owning(td_fn *f, td_values all, bool *own, td_value *out, int n_out) {
    bool *mine = td__zalloc((size_t)all.n + 1);
    if (!mine) return td__fail_memory(f->cx), -1;
    memcpy(mine + f->n_state, own, (size_t)(all.n - f->n_state));
    int n = td__fn_call(f, all, mine, out, n_out);
    memcpy(own, mine + f->n_state, (size_t)(all.n - f->n_state));
    td__free(mine);
    return n;
}

/* A call of a function with state: the members are looked up, put before the user's
 * arguments, and the list is given back. */
int td__state_call(td_fn *f, td_values args, bool *own, td_value *out, int n_out) {
    td_values all;
    for (int i = 0; i < n_out; i++) out[i] = td_value_tensor(td_nil(f->cx));
    if (!td__state_renew(f) || !td__state_args(f, args, &all)) return -1;
    int n = own ? call_owning(f, all, own, out, n_out)
                : td__fn_call(f, all, NULL, out, n_out);
    td__state_give(f, all);
    return n;
}

void td__state_give(td_fn *f, td_values all) {
    td__scratch_give(&f->state->args, (void *)(uintptr_t)all.v);
    td__fn_leave(f);
}

/* ---- names -------------------------------------------------------------- */

const char *td__state_member(const td_fn *f, int i) {
    const td_flat *flat = f->state ? f->state->flat : NULL;
    int            n = flat ? flat->n_params + flat->n_buffers : 0;
    if (i < n) return flat->entries[i].names[0];
    return f->opts.state_names && i < f->n_state ? f->opts.state_names[i - n] : NULL;
}

const char *td__arg_name(const td_fn *f, int i, char out[80]) {
    const char *name = i < f->n_state ? td__state_member(f, i) : NULL;
    if (name) snprintf(out, 80, "%.79s", name);
    else if (i < f->n_state) snprintf(out, 80, "state tensor %d", i);
    else {
        int k = i - f->n_state;
        name = k < f->opts.n_arg_names && !f->inner ? f->opts.arg_names[k] : NULL;
        if (name) snprintf(out, 80, "argument %d (%.56s)", k, name);
        else snprintf(out, 80, "argument %d", k);
    }
    return out;
}

/* Names input i and describes it as parameter or buffer. False after td__fail. */
static bool name_input(td_graph *g, int i, const char *name, bool buffer) {
    td_gval *v = g->inputs.v[i];
    if (!(v->name = td__graph_str(g, name))) return false;
    g->in_desc.v[i] = (td_desc){buffer ? TD_D_BUFFER : TD_D_PARAM, -1, v->name};
    return true;
}

/* Names an unnamed parameter or buffer p0, p1, ... or b0, b1, ... */
static bool name_nr(td_graph *g, int i, int nr, bool buffer) {
    const char *name = td__arena_printf(&g->arena, "%c%d", buffer ? 'b' : 'p', nr);
    return name ? name_input(g, i, name, buffer) : td__fail_memory(g->cx);
}

/* The .grad inputs are named after the input that has them: "weight.grad". */
static bool name_grads(td_graph *g) {
    for (int i = 0; i < g->inputs.n; i++) {
        const td_desc *d = &g->in_desc.v[i];
        if (d->kind != TD_D_OWN_GRAD) continue;
        const char *of = g->inputs.v[d->index]->name;
        g->inputs.v[i]->name = td__arena_printf(&g->arena, "%s.grad", of);
        if (!g->inputs.v[i]->name) return td__fail_memory(g->cx);
    }
    return true;
}

/* Names the inputs that td_aot_opts lists; of a step they follow the module's
 * members. */
static bool name_given(const td_fn *f, td_graph *g, int first) {
    const td_aot_opts *o = &f->opts;
    int n = f->state ? f->state->more.n : o->n_params + o->n_buffers, nr[2] = {0};
    for (int i = 0; i < n; i++) {
        const td_gtype *l = g->inputs.v[first + i]->type;
        bool            buffer = f->state ? !l->grad : i >= o->n_params;
        const char     *name = o->state_names ? o->state_names[i] : NULL;
        if (name ? !name_input(g, first + i, name, buffer)
                 : !name_nr(g, first + i, nr[buffer]++, buffer))
            return false;
    }
    return true;
}

/* Fills `names`, tensor to name in g's arena: members first, then what the capture
 * saw (d->names). Optimizer state named after a parameter comes last, as
 * "weight.exp_avg". False: out of memory. */
static bool find_names(const td_fn *f, td_graph *g, const td_deps *d,
                       td_ptrmap *names) {
    bool ok = true;
    for (int i = 0; ok && i < f->n_state && i < g->inputs.n; i++)
        ok = td__ptrmap_put(names, f->members[i].u.t,
                            (void *)(uintptr_t)g->inputs.v[i]->name);
    for (int k = 0; ok && k < 2 * d->names.n; k++) {
        const td_dep_name *n = &d->names.v[k % d->names.n];
        bool               of_one = k >= d->names.n; /* second pass */
        if ((n->of != NULL) != of_one || td__ptrmap_get(names, n->t)) continue;
        const char *of = n->of ? td__ptrmap_get(names, n->of) : NULL;
        if (n->of && !of) continue;
        char *name =
            td__arena_printf(&g->arena, "%s%s%s", of ? of : "", of ? "." : "", n->name);
        ok = name && td__ptrmap_put(names, n->t, name);
    }
    return ok;
}

/* Names closed-over tensors. One without a name, or with a name that is taken, keeps
 * its number. */
static bool name_closed(const td_fn *f, td_graph *g, const td_deps *d) {
    td_ptrmap names = {0};
    td_map    taken = {0};
    bool      ok = d->names.n == 0 || find_names(f, g, d, &names);
    for (int i = 0; ok && d->names.n && i < g->inputs.n; i++) {
        td_gval       *v = g->inputs.v[i];
        const td_desc *in = &g->in_desc.v[i];
        bool           closed = in->kind == TD_D_CONST && in->index >= 0;
        const char    *name =
            closed ? td__ptrmap_get(&names, g->consts.v[in->index]) : NULL;
        if (name && !td__map_get(&taken, name)) v->name = name;
        ok = !v->name || td__map_put(&taken, v->name, v);
    }
    td__ptrmap_free(&names);
    td__map_free(&taken);
    return ok || td__fail_memory(g->cx);
}

/* Names the first inputs of the captured graph after the members of the module. */
bool td__state_name(const td_fn *f, td_graph *g, const td_deps *d) {
    const td_flat *flat = f->state ? f->state->flat : NULL;
    int            n = flat ? flat->n_params + flat->n_buffers : 0;
    for (int i = 0; i < n; i++)
        if (!name_input(g, i, flat->entries[i].names[0], i >= flat->n_params))
            return false;
    return name_given(f, g, n) && name_closed(f, g, d) && name_grads(g);
}

/* ---- making ------------------------------------------------------------- */

/* The body that is compiled: the module's forward on the arguments after its members.
 */
static bool module_body(td_call *c) {
    td_fn *f = td_call_env(c);
    return td__call_inner(c, td_module_body, f->state->m, f->n_state);
}

/* The module is borrowed; `alive` notices when it is freed. `more` are tensors of
 * td_aot_opts.state, of which references are added. fixed: members are collected once,
 * now. */
bool td__state_make(td_fn *f, td_module *m, td_tensors more, bool fixed) {
    td_state *s = td__zalloc(sizeof *s);
    if (!s) return td__fail_memory(f->cx);
    *s = (td_state){.m = m, .alive = td__weak(m), .fixed = fixed};
    f->state = s;
    td_tensor **v =
        td__arena_alloc(&s->arena, sizeof(td_tensor *) * ((size_t)more.n + 1));
    if (!v) return td__fail_memory(f->cx);
    for (int i = 0; i < more.n; i++) v[i] = td__ref(more.v[i]);
    s->more = (td_tensors){v, more.n};
    return !fixed || td__state_renew(f);
}

/* Parameter and buffer counts come from the module itself, so those of the options are
 * ignored. */
td_fn *td__fn_of_module(td_module *m, const td_aot_opts *opts, bool fixed) {
    td_shared_opts *h = td__shared_opts_make(m->cx, opts);
    if (h) {
        h->opts.n_params = h->opts.n_buffers = 0;
        h->opts.state_names = NULL;
    }
    td_fn *f = td__fn_make(m->cx, h, td__shared_opts_name(h, td_module_name(m)));
    if (!f) return NULL;
    f->body = module_body;
    f->env = f;
    if (td__state_make(f, m, (td_tensors){0}, fixed)) return f;
    td__fn_free(f);
    return NULL;
}

td_fn *td_aot_module(td_module *m, const td_aot_opts *opts) {
    if (!TD_ENTER(m, MODULE)) return TD_NIL_BY(m, FN);
    return td__fn_give(m->cx, td__fn_of_module(m, opts, false));
}

td_fn *td_aot_module_flat(td_module *m, const td_aot_opts *opts) {
    if (!TD_ENTER(m, MODULE)) return TD_NIL_BY(m, FN);
    return td__fn_give(m->cx, td__fn_of_module(m, opts, true));
}

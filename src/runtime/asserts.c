/* asserts.c -- what a call promises and gets, checked again (config debug_asserts):
 * inputs as the guards say, values as the graph says, gradients as their targets. A
 * failure here is a bug of a backend or of a guard, never of the caller. */
#include "core/typed.h"
#include "runtime/plan.h"

/* "f32[4,3] with strides [1,4]" */
static void type_text(td_buf *b, const td_tensor *t) {
    td__buf_printf(b, "%s with strides %s", td__type_str(t),
                   td__sizes_str(t->rank, t->stride));
}

/* Records a violated assumption of the call, with the tensor's type. Always false. */
static bool fail(const td_plan *p, const td_tensor *t, const char *what, int i,
                 const char *rule) {
    td_buf b = {0};
    type_text(&b, t);
    td__fail(p->cx, TD_E_GUARD, "debug_asserts: %s: %s %d is %s; %s", p->name, what, i,
             td__buf_str(&b), rule);
    td__buf_free(&b);
    return false;
}

static bool same_dim(int64_t want, int64_t got) {
    return td__dim_is_sym(want) || want == got;
}

/* Does t have the type that the graph or the plan states? Symbolic sizes match
 * anything; strides of dims with at most one element are free. */
static bool has_type(const td_tensor *t, const td_geom *l, bool strides) {
    if (t->dtype != l->dtype || t->rank != l->rank) return false;
    for (int d = 0; d < t->rank; d++) {
        if (!same_dim(l->size[d], t->size[d])) return false;
        if (strides && t->numel > 1 && t->size[d] != 1 &&
            !same_dim(l->stride[d], t->stride[d]))
            return false;
    }
    return true;
}

/* ---- inputs ------------------------------------------------------------- */

static bool share_bytes(const td_tensor *a, const td_tensor *b) {
    return a->st == b->st || (a->st->data && a->st->data == b->st->data);
}

/* Tensors share bytes exactly where those it was compiled for did. */
static bool check_pattern(const td_pcall *c, int i) {
    const td_graph *g = c->p->j->g;
    const td_gtype *l = g->inputs.v[i]->type;
    for (int k = 0; k < i; k++) {
        const td_gtype *m = g->inputs.v[k]->type;
        if (c->in[k].kind != TD_K_TENSOR || l->storage < 0 || !m || m->storage < 0)
            continue;
        if (share_bytes(c->in[i].u.t, c->in[k].u.t) != (l->storage == m->storage))
            return fail(c->p, c->in[i].u.t, "input", i,
                        "it shares bytes with another one where those it was compiled "
                        "for did not, or the other way round");
    }
    return true;
}

/* Has t the type l? The code reads inner tensors of a tensor of a type, and relies on
 * their strides alone: those of the tensor itself may be other ones after the hooks of
 * a saved value, or of a tangent. */
static bool input_fits(const td_tensor *t, const td_gtype *l) {
    const td_typed *d = t->typed;
    bool            typed = d && l->of && d->n == l->of->n;
    bool            fits = has_type(t, &l->geom, !typed);
    for (int i = 0; typed && fits && i < d->n; i++)
        fits = input_fits(d->inner[i], l->of->inner[i]);
    return fits;
}

/* With debug_asserts: do the inputs have the traced types and alias pattern? The key
 * has compared them already, so a failure is a bug. */
bool td__plan_check_inputs(const td_pcall *c) {
    const td_joint *j = c->p->j;
    for (int i = 0; i < j->n_primals; i++) {
        const td_gtype *l = j->g->inputs.v[i]->type;
        if (c->in[i].kind != TD_K_TENSOR || !l) continue;
        if (!input_fits(c->in[i].u.t, l))
            return fail(c->p, c->in[i].u.t, "input", i,
                        "the code was compiled for another type");
        /* Above the first order, inputs are values: nothing is written. */
        if (!j->order && !check_pattern(c, i)) return false;
    }
    return true;
}

/* ---- what forward gave -------------------------------------------------- */

/* Do the outputs of the compiled code have the dtypes and sizes of the forward graph?
 * Catches wrong backends. */
static bool check_types(const td_pcall *c) {
    const td_graph *g = td__plan_forward(c->p);
    for (int i = 0; i < g->outputs.n; i++) {
        if (g->outputs.v[i].kind != TD_G_VALUE) continue;
        const td_gtype *l = g->outputs.v[i].u.v->type;
        if (!l || l->kind != TD_K_TENSOR) continue;
        if (!has_type(c->vals[i].u.t, &l->geom, false))
            return fail(c->p, c->vals[i].u.t, "output", i,
                        "the graph says another dtype or other sizes");
    }
    return true;
}

/* Does it share bytes with another output of the call, or with an input? */
static bool is_alone(const td_pcall *c, int out, const bool *given) {
    const td_tensor *t = c->vals[out].u.t;
    for (int i = 0; i < c->p->j->n_primals; i++)
        if (c->in[i].kind == TD_K_TENSOR && share_bytes(t, c->in[i].u.t)) return false;
    for (int i = 0; i < out; i++)
        if (given[i] && c->vals[i].kind == TD_K_TENSOR &&
            share_bytes(t, c->vals[i].u.t))
            return false;
    return true;
}

/* Values handed to the caller as they are: results and bases. */
static bool check_alone(const td_pcall *c) {
    const td_joint *j = c->p->j;
    bool           *given = td__zalloc((size_t)c->p->n_vals + 1), ok = true;
    if (!given) return td__fail_memory(c->p->cx);
    for (int i = 0; i < j->n_fwd; i++) given[i] = j->fwd[i].made;
    for (int i = 0; ok && i < c->p->n_vals; i++)
        if (given[i] && c->vals[i].kind == TD_K_TENSOR && c->vals[i].u.t->numel > 0 &&
            !is_alone(c, i, given))
            ok = fail(c->p, c->vals[i].u.t, "output", i,
                      "it must have a storage of its own");
    td__free(given);
    return ok;
}

/* Outputs that become tensors of the caller must also have eager's strides. */
static bool check_results(const td_pcall *c) {
    const td_joint *j = c->p->j;
    for (int i = 0; i < j->n_fwd; i++) {
        const td_geom *g = &j->fwd[i].geom;
        if (!j->fwd[i].made || c->vals[i].kind != TD_K_TENSOR) continue;
        if (!has_type(c->vals[i].u.t, g, true))
            return fail(c->p, c->vals[i].u.t, j->fwd[i].result < 0 ? "value" : "result",
                        j->fwd[i].result < 0 ? i : j->fwd[i].result,
                        "eager's has another type or other strides");
    }
    return true;
}

bool td__plan_check_values(const td_pcall *c) {
    return check_types(c) && check_results(c) && check_alone(c);
}

/* ---- gradients ---------------------------------------------------------- */

/* A gradient has the dtype and sizes of its edge: those of its input, or those in which
 * a leaf was first read. Targets that are bases or leaves made inside have no input to
 * compare with. */
bool td__plan_check_grads(const td_plan *p, const td_node *n, const td_value *grads) {
    const td_joint *j = p->j;
    for (int i = 0; i < j->n_targets; i++) {
        if (j->targets[i].leaf) continue; /* of the sizes it has when it becomes one */
        if (grads[i].kind != TD_K_TENSOR || j->targets[i].base) continue;
        if (!has_type(grads[i].u.t, &n->in_type[i], false))
            return fail(p, grads[i].u.t, "gradient", i,
                        "its input has another dtype or other sizes");
    }
    return true;
}

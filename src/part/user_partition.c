/* user_partition.c -- a partition that the user chooses: a callback names the forward
 * values to save, all others are recomputed. Values that must not be recomputed are
 * saved in any case. */
#include "part/part_int.h"
#include "tandem/aot.h"

#include <stdio.h>
#include <string.h>

/* The handle that the callback gets; valid during the callback only. */
struct td_split {
    TD_HANDLE_FIELDS;
    td_part     *p;
    const char **name; /* by value id, as printed in the graph */
};

/* ---- for the callback ------------------------------------------------------ */

const td_graph *td_split_graph(const td_split *s) {
    if (!TD_ENTER(s, SPLIT)) return TD_NIL_BY(s, GRAPH);
    return s->p->g;
}
int td_split_values(const td_split *s) {
    if (!TD_ENTER(s, SPLIT)) return 0;
    return s->p->n_values;
}

static bool is_forward(const td_part *p, int v) { return !p->bwd_only_v[v]; }

td_split_value td_split_value_at(const td_split *s, int i) {
    if (!TD_ENTER(s, SPLIT)) return (td_split_value){0};
    const td_part *p = s->p;
    if (i < 0 || i >= p->n_values) return (td_split_value){.name = "", .op = ""};
    int made = p->maker[i];
    return (td_split_value){.name = s->name[i],
                            .op = made < 0 ? "input"
                                           : td__row(p->g->nodes.v[made]->op)->name,
                            .bytes = p->bytes[i],
                            .forward = is_forward(p, i),
                            .saved = p->saved[i]};
}

/* With recompute_views the base of a view is saved in its place. */
bool td_split_save(td_split *s, int i) {
    if (!TD_ENTER(s, SPLIT)) return false;
    td_part *p = s->p;
    if (i < 0 || i >= p->n_values)
        return td__fail(p->cx, TD_E_ARG,
                        "td_split_save: there is no value %d; the graph has %d values "
                        "(td_split_values)",
                        i, p->n_values);
    if (!is_forward(p, i))
        return td__fail(p->cx, TD_E_ARG,
                        "td_split_save: %%%.60s depends on a tangent, so backward "
                        "computes it; only forward values can be saved",
                        s->name[i]);
    p->saved[p->o->recompute_views ? p->root[i] : i] = true;
    return true;
}

bool td_split_save_named(td_split *s, const char *name) {
    if (!TD_ENTER(s, SPLIT) || !td__has(s->cx, "td_split_save_named", "the name", name))
        return false;
    for (int i = 0; i < s->p->n_values; i++)
        if (!strcmp(s->name[i], name)) return td_split_save(s, i);
    return td__fail(s->p->cx, TD_E_ARG,
                    "td_split_save_named: the graph has no value %%%.60s", name);
}

/* ---- the choice --------------------------------------------------------- */

/* Sets the name of a value. False after td__fail. */
static bool note_value(td_split *s, td_gval *v) {
    s->name[v->id] =
        v->name ? v->name : td__arena_printf(&s->p->g->arena, "%d", (int)v->id);
    return s->name[v->id] || td__fail_memory(s->p->cx);
}

/* Names all values as the printed graph does, so that users can choose by name. */
static bool open(td_split *s, td_part *p) {
    const td_graph *g = p->g;
    s->p = p;
    s->name = td__part_alloc(p, (size_t)p->n_values, sizeof *s->name);
    bool ok = s->name != NULL;
    for (int i = 0; ok && i < g->inputs.n; i++) ok = note_value(s, g->inputs.v[i]);
    for (int i = 0; ok && i < g->nodes.n; i++)
        for (int k = 0; ok && k < g->nodes.v[i]->n_out; k++)
            ok = note_value(s, g->nodes.v[i]->out[k]);
    return ok;
}

/* Saves everything that must not be recomputed. */
static void choose_firm(td_part *p) {
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        bool firm = p->firm[i] && p->firm[i] <= TD_REASON_FIRM && !p->bwd_only[i];
        p->reason[i] = p->firm[i];
        for (int k = 0; k < n->n_out; k++)
            p->saved[n->out[k]->id] = firm && !p->view[i];
    }
}

/* Calls the user's function. False after td__fail. */
static bool call_user(td_part *p, const td_chooser *c) {
    td_split    s = {.handle = TD_LIVE(SPLIT, p->cx)};
    const char *name = c->name ? c->name : "partitioner";
    choose_firm(p);
    if (!open(&s, p)) return false;
    bool ok = c->choose(c->env, &s);
    TD_ENDED(&s, SPLIT);
    if (!ok && td_ok(p->cx))
        td__fail(p->cx, TD_E_ARG,
                 "%.60s: the partitioner returned false without reporting an error",
                 name);
    return ok && td_ok(p->cx);
}

/* The user's function has marked the values to save; the rest follows as for the other
 * partitioners. The default's peak is not computed for comparison. */
td_halves *td__part_given(const td_joint *j, const td_part_opts *opts,
                          const td_chooser *chooser) {
    td_part    p;
    td_halves *h = NULL;
    int64_t    peak = 0;
    if (td__part_open(&p, j, opts, 0) && call_user(&p, chooser)) {
        td__part_walk(&p);
        td__part_walk_forward(&p);
        if (td__part_peak(&p, &peak)) h = td__part_extract(&p);
    }
    td__part_close(&p);
    if (h) h->peak = h->peak_most = peak;
    return h;
}

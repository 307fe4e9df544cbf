/* keep_joint_read.c -- joint graphs and halves from bytes, in the order keep_joint.c
 * has written them. */
#include "aot/keep_int.h"

/* What is being read: sizes count in the joint graph's table. */
typedef struct source {
    td_reader *r;
    td_joint  *j;
} source;

static bool flag(source *s) { return td__get_bool(s->r); }
static int  within(source *s, int least, int below) {
     return td__get_within(s->r, least, below);
}
static void *room(source *s, int n, size_t item) {
    return td__get_room(s->r, &s->j->arena, n, item);
}

static void get_geom(source *s, td_geom *g) {
    g->dtype = (td_dtype)within(s, -1, TD_DTYPE_COUNT + 1);
    g->rank = within(s, 0, TD_MAX_RANK + 1);
    g->offset = td__get_dim(s->r, s->j->g);
    g->size = td__get_dims(s->r, &s->j->arena, s->j->g, g->rank);
    g->stride = td__get_dims(s->r, &s->j->arena, s->j->g, g->rank);
}

/* ---- view ops ----------------------------------------------------------- */

static void get_value(source *s, td_value *v) {
    td_reader *r = s->r;
    v->kind = (uint32_t)td__get_below(r, TD_K_GRAPH);
    switch ((td_kind)v->kind) {
    case TD_K_NONE: break;
    case TD_K_INT: v->u.i = td__get_dim(r, s->j->g); break;
    case TD_K_BOOL: v->u.b = flag(s); break;
    case TD_K_FLOAT: v->u.f = td__get_f64(r); break;
    case TD_K_DTYPE: v->u.dt = (td_dtype)within(s, 0, TD_DTYPE_COUNT); break;
    case TD_K_STR:
        if (!(v->u.s = td__get_text(r, &s->j->arena))) r->bad = true;
        break;
    case TD_K_INTS:
        v->n = (uint32_t)td__get_count(r);
        v->u.ints = td__get_dims(r, &s->j->arena, s->j->g, (int)v->n);
        break;
    default: r->bad = true;
    }
}

/* A view op takes what it views first, which is not written. */
static void get_view(source *s, td_view_op *v) {
    v->op = (td_op)td__get_below(s->r, TD_OP_COUNT);
    v->nr = within(s, 0, INT32_MAX);
    v->grad = flag(s);
    v->inference = flag(s);
    v->n_in = td__get_count(s->r);
    v->in = room(s, v->n_in, sizeof *v->in);
    for (int i = 0; v->in && i < v->n_in; i++) get_value(s, &v->in[i]);
    if (s->r->bad || v->n_in < 1 || v->n_in > td__opinfo(v->op)->s.n_in ||
        td__opinfo(v->op)->view_of != 0)
        s->r->bad = true;
}

static td_view_op *get_views(source *s, int *n) {
    *n = td__get_count(s->r);
    td_view_op *v = room(s, *n, sizeof *v);
    for (int i = 0; v && !s->r->bad && i < *n; i++) get_view(s, &v[i]);
    return v;
}

/* ---- the joint graph ---------------------------------------------------- */

static void get_update(source *s, td_update *u) {
    const td_joint *j = s->j;
    u->input = within(s, 0, j->n_primals);
    u->out = within(s, -1, j->n_fwd);
    u->now = within(s, -1, j->n_fwd);
    u->history = flag(s);
    u->detached = flag(s);
    u->wants = flag(s);
    u->in_graph = flag(s);
    u->meta = flag(s);
    u->turned = flag(s);
    u->set = flag(s);
    u->moved = (td_home_kind)within(s, 0, TD_HOME_FRESH + 1);
    int most = u->moved == TD_HOME_FRESH ? j->n_updates : j->n_primals;
    u->home = within(s, u->moved == TD_HOME_INPUT ? 0 : -1, most);
    u->bytes = td__get_uint(s->r);
    u->grown = td__get_uint(s->r);
    u->late = flag(s);
    u->versions = td__get_int(s->r);
    u->version = td__get_uint(s->r);
    get_geom(s, &u->end);
}

/* What `from` of a result counts in. */
static int count_of(const td_joint *j, const td_result *r) {
    if (r->how == TD_RESULT_VALUE) return INT32_MAX;
    if (r->how == TD_RESULT_AGAIN) return j->n_results;
    if (r->how == TD_RESULT_INPUT) return j->n_primals;
    return r->source == TD_OF_RESULT ? j->n_results
           : r->source == TD_OF_BASE ? j->n_bases
           : r->source == TD_OF_ROOM ? j->n_rooms
                                     : j->n_primals;
}

static void get_result(source *s, td_result *r) {
    const td_joint *j = s->j;
    r->how = (td_result_how)within(s, 0, TD_RESULT_LIE + 1);
    r->source = (td_source)within(s, 0, TD_OF_ROOM + 1);
    r->from = within(s, r->how == TD_RESULT_VALUE ? INT32_MIN : 0, count_of(j, r));
    r->out = within(s, r->how == TD_RESULT_VALUE ? 0 : -1, j->n_fwd);
    r->version = td__get_uint(s->r);
    r->fill = flag(s);
    r->history = flag(s);
    r->wants = flag(s);
    r->inference = flag(s);
    r->stale = flag(s);
    r->early = flag(s);
    r->behind = flag(s);
    r->view = flag(s);
    r->feeds = flag(s);
    r->creation = (uint8_t)td__get_below(s->r, 256);
    get_geom(s, &r->geom);
    r->views = get_views(s, &r->n_views);
}

static void get_input(source *s, int i) {
    td_relation *r = &s->j->related[i];
    s->j->written[i] = flag(s);
    s->j->stale[i] = flag(s);
    s->j->behind[i] = flag(s);
    r->same = within(s, -1, s->j->n_primals);
    r->shared = flag(s);
    r->base = within(s, -1, s->j->n_primals);
    r->views = get_views(s, &r->n_views);
}

/* Every dim once. */
static void get_order(source *s, td_tangent *t) {
    uint64_t seen = 0;
    t->order = room(s, t->geom.rank, 1);
    for (int i = 0; !s->r->bad && i < t->geom.rank; i++) {
        t->order[i] = (uint8_t)within(s, 0, t->geom.rank);
        s->r->bad |= seen >> t->order[i] & 1;
        seen |= (uint64_t)1 << t->order[i];
    }
}

static uint64_t *get_set(source *s) {
    int       words = td__set_words(s->j->n_tangents);
    uint64_t *set = room(s, words, sizeof *set);
    for (int w = 0; set && w < words; w++) set[w] = td__get_uint(s->r);
    return set;
}

static void get_tangent(source *s, td_tangent *t) {
    const td_joint *j = s->j;
    t->of = (td_tangent_of)within(s, 0, TD_TANGENT_BASE + 1);
    t->index = within(s, 0,
                      t->of == TD_TANGENT_INPUT    ? j->n_updates
                      : t->of == TD_TANGENT_OUTPUT ? j->n_results
                                                   : j->n_bases);
    get_geom(s, &t->geom);
    get_order(s, t);
    t->code = (td_code)within(s, 0, 256);
    t->broken = td__get_text(s->r, &s->j->arena);
    t->clash = get_set(s);
    t->feeds = get_set(s);
}

static void get_target(source *s, td_target *t) {
    t->input = within(s, 0, s->j->n_primals);
    t->base = flag(s);
    t->leaf = flag(s);
    t->from = get_set(s);
    t->gives = get_set(s);
}

/* Counts, and room for all that is counted; each thing takes a byte at least. */
static bool get_counts(source *s) {
    td_joint *j = s->j;
    int      *counts[] = {&j->n_primals, &j->n_fwd,   &j->n_updates,  &j->n_results,
                          &j->n_bases,   &j->n_rooms, &j->n_tangents, &j->n_targets};
    int64_t   left = s->r->end - s->r->p;
    int       most = left < INT32_MAX ? (int)left : INT32_MAX;
    for (int i = 0; i < TD_COUNT(counts); i++) *counts[i] = within(s, 0, most);
    j->left = within(s, 0, TD_R_COUNT + 1);
    j->random = flag(s);
    j->detaches = flag(s);
    j->updates = room(s, j->n_updates, sizeof *j->updates);
    j->results = room(s, j->n_results, sizeof *j->results);
    j->bases = room(s, j->n_bases, sizeof *j->bases);
    j->rooms = room(s, j->n_rooms, sizeof *j->rooms);
    j->related = room(s, j->n_primals, sizeof *j->related);
    j->tangents = room(s, j->n_tangents, sizeof *j->tangents);
    j->targets = room(s, j->n_targets, sizeof *j->targets);
    j->written = room(s, j->n_primals, sizeof *j->written);
    j->stale = room(s, j->n_primals, sizeof *j->stale);
    j->behind = room(s, j->n_primals, sizeof *j->behind);
    return !s->r->bad;
}

static void get_all(source *s) {
    td_joint *j = s->j;
    for (int i = 0; !s->r->bad && i < j->n_updates; i++) get_update(s, &j->updates[i]);
    for (int i = 0; !s->r->bad && i < j->n_results; i++) get_result(s, &j->results[i]);
    for (int i = 0; !s->r->bad && i < j->n_bases; i++) get_result(s, &j->bases[i]);
    for (int i = 0; !s->r->bad && i < j->n_primals; i++) get_input(s, i);
    for (int i = 0; !s->r->bad && i < j->n_rooms; i++) {
        j->rooms[i].bytes = td__get_uint(s->r);
        j->rooms[i].version = td__get_uint(s->r);
    }
    for (int i = 0; !s->r->bad && i < j->n_tangents; i++)
        get_tangent(s, &j->tangents[i]);
    for (int i = 0; !s->r->bad && i < j->n_targets; i++) get_target(s, &j->targets[i]);
}

/* ---- kinds -------------------------------------------------------------- */

/* Both tensors of one dtype and rank, both numbers of one kind, or both nothing.
 * Whoever runs a graph takes an output for a tensor where another graph says so. */
static bool same_kind(const td_look *a, const td_look *b) {
    if (!a || !b) return a == b;
    if (a->kind != b->kind) return false;
    return a->kind != TD_K_TENSOR || (a->dtype == b->dtype && a->rank == b->rank);
}

static const td_look *out_look(const td_graph *g, int i) {
    const td_garg *a = &g->outputs.v[i];
    return a->kind == TD_G_VALUE ? a->u.v->look : NULL;
}

/* Does result i of the program have the kind that output `out` of the joint graph has?
 * A program from text has no types but those of its inputs: then nothing is known. */
static bool result_fits(const td_joint *j, int out, const td_graph *program, int i) {
    const td_garg *a = &program->outputs.v[i];
    if (out < 0) return a->kind != TD_G_VALUE;
    if (a->kind == TD_G_VALUE && !a->u.v->look) return true;
    return same_kind(out_look(j->g, out), out_look(program, i));
}

static bool is_tensor(const td_graph *g, int out) {
    const td_look *l = out < 0 ? NULL : out_look(g, out);
    return out < 0 || (l && l->kind == TD_K_TENSOR);
}

/* The inputs g[0..n) are those of `of`, which in text may have no type. */
static bool inputs_alike(const td_graph *g, const td_graph *of, int n) {
    for (int i = 0; i < n; i++) {
        const td_look *said = of->inputs.v[i]->look;
        if (said && !same_kind(g->inputs.v[i]->look, said)) return false;
    }
    return true;
}

static bool outputs_alike(const td_graph *g, const td_graph *of, int n) {
    for (int i = 0; i < n; i++)
        if (g->outputs.v[i].kind != of->outputs.v[i].kind ||
            !same_kind(out_look(g, i), out_look(of, i)))
            return false;
    return true;
}

/* What becomes of inputs, and results that are views, are tensors; so are gradients,
 * where there are any. */
static bool joint_kinds_fit(const td_joint *j, const td_graph *program) {
    if (!inputs_alike(j->g, program, j->n_primals)) return false;
    for (int i = 0; i < j->n_updates; i++) {
        const td_update *u = &j->updates[i];
        const td_look   *l = j->g->inputs.v[u->input]->look;
        if (!l || l->kind != TD_K_TENSOR || !is_tensor(j->g, u->out) ||
            !is_tensor(j->g, u->now))
            return false;
    }
    for (int i = 0; i < j->n_results; i++) {
        const td_result *r = &j->results[i];
        if (r->how == TD_RESULT_VALUE ? !result_fits(j, r->out, program, i)
                                      : !is_tensor(j->g, r->out))
            return false;
    }
    for (int i = 0; i < j->n_bases; i++)
        if (!is_tensor(j->g, j->bases[i].out)) return false;
    for (int i = j->n_fwd; i < j->g->outputs.n; i++)
        if (j->g->outputs.v[i].kind != TD_G_NONE && !is_tensor(j->g, i)) return false;
    return true;
}

/* Do the counts say what the graphs do? */
static bool counts_fit(const td_joint *j, const td_graph *program) {
    bool whole = j->n_tangents || j->n_targets;
    return j->n_primals == program->inputs.n && j->n_results == program->outputs.n &&
           j->g->inputs.n == j->n_primals + j->n_tangents &&
           j->g->outputs.n == j->n_fwd + (whole ? j->n_targets : 0) &&
           td__graph_verify(j->g, TD_STAGE_JOINT) && joint_kinds_fit(j, program);
}

td_joint *td__get_joint(td_reader *r, td_ctx *cx, const td_graph *program) {
    td_joint *j = td__zalloc(sizeof *j);
    source    s = {r, j};
    if (j) {
        j->cx = cx;
        j->g = td__image_read(r, cx, program);
        if (j->g && get_counts(&s)) get_all(&s);
        if (!r->bad && counts_fit(j, program)) return j;
    }
    td__joint_drop(j);
    r->bad = true;
    return NULL;
}

/* ---- halves ------------------------------------------------------------- */

static bool get_kept(td_reader *r, td_halves *h, const td_joint *j) {
    h->kept = td__get_room(r, &h->arena, h->n_kept, sizeof *h->kept);
    for (int i = 0; !r->bad && i < h->n_kept; i++) {
        td_kept *k = &h->kept[i];
        k->from = (td_saved_from)td__get_within(r, 0, TD_SAVED_FRESH + 1);
        k->index = td__get_within(r, 0,
                                  k->from == TD_SAVED_PRIMAL   ? j->n_primals
                                  : k->from == TD_SAVED_OUTPUT ? h->n_fwd
                                                               : h->fwd->outputs.n);
        k->bytes = td__get_int(r);
    }
    return !r->bad;
}

static bool get_notes(td_reader *r, td_halves *h) {
    h->n_notes = td__get_count(r);
    h->notes = td__get_room(r, &h->arena, h->n_notes, sizeof *h->notes);
    for (int i = 0; !r->bad && i < h->n_notes; i++) {
        td_part_note *n = &h->notes[i];
        n->value = td__get_text(r, &h->arena);
        n->op = td__get_text(r, &h->arena);
        n->why = td__get_text(r, &h->arena);
        n->bytes = td__get_int(r);
        n->saved = td__get_bool(r);
        n->recomputed = td__get_bool(r);
        if (!n->value || !n->op || !n->why) r->bad = true;
    }
    return !r->bad;
}

/* Inputs say which tangent, or which kept value, they are. */
static bool inputs_fit(const td_graph *g, int n_tangents, int n_kept) {
    for (int i = 0; i < g->inputs.n; i++) {
        const td_desc *d = &g->in_desc.v[i];
        int            n = d->kind == TD_D_TANGENT ? n_tangents
                           : d->kind == TD_D_SAVED ? n_kept
                                                   : INT32_MAX;
        if (n < INT32_MAX && (d->index < 0 || d->index >= n)) return false;
    }
    return true;
}

/* Is output i of the forward half what backward takes as `l`? A saved size may be an
 * expression of sizes instead of a value. */
static bool output_fits(const td_graph *fwd, int i, const td_look *l, bool number) {
    const td_garg *a = &fwd->outputs.v[i];
    if (a->kind == TD_G_VALUE) return same_kind(a->u.v->look, l);
    return number && a->kind != TD_G_NONE;
}

/* What the forward half keeps is what the backward half takes. */
static bool kept_fit(const td_halves *h, const td_joint *j) {
    for (int i = 0; i < h->bwd->inputs.n; i++) {
        const td_desc *d = &h->bwd->in_desc.v[i];
        const td_look *l = h->bwd->inputs.v[i]->look;
        if (d->kind == TD_D_TANGENT &&
            !same_kind(l, j->g->inputs.v[j->n_primals + d->index]->look))
            return false;
        if (d->kind != TD_D_SAVED) continue;
        const td_kept *k = &h->kept[d->index];
        bool           number = d->index >= h->n_kept - h->n_kept_syms;
        if (!l || number != (l->kind != TD_K_TENSOR)) return false;
        if (k->from == TD_SAVED_PRIMAL ? !same_kind(l, h->fwd->inputs.v[k->index]->look)
                                       : !output_fits(h->fwd, k->index, l, number))
            return false;
    }
    return inputs_alike(h->fwd, j->g, j->n_primals) &&
           outputs_alike(h->fwd, j->g, j->n_fwd);
}

static bool halves_fit(const td_halves *h, const td_joint *j) {
    return inputs_fit(j->g, j->n_tangents, 0) && inputs_fit(h->fwd, 0, 0) &&
           inputs_fit(h->bwd, j->n_tangents, h->n_kept) && h->n_fwd == j->n_fwd &&
           h->fwd->inputs.n == j->n_primals && h->fwd->outputs.n >= h->n_fwd &&
           h->bwd->inputs.n == h->n_kept + j->n_tangents &&
           h->bwd->outputs.n == j->n_targets &&
           td__graph_verify(h->fwd, TD_STAGE_HALF) &&
           td__graph_verify(h->bwd, TD_STAGE_HALF) && kept_fit(h, j);
}

static bool get_halves(td_reader *r, td_halves *h, const td_joint *j,
                       const td_graph *program) {
    int64_t *bytes[] = {&h->bytes_kept, &h->bytes_most, &h->peak, &h->peak_most};
    if (!(h->fwd = td__image_read(r, j->cx, program))) return false;
    if (!(h->bwd = td__image_read(r, j->cx, program))) return false;
    h->n_fwd = td__get_within(r, 0, h->fwd->outputs.n + 1);
    h->n_kept = td__get_within(r, 0, h->bwd->inputs.n + 1);
    h->n_kept_syms = td__get_within(r, 0, h->n_kept + 1);
    h->n_draws = td__get_within(r, 0, h->n_kept + 1);
    if (!get_kept(r, h, j) || !get_notes(r, h)) return false;
    for (int i = 0; i < TD_COUNT(bytes); i++) *bytes[i] = td__get_int(r);
    h->cost_again = td__get_f64(r);
    h->fell_back = td__get_bool(r);
    return !r->bad && halves_fit(h, j);
}

td_halves *td__get_halves(td_reader *r, const td_joint *j, const td_graph *program) {
    td_halves *h = td__zalloc(sizeof *h);
    if (h) {
        h->cx = j->cx;
        if (get_halves(r, h, j, program)) return h;
    }
    td__halves_drop(h);
    r->bad = true;
    return NULL;
}

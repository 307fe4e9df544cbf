/* cache_joint_read.c -- reads joint graphs and halves, in the order of cache_joint.c.
 * The bytes may be damaged: every index is checked against its range, and every graph
 * against the others and the call, so that later code can rely on them. A check that
 * fails sets reader.bad; the get_ functions then return anything. */
#include "core/device.h"
#include "aot/cache_int.h"

/* What is being read. Symbolic sizes refer to the table of j->g. */
typedef struct source {
    td_reader *r;
    td_joint  *j;
    const td_value
        *in; /* the call's arguments by input of the program; NONE: unknown */
} source;

static bool flag(source *s) { return td__get_bool(s->r); }
static int  within(source *s, int least, int below) {
     return td__get_within(s->r, least, below);
}

/* n zeroed items in the joint graph's arena; NULL and a bad reader if n exceeds the
 * bytes that are left. */
static void *items(source *s, int n, size_t item) {
    return td__get_room(s->r, &s->j->arena, n, item);
}

static void get_geom(source *s, td_geom *g) {
    g->dtype = (uint8_t)within(s, -1, TD_DTYPE_COUNT + 1);
    g->rank = (uint8_t)within(s, 0, TD_MAX_RANK + 1);
    g->device = (uint8_t)within(s, 0, TD_NO_DEVICE + 1);
    if (td__device_code(td__device_at(g->device)) != g->device) s->r->bad = true;
    g->offset = td__get_dim(s->r, s->j->g);
    g->size = td__get_dims(s->r, &s->j->arena, s->j->g, g->rank);
    g->stride = td__get_dims(s->r, &s->j->arena, s->j->g, g->rank);
}

/* ---- the joint graph ---------------------------------------------------- */

static void get_input(source *s, int i) {
    s->j->primals[i].written = flag(s);
    s->j->primals[i].touched = flag(s);
    s->j->primals[i].same = within(s, 0, i + 1);
}

static void get_fwd(source *s, td_fwd *f) {
    f->made = flag(s);
    f->written = flag(s);
    f->meta_written = flag(s);
    f->input = within(s, -1, s->j->n_primals);
    f->result = within(s, -1, s->j->n_results);
    f->tangent = within(s, -1, s->j->n_tangents);
    if (f->made) get_geom(s, &f->geom);
}

/* A permutation of the dims. */
static void get_order(source *s, td_tangent *t) {
    uint64_t seen = 0;
    t->order = items(s, t->geom.rank, 1);
    for (int i = 0; !s->r->bad && i < t->geom.rank; i++) {
        t->order[i] = (uint8_t)within(s, 0, t->geom.rank);
        s->r->bad |= seen >> t->order[i] & 1;
        seen |= (uint64_t)1 << t->order[i];
    }
}

/* A set of tangents, one bit for each. */
static uint64_t *get_set(source *s) {
    int       words = td__set_words(s->j->n_tangents);
    uint64_t *set = items(s, words, sizeof *set);
    for (int w = 0; set && w < words; w++) set[w] = td__get_uint(s->r);
    return set;
}

static void get_tangent(source *s, td_tangent *t) {
    t->index = within(s, 0, s->j->n_fwd);
    get_geom(s, &t->geom);
    get_order(s, t);
    t->code = (td_code)within(s, 0, 256);
    t->broken = td__get_text(s->r, &s->j->arena);
    t->clash = get_set(s);
    t->feeds = get_set(s);
}

/* A target that is no input must be a leaf that the program makes. */
static void get_target(source *s, td_target *t) {
    t->input = within(s, -1, s->j->n_primals);
    t->base = flag(s);
    t->leaf = flag(s);
    t->from = get_set(s);
    if (t->input < 0 && (!t->leaf || t->base)) s->r->bad = true;
}

/* Reads the counts and allocates the arrays. Each counted item takes at least one
 * byte, so no count may exceed the bytes left. */
static bool get_counts(source *s) {
    td_joint *j = s->j;
    int      *counts[] = {&j->n_primals, &j->n_fwd, &j->n_results, &j->n_tangents,
                          &j->n_targets};
    int64_t   left = s->r->end - s->r->p;
    int       most = left < INT32_MAX ? (int)left : INT32_MAX;
    for (int i = 0; i < TD_COUNT(counts); i++) *counts[i] = within(s, 0, most);
    j->left = within(s, 0, TD_R_COUNT + 1);
    j->order = within(s, 0, INT32_MAX);
    j->code = (td_code)within(s, 0, 256);
    j->broken = td__get_text(s->r, &j->arena);
    j->primals = items(s, j->n_primals, sizeof *j->primals);
    j->feeds = items(s, j->n_results, sizeof *j->feeds);
    j->varies = items(s, j->n_results, sizeof *j->varies);
    j->fwd = items(s, j->n_fwd, sizeof *j->fwd);
    j->tangents = items(s, j->n_tangents, sizeof *j->tangents);
    j->targets = items(s, j->n_targets, sizeof *j->targets);
    return !s->r->bad;
}

static void get_all(source *s) {
    td_joint *j = s->j;
    for (int i = 0; !s->r->bad && i < j->n_primals; i++) get_input(s, i);
    for (int i = 0; !s->r->bad && i < j->n_results; i++) j->feeds[i] = flag(s);
    for (int i = 0; !s->r->bad && i < j->n_results; i++)
        j->varies[i] = (uint32_t)td__get_uint(s->r);
    for (int i = 0; !s->r->bad && i < j->n_fwd; i++) get_fwd(s, &j->fwd[i]);
    for (int i = 0; !s->r->bad && i < j->n_tangents; i++)
        get_tangent(s, &j->tangents[i]);
    for (int i = 0; !s->r->bad && i < j->n_targets; i++) get_target(s, &j->targets[i]);
}

/* ---- types -------------------------------------------------------------- */

/* Two tensors of one dtype and rank, two numbers of one kind, or two absent values.
 * The runtime takes an output for a tensor if another graph says it is one. */
static bool same_kind(const td_gtype *a, const td_gtype *b) {
    if (!a || !b) return a == b;
    if (a->kind != b->kind) return false;
    return a->kind != TD_K_TENSOR || (a->dtype == b->dtype && a->rank == b->rank);
}

static const td_gtype *out_type(const td_graph *g, int i) {
    const td_garg *a = &g->outputs.v[i];
    return a->kind == TD_G_VALUE ? a->u.v->type : NULL;
}

static bool is_tensor(const td_gtype *l) { return l && l->kind == TD_K_TENSOR; }

/* Do the first n inputs of both graphs have the same kinds? */
static bool inputs_alike(const td_graph *g, const td_graph *of, int n) {
    for (int i = 0; i < n; i++)
        if (!same_kind(g->inputs.v[i]->type, of->inputs.v[i]->type)) return false;
    return true;
}

/* Does input i of the joint graph have the type of this call's argument or
 * closed-over tensor? A program from text may leave an input untyped. */
static bool input_fits(const source *s, const td_graph *program, int i) {
    const td_gtype  *l = s->j->g->inputs.v[i]->type, *said = program->inputs.v[i]->type;
    const td_desc   *d = &program->in_desc.v[i];
    const td_tensor *t = s->in[i].kind == TD_K_TENSOR ? s->in[i].u.t : NULL;
    if (s->in[i].kind == TD_K_NONE && d->kind == TD_D_CONST && d->index >= 0 &&
        d->index < program->consts.n)
        t = program->consts.v[d->index];
    if (!t) return !said || same_kind(l, said);
    return is_tensor(l) && l->dtype == t->dtype && l->rank == t->rank;
}

static bool outputs_alike(const td_graph *g, const td_graph *of, int n) {
    for (int i = 0; i < n; i++)
        if (g->outputs.v[i].kind != of->outputs.v[i].kind ||
            !same_kind(out_type(g, i), out_type(of, i)))
            return false;
    return true;
}

/* Every input that a node writes must be a tensor. */
static bool writes_fit(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (td__opinfo(n->op)->writes && !is_tensor(n->in[0].u.v->type)) return false;
    }
    return true;
}

/* Each tangent belongs to one forward output of its type; gradients are tensors, and
 * belong to tensors. */
static bool joint_kinds_fit(const source *s, const td_graph *program) {
    const td_joint *j = s->j;
    for (int i = 0; i < program->inputs.n; i++)
        if (!input_fits(s, program, i)) return false;
    for (int i = program->inputs.n; i < j->n_primals; i++)
        if (!is_tensor(j->g->inputs.v[i]->type)) return false;
    for (int i = 0; i < j->n_fwd; i++) {
        const td_fwd   *f = &j->fwd[i];
        const td_gtype *l = out_type(j->g, i);
        if ((f->made || f->tangent >= 0) && !is_tensor(l)) return false;
        if (f->made && (f->geom.dtype != l->dtype || f->geom.rank != l->rank))
            return false;
        if (f->tangent >= 0 && j->tangents[f->tangent].index != i) return false;
    }
    for (int i = 0; i < j->n_tangents; i++) {
        const td_tangent *t = &j->tangents[i];
        const td_gtype   *l = j->g->inputs.v[j->n_primals + i]->type;
        if (j->fwd[t->index].tangent != i || !same_kind(l, out_type(j->g, t->index)) ||
            t->geom.dtype != l->dtype || t->geom.rank != l->rank)
            return false;
    }
    for (int i = 0; i < j->n_targets; i++)
        if (j->targets[i].input >= 0 &&
            !is_tensor(j->g->inputs.v[j->targets[i].input]->type))
            return false;
    for (int i = j->n_fwd; i < j->g->outputs.n; i++)
        if (j->g->outputs.v[i].kind != TD_G_NONE && !is_tensor(out_type(j->g, i)))
            return false;
    return true;
}

/* Do the counts agree with the graphs, and are the graphs valid? In orders above the
 * first, tangents of the orders below are inputs, and gradients are results. */
static bool counts_fit(const source *s, const td_graph *program) {
    const td_joint *j = s->j;
    bool            whole = j->n_tangents || j->n_targets;
    return (j->order ? j->n_primals >= program->inputs.n
                     : j->n_primals == program->inputs.n &&
                           j->n_results == program->outputs.n) &&
           j->g->inputs.n == j->n_primals + j->n_tangents &&
           j->g->outputs.n == j->n_fwd + (whole ? j->n_targets : 0) &&
           td__graph_verify(j->g, TD_STAGE_JOINT) && writes_fit(j->g) &&
           joint_kinds_fit(s, program);
}

/* ---- the epilogue ------------------------------------------------------- */

/* The forward output that an argument of the epilogue is; NULL: something else. */
static const td_fwd *fwd_of(const td_joint *j, const td_garg *a) {
    bool input = a->kind == TD_G_VALUE && !a->u.v->node && is_tensor(a->u.v->type);
    int  at = input ? a->u.v->nr - j->n_primals : -1;
    return at >= 0 && at < j->n_fwd ? &j->fwd[at] : NULL;
}

/* A node's result in an epilogue is a tensor; an input is one if its type says so. */
static bool is_tensor_arg(const td_garg *a) {
    return a->kind == TD_G_VALUE && (a->u.v->node || is_tensor(a->u.v->type));
}

static bool is_within(const td_garg *a, int64_t least, int64_t below) {
    return a->kind == TD_G_INT && a->u.i >= least && a->u.i < below;
}

/* Does a step of the epilogue have what steps.c relies on? Other ops are eager ops,
 * which check their own arguments; only ops that compute nothing are allowed. */
static bool step_fits(const td_joint *j, const td_gnode *n) {
    const td_garg *in = n->in;
    if (n->n_in < 1 || !is_tensor_arg(&in[0])) return false;
    const td_fwd *self = fwd_of(j, &in[0]);
    const td_fwd *value = n->n_in > 1 ? fwd_of(j, &in[1]) : NULL;
    switch (n->op) {
    case TD_OP__made: return self && self->made;
    case TD_OP__bump: return is_within(&in[1], 1, INT32_MAX);
    case TD_OP__assign: return value && is_within(&in[2], 1, INT32_MAX);
    case TD_OP__give:
        return (value || in[1].kind == TD_G_NONE) &&
               is_within(&in[2], 0, TD_MADE_CUSTOM + 1);
    case TD_OP__bind:
        return in[1].kind == TD_G_VALUE && !in[1].u.v->node &&
               in[1].u.v->nr == j->n_primals + j->n_fwd &&
               is_within(&in[2], 0, j->n_targets) && j->targets[in[2].u.i].leaf;
    case TD_OP_copy_:
    case TD_OP__put_: return true;
    default: break;
    }
    return td__row(n->op)->flags & (TD_OPF_VIEW | TD_OPF_META);
}

/* The epilogue's inputs are the program's, then the forward outputs. Absent arguments
 * and numbers have no type there. */
static bool epilogue_inputs_fit(const td_joint *j) {
    const td_graph *g = j->epilogue;
    for (int i = 0; i < j->n_primals; i++) {
        const td_gtype *l = g->inputs.v[i]->type;
        if (l && !same_kind(l, j->g->inputs.v[i]->type)) return false;
    }
    for (int i = 0; i < j->n_fwd; i++) {
        const td_gtype *l = g->inputs.v[j->n_primals + i]->type;
        const td_garg  *of = &j->g->outputs.v[i];
        if (of->kind == TD_G_VALUE ? !same_kind(l, of->u.v->type)
                                   : of->kind != TD_G_SYM || !l || l->kind != TD_K_INT)
            return false;
    }
    return true;
}

/* Is a result a tensor if the program's is? An untyped input of a program from text
 * may be either. */
static bool result_fits(const td_garg *a, const td_garg *program) {
    bool is = is_tensor_arg(a);
    if (a->kind == TD_G_STR || a->kind == TD_G_GRAPH) return false;
    if (program->kind != TD_G_VALUE) return !is;
    const td_gval *v = program->u.v;
    return v->type ? is == is_tensor(v->type) : is || !v->node;
}

/* Checks the whole epilogue. One more input, the compiled node, exists only with
 * tangents. */
static bool epilogue_fits(const td_joint *j, const td_graph *program) {
    const td_graph *g = j->epilogue;
    int more = g->inputs.n - j->n_primals - j->n_fwd; /* 1: the compiled node */
    if (more < 0 || more > (j->n_tangents > 0 ? 1 : 0) ||
        g->outputs.n != j->n_results || !td__graph_verify(g, TD_STAGE_PROGRAM) ||
        !epilogue_inputs_fit(j))
        return false;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->kind == TD_N_OP && !step_fits(j, g->nodes.v[i]))
            return false;
    for (int i = 0; i < g->outputs.n; i++) {
        const td_garg *a = &g->outputs.v[i];
        bool           grad = a->kind == TD_G_NONE || is_tensor_arg(a);
        if (j->order ? !grad : !result_fits(a, &program->outputs.v[i])) return false;
    }
    return true;
}

/* Graphs, counts, then lists of those lengths; at the end everything is compared with
 * the program. */
static bool get_joint(source *s, const td_graph *program) {
    td_joint *j = s->j;
    if (!(j->g = td__image_read(s->r, j->cx, program))) return false;
    if (!(j->epilogue = td__image_read(s->r, j->cx, program))) return false;
    if (get_counts(s)) get_all(s);
    return !s->r->bad && counts_fit(s, program) && epilogue_fits(j, program);
}

/* Reads and checks a joint graph; `in` are the arguments of the call, whose metadata is
 * compared. NULL and r->bad if anything is inconsistent. */
td_joint *td__get_joint(td_reader *r, td_ctx *cx, const td_graph *program,
                        const td_value *in) {
    td_joint *j = td__zalloc(sizeof *j);
    source    s = {r, j, in};
    if (j) {
        j->cx = cx;
        if (get_joint(&s, program)) return j;
    }
    td__joint_drop(j);
    r->bad = true;
    return NULL;
}

/* ---- halves ------------------------------------------------------------- */

static bool get_kept(td_reader *r, td_halves *h, const td_joint *j) {
    h->saved = td__get_room(r, &h->arena, h->n_saved, sizeof *h->saved);
    for (int i = 0; !r->bad && i < h->n_saved; i++) {
        td_saved_value *k = &h->saved[i];
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

/* Are the indices of tangents and saved values in range? */
static bool inputs_fit(const td_graph *g, int n_tangents, int n_saved) {
    for (int i = 0; i < g->inputs.n; i++) {
        const td_desc *d = &g->in_desc.v[i];
        int            n = d->kind == TD_D_TANGENT ? n_tangents
                           : d->kind == TD_D_SAVED ? n_saved
                                                   : INT32_MAX;
        if (n < INT32_MAX && (d->index < 0 || d->index >= n)) return false;
    }
    return true;
}

/* Does output i of the forward graph have the type that backward takes? A saved size
 * may be an expression of sizes instead of a value. */
static bool output_fits(const td_graph *fwd, int i, const td_gtype *l, bool number) {
    const td_garg *a = &fwd->outputs.v[i];
    if (a->kind == TD_G_VALUE) return same_kind(a->u.v->type, l);
    return number && a->kind != TD_G_NONE;
}

/* Each input of the backward graph is a tangent, or a saved value that the forward
 * graph has with the same type. */
static bool kept_fit(const td_halves *h, const td_joint *j) {
    for (int i = 0; i < h->bwd->inputs.n; i++) {
        const td_desc  *d = &h->bwd->in_desc.v[i];
        const td_gtype *l = h->bwd->inputs.v[i]->type;
        if (d->kind == TD_D_TANGENT &&
            !same_kind(l, j->g->inputs.v[j->n_primals + d->index]->type))
            return false;
        if (d->kind != TD_D_SAVED) continue;
        const td_saved_value *k = &h->saved[d->index];
        bool                  number = d->index >= h->n_saved - h->n_saved_syms;
        if (!l || number != (l->kind != TD_K_TENSOR)) return false;
        if (k->from == TD_SAVED_PRIMAL ? !same_kind(l, h->fwd->inputs.v[k->index]->type)
                                       : !output_fits(h->fwd, k->index, l, number))
            return false;
    }
    return inputs_alike(h->fwd, j->g, j->n_primals) &&
           outputs_alike(h->fwd, j->g, j->n_fwd);
}

/* The two halves and the joint graph must agree in every count and type, as if they had
 * just been made. */
static bool halves_fit(const td_halves *h, const td_joint *j) {
    return inputs_fit(j->g, j->n_tangents, 0) && inputs_fit(h->fwd, 0, 0) &&
           inputs_fit(h->bwd, j->n_tangents, h->n_saved) && h->n_fwd == j->n_fwd &&
           h->fwd->inputs.n == j->n_primals && h->fwd->outputs.n >= h->n_fwd &&
           h->bwd->inputs.n == h->n_saved + j->n_tangents &&
           h->bwd->outputs.n == j->n_targets &&
           td__graph_verify(h->fwd, TD_STAGE_HALF) &&
           td__graph_verify(h->bwd, TD_STAGE_HALF) && writes_fit(h->fwd) &&
           writes_fit(h->bwd) && kept_fit(h, j);
}

/* Every index is read within the bounds of the graph it refers to; halves_fit then
 * compares the graphs with each other. */
static bool get_halves(td_reader *r, td_halves *h, const td_joint *j,
                       const td_graph *program) {
    int64_t *bytes[] = {&h->bytes_saved, &h->bytes_most, &h->peak, &h->peak_most};
    if (!(h->fwd = td__image_read(r, j->cx, program))) return false;
    if (!(h->bwd = td__image_read(r, j->cx, program))) return false;
    h->n_fwd = td__get_within(r, 0, h->fwd->outputs.n + 1);
    h->n_saved = td__get_within(r, 0, h->bwd->inputs.n + 1);
    h->n_saved_syms = td__get_within(r, 0, h->n_saved + 1);
    h->n_draws = td__get_within(r, 0, h->n_saved + 1);
    if (!get_kept(r, h, j) || !get_notes(r, h)) return false;
    for (int i = 0; i < TD_COUNT(bytes); i++) *bytes[i] = td__get_int(r);
    h->cost_recompute = td__get_f64(r);
    h->fell_back = td__get_bool(r);
    return !r->bad && halves_fit(h, j);
}

static td_halves *get_plain(td_reader *r, const td_joint *j, const td_graph *program) {
    td_halves *h = td__zalloc(sizeof *h);
    if (h) {
        h->cx = j->cx;
        if (get_halves(r, h, j, program)) return h;
    }
    td__halves_drop(h);
    r->bad = true;
    return NULL;
}

/* Reads pack or unpack. NULL: the reader is bad. */
static td_graph *get_hook(td_reader *r, const td_joint *j, const td_graph *program) {
    td_graph *g = r->bad ? NULL : td__image_read(r, j->cx, program);
    if (g && td__graph_verify(g, TD_STAGE_FUNCTIONAL)) return g;
    td__graph_drop(g);
    r->bad = true;
    return NULL;
}

/* A packed partition is made again from the one before and the traced hooks. */
td_halves *td__get_halves(td_reader *r, const td_joint *j, const td_graph *program) {
    td_part_opts o = td__part_defaults();
    bool         packed = td__get_bool(r);
    td_halves   *h = r->bad ? NULL : get_plain(r, j, program);
    if (!h || !packed) return h;
    td_graph *pack = get_hook(r, j, program), *unpack = get_hook(r, j, program);
    if (unpack) h = td__part_pack(h, pack, unpack, &o);
    else {
        td__halves_drop(h);
        td__graph_drop(pack);
        h = NULL;
    }
    r->bad |= !h;
    return h;
}

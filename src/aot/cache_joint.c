/* cache_joint.c -- writes joint graphs and halves as bytes. Whoever adds a field to
 * one of these structs writes it here, reads it in cache_joint_read.c, and updates
 * the size below. */
#include "aot/cache_int.h"

_Static_assert(sizeof(td_joint) == 128 && sizeof(td_fwd) == 56 &&
                   sizeof(td_relation) == 24 && sizeof(td_tangent) == 80 &&
                   sizeof(td_target) == 24 && sizeof(td_view_op) == 32 &&
                   sizeof(td_geom) == 32,
               "a field of the joint graph is not written");
_Static_assert(sizeof(td_halves) == 128 && sizeof(td_saved_value) == 16 &&
                   sizeof(td_part_note) == 40,
               "a field of the halves is not written");

static void put_flag(td_image *m, bool x) { td__put_uint(m->b, x); }
static void put_nr(td_image *m, int64_t x) { td__put_int(m->b, x); }
static void put_big(td_image *m, uint64_t x) { td__put_uint(m->b, x); }

static void put_geom(td_image *m, const td_geom *g) {
    put_nr(m, (int)g->dtype);
    put_nr(m, g->rank);
    put_nr(m, g->offset);
    for (int d = 0; d < g->rank; d++) put_nr(m, g->size[d]);
    for (int d = 0; d < g->rank; d++) put_nr(m, g->stride[d]);
}

/* ---- view ops ----------------------------------------------------------- */

/* An argument of a view op. False: it cannot be written. */
static bool put_value(td_image *m, const td_value *v) {
    put_big(m, v->kind);
    switch ((td_kind)v->kind) {
    case TD_K_NONE: break;
    case TD_K_INT: put_nr(m, v->u.i); break;
    case TD_K_BOOL: put_flag(m, v->u.b); break;
    case TD_K_FLOAT: td__put_f64(m->b, v->u.f); break;
    case TD_K_DTYPE: put_nr(m, (int)v->u.dt); break;
    case TD_K_STR: td__put_text(m->b, v->u.s); break;
    case TD_K_INTS:
        put_big(m, v->n);
        for (uint32_t i = 0; i < v->n; i++) put_nr(m, v->u.ints[i]);
        break;
    default: m->why = "a view op has a tensor argument"; return false;
    }
    return true;
}

/* A chain of view ops with their modes. */
static bool put_views(td_image *m, const td_view_op *v, int n) {
    put_big(m, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        put_big(m, v[i].op);
        put_nr(m, v[i].nr);
        put_flag(m, v[i].grad);
        put_flag(m, v[i].inference);
        put_big(m, (uint64_t)v[i].n_in);
        for (int k = 0; k < v[i].n_in; k++)
            if (!put_value(m, &v[i].in[k])) return false;
    }
    return true;
}

/* ---- the joint graph ---------------------------------------------------- */

/* What the joint graph records about input i. */
static bool put_input(td_image *m, const td_joint *j, int i) {
    const td_relation *r = &j->related[i];
    put_flag(m, j->written[i]);
    put_flag(m, j->touched[i]);
    put_nr(m, r->same);
    put_flag(m, r->shared);
    put_nr(m, r->base);
    return put_views(m, r->views, r->n_views);
}

static void put_fwd(td_image *m, const td_fwd *f) {
    put_flag(m, f->made);
    put_flag(m, f->written);
    put_flag(m, f->meta_written);
    put_nr(m, f->input);
    put_nr(m, f->result);
    put_nr(m, f->tangent);
    put_nr(m, f->event);
    put_flag(m, f->whole);
    if (f->made) put_geom(m, &f->geom);
}

/* A set of tangents. */
static void put_set(td_image *m, const td_joint *j, const uint64_t *set) {
    for (int w = 0; w < td__set_words(j->n_tangents); w++) put_big(m, set[w]);
}

static void put_tangent(td_image *m, const td_joint *j, const td_tangent *t) {
    put_nr(m, t->index);
    put_geom(m, &t->geom);
    for (int i = 0; i < t->geom.rank; i++) put_nr(m, t->order[i]);
    put_nr(m, (int)t->code);
    td__put_text(m->b, t->broken);
    put_set(m, j, t->clash);
    put_set(m, j, t->feeds);
}

static void put_target(td_image *m, const td_joint *j, const td_target *t) {
    put_nr(m, t->input);
    put_flag(m, t->base);
    put_flag(m, t->leaf);
    put_nr(m, t->event);
    put_set(m, j, t->from);
}

bool td__put_joint(td_image *m, const td_joint *j) {
    const int counts[] = {j->n_primals, j->n_fwd, j->n_results, j->n_tangents,
                          j->n_targets};
    bool      ok = td__image_graph(m, j->g) && td__image_graph(m, j->epilogue);
    for (int i = 0; i < TD_COUNT(counts); i++) put_nr(m, counts[i]);
    put_nr(m, j->left);
    put_flag(m, j->random);
    put_flag(m, j->releases);
    put_flag(m, j->detaches);
    for (int i = 0; ok && i < j->n_primals; i++) ok = put_input(m, j, i);
    for (int i = 0; i < j->n_results; i++) put_flag(m, j->feeds[i]);
    for (int i = 0; i < j->n_fwd; i++) put_fwd(m, &j->fwd[i]);
    for (int i = 0; i < j->n_tangents; i++) put_tangent(m, j, &j->tangents[i]);
    for (int i = 0; i < j->n_targets; i++) put_target(m, j, &j->targets[i]);
    return ok && !m->b->failed;
}

/* ---- halves ------------------------------------------------------------- */

/* A line of the partition's table. */
static void put_note(td_image *m, const td_part_note *n) {
    td__put_text(m->b, n->value);
    td__put_text(m->b, n->op);
    td__put_text(m->b, n->why);
    put_nr(m, n->bytes);
    put_flag(m, n->saved);
    put_flag(m, n->recomputed);
}

bool td__put_halves(td_image *m, const td_halves *h) {
    bool ok = td__image_graph(m, h->fwd) && td__image_graph(m, h->bwd);
    put_nr(m, h->n_fwd);
    put_nr(m, h->n_saved);
    put_nr(m, h->n_saved_syms);
    put_nr(m, h->n_draws);
    for (int i = 0; i < h->n_saved; i++) {
        put_nr(m, (int)h->saved[i].from);
        put_nr(m, h->saved[i].index);
        put_nr(m, h->saved[i].bytes);
    }
    put_big(m, (uint64_t)h->n_notes);
    for (int i = 0; i < h->n_notes; i++) put_note(m, &h->notes[i]);
    const int64_t bytes[] = {h->bytes_saved, h->bytes_most, h->peak, h->peak_most};
    for (int i = 0; i < TD_COUNT(bytes); i++) put_nr(m, bytes[i]);
    td__put_f64(m->b, h->cost_recompute);
    put_flag(m, h->fell_back);
    return ok && !m->b->failed;
}

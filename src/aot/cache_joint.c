/* cache_joint.c -- writes joint graphs and halves as bytes. Whoever adds a field to
 * one of these structs writes it here, reads it in cache_joint_read.c, and updates
 * the size below. */
#include "aot/cache_int.h"

_Static_assert(sizeof(td_joint) == 136 && sizeof(td_fwd) == 56 &&
                   sizeof(td_tangent) == 80 && sizeof(td_target) == 24 &&
                   sizeof(td_geom) == 32 && sizeof(td_primal) == 16,
               "a field of the joint graph is not written");
_Static_assert(sizeof(td_halves) == 152 && sizeof(td_saved_value) == 16 &&
                   sizeof(td_part_note) == 40,
               "a field of the halves is not written");

static void put_flag(td_image *m, bool x) { td__put_uint(m->b, x); }
static void put_nr(td_image *m, int64_t x) { td__put_int(m->b, x); }
static void put_big(td_image *m, uint64_t x) { td__put_uint(m->b, x); }

static void put_geom(td_image *m, const td_geom *g) {
    put_nr(m, (int)g->dtype);
    put_nr(m, g->rank);
    put_nr(m, g->device);
    put_nr(m, g->offset);
    for (int d = 0; d < g->rank; d++) put_nr(m, g->size[d]);
    for (int d = 0; d < g->rank; d++) put_nr(m, g->stride[d]);
}

/* ---- the joint graph ---------------------------------------------------- */

/* What the joint graph records about input i. */
static void put_input(td_image *m, const td_joint *j, int i) {
    put_flag(m, j->primals[i].written);
    put_flag(m, j->primals[i].touched);
    put_nr(m, j->primals[i].same);
}

static void put_fwd(td_image *m, const td_fwd *f) {
    put_flag(m, f->made);
    put_flag(m, f->written);
    put_flag(m, f->meta_written);
    put_nr(m, f->input);
    put_nr(m, f->result);
    put_nr(m, f->tangent);
    if (f->made) put_geom(m, &f->geom);
}

/* A set of tangents. */
static void put_set(td_image *m, const td_joint *j, const uint64_t *set) {
    for (int w = 0; w < td__set_words(j->n_tangents); w++) put_big(m, set[w]);
}

/* Also the error of a tangent that eager cannot differentiate: it must appear in every
 * process. */
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
    put_set(m, j, t->from);
}

/* Graphs first: the descriptors that follow refer to their values by number. */
bool td__put_joint(td_image *m, const td_joint *j) {
    const int counts[] = {j->n_primals, j->n_fwd, j->n_results, j->n_tangents,
                          j->n_targets};
    bool      ok = td__image_graph(m, j->g) && td__image_graph(m, j->epilogue);
    for (int i = 0; i < TD_COUNT(counts); i++) put_nr(m, counts[i]);
    put_nr(m, j->left);
    put_nr(m, j->order);
    put_nr(m, (int)j->code);
    td__put_text(m->b, j->broken);
    for (int i = 0; i < j->n_primals; i++) put_input(m, j, i);
    for (int i = 0; i < j->n_results; i++) put_flag(m, j->feeds[i]);
    for (int i = 0; i < j->n_results; i++) put_big(m, j->varies[i]);
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

static bool put_plain(td_image *m, const td_halves *h) {
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

/* Of a packed partition, the one before and the two graphs that make it. */
bool td__put_halves(td_image *m, const td_halves *h) {
    put_flag(m, h->plain != NULL);
    if (!h->plain) return put_plain(m, h);
    return put_plain(m, h->plain) && td__image_graph(m, h->pack) &&
           td__image_graph(m, h->unpack);
}

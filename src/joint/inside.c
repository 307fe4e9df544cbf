/* inside.c -- writes that stay in the graph (keep_mutations): elements of an input that
 * the graph itself writes at its end, when everything has been read. The epilogue then
 * only counts the write. */
#include "joint/joint_int.h"

/* The input a write is of, as it came: itself, or one that shows all that is written,
 * as that of a detached alias. -1: none. */
static int input_of(const td_joint_run *r, const td_event *e) {
    const td_tensor *t = e->to;
    td_geom          at = {(td_dtype)t->dtype, t->rank, t->offset, t->size, t->stride};
    int              shows = -1;
    bool             moved = td__about_storage(r, e->st)->meta;
    for (int i = 0; i < r->to->n_primals; i++) {
        if (!r->outer[i] || r->f.in.v[r->nr[i]].st != e->st) continue;
        if (!r->to->written[i] || td__overlaps_itself(r->real[i])) continue;
        if (r->outer[i] == t) return i;
        if (shows < 0 && !moved && td__geom_covers_bytes(&r->geom[i], &at)) shows = i;
    }
    return shows;
}

/* The code writes before the epilogue begins: no step of that may come between which
 * writes the same bytes, or says where they lie. */
static bool is_first(const td_joint_run *r, const td_event *e) {
    const td_about_storage *st = td__about_storage(r, e->st);
    bool meta = st->first_meta >= 0 && st->first_meta < (int)(e - r->log.all.v);
    return st->n_writes == 1 && !meta;
}

bool td__joint_choose_inside(td_joint_run *r) {
    for (int i = 0; r->opts.keep_mutations && i < r->log.all.n; i++) {
        td_event *e = &r->log.all.v[i];
        bool      plain = e->kept && e->kind == TD_EV_WRITE && e->put && !e->hist;
        int       input = plain ? input_of(r, e) : -1;
        if (input < 0 || !is_first(r, e)) continue;
        td_tensor *value = td__func_given_value(&r->f, r->nr[input]);
        if (!value) return false;
        r->write[input] = td__record_value(&r->rec, &value, "an update");
        if (!r->write[input]) return false;
        e->how = TD_HOW_BUMP;
        td__about_storage(r, e->st)->n_writes--;
        e->put = NULL;
    }
    return true;
}

bool td__joint_write_inside(td_joint_run *r) {
    for (int i = 0; i < r->to->n_primals; i++)
        if (r->write[i] && !td__joint_add_write(r, i, r->write[i])) return false;
    return true;
}

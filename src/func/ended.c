/* ended.c -- what became of the arguments of a run under the functional mode, for
 * rooms to the right. */
#include "func/func_int.h"

int td__func_writes(const td_func *f, int nr) {
    return td__group_of(f->in.v[nr].given)->writes;
}

/* Does `by`, which belongs to an argument, show all elements of v? */
static bool shows(const td_fval *by, const td_fval *v) {
    if (td__group_of(by) != td__group_of(v)) return false;
    return td__geom_same(&by->geom, &v->geom) ||
           td__geom_covers_bytes(&by->geom, &v->geom);
}

/* Are the elements of v visible through an argument, as it was passed or (`now`) as it
 * is after the program? Elements of a new storage always are. */
bool td__fval_is_shown(td_func *f, const td_fval *v, bool now) {
    const td_fval *from = v;
    while (from->up && from->kind != TD_F_PIECE) from = from->up;
    if (from->kind != TD_F_PIECE || !td__group_of(v)->given) return true;
    for (int i = 0; i < f->in.n; i++)
        if (shows(f->in.v[i].given, v) || (now && shows(f->in.v[i].t->payload, v)))
            return true;
    return false;
}

bool td__group_writes_outside(td_func *f, td_group *g) {
    for (int i = 0; i < f->moved.n && !g->outside; i++)
        if (td__group_of(f->moved.v[i]) == g)
            g->outside = !td__fval_is_shown(f, f->moved.v[i], true);
    return g->outside;
}

bool td__func_writes_outside(td_func *f, int nr) {
    return td__group_writes_outside(f, td__group_of(f->in.v[nr].given));
}

td_tensor *td__func_given_value(td_func *f, int nr) {
    return td__fval_value(f->in.v[nr].given);
}

bool td__func_make(td_func *f, td_tensor *outer, td_tensor *inner) {
    return td__fval_fresh(f, outer, inner);
}

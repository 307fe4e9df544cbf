/* ended.c -- what became of the arguments of a run under the functional mode, for
 * rooms to the right. */
#include "func/func_int.h"

int td__func_writes(const td_func *f, int nr) {
    return td__group_of(f->in.v[nr].given)->writes;
}

bool td__func_writes_outside(const td_func *f, int nr) {
    return td__group_of(f->in.v[nr].given)->outside;
}

td_tensor *td__func_given_value(td_func *f, int nr) {
    return td__fval_value(f->in.v[nr].given);
}

bool td__func_make(td_func *f, td_tensor *outer, td_tensor *inner) {
    return td__fval_fresh(f, outer, inner);
}

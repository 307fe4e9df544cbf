/* shown.c -- bytes made inside a program in which set_ leaves an argument. Whoever runs
 * the graph makes them again, of what arguments and results show; elements that none of
 * them shows would be lost, and eager can show them later. */
#include "func/func_int.h"

#include <string.h>

/* Marks the bytes of t's elements. */
static void mark(const td_tensor *t, uint8_t *marks) {
    int64_t at[TD_MAX_RANK] = {0}, place = t->offset;
    size_t  item = td__dtype_bytes[t->dtype];
    for (int64_t i = 0; i < t->numel; i++) {
        memset(marks + (size_t)place * item, 1, item);
        for (int d = t->rank - 1; d >= 0; d--) {
            place += t->stride[d];
            if (++at[d] < t->size[d]) break;
            place -= t->stride[d] * at[d];
            at[d] = 0;
        }
    }
}

bool td__storage_shown(td_ctx *cx, const td_storage *st, const td_shown *by) {
    if (td__dim_tracing()) return true; /* in numbers only */
    uint8_t *marks = td__zalloc(st->bytes + 1);
    if (!marks) return td__fail_memory(cx);
    for (int i = 0; i < by->n_in; i++)
        if (by->in[i] && by->in[i]->st == st) mark(by->in[i], marks);
    for (int i = 0; i < by->n_out; i++)
        if (by->out[i].kind == TD_K_TENSOR && by->out[i].u.t->st == st)
            mark(by->out[i].u.t, marks);
    bool all = !memchr(marks, 0, st->bytes);
    td__free(marks);
    if (all) return true;
    return td__fail(cx, TD_E_UNSUPPORTED,
                    "@%.60s: set_ takes an input to bytes of which it shows a part and "
                    "no result the rest; clone what is given to set_",
                    by->name);
}

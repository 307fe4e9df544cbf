/* shape_store.c -- shape rules of offloaded values: handles and tickets are i64[1]. */
#include "rules/create.h"
#include "rules/shape_rules.h"

static bool one_number(td_opcall *c) {
    static const int64_t one = 1;
    td__meta_dense(&c->meta[0], TD_I64, 1, &one);
    return true;
}

static bool is_number(const td_tensor *t) {
    return t->dtype == TD_I64 && t->rank == 1 && td__dim_eq(t->size[0], 1);
}

/* in: value, store, now. Result: a handle. */
bool td__shape_offload_store(td_opcall *c) { return one_number(c); }

/* in: handle, ahead. Result: a ticket. */
bool td__shape_offload_fetch(td_opcall *c) {
    if (!is_number(td__in(c, 0)))
        return td__op_fail(c, TD_E_SHAPE, "handle must be i64[1], got %s",
                           td__type_str(td__in(c, 0)));
    return one_number(c);
}

/* in: ticket, size, stride, dtype. Result: the value. */
bool td__shape_offload_wait(td_opcall *c) {
    if (!is_number(td__in(c, 0)))
        return td__op_fail(c, TD_E_SHAPE, "ticket must be i64[1], got %s",
                           td__type_str(td__in(c, 0)));
    return td__shape_new_strided(c);
}

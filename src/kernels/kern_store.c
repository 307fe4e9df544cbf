/* kern_store.c -- values in a store and on their way back (core/store.h). The storage
 * of a handle owns the value in the store, that of a ticket the bytes to come: both
 * live as long as something refers to the tensor. */
#include "core/store.h"
#include "ops/ops.h"

static void drop_handle(void *env) { td__stored_drop(env); }
static void drop_ticket(void *env) { td__fetched_drop(env); }

/* A tensor of one number whose storage owns env. */
static bool number_of(td_opcall *c, int64_t *number, void (*drop)(void *), void *env) {
    td_storage *st = td__storage_wrap(number, sizeof *number, drop, env);
    if (!st) {
        drop(env);
        return td__fail_memory(c->cx);
    }
    c->out[0] = td__tensor_over(c->cx, st, &c->meta[0]);
    td__storage_drop(st);
    return c->out[0] != NULL;
}

/* What the storage of t owns; NULL after td__fail: t is a copy, or another tensor. */
static void *owned_by(td_opcall *c, const td_tensor *t, void (*drop)(void *),
                      const char *maker) {
    if (t->st->release == drop) return t->st->env;
    td__op_fail(c, TD_E_ARG,
                "%s must be the tensor that %s returned, and not a copy of it",
                c->info->s.in[0].name, maker);
    return NULL;
}

/* in: value, store, now. */
bool td__kern_offload_store(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_store  *s = td__store_find(c->cx, c->in[1].u.s);
    size_t     n = (size_t)td__numel(t->rank, t->size) * td__dtype_bytes[t->dtype];
    if (!s) return false;
    if (!td__is_packed(t->rank, t->size, t->stride))
        return td__op_fail(c, TD_E_ALIAS,
                           "value %s has gaps or overlaps; store a clone of it",
                           td__type_str(t));
    td_stored *v =
        td__stored_make(c->cx, s, t->st, td__ptr(t), n, td__value_i(c->in[2]) != 0);
    return v && number_of(c, td__stored_number(v), drop_handle, v);
}

/* in: handle, ahead. */
bool td__kern_offload_fetch(td_opcall *c) {
    td_stored  *v = owned_by(c, td__in(c, 0), drop_handle, "offload_store");
    td_fetched *f = v ? td__stored_fetch(c->cx, v) : NULL;
    return f && number_of(c, td__fetched_number(f), drop_ticket, f);
}

/* in: ticket, size, stride, dtype. */
bool td__kern_offload_wait(td_opcall *c) {
    td_fetched    *f = owned_by(c, td__in(c, 0), drop_ticket, "offload_fetch");
    const td_meta *m = &c->meta[0];
    td_storage    *st = f ? td__fetched_take(c->cx, f) : NULL;
    if (!st) return false;
    int64_t n = td__dim_mul(td__numel(m->rank, m->size), td__dtype_bytes[m->dtype]);
    int64_t has = (int64_t)st->bytes;
    bool    fits = n == has && td__is_packed(m->rank, m->size, m->stride);
    if (fits) c->out[0] = td__tensor_over(c->cx, st, m);
    td__storage_drop(st);
    return fits ? c->out[0] != NULL
                : td__op_fail(c, TD_E_SHAPE,
                              "the sizes are %lld bytes, or have gaps, and %lld bytes "
                              "were stored without gaps",
                              (long long)n, (long long)has);
}

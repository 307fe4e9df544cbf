/* marks.c -- marks on dims whose size will differ in later calls. A trace reads them
 * from its arguments (aot/marked.c, trace/sym_args.c). */
#include "core/core.h"

#include <string.h>

/* The dim as a bit; 0 after td__fail. */
static uint32_t bit_of(const td_tensor *t, int64_t dim, const char *who) {
    int d = t->rank ? td__wrap_dim(dim, t->rank) : -1;
    if (d >= 0) return (uint32_t)1 << d;
    td__fail(t->cx, TD_E_INDEX, "%s: %s has no dim %lld", who, td__type_str(t),
             (long long)dim);
    return 0;
}

bool td_mark_dynamic(td_tensor *t, int64_t dim) {
    if (!TD_ENTER(t, TENSOR)) return false;
    uint32_t bit = bit_of(t, dim, "td_mark_dynamic");
    t->marks |= bit;
    return bit != 0;
}

bool td_mark_maybe_dynamic(td_tensor *t, int64_t dim) {
    if (!TD_ENTER(t, TENSOR)) return false;
    uint32_t bit = bit_of(t, dim, "td_mark_maybe_dynamic");
    t->maybe |= bit;
    return bit != 0;
}

static bool has_room(td_tensor *t) {
    if (!t->bounds) t->bounds = td__zalloc(sizeof *t->bounds * 32);
    return t->bounds || td__fail_memory(t->cx);
}

bool td__bounds_copy(td_tensor *t, const td_tensor *from) {
    if (!has_room(t)) return false;
    memcpy(t->bounds, from->bounds, sizeof *t->bounds * 32);
    return true;
}

bool td_mark_dynamic_range(td_tensor *t, int64_t dim, int64_t least, int64_t most) {
    static const char who[] = "td_mark_dynamic_range";
    if (!TD_ENTER(t, TENSOR)) return false;
    uint32_t bit = bit_of(t, dim, who);
    if (!bit) return false;
    int     d = td__wrap_dim(dim, t->rank);
    int64_t size = t->size[d];
    if (least < 0 || most < least || most > TD_DIM_HUGE)
        return td__fail(t->cx, TD_E_ARG, "%s: there is no size from %lld to %lld", who,
                        (long long)least, (long long)most);
    if (!td__dim_is_sym(size) && (size < least || size > most))
        return td__fail(t->cx, TD_E_ARG,
                        "%s: dim %d of %s has size %lld, which is not from %lld to "
                        "%lld",
                        who, d, td__type_str(t), (long long)size, (long long)least,
                        (long long)most);
    if (!has_room(t)) return false;
    t->bounds[d] = (td_bounds){least, most};
    t->marks |= bit;
    return true;
}

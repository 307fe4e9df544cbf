/* text/copy.h -- copies of whole vectors. */

typedef struct td_k_vector {
    uint64_t v[2];
} td_k_vector __attribute__((aligned(16)));

/* Pointer 1 = pointer 0. The walk: both, in vectors. given: their number. */
TD_KERNEL td_k_copy(TD_RUN(td_nest_run)) {
    TD_OPEN
    const td_k_vector *from = (const td_k_vector *)(const void *)r->ptr[0];
    td_k_vector       *to = (td_k_vector *)(void *)r->ptr[1];
    const int64_t     *s = r->size;
    const int64_t      count = r->given[0];
    const int          rank = (int)s[0];
    TD_UNROLL
    for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {
        uint32_t rest = (uint32_t)at;
        int64_t  a = 0, b = 0;
        for (int d = rank; d > 0; d--) {
            const uint32_t n = (uint32_t)s[d], i = d > 1 ? rest % n : rest;
            if (d > 1) rest /= n;
            a += i * s[rank + d];
            b += i * s[2 * rank + d];
        }
        const td_k_vector x = TD_TAKE(td_k_vector, from + a);
        TD_GIVE(td_k_vector, to + b, x);
    }
}

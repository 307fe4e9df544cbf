/* vec.c -- growth of the arrays declared with TD_VEC. Capacities double, so n
 * pushes copy at most 2n items. */
#include "base/base.h"

#include <limits.h>
#include <string.h>

/* Makes capacity for `need` items of `item` bytes. `v` is the address of a T *, for any
 * T: it is read and written as bytes, never as a void *. On failure the array is
 * unchanged. */
bool td__vec_grow(void **v, int *cap, int need, size_t item) {
    if (need <= *cap) return true;
    int new_cap = *cap < 8 ? 8 : *cap > INT_MAX / 2 ? INT_MAX : *cap * 2;
    if (new_cap < need) new_cap = need;
    if ((size_t)new_cap > SIZE_MAX / item) return false;

    void *old;
    memcpy(&old, (void *)v, sizeof old);
    void *grown = td__realloc(old, (size_t)new_cap * item);
    if (!grown) return false;
    memcpy((void *)v, &grown, sizeof grown);
    *cap = new_cap;
    return true;
}

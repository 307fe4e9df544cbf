/* fuzz_npy.c -- any bytes as a .npy file: an error or a tensor whose every element
 * can be read, never a crash. */
#include "core/files.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static td_ctx *cx;
    if (!cx) cx = td_open();
    td_scope_begin(cx, "fuzz");
    td_mapping *m = td__mapping_over(cx, data, size);
    td_tensor  *t = td__npy_read(cx, m, "fuzz.npy");
    if (td_is_nil(t) == td_ok(cx)) abort(); /* nil and an error go together */
    size_t bytes = (size_t)td_numel(t) * td_dtype_size(td_dtype_of(t));
    void  *copy = malloc(bytes + 1);
    if (!td_is_nil(t) && !td_read(t, td_dtype_of(t), copy, bytes)) abort();
    td_format(t, NULL, 0);
    free(copy);
    td_scope_end(cx, "fuzz", NULL);
    td__mapping_drop(m);
    td_clear(cx);
    return 0;
}

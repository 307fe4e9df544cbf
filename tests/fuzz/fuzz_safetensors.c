/* fuzz_safetensors.c -- any bytes as a .safetensors file: an error, or a file all
 * of whose tensors can be read, never a crash. */
#include "core/files.h"
#include "tandem/io.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(td_ctx *cx, td_safetensors *f) {
    for (int i = 0; i < td_safetensors_count(f); i++) {
        td_tensor *t = td_safetensors_get(f, td_safetensors_name(f, i));
        if (td_is_nil(t) == td_ok(cx)) abort(); /* nil and an error go together */
        size_t bytes = (size_t)td_numel(t) * td_dtype_size(td_dtype_of(t));
        void  *copy = malloc(bytes + 1);
        if (!td_is_nil(t) && !td_read(t, td_dtype_of(t), copy, bytes)) abort();
        free(copy);
        td_clear(cx);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static td_ctx *cx;
    if (!cx) cx = td_open();
    td_scope_begin(cx, "fuzz");
    td_mapping     *m = td__mapping_over(cx, data, size);
    td_safetensors *f = td__safetensors_read(cx, m, "fuzz.safetensors");
    if (td_is_nil(f) == td_ok(cx)) abort();
    read_all(cx, f);
    td_safetensors_note(f, "format");
    td_safetensors_close(f);
    td_scope_end(cx, "fuzz", NULL);
    td__mapping_drop(m);
    td_clear(cx);
    return 0;
}

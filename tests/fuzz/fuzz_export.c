/* fuzz_export.c -- any bytes behind the head of an exported graph: an error, or an
 * export whose text parses back, and which runs or says why not. */
#include "core/core.h"
#include "tandem/aot.h"
#include "tandem/export.h"
#include "tandem/tandem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 64, LARGEST = 4096 };

static void check_text(td_ctx *cx, const td_exported *e) {
    size_t n = td_exported_text(e, NULL, 0);
    char  *text = malloc(n + 1);
    if (!text) return;
    td_exported_text(e, text, n + 1);
    td_exported *again = td_exported_parse(cx, text, n, "again");
    if (td_is_nil(again)) abort();
    td_exported_drop(again);
    free(text);
}

/* Ones for every input; false: one is too large, or its size is a symbol. */
static bool make_inputs(td_ctx *cx, const td_exported *e, td_value *in, int n) {
    for (int i = 0; i < n; i++) {
        td_slot s = td_exported_input(e, i);
        int64_t elements = 1;
        in[i] = td_value_int(1);
        if (!s.tensor) continue;
        for (int d = 0; d < s.rank; d++) {
            if (!s.size || s.size[d] < 0 || s.size[d] > MOST) return false;
            elements *= s.size[d];
            if (elements > LARGEST) return false;
        }
        in[i] = td_value_tensor(td_op_ones(cx, (td_ints){s.size, s.rank}, s.dtype));
    }
    return td_ok(cx);
}

static void run(td_ctx *cx, const td_exported *e) {
    td_value   in[MOST], out[MOST];
    td_tensor *made[MOST];
    int        n = td_exported_inputs(e), m = td_exported_outputs(e);
    for (int i = 0; i < m; i++) (void)td_exported_output(e, i);
    (void)td_exported_loss(e);
    if (n > MOST || m > MOST || !make_inputs(cx, e, in, n)) return;
    td_exported_run(e, (td_values){in, n}, out, m);
    td_clear(cx);
    td_fn *f = td_aot_graph(td_exported_graph(e), NULL);
    if (td_ok(cx)) td_invoke(f, (td_values){in, n}, made, m);
    td_clear(cx);
    td_fn_drop(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char head[] = "# tandem export 2\n";
    static td_ctx    *cx;
    if (!cx) {
        cx = td_open();
        td_config_set(cx, "backend", "interp");
        td_config_set(cx, "cache_disk_mb", "0");
    }
    size_t n = sizeof head - 1;
    char  *text = malloc(n + size + 1);
    if (!text) return 0;
    memcpy(text, head, n);
    memcpy(text + n, data, size);
    td_scope_begin(cx, "fuzz");
    td_exported *e = td_exported_parse(cx, text, n + size, "fuzz");
    if (td_is_nil(e) == td_ok(cx)) abort();
    if (!td_is_nil(e)) {
        check_text(cx, e);
        run(cx, e);
        td_exported_drop(e);
    }
    td_clear(cx);
    td_scope_end(cx, "fuzz", NULL);
    td_clear(cx);
    free(text);
    return 0;
}

/* fuzz_fn_file.c -- files of td_fn_save with any bytes in them. A file with a wrong
 * checksum is refused; with a right one, which anybody can compute, its bytes are read
 * with care: what is not consistent is an error, and what is taken does not crash.
 *
 * The first byte chooses: 0, the rest is a file; 1, the rest is the contents of one,
 * between its magic and its checksum; else changes of a fresh file by four bytes each:
 * a place (two), a value, and whether it is put or flips a bit. */
#include "aot/aot.h"
#include "aot/fn_file.h"
#include "core/files.h"
#include "tandem/tandem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static td_ctx *cx;
static td_buf  fresh; /* a file as td_fn_save wrote it */

/* A view, a write, a number, results that are views of one another. */
static bool body(td_call *c) {
    td_tensor *h = td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1)));
    td_add_(td_arg(c, 2), 1.0);
    td_tensor *y = td_sum(td_mul(h, td_arg_value(c, 3)));
    return td_return(c, y, td_transpose(h, 0, 1));
}

static void call(td_fn *f) {
    td_scope_begin(cx, "call");
    td_tensor *x = td_ones(cx, TD_SHAPE(3, 4)), *s = td_zeros(cx, TD_SHAPE()), *out[2];
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(4, 2)));
    if (td_invoke(f, TD_ARGS(x, w, s, 2.5), out, 2)) (void)td_backward(out[0]);
    td_clear(cx);
    td_scope_end(cx, "call", NULL);
    td_clear(cx);
}

static void start(void) {
    char        path[64];
    td_aot_opts o = {TD_AOT_OPTS, .savable = true};
    snprintf(path, sizeof path, "/tmp/td-fuzz-fn-%ld", (long)getpid());
    cx = td_open();
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_fn *f = td_aot_function(cx, body, NULL, &o);
    call(f);
    if (!td_fn_save(f, path)) abort();
    td_mapping *m = td__mapping_open(cx, "fuzz", path);
    if (!m) abort();
    td__buf_addn(&fresh, (const char *)m->bytes, m->n);
    td__mapping_drop(m);
    unlink(path);
    td_fn_drop(f);
}

/* Reads and calls. */
static void load(const td_buf *b) {
    td_shared_opts *h = td__shared_opts_make(cx, NULL);
    td_fn          *f = h ? td__fn_read(cx, h, td__buf_str(b), b->n, "f") : NULL;
    td_clear(cx);
    if (f) call(f);
    td__fn_free(f);
}

static void change(td_buf *b, const uint8_t *data, size_t size) {
    for (; size >= 4; data += 4, size -= 4) {
        size_t at = ((size_t)data[0] << 8 | data[1]) % b->n;
        b->s[at] =
            (char)(data[3] & 1 ? data[2] : (uint8_t)b->s[at] ^ 1u << data[2] % 8);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td_buf     b = {0};
    td_hash128 sum;
    if (!cx) start();
    if (!size) return 0;
    if (data[0] == 1) td__buf_addn(&b, TD_FN_MAGIC, TD_FN_MAGIC_BYTES);
    if (data[0] <= 1) td__buf_addn(&b, (const char *)data + 1, size - 1);
    else {
        td__buf_addn(&b, fresh.s, fresh.n - sizeof sum);
        change(&b, data + 1, size - 1);
    }
    if (data[0]) {
        sum = td__hash128(td__buf_str(&b), b.n);
        td__buf_addn(&b, (const char *)&sum, sizeof sum);
    }
    if (!b.failed) load(&b);
    td__buf_free(&b);
    return 0;
}

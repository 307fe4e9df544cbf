/* fuzz_cache.c -- entries of the cache on disk with any bytes in them. A file without a
 * signature is a miss. Signed, as only this user could, its bytes are read with
 * care: what is not consistent is a miss, and what is taken runs without a crash.
 *
 * The first byte chooses what; the rest are bytes, or changes of a fresh entry by four
 * bytes each: a place (two), a value, and whether it is put or flips a bit. */
#include "aot/aot.h"
#include "build/disk.h"
#include "backend/native.h"
#include "graph/graph_image.h"
#include "tandem/tandem.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char    dir[64];
static td_ctx *cx;

static void listen(void *env, const char *topic, const char *text) {
    (void)env, (void)topic, (void)text;
}

static td_ctx *open_here(const char *backend) {
    td_ctx *c = td_open();
    td_config_set(c, "cache_dir", dir);
    td_config_set(c, "backend", backend);
    td_config_set(c, "cc_flags", "-O0");
    td_log_to(c, listen, NULL);
    return c;
}

/* ---- entries ------------------------------------------------------------ */

/* An entry as it was written. */
typedef struct sample {
    char   name[64];
    td_buf key, bytes;
} sample;
static sample spec, code; /* f_ and n_ */

static void clean_up(void) {
    td_ctx *c = open_here("interp");
    td_disk d;
    td__disk_open(&d, c, false);
    td__disk_clear(&d);
    td__disk_close(&d);
    td_close(c);
    rmdir(dir);
}

static void take_sample(td_disk *d, const char *name) {
    sample       *s = name[0] == 'f' ? &spec : &code;
    char          why[100];
    td_disk_entry e;
    if (*s->name) return;
    snprintf(s->name, sizeof s->name, "%.60s", name);
    if (!td__disk_check(d, name, &s->key, why, sizeof why)) abort();
    *strstr(s->key.s, "entry ") = 0;
    s->key.n = strlen(s->key.s);
    if (td__disk_read(d, name, s->key.s, &e)) abort();
    td__buf_addn(&s->bytes, e.bytes, e.payload);
    td__disk_entry_free(&e);
}

/* Its epilogue has values, views, writes with a history and without, a geometry, and a
 * leaf that is made inside. */
static bool body(td_call *c) {
    td_tensor *h = td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1)));
    td_tensor *leaf = td_requires_grad_(td_ones(td_call_ctx(c), TD_SHAPE(3, 2)));
    td_add_(td_arg(c, 2), 1.0);
    td_mul_(td_arg(c, 3), td_sum(h));
    td_op_t_(td_arg(c, 4));
    td_tensor *y = td_sum(td_mul(td_mul(h, leaf), td_arg(c, 3)));
    return td_return(c, y, td_transpose(h, 0, 1), leaf);
}

/* A call and its backward, by the entry that is there. */
static void call(td_ctx *c) {
    td_scope_begin(c, "call");
    td_tensor *x = td_ones(c, TD_SHAPE(3, 4)), *s = td_zeros(c, TD_SHAPE());
    td_tensor *w = td_requires_grad_(td_ones(c, TD_SHAPE(4, 2)));
    td_tensor *v = td_sum(w), *t = td_ones(c, TD_SHAPE(2, 3)), *out[3];
    td_fn     *f = td_aot_function(c, body, NULL, NULL);
    if (td_invoke(f, TD_ARGS(x, w, s, v, t), out, 3)) td_backward(out[0]);
    td_clear(c);
    td_fn_drop(f);
    td_scope_end(c, "call", NULL);
    td_clear(c);
}

static const char text[] = "func @f(%x: f32[3,4], %w: f32[4,2]) {\n"
                           "  %m = mm(%x, %w) : f32[3,2]\n"
                           "  %r = rand_like(%m) : f32[3,2]\n"
                           "  %a = mul(%m, %r) : f32[3,2]\n"
                           "  %s = sum(%a, [0]) : f32[2]\n"
                           "  return %s\n"
                           "}\n";
static td_gfile  *file;

static void start(void) {
    td_runner       runner = {0};
    td_compile_info info = {.size = sizeof info, .name = "f"};
    bool            shm = access("/dev/shm", W_OK) == 0;
    snprintf(dir, sizeof dir, "%s/td-fuzz-XXXXXX", shm ? "/dev/shm" : "/tmp");
    if (!mkdtemp(dir)) abort();
    atexit(clean_up);
    cx = open_here("interp");
    call(cx);
    file = td__gfile_parse(cx, text, sizeof text - 1, "f.td");
    if (!file || !td__compile(cx, &td__native, file->graphs.v[0], &info, &runner))
        abort();
    td__runner_drop(&runner);
    td_disk d;
    td__disk_open(&d, cx, false);
    DIR *all = opendir(dir);
    for (struct dirent *e; all && (e = readdir(all));)
        if (strchr("fn", e->d_name[0])) take_sample(&d, e->d_name);
    closedir(all);
    td__disk_close(&d);
    if (!*spec.name || !*code.name) abort();
}

/* ---- what is tried ------------------------------------------------------ */

static td_buf change(const sample *s, const uint8_t *data, size_t size) {
    td_buf b = {0};
    td__buf_addn(&b, s->bytes.s, s->bytes.n);
    for (; !b.failed && size >= 4; data += 4, size -= 4) {
        size_t at = ((size_t)data[0] << 8 | data[1]) % b.n;
        if (data[3] & 1) b.s[at] = (char)data[2];
        else b.s[at] = (char)(b.s[at] ^ 1 << (data[2] & 7));
    }
    if (size == 1) b.n -= data[0] < b.n ? data[0] : 0;
    return b;
}

/* A file with these bytes and no signature. */
static void try_unsigned(const uint8_t *data, size_t size) {
    td_disk       d;
    td_disk_entry e;
    char          path[200];
    snprintf(path, sizeof path, "%s/n_fuzz", dir);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size) abort();
    fclose(f);
    td__disk_open(&d, cx, false);
    if (d.fd < 0 || !td__disk_read(&d, "n_fuzz", "", &e)) abort();
    td__disk_entry_free(&e);
    td__disk_close(&d);
    unlink(path);
}

static void try_graph(const void *bytes, size_t n) {
    td_reader r = td__reader(bytes, n);
    td_buf    b = {0};
    td_graph *g = td__image_read(&r, cx, file->graphs.v[0]);
    if (g && td__graph_verify(g, TD_STAGE_PROGRAM))
        td__graph_print(&b, g, TD_PRINT_TYPES);
    td__graph_drop(g);
    td__buf_free(&b);
    td_clear(cx);
}

static void try_code(const td_buf *b) {
    td_native *c = td__zalloc(sizeof *c);
    if (!c) return;
    (void)td__native_read(c, b->s, b->n, file->graphs.v[0]);
    td__native_drop(c);
    td_clear(cx);
}

static void try_spec(const td_buf *b) {
    td_disk d;
    td__disk_open(&d, cx, false);
    td__disk_store_entry(&d, spec.name, spec.key.s, "function f", b);
    td__disk_close(&d);
    call(cx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!cx) start();
    if (size < 2) return 0;
    int what = data[0] & 3;
    data++, size--;
    if (what == 0) try_unsigned(data, size);
    if (what == 1) try_graph(data, size);
    if (what < 2) return 0;
    td_buf b = change(what == 2 ? &code : &spec, data, size);
    if (!b.failed && what == 2) try_code(&b), try_graph(b.s, b.n);
    if (!b.failed && what == 3) try_spec(&b);
    td__buf_free(&b);
    return 0;
}

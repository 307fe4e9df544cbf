/* native.c -- failures of allocations and file calls while functions are lowered to
 * native code, called, explained, kept on disk and found there. What is not kept is
 * made again, so none of them may fail a call but for want of memory; what lies on disk
 * afterwards is whole. */
#include "faults.h"

#include "build/disk.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/td-native-XXXXXX";

/* A bit of everything that loops have: draws, folds, views, constants, late numbers,
 * casts, a written argument; and calls between them. */
static bool mixed(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *seen = td_arg(c, 2);
    double     by = td_arg_number(c, 3);
    td_tensor *h = td_tanh(td_matmul(x, w));
    td_tensor *m = td_amax(h, TD_DIMS(1), true);
    td_tensor *p = td_softmax(td_mul(td_sub(h, m), by), 1);
    td_tensor *n = td_to(td_lt(td_rand_like(h), 0.75), TD_F32);
    td_add_(seen, td_mean(td_detach(h), TD_DIMS(0), false));
    td_tensor *z = td_cat(TD_LIST(td_mul(p, n), td_transpose(td_t(h), 0, 1)), 1);
    td_tensor *k = td_add(td_zeros(cx, TD_SHAPE(3)), td_full(cx, TD_SHAPE(3), 0.5));
    td_tensor *y = td_add(td_select(z, 1, 1), td_sum(td_mul(h, k), TD_DIMS(1), false));
    return td_return(c, td_sum(y), td_transpose(h, 0, 1));
}

static double sum_of(td_tensor *t) { return td_item(td_sum(td_to(t, TD_F64))); }

static td_ctx *set(td_ctx *cx, const char *mb, const char *dynamic) {
    td_config_set(cx, "backend", "native");
    td_config_set(cx, "cc_flags", "-O0");
    td_config_set(cx, "cache_dir", folder);
    td_config_set(cx, "cache_disk_mb", mb);
    td_config_set(cx, "dynamic", dynamic);
    return cx;
}

static double call(td_ctx *cx, td_fn *f, int64_t rows, double by) {
    td_tensor *x = td_requires_grad_(td_mul(td_ones(cx, TD_SHAPE(rows, 3)), 0.3));
    td_tensor *w = td_requires_grad_(td_mul(td_ones(cx, TD_SHAPE(3, 3)), 0.2));
    td_tensor *seen = td_zeros(cx, TD_SHAPE(3)), *y[2];
    if (!f || !td_invoke(f, TD_ARGS(x, w, seen, by), y, 2)) return 0;
    if (!td_backward(td_add(y[0], td_sum(y[1])))) return 0;
    return sum_of(td_grad_of(w)) + sum_of(td_grad_of(x)) + sum_of(seen);
}

/* Compiled and called; the words of its version, too, when it has one. */
static double one(td_ctx *cx, const char *version) {
    td_aot_opts o = {TD_AOT_OPTS, .name = "mixed", .version = version};
    td_fn      *f = td_aot_function(cx, mixed, NULL, &o);
    double      sum = call(cx, f, 4, 1.5);
    td_fn_drop(f);
    return sum;
}

static double plain(td_ctx *cx) { return one(set(cx, "0", "off"), NULL); }

/* One code for two sizes. */
static double many(td_ctx *cx) {
    td_fn *f = td_aot_function(set(cx, "0", "on"), mixed, NULL, NULL);
    double sum = call(cx, f, 4, 1.5) + call(cx, f, 6, 1.5);
    if (td_ok(cx) && td_fn_specializations(f) != 1)
        td_fail(cx, TD_E_BUILD, "not one code for both");
    td_fn_drop(f);
    return sum;
}

/* Nothing is there yet, but kernels in the process. */
static void clear(void) {
    td_ctx *cx = set(td_open(), "16", "off");
    td_disk d;
    td__disk_open(&d, cx, false);
    if (d.fd >= 0) td__disk_clear(&d);
    td__disk_close(&d);
    td_close(cx);
}
static double warm(td_ctx *cx) { return one(set(cx, "16", "off"), NULL); }
static double warm_many(td_ctx *cx) { return one(set(cx, "16", "on"), NULL); }
static double signed_entry(td_ctx *cx) { return one(set(cx, "16", "on"), "1"); }

static double told; /* lines */

static void count(void *env, const char *topic, const char *text) {
    (void)env, (void)topic;
    for (; *text; text++) told += *text == '\n';
}

/* Loops as text, from what was found on disk: made again for whoever asks. */
static double shown(td_ctx *cx) {
    static char text[1 << 16];
    td_fn      *f = td_aot_function(set(cx, "16", "off"), mixed, NULL, NULL);
    double      sum = call(cx, f, 4, 1.5);
    if (f && td_ok(cx) && td_explain(f, text, sizeof text)) /* 0 without memory */
        if (!strstr(text, "backward code: ")) sum = -1;
    td_fn_drop(f);
    return td_ok(cx) ? sum : 0;
}
static double logged(td_ctx *cx) {
    td_log_to(cx, count, NULL);
    td_config_set(cx, "log", "backend,cache,compile");
    double sum = one(set(cx, "16", "on"), NULL);
    td_config_set(cx, "log", "");
    return sum;
}

/* Whatever failed: each file is whole, and no other is left. */
static bool is_whole(void) {
    td_ctx       *cx = set(td_open(), "16", "off");
    td_disk       d;
    td_disk_files list = {0};
    td_buf        key = {0};
    char          why[300];
    td__disk_open(&d, cx, false);
    bool ok = d.fd < 0 || td__disk_list(&d, &list);
    for (int i = 0; i < list.n; i++)
        if (list.v[i].temp || !td__disk_check(&d, list.v[i].name, &key, why, 300)) {
            printf("%s %s\n", list.v[i].name, list.v[i].temp ? "is left" : why);
            ok = false;
        }
    td__disk_close(&d);
    td__vec_free(&list);
    td__buf_free(&key);
    td_close(cx);
    clear();
    return ok;
}

static const td_fault_case cases[] = {
    {.name = "plain", .run = plain, .slow = true},
    {.name = "many", .run = many, .slow = true},
    {.name = "cold", .run = warm, .slow = true, .before = clear},
    {.name = "warm", .run = warm, .slow = true},
    {.name = "warm many", .run = warm_many, .slow = true},
    {.name = "signed_entry", .run = signed_entry, .slow = true},
    {.name = "shown", .run = shown, .slow = true},
    {.name = "logged", .run = logged, .slow = true}};

int main(int argc, char **argv) {
    if (!mkdtemp(folder)) return perror(folder), 1;
    int status = fault_main(cases, TD_COUNT(cases), argc, argv);
    if (told == 0 && argc < 2) return puts("nothing was logged"), 1;
    if (!is_whole()) return 1;
    if (rmdir(folder)) return perror(folder), 1;
    return status;
}

/* remote.c -- failures of allocations and file calls while a function is stored on a
 * remote store and read from it. The store is in memory and never fails by itself. */
#include "faults.h"

#include "build/disk.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/td-remote-XXXXXX", key[64];

/* ---- the store ------------------------------------------------------------ */

enum { MOST = 64 };

static struct {
    char  *name, *bytes;
    size_t n;
} values[MOST];
static int n_values, found;

static td_cache_answer get(void *env, const char *name, int64_t ms, td_cache_take *take,
                           void *to) {
    (void)env, (void)ms;
    for (int i = 0; i < n_values; i++)
        if (!strcmp(values[i].name, name)) {
            found++;
            return take(to, values[i].bytes, values[i].n) ? TD_CACHE_OK : TD_CACHE_NONE;
        }
    return TD_CACHE_NONE;
}

static void forget(int i) {
    free(values[i].name);
    free(values[i].bytes);
    values[i] = values[--n_values];
}

static td_cache_answer put(void *env, const td_cache_item *item, int n, int64_t ms) {
    (void)env, (void)ms;
    for (int k = 0; k < n; k++) {
        for (int i = n_values - 1; i >= 0; i--)
            if (!strcmp(values[i].name, item[k].name)) forget(i);
        if (n_values == MOST) return TD_CACHE_REFUSED;
        values[n_values].name = strdup(item[k].name);
        values[n_values].bytes = memcpy(malloc(item[k].n), item[k].bytes, item[k].n);
        values[n_values++].n = item[k].n;
    }
    return TD_CACHE_OK;
}

static void forget_all(void) {
    while (n_values) forget(0);
}

/* ---- the program ---------------------------------------------------------- */

static bool body(td_call *c) {
    return td_return(c, td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1))));
}

/* The disk cache, which the remote one is behind, whatever the environment says. */
static void use_disk(td_ctx *cx) {
    td_config_set(cx, "cache_dir", folder);
    td_config_set(cx, "cache_disk_mb", "64");
}

static double call(td_ctx *cx, const char *version) {
    td_cache_store s = {"memory", NULL, get, put, NULL};
    td_aot_opts    o = {TD_AOT_OPTS, .version = version};
    td_config_set(cx, "backend", "native");
    td_config_set(cx, "cc_flags", "-O0");
    use_disk(cx);
    td_config_set(cx, "cache_remote_key", key);
    if (!td_cache_remote(cx, &s)) return 0;
    td_tensor *x = td_full(cx, TD_SHAPE(2, 3), 0.5), *y = NULL;
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 2), 0.25));
    td_fn     *f = td_aot_function(cx, body, NULL, &o);
    double     sum = 0;
    if (f && td_invoke(f, TD_ARGS(x, w), &y, 1) && td_backward(td_sum(y)))
        sum = td_item(td_sum(y)) + td_item(td_sum(td_grad_of(w)));
    td_fn_drop(f);
    return sum;
}

static double plain(td_ctx *cx) { return call(cx, NULL); }
static double version(td_ctx *cx) { return call(cx, "1"); }

/* A machine without files. */
static void clear(void) {
    td_ctx *cx = td_open();
    td_disk d;
    use_disk(cx);
    td__disk_open(&d, cx, false);
    if (d.fd >= 0) td__disk_clear(&d);
    td__disk_close(&d);
    td_close(cx);
}

static void clear_all(void) {
    clear();
    forget_all();
}

static const td_fault_case cases[] = {
    {.name = "stores", .run = plain, .slow = true, .before = clear_all},
    {.name = "reads", .run = plain, .slow = true, .before = clear},
    {.name = "reads a version", .run = version, .slow = true, .before = clear}};

int main(int argc, char **argv) {
    if (!mkdtemp(folder)) return perror(folder), 1;
    snprintf(key, sizeof key, "%s.key", folder);
    FILE *f = fopen(key, "w");
    if (!f || fputs("0123456789abcdef0123456789abcdef", f) < 0 || fclose(f) != 0)
        return 1;
    chmod(key, 0600);
    int status = fault_main(cases, TD_COUNT(cases), argc, argv);
    clear_all();
    unlink(key);
    if (!found && argc < 2) return puts("nothing was found"), 1;
    if (rmdir(folder)) return perror(folder), 1;
    return status;
}

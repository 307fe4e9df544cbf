/* token_loader.c -- windows of a token file as a dataset of two fields: tokens, and the
 * same shifted by one. */
#include "nn/data.h"
#include "nn/nn.h"

#include <stdio.h>
#include <string.h>

typedef struct windows {
    td_loader_opts o;
    td_token_file  file;
    char          *path;
    int64_t       *row; /* scratch of window + 1 tokens */
} windows;

static void drop_windows(void *env) {
    windows *w = env;
    if (!w) return;
    td__mapping_drop(w->file.map);
    td__free(w->row);
    td__free(w->path);
    td__free(w);
}

/* The number of a window, or with TD_ORDER_RANDOM the token where it begins. */
static bool read_window(void *env, const td_sample *item) {
    windows *w = env;
    int64_t  n = w->o.window, step = w->o.order == TD_ORDER_RANDOM ? 1 : n;
    int64_t  bad =
        td__tokens_read(&w->file, item->index * step, n + 1, w->o.vocab, w->row);
    memcpy(item->out[0], w->row, sizeof *w->row * (size_t)n);
    memcpy(item->out[1], w->row + 1, sizeof *w->row * (size_t)n);
    if (bad < 0) return true;
    int64_t token = 0;
    td__tokens_read(&w->file, bad, 1, 0, &token);
    snprintf(item->why, item->why_size,
             "%.120s: token %lld is %lld; it must be %s %lld", w->path,
             (long long)(bad + w->o.first), (long long)token,
             token < 0 ? "at least" : "below", (long long)(token < 0 ? 0 : w->o.vocab));
    return false;
}

/* Are the options in range? False after td__fail. */
static bool check_opts(td_ctx *cx, const td_loader_opts *o) {
    static const char who[] = "td_loader_open";
    if (!td__nn_positive(cx, who, "batch", o->batch) ||
        !td__nn_positive(cx, who, "window", o->window))
        return false;
    if (o->batch > INT32_MAX || o->window > INT32_MAX || o->vocab < 0 ||
        (unsigned)o->type > TD_TOKENS_U32 || (unsigned)o->order > TD_ORDER_RANDOM ||
        o->ahead < -1 || o->ahead > 1024)
        return td__fail(cx, TD_E_ARG,
                        "%s: an option is out of range: batch and window must be below "
                        "2^31, vocab at least 0, ahead from -1 to 1024, type a "
                        "td_tokens and order a td_order",
                        who);
    return true;
}

/* At least one batch must fit into the file. False after td__fail. */
static bool check_tokens(td_ctx *cx, const windows *w, int64_t count) {
    int64_t batch = w->o.batch, window = w->o.window;
    return count >= batch ||
           td__fail(cx, TD_E_IO,
                    "td_loader_open: %s has %lld tokens; a batch of %lld windows of "
                    "%lld needs at least %lld",
                    w->path, (long long)w->file.n, (long long)batch, (long long)window,
                    (long long)(batch * window + 1));
}

/* The windows of `map`, which it takes over; NULL after td__fail. */
static windows *open_windows(td_ctx *cx, td_mapping *map, const char *path,
                             const td_loader_opts *o) {
    windows *w = td__zalloc(sizeof *w);
    if (w) {
        w->o = *o;
        w->path = td__strdup(path);
        w->row = td__alloc(sizeof *w->row * ((size_t)o->window + 1));
    }
    if (!w || !w->path || !w->row) {
        td__fail_memory(cx);
        td__mapping_drop(map);
        drop_windows(w);
        return NULL;
    }
    if (td__tokens_open(cx, map, w->path, o, &w->file)) return w;
    drop_windows(w);
    return NULL;
}

/* Makes a loader over `map`, which it takes over; nil if that is NULL after td__fail.
 */
static td_loader *make(td_ctx *cx, td_mapping *map, const char *path,
                       const td_loader_opts *o) {
    windows *w = map ? open_windows(cx, map, path, o) : NULL;
    if (!w) return TD_NIL(cx, LOADER);
    int64_t count = w->file.n > 0 ? (w->file.n - 1) / o->window : 0;
    if (!check_tokens(cx, w, count)) {
        drop_windows(w);
        return TD_NIL(cx, LOADER);
    }
    td_field   row = {TD_I64, {&w->o.window, 1}};
    td_loading by = {.who = "td_loader_open",
                     .set = {.length = count,
                             .fields = {row, row},
                             .n_fields = 2,
                             .read = read_window,
                             .env = w,
                             .drop = drop_windows},
                     .o = {TD_DATASET_OPTS, .batch = o->batch, .order = o->order,
                           .seed = o->seed, .drop_last = true, .ahead = o->ahead},
                     .tokens = w->file.n,
                     .range = w->file.n - o->window,
                     .code = TD_E_INDEX};
    return td__loader_make(cx, &by);
}

static bool take_opts(td_ctx *cx, td_loader_opts *to, const td_loader_opts *opts,
                      const char *who) {
    return td__enter_ctx(cx, who) && td_ok(cx) &&
           td__opts_take(cx, who, to, sizeof *to, opts, "TD_LOADER_OPTS") &&
           check_opts(cx, to);
}

td_loader *td_loader_open(td_ctx *cx, const char *path, const td_loader_opts *opts) {
    td_loader_opts o;
    if (!take_opts(cx, &o, opts, "td_loader_open")) return TD_NIL(cx, LOADER);
    return make(cx, td__mapping_open(cx, "td_loader_open", path), path, &o);
}

td_loader *td_loader_over(td_ctx *cx, const void *bytes, size_t n,
                          const td_loader_opts *opts) {
    td_loader_opts o;
    if (!take_opts(cx, &o, opts, "td_loader_over") ||
        (n && !td__has(cx, "td_loader_over", "bytes", bytes)))
        return TD_NIL(cx, LOADER);
    return make(cx, td__mapping_over(cx, bytes, n), "bytes in memory", &o);
}

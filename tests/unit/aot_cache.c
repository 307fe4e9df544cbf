/* aot_cache.c -- specializations on disk: the next function finds them, does the same,
 * and nothing that lies there can do harm. Each test has a directory of its own. */
#include "cache_help.h"

#include <dirent.h>

static int runs; /* of a body */

static bool counted(td_call *c) {
    runs++;
    return layer(c);
}

/* Gradient of w after one call and its backward, and what the call wrote. */
typedef struct outcome {
    float grad[6], seen;
} outcome;

static void call(td_ctx *cx, const td_aot_opts *o, outcome *to) {
    td_scope_begin(cx, "call");
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *seen = td_zeros(cx, TD_SHAPE(1));
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 2), 0.25)), *out[2];
    td_fn     *f = td_aot_function(cx, counted, NULL, o);
    CHECK(f && td_invoke(f, TD_ARGS(x, w, seen), out, 2));
    CHECK(out[0]->st == out[1]->st);
    CHECK(td_backward(td_sum(out[1])));
    memcpy(to->grad, td__ptr(td_grad_of(w)), sizeof to->grad);
    memcpy(&to->seen, td__ptr(seen), sizeof to->seen);
    td_fn_drop(f);
    td_scope_end(cx, "call", NULL);
}

TEST(the_next_function_finds_it_and_does_the_same) {
    outcome a, b;
    td_ctx *cx = enter("cache");
    runs = 0;
    call(cx, NULL, &a);
    CHECK(count("stored f_") == 1 && count("hit: f_") == 0);
    call(cx, NULL, &b);
    CHECK(count("stored f_") == 1 && count("hit: f_") == 1);
    CHECK(!memcmp(&a, &b, sizeof a));
    CHECK(runs == 2); /* captured both times */
    leave(cx);
}

TEST(what_changes_a_graph_is_another_entry) {
    outcome a;
    td_ctx *cx = enter("cache");
    call(cx, NULL, &a);
    call(cx, &(td_aot_opts){TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT}, &a);
    call(cx, &(td_aot_opts){TD_AOT_OPTS, .keep_mutations = true}, &a);
    call(cx, &(td_aot_opts){TD_AOT_OPTS, .decompose = "all"}, &a);
    CHECK(count("hit: f_") == 0 && count("stored f_") == 4);
    leave(cx);
}

TEST(with_a_version_the_body_does_not_run) {
    td_aot_opts one = {TD_AOT_OPTS, .version = "1"},
                two = {TD_AOT_OPTS, .version = "2"};
    outcome a, b;
    td_ctx *cx = enter("cache");
    runs = 0;
    call(cx, &one, &a);
    CHECK(runs == 1);
    call(cx, &one, &b);
    CHECK(runs == 1 && count("hit: f_") == 1);
    CHECK(!memcmp(&a, &b, sizeof a));
    call(cx, &two, &b);
    CHECK(runs == 2);
    leave(cx);
}

static td_tensor *outside;

static bool closes_over(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), outside));
}

TEST(a_version_does_not_cover_closed_over_tensors) {
    td_ctx *cx = enter("cache");
    outside = td_full(cx, TD_SHAPE(), 3);
    for (int i = 0; i < 2; i++) {
        td_aot_opts o = {TD_AOT_OPTS, .version = "1"};
        td_tensor  *out, *x = td_full(cx, TD_SHAPE(2), 2);
        td_fn      *f = td_aot_function(cx, closes_over, NULL, &o);
        CHECK(td_invoke(f, TD_ARGS(x), &out, 1));
        CHECK(td_item(td_sum(out)) == 12);
        td_fn_drop(f);
    }
    CHECK(count("closes over 1 tensors") == 2 && count("stored f_") == 0);
    leave(cx);
}

static int passes;

static bool run_pass(void *env, const td_graph **g) {
    (void)env, (void)g;
    passes++;
    return true;
}

TEST(a_pass_without_a_version_is_not_cached) {
    outcome     a;
    td_ctx     *cx = enter("cache");
    td_aot_opts o = {TD_AOT_OPTS, .pass = {.run = run_pass}};
    call(cx, &o, &a);
    call(cx, &o, &a);
    CHECK(passes == 2 && count("bypass: f: its pass has no version") == 2);
    o.stages = "mine 1";
    call(cx, &o, &a);
    call(cx, &o, &a);
    CHECK(passes == 3 && count("hit: f_") == 1);
    leave(cx);
}

/* Counts its calls; exact. */
static int n_packs;
static int pack_twice(void *env, const td_saved_at *at, td_tensor *t,
                      td_tensor **packed) {
    (void)env, (void)at;
    n_packs++;
    packed[0] = packed[1] = td_mul(t, 0.5);
    return 2;
}
static td_tensor *unpack_sum(void *env, const td_saved_at *at, td_tensor *const *packed,
                             int n) {
    (void)env, (void)at;
    return n == 2 ? td_add(packed[0], packed[1]) : NULL;
}

TEST(packed_values_are_cached_by_the_version_of_their_hooks) {
    outcome     a, b;
    td_ctx     *cx = enter("cache");
    td_aot_opts o = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT};
    call(cx, &o, &a);
    o.saved =
        (td_packing){.pack = pack_twice, .unpack = unpack_sum, .filter = TD_SAVED_ALL};
    call(cx, &o, &b);
    CHECK(!memcmp(&a, &b, sizeof a) && n_packs > 0);
    CHECK(count("bypass: f: its saved-tensor hooks have no version") == 1);
    o.saved.version = "1";
    call(cx, &o, &b);
    int traced = n_packs;
    CHECK(count("hit: f_") == 0 && count("stored f_") == 2);
    call(cx, &o, &b);
    CHECK(!memcmp(&a, &b, sizeof a));
    CHECK(count("hit: f_") == 1 && n_packs == traced); /* neither function was called */
    o.saved.version = "2";
    call(cx, &o, &b);
    CHECK(count("hit: f_") == 1 && n_packs > traced);
    o.saved.filter = TD_SAVED_DONATED;
    call(cx, &o, &b);
    o.saved = (td_packing){0};
    call(cx, &o, &b);
    CHECK(count("hit: f_") == 2 && !memcmp(&a, &b, sizeof a));
    leave(cx);
}

static int  n_choices;
static bool choose_all(void *env, const td_saved_at *at) {
    (void)env, (void)at;
    n_choices++;
    return true;
}

TEST(offloaded_values_are_cached_by_store_and_version) {
    outcome     a, b;
    td_ctx     *cx = enter("cache");
    td_store   *s = td_store_memory(cx, "mem"), *other = td_store_memory(cx, "other");
    td_aot_opts o = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT};
    CHECK(td_store_limit(s, 0) && td_store_limit(other, 0));
    call(cx, &o, &a);
    o.offload = (td_offload){.store = s, .min_bytes = 1, .filter = TD_SAVED_ALL};
    call(cx, &o, &b);
    CHECK(!memcmp(&a, &b, sizeof a) && count("hit: f_") == 0);
    int64_t puts = td_store_count(s).puts;
    call(cx, &o, &b);
    CHECK(!memcmp(&a, &b, sizeof a) && count("hit: f_") == 1);
    CHECK(puts > 0 && td_store_count(s).puts == 2 * puts);
    o.offload.store = other;
    call(cx, &o, &b);
    CHECK(count("hit: f_") == 1 && td_store_count(other).puts == puts);
    o.offload.choose = choose_all;
    call(cx, &o, &b);
    CHECK(count("bypass: f: its choice of offloaded values has no version") == 1);
    o.offload.version = "1";
    call(cx, &o, &b);
    int chosen = n_choices;
    call(cx, &o, &b);
    CHECK(count("hit: f_") == 2 && n_choices == chosen && chosen > 0);
    CHECK(!memcmp(&a, &b, sizeof a));
    leave(cx);
}

/* ---- sizes -------------------------------------------------------------- */

static void call_of(td_fn *f, int64_t n) {
    td_tensor *x = td_ones(f->cx, TD_SHAPE(n, 2)), *out;
    CHECK(td_invoke(f, TD_ARGS(x, x), &out, 1));
    CHECK(td_size(out, 0) == n);
}

TEST(many_sizes_are_one_entry_with_its_guards) {
    td_ctx     *cx = enter("cache");
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    for (int i = 0; i < 3; i++) {
        td_fn *f = td_aot_function(cx, product, NULL, &o);
        call_of(f, 5 + 2 * i);
        CHECK(f->specs->guards != NULL);
        call_of(f, 11);
        CHECK(td_fn_specializations(f) == 1);
        call_of(f, 1); /* the guards say no */
        CHECK(td_fn_specializations(f) == 2);
        td_fn_drop(f);
    }
    CHECK(count("stored f_") == 2 && count("hit: f_") == 4);
    leave(cx);
}

/* One body twice, on other lines: reads a size, and an op asks for another. */
#define BODY(name, line)                                                     \
    static int  line;                                                        \
    static bool name(td_call *c) {                                           \
        line = __LINE__;                                                     \
        td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1);                      \
        td_tensor *z = td_mul(x, (double)td_size(x, 0));                     \
        return td_return(c, td_add(td_view(y, TD_SHAPE(-1, 4)), td_sum(z))); \
    }
BODY(first, first_line)
BODY(second, second_line)

/* Whoever finds an entry has the program at hand, in files and on lines of its own. */
TEST(guards_that_were_found_say_where_they_come_from) {
    td_ctx     *cx = enter("cache");
    td_aot_opts o = {TD_AOT_OPTS, .name = "f", .dynamic = TD_SHAPES_DYNAMIC};
    td_body    *bodies[] = {first, first, second};
    for (int i = 0; i < 3; i++) {
        td_fn     *f = td_aot_function(cx, bodies[i], NULL, &o);
        td_tensor *x = td_ones(cx, TD_SHAPE(5)), *y = td_ones(cx, TD_SHAPE(8)), *out;
        td_buf     b = {0}, read = {0}, view = {0};
        CHECK(td_invoke(f, TD_ARGS(x, y), &out, 1) && f->specs->guards);
        CHECK(count("hit: f_") == i && td__explain(&b, f, 0));
        int line = i < 2 ? first_line : second_line;
        td__buf_printf(&read, " == 5 (read at %s:%d)", __FILE__, line);
        td__buf_printf(&view, " (view at %s:%d)", __FILE__, line);
        TD_CHECK_THAT(strstr(b.s, read.s) && strstr(b.s, view.s), "%d: %s", i, b.s);
        td__buf_free(&b);
        td__buf_free(&read);
        td__buf_free(&view);
        td_fn_drop(f);
    }
    leave(cx);
}

/* ---- what lies there ---------------------------------------------------- */

/* The name of the one entry. */
static void entry_name(char *to, size_t cap) {
    DIR *d = opendir(place);
    to[0] = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, "f_", 2)) snprintf(to, cap, "%.60s", e->d_name);
    if (d) closedir(d);
    CHECK(*to);
}

/* Up to the plan and no further: what is found is not run. */
static void prepare(td_ctx *cx, const td_aot_opts *o) {
    td_scope_begin(cx, "call");
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *seen = td_zeros(cx, TD_SHAPE(1));
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 2), 0.25));
    td_fn     *f = td_aot_function(cx, layer, NULL, o);
    if (!td_is_nil(f)) (void)td__fn_prepare(f, TD_ARGS(x, w, seen));
    td_clear(cx);
    td_fn_drop(f);
    td_scope_end(cx, "call", NULL);
}

/* The entry with another payload, as whole as the first. */
static void replace(td_ctx *cx, const char *name, const char *key, const td_buf *b) {
    td_disk d;
    td__disk_open(&d, cx, false);
    td__disk_store_entry(&d, name, key, "function f", b);
    td__disk_close(&d);
}

TEST(bytes_that_are_wrong_are_a_miss_and_nothing_worse) {
    td_aot_opts   o = {TD_AOT_OPTS, .version = "1"};
    td_ctx       *cx = enter("");
    td_disk       d;
    td_disk_entry m;
    td_buf        b = {0}, key = {0};
    char          name[64], why[64];
    prepare(cx, &o);
    entry_name(name, sizeof name);
    td__disk_open(&d, cx, false);
    CHECK(td__disk_check(&d, name, &key, why, sizeof why));
    *strstr(key.s, "entry ") = 0;
    CHECK(td__disk_read(&d, name, key.s, &m) == NULL);
    td__buf_addn(&b, m.bytes, m.payload);
    td__disk_entry_free(&m);
    td__disk_close(&d);
    for (size_t i = 0; i < b.n; i++)
        for (int by = 1; by < 256; by = by * 3 + 1) {
            b.s[i] = (char)(b.s[i] ^ by);
            replace(cx, name, key.s, &b);
            prepare(cx, &o);
            b.s[i] = (char)(b.s[i] ^ by);
        }
    for (size_t n = b.n; n > 1; n -= n / 7 + 1) {
        td_buf cut = {b.s, n, b.cap, false};
        replace(cx, name, key.s, &cut);
        prepare(cx, &o);
    }
    td__buf_free(&b);
    td__buf_free(&key);
    leave(cx);
}

TEST(a_damaged_file_is_replaced) {
    outcome a, b;
    char    name[64], path[160];
    td_ctx *cx = enter("cache");
    call(cx, NULL, &a);
    entry_name(name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", place, name);
    FILE *file = fopen(path, "r+");
    CHECK(file && !fseek(file, 40, SEEK_SET) && fputs("damage", file) >= 0);
    fclose(file);
    call(cx, NULL, &b);
    CHECK(count("its checksum is wrong") == 1 && count("stored f_") == 2);
    call(cx, NULL, &b);
    CHECK(count("hit: f_") == 1 && !memcmp(&a, &b, sizeof a));
    leave(cx);
}

/* Whatever fails on the way to or from the disk, the call is made or memory is out. */
TEST(every_failing_allocation_is_no_worse_than_a_miss) {
    outcome a;
    td_ctx *cx = enter("");
    call(cx, NULL, &a);
    for (int warm = 0; warm < 2; warm++)
        for (int n = 0;; n++) {
            td_disk d;
            td__disk_open(&d, cx, false);
            if (!warm) td__disk_clear(&d);
            td__disk_close(&d);
            td__fault_arm(n, false);
            prepare(cx, NULL);
            bool hit = td__fault_count() > n;
            td__fault_arm(-1, false);
            if (!hit) break;
            CHECK(n < 100000);
        }
    call(cx, NULL, &a);
    CHECK(a.seen == 1);
    leave(cx);
}

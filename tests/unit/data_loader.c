/* data_loader.c -- batches of tokens: what is in them, their order, going on from a
 * place, the thread that reads ahead, and files that are not what they should be. */
#include "td_files.h"
#include "td_test.h"

#include <tandem/tandem.h>

enum { N = 101, BATCH = 3, WINDOW = 4, ROWS = (N - 1) / WINDOW };

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static td_loader_opts how(td_order order, int ahead) {
    return (td_loader_opts){TD_LOADER_OPTS,   .type = TD_TOKENS_U16, .batch = BATCH,
                            .window = WINDOW, .order = order,        .seed = 5,
                            .ahead = ahead};
}

/* Token i is 7 * i: a window says where it is from. */
static const uint16_t *tokens(void) {
    static uint16_t t[N];
    for (int i = 1; i < N && !t[N - 1]; i++) t[i] = (uint16_t)(7 * i);
    return t;
}

static td_loader *over(td_ctx *cx, td_loader_opts o) {
    return td_loader_over(cx, tokens(), N * sizeof(uint16_t), &o);
}

/* The next batch, checked for its form; where its rows begin. */
static void next(td_ctx *cx, td_loader *l, int64_t start[BATCH]) {
    int64_t    x[BATCH * WINDOW], y[BATCH * WINDOW];
    td_tensor *tx, *ty;
    td_scope_begin(cx, "batch");
    td_loader_next(l, &tx, &ty);
    CHECK_OK(cx);
    CHECK(td_rank(tx) == 2 && td_size(tx, 0) == BATCH && td_size(tx, 1) == WINDOW);
    CHECK(td_read(tx, TD_I64, x, sizeof x) && td_read(ty, TD_I64, y, sizeof y));
    for (int r = 0; r < BATCH; r++) {
        start[r] = x[r * WINDOW] / 7;
        for (int i = 0; i < WINDOW; i++) {
            CHECK(x[r * WINDOW + i] == 7 * (start[r] + i));
            CHECK(y[r * WINDOW + i] == 7 * (start[r] + i + 1));
        }
    }
    td_scope_end(cx, "batch", NULL);
}

/* ---- order -------------------------------------------------------------- */

TEST(sequential_windows_come_as_they_lie) {
    td_ctx    *cx = td_open();
    td_loader *l = over(cx, how(TD_ORDER_SEQUENTIAL, 0));
    int64_t    at[BATCH];
    CHECK(td_loader_tokens(l) == N && td_loader_batches(l) == ROWS / BATCH);

    for (int b = 0; b < 2 * (ROWS / BATCH); b++) {
        next(cx, l, at);
        for (int r = 0; r < BATCH; r++)
            CHECK(at[r] == (b % (ROWS / BATCH) * BATCH + r) * WINDOW);
    }
    td_loader_close(l);
    td_close(cx);
}

TEST(an_epoch_has_each_window_once_and_the_next_another_order) {
    td_ctx        *cx = td_open();
    td_loader_opts o = how(TD_ORDER_SHUFFLED, 0);
    o.batch = 5; /* of 25 */
    td_loader *l = over(cx, o);
    int64_t    order[2][ROWS];
    for (int e = 0; e < 2; e++) {
        bool seen[ROWS] = {false};
        for (int b = 0; b < 5; b++) {
            td_tensor *x, *y;
            int64_t    v[5 * WINDOW];
            CHECK(td_loader_next(l, &x, &y) && td_read(x, TD_I64, v, sizeof v));
            for (int r = 0; r < 5; r++) {
                int64_t w = v[r * WINDOW] / 7 / WINDOW;
                CHECK(v[r * WINDOW] % (7 * WINDOW) == 0 && w < ROWS && !seen[w]);
                seen[w] = true;
                order[e][b * 5 + r] = w;
            }
        }
    }

    CHECK(memcmp(order[0], order[1], sizeof order[0]) != 0);
    int in_place = 0;
    for (int i = 0; i < ROWS; i++) in_place += order[0][i] == i;
    CHECK(in_place < 6);
    td_loader_close(l);
    td_close(cx);
}

TEST(random_windows_begin_anywhere_and_stay_inside) {
    td_ctx    *cx = td_open();
    td_loader *l = over(cx, how(TD_ORDER_RANDOM, -1));
    int64_t    at[BATCH], least = N, most = 0, odd = 0;
    for (int b = 0; b < 400; b++) {
        next(cx, l, at);
        for (int r = 0; r < BATCH; r++) {
            if (at[r] < least) least = at[r];
            if (at[r] > most) most = at[r];
            odd += at[r] % WINDOW != 0;
        }
    }

    CHECK(least == 0 && most == N - WINDOW - 1 && odd > 800);
    td_loader_close(l);
    td_close(cx);
}

/* ---- going on ----------------------------------------------------------- */

TEST(a_batch_is_the_same_with_and_without_a_thread_and_after_a_seek) {
    td_ctx    *cx = td_open();
    td_loader *a = over(cx, how(TD_ORDER_SHUFFLED, 3)), *b = over(cx, how(0, -1));
    int64_t    at[BATCH], want[BATCH];
    for (int i = 0; i < 11; i++) {
        next(cx, a, at);
        next(cx, b, want);
        CHECK(!memcmp(at, want, sizeof at));
    }
    td_loader_place was = td_loader_tell(a);
    CHECK(was.epoch == 1 && was.batch == 3);
    next(cx, a, want);

    CHECK(td_loader_seek(a, (td_loader_place){7, 2}));
    for (int i = 0; i < 5; i++) next(cx, a, at);
    CHECK(td_loader_seek(a, was) && td_loader_tell(a).batch == 3);
    next(cx, a, at);
    CHECK(!memcmp(at, want, sizeof at));
    CHECK(!td_loader_seek(a, (td_loader_place){0, 8}));
    CHECK(says(cx, TD_E_ARG, "batch 8: an epoch has 8 batches"));
    td_loader_close(a);
    td_loader_close(b);
    td_close(cx);
}

TEST(many_seeks_and_closes_while_the_thread_reads) {
    td_ctx *cx = td_open();
    for (int i = 0; i < 50; i++) {
        td_loader *l = over(cx, how(TD_ORDER_SHUFFLED, 4));
        int64_t    at[BATCH];
        for (int k = 0; k < i % 5; k++) {
            CHECK(td_loader_seek(l, (td_loader_place){i, k}));
            next(cx, l, at);
            CHECK(td_loader_tell(l).batch == k + 1);
        }
        td_loader_close(l);
    }
    td_close(cx);
}

/* Batches so large that a seek meets the thread in the middle of one. */
TEST(a_seek_throws_away_what_is_being_read) {
    enum { LARGE = 1 << 20, WIDE = 1024, MANY = 128 };
    static uint32_t t[LARGE + 1];
    td_ctx         *cx = td_open();
    td_loader_opts  o = {TD_LOADER_OPTS, .type = TD_TOKENS_U32, .batch = MANY,
                         .window = WIDE, .order = TD_ORDER_SEQUENTIAL};
    for (int i = 0; i <= LARGE; i++) t[i] = (uint32_t)i;
    td_loader *l = td_loader_over(cx, t, sizeof t, &o);
    for (int i = 0; i < 40; i++) {
        td_tensor *x, *y;
        td_scope_begin(cx, "batch");
        CHECK(td_loader_seek(l, (td_loader_place){0, i % 8}));
        CHECK(td_loader_next(l, &x, &y));
        CHECK(*(int64_t *)td_data(x) == i % 8 * MANY * WIDE);
        td_scope_end(cx, "batch", NULL);
    }
    td_loader_close(l);
    td_close(cx);
}

TEST(another_seed_is_another_order) {
    td_ctx        *cx = td_open();
    td_loader_opts o = how(TD_ORDER_SHUFFLED, -1);
    td_loader     *a = over(cx, o);
    o.seed = 6;
    td_loader *b = over(cx, o);
    int64_t    x[BATCH], y[BATCH], z[BATCH];

    next(cx, a, x);
    next(cx, b, y);
    next(cx, b, z);
    CHECK(memcmp(x, y, sizeof x) != 0 && memcmp(y, z, sizeof x) != 0);
    td_loader_close(a);
    td_loader_close(b);
    td_close(cx);
}

/* ---- files -------------------------------------------------------------- */

static td_loader *open_as(td_ctx *cx, const char *name, td_tokens type) {
    td_loader_opts o = how(TD_ORDER_SEQUENTIAL, 0);
    o.type = type;
    return td_loader_open(cx, files_path(name), &o);
}

/* A .npy file of a header and n bytes. */
static void write_npy(const char *name, const char *header, const void *bytes,
                      size_t n) {
    unsigned char all[2048] = "\x93NUMPY\x01";
    size_t        len = strlen(header);
    all[8] = (unsigned char)len;
    all[9] = (unsigned char)(len >> 8);
    memcpy(all + 10, header, len);
    memcpy(all + 10 + len, bytes, n);
    files_write(name, all, 10 + len + n);
}

TEST(files_of_every_width_give_the_same_batches) {
    td_ctx  *cx = td_open();
    uint32_t u32[N];
    int32_t  i32[N];
    int64_t  i64[N], at[BATCH];
    for (int i = 0; i < N; i++) i64[i] = i32[i] = (int32_t)(u32[i] = tokens()[i]);
    files_begin();
    files_write("16", tokens(), N * 2);
    files_write("32", u32, sizeof u32);
    write_npy("a", "{'descr': '<u2', 'fortran_order': False, 'shape': (101,), }\n",
              tokens(), N * 2);
    write_npy("b", "{'descr': '<i4', 'fortran_order': False, 'shape': (101,), }", i32,
              sizeof i32);
    write_npy("c", "{'descr':'<i8','fortran_order':False,'shape':(101,)}", i64,
              sizeof i64);
    static const struct {
        const char *name;
        td_tokens   type;
    } row[] = {{"16", TD_TOKENS_U16},
               {"32", TD_TOKENS_U32},
               {"a", TD_TOKENS_NPY},
               {"b", TD_TOKENS_NPY},
               {"c", TD_TOKENS_NPY}};

    for (int i = 0; i < 5; i++) {
        td_loader *l = open_as(cx, row[i].name, row[i].type);
        CHECK_OK(cx);
        next(cx, l, at);
        CHECK(at[1] == WINDOW && td_loader_tokens(l) == N);
        td_loader_close(l);
    }
    files_end();
    td_close(cx);
}

TEST(part_of_a_file_is_a_file) {
    td_ctx        *cx = td_open();
    td_loader_opts o = how(TD_ORDER_SEQUENTIAL, 0);
    int64_t        at[BATCH];
    o.first = 50;
    o.count = 25;
    td_loader *l = over(cx, o);

    CHECK(td_loader_tokens(l) == 25 && td_loader_batches(l) == 2);
    next(cx, l, at);
    CHECK(at[0] == 50);
    td_loader_close(l);
    o.count = 99;
    CHECK(td_is_nil(over(cx, o)) &&
          says(cx, TD_E_ARG, "count 99 from first 50 exceeds"));
    o.first = -1;
    CHECK(td_is_nil(over(cx, o)) && says(cx, TD_E_ARG, "from first -1"));
    td_close(cx);
}

TEST(what_is_no_file_of_tokens_is_refused) {
    td_ctx *cx = td_open();
    files_begin();
    files_write("odd", "abc", 3);
    files_write("empty", "", 0);
    files_write("short", "abcdef", 6);
    write_npy("float", "{'descr': '<f4', 'shape': (101,), }", tokens(), N * 2);
    write_npy("big", "{'descr': '>u2', 'shape': (101,), }", tokens(), N * 2);
    write_npy("two", "{'descr': '<u2', 'shape': (50, 2), }", tokens(), N * 2);
    write_npy("huge", "{'descr': '<u2', 'shape': (99999999999999999999,), }", "", 0);
    write_npy("cut", "{'descr': '<u2', 'shape': (101,), }", tokens(), N);
    files_write("lies", "\x93NUMPY\x01\x00\xff\xff{'descr'", 18);
    files_write("tiny", "\x93NUMPY", 6);
    static const struct {
        const char *name, *says;
        td_tokens   type;
    } row[] = {{"none", "No such file", TD_TOKENS_U16},
               {"odd", "its size is not a multiple of the token size", TD_TOKENS_U16},
               {"odd", "its size is not a multiple of the token size", TD_TOKENS_U32},
               {"empty", "is empty", TD_TOKENS_U8},
               {"short", "3 tokens; a batch of 3 windows of 4 needs at least 13",
                TD_TOKENS_U16},
               {"odd", "not a .npy file", TD_TOKENS_NPY},
               {"tiny", "not a .npy file", TD_TOKENS_NPY},
               {"float", "its dtype must be one of u1", TD_TOKENS_NPY},
               {"big", "its dtype must be one of u1", TD_TOKENS_NPY},
               {"two", "its shape must have one dim", TD_TOKENS_NPY},
               {"huge", "its shape must have one dim", TD_TOKENS_NPY},
               {"cut", "shorter than its header says", TD_TOKENS_NPY},
               {"lies", "its header is malformed", TD_TOKENS_NPY},
               {".", "not a regular file", TD_TOKENS_U8}};

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        CHECK(td_is_nil(open_as(cx, row[i].name, row[i].type)));
        CHECK(says(cx, TD_E_IO, row[i].says));
    }
    files_end();
    td_close(cx);
}

TEST(options_out_of_range_are_refused) {
    td_ctx        *cx = td_open();
    td_loader_opts o = how(TD_ORDER_SHUFFLED, 0);
    o.batch = 0;
    CHECK(td_is_nil(over(cx, o)) &&
          says(cx, TD_E_ARG, "batch is 0; it must be at least 1"));
    o.batch = INT64_MAX;
    CHECK(td_is_nil(over(cx, o)) && says(cx, TD_E_ARG, "out of range"));
    o = how(TD_ORDER_SHUFFLED, -2);
    CHECK(td_is_nil(over(cx, o)) && says(cx, TD_E_ARG, "out of range"));
    CHECK(td_is_nil(td_loader_over(cx, tokens(), N, NULL)) &&
          says(cx, TD_E_ARG, "batch is 0"));
    td_close(cx);
}

TEST(a_token_outside_the_vocabulary_is_named) {
    td_ctx        *cx = td_open();
    td_loader_opts o = how(TD_ORDER_SEQUENTIAL, 0);
    td_tensor     *x, *y;
    int64_t        at[BATCH], bad[] = {3, 1, -2, 5, 1};
    o.vocab = 7 * 30;
    o.first = 2;
    td_loader *l = over(cx, o);
    next(cx, l, at);
    next(cx, l, at);

    for (int i = 0; i < 2; i++) { /* and again: the place is the same */
        CHECK(!td_loader_next(l, &x, &y) && td_is_nil(x) && td_is_nil(y));
        CHECK(says(cx, TD_E_INDEX, "token 30 is 210; it must be below 210"));
    }
    CHECK(td_loader_tell(l).batch == 2);
    td_loader_close(l);
    files_begin();
    write_npy("n", "{'descr': '<i8', 'shape': (5,), }", bad, sizeof bad);
    o = (td_loader_opts){TD_LOADER_OPTS, .batch = 1, .window = 4};
    l = td_loader_open(cx, files_path("n"), &o);
    CHECK(!td_loader_next(l, &x, &y) &&
          says(cx, TD_E_INDEX, "token 2 is -2; it must be at least 0"));
    td_loader_close(l);
    files_end();
    td_close(cx);
}

/* ---- datasets ----------------------------------------------------------- */

enum { ITEMS = 23 };

/* Item i is the vector (i, i + 0.5) and the label 10 * i. */
typedef struct items {
    int64_t  bad; /* this one fails */
    bool     dropped;
    uint64_t seeds[ITEMS];
} items;

static bool read_item(void *env, const td_sample *s) {
    items  *it = env;
    float  *v = s->out[0];
    int64_t label = 10 * s->index;
    v[0] = (float)s->index;
    v[1] = v[0] + 0.5f;
    memcpy(s->out[1], &label, sizeof label);
    it->seeds[s->index] = s->seed;
    if (s->index == it->bad) snprintf(s->why, s->why_size, "no such picture");
    return s->index != it->bad;
}
static void drop_items(void *env) { ((items *)env)->dropped = true; }

static td_loader *items_open(td_ctx *cx, items *it, td_dataset_opts o) {
    td_dataset set = {.length = ITEMS,
                      .fields = {{TD_F32, TD_SHAPE(2)}, {TD_I64, TD_SHAPE()}},
                      .n_fields = 2,
                      .read = read_item,
                      .env = it,
                      .drop = drop_items};
    return td_loader_dataset(cx, &set, &o);
}

/* The items of a batch; returns their number, 0 after a failure. */
static int items_next(td_ctx *cx, td_loader *l, int64_t *which) {
    td_tensor *t[2];
    int64_t    labels[ITEMS];
    float      v[2 * ITEMS];
    td_scope_begin(cx, "batch");
    int n = td_loader_next_fields(l, t, 2) ? (int)td_size(t[0], 0) : 0;
    if (n) {
        CHECK(td_rank(t[0]) == 2 && td_rank(t[1]) == 1 && td_size(t[1], 0) == n);
        CHECK(td_read(t[0], TD_F32, v, sizeof *v * 2 * (size_t)n) &&
              td_read(t[1], TD_I64, labels, sizeof *labels * (size_t)n));
    }
    for (int i = 0; i < n; i++) {
        which[i] = labels[i] / 10;
        CHECK(v[2 * i] == (float)which[i] && v[2 * i + 1] == v[2 * i] + 0.5f);
    }
    td_scope_end(cx, "batch", NULL);
    return n;
}

/* Reads an epoch and checks that no item comes twice. Returns its first two items as
 * one number. */
static int64_t epoch_of(td_ctx *cx, td_loader *l, bool drop) {
    int64_t which[ITEMS], first = -1;
    int     seen[ITEMS] = {0}, all = 0;
    for (int b = 0; b < 5 - drop; b++) {
        int n = items_next(cx, l, which);
        CHECK(n == (b == 4 ? 3 : 5));
        for (int i = 0; i < n; i++, all++) seen[which[i]]++;
        if (b == 0) first = which[0] * ITEMS + which[1];
    }
    CHECK(all == (drop ? 20 : ITEMS));
    for (int i = 0; i < ITEMS; i++) CHECK(seen[i] <= 1);
    return first;
}

static void check_epochs(int ahead, bool drop) {
    td_ctx         *cx = td_open();
    items           it = {.bad = -1};
    td_dataset_opts o = {TD_DATASET_OPTS, .batch = 5, .seed = 3, .drop_last = drop,
                         .ahead = ahead};
    td_loader      *l = items_open(cx, &it, o);
    CHECK(td_loader_items(l) == ITEMS && td_loader_batches(l) == 5 - drop);
    CHECK(td_loader_tokens(l) == 0);
    int64_t first = epoch_of(cx, l, drop);
    CHECK(first != epoch_of(cx, l, drop) && !it.dropped);
    td_loader_close(l);
    CHECK(it.dropped);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_dataset_gives_each_item_once_per_epoch) {
    for (int ahead = -1; ahead < 4; ahead++) {
        check_epochs(ahead, false);
        check_epochs(ahead, true);
    }
}

TEST(a_dataset_goes_on_from_a_place_with_the_same_items_and_seeds) {
    td_ctx         *cx = td_open();
    td_dataset_opts o = {TD_DATASET_OPTS, .batch = 4, .seed = 9};
    items           it = {.bad = -1}, again = it;
    td_loader      *l = items_open(cx, &it, o);
    int64_t         a[ITEMS], b[ITEMS];
    o.ahead = -1;
    td_loader *m = items_open(cx, &again, o);
    for (int i = 0; i < 8; i++) items_next(cx, l, a);
    td_loader_place at = td_loader_tell(l);
    int             n = items_next(cx, l, a);
    CHECK(at.epoch == 1 && at.batch == 2 && td_loader_seek(m, at));
    CHECK(items_next(cx, m, b) == n && !memcmp(a, b, sizeof *a * (size_t)n));
    for (int i = 0; i < n; i++) CHECK(again.seeds[b[i]] != 0);
    CHECK(again.seeds[b[0]] != again.seeds[b[1]]);
    td_loader_close(l);
    for (int i = 0; i < n; i++) CHECK(it.seeds[a[i]] == again.seeds[a[i]]);
    CHECK_OK(cx);
    td_close(cx); /* closes the other one */
    CHECK(again.dropped);
}

TEST(an_item_that_cannot_be_read_is_named_and_tried_again) {
    for (int ahead = -1; ahead < 1; ahead++) {
        td_ctx    *cx = td_open();
        items      it = {.bad = 6};
        int64_t    which[ITEMS];
        td_loader *l =
            items_open(cx, &it,
                       (td_dataset_opts){TD_DATASET_OPTS, .batch = 4,
                                         .order = TD_ORDER_SEQUENTIAL, .ahead = ahead});
        CHECK(items_next(cx, l, which) == 4 && items_next(cx, l, which) == 0);
        CHECK(says(cx, TD_E_IO, "td_loader_next: item 6: no such picture"));
        CHECK(items_next(cx, l, which) == 0);
        CHECK(says(cx, TD_E_IO, "item 6: no such picture"));
        td_loader_place at = {0, 2};
        CHECK(td_loader_seek(l, at) && items_next(cx, l, which) == 4 && which[0] == 8);
        CHECK_OK(cx);
        td_close(cx);
    }
}

TEST(wrong_datasets_are_refused_and_dropped) {
    td_ctx    *cx = td_open();
    items      it = {.bad = -1};
    td_dataset set = {.length = 3,
                      .fields = {{TD_F32, TD_SHAPE(2)}},
                      .n_fields = 1,
                      .read = read_item,
                      .env = &it,
                      .drop = drop_items};
    td_tensor *x, *y;

    CHECK(td_is_nil(td_loader_dataset(cx, NULL, NULL)));
    CHECK(says(cx, TD_E_ARG, "td_loader_dataset: the dataset is NULL"));
    td_dataset_opts large = {TD_DATASET_OPTS, .batch = 4, .drop_last = true};
    CHECK(td_is_nil(td_loader_dataset(cx, &set, &large)) && it.dropped);
    CHECK(says(cx, TD_E_ARG, "the dataset has 3 items, less than a batch, 4"));
    set.length = 0;
    CHECK(td_is_nil(td_loader_dataset(cx, &set, NULL)));
    CHECK(says(cx, TD_E_ARG, "td_loader_dataset: length is 0; it must be at least 1"));
    set.length = 3;
    set.n_fields = 9;
    CHECK(td_is_nil(td_loader_dataset(cx, &set, NULL)));
    CHECK(says(cx, TD_E_ARG, "there are 1 to 8 fields"));
    set.n_fields = 2;
    set.fields[1] = (td_field){TD_F32, TD_SHAPE(0)};
    CHECK(td_is_nil(td_loader_dataset(cx, &set, NULL)));
    CHECK(says(cx, TD_E_ARG, "a size of a field is 0; it must be at least 1"));
    set.n_fields = 1;
    set.drop = NULL;
    set.read = NULL;
    CHECK(td_is_nil(td_loader_dataset(cx, &set, NULL)));
    CHECK(says(cx, TD_E_ARG, "the function that reads is NULL"));
    td_loader *l = items_open(cx, &it, (td_dataset_opts){TD_DATASET_OPTS});
    CHECK(!td_loader_next_fields(l, &x, 1) && td_is_nil(x));
    CHECK(says(cx, TD_E_ARG, "n is 1; the loader has 2 fields"));
    CHECK(td_loader_next(l, &x, &y) && td_size(x, 0) == 1);
    CHECK_OK(cx);
    td_close(cx);
}

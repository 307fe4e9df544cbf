/* core_tensors.c -- tensors and the user's memory, elements of every dtype, type
 * promotion, sharing between contexts. */
#include "op_help.h"

#include "core/core.h"

#include <pthread.h>

static void count_release(void *env) { (*(int *)env)++; }

/* ---- wrapped memory ----------------------------------------------------- */

TEST(wrapped_memory_is_read_and_written_in_place) {
    td_ctx *cx = td_open();
    float   bytes[6] = {1, 2, 3, 4, 5, 6};

    td_tensor *t =
        td_wrap(cx, TD_F32, TD_SHAPE(3, 2), TD_DIMS(1, 3), bytes, NULL, NULL);
    CHECK_VALUES(t, 1, 4, 2, 5, 3, 6);
    td_mul_(t, 2);

    CHECK(bytes[0] == 2 && bytes[5] == 12);
    CHECK(td_data(t) == bytes);
    td_close(cx);
}

TEST(a_release_runs_once_when_the_last_tensor_dies) {
    td_ctx *cx = td_open();
    double  bytes[4] = {0};
    int     runs = 0;

    td_scope_begin(cx, "a");
    td_tensor *t =
        td_wrap(cx, TD_F64, TD_SHAPE(4), TD_ALL, bytes, count_release, &runs);
    td_tensor *v = td_keep(td_view(t, TD_SHAPE(2, 2)));
    td_scope_end(cx, "a", NULL);
    CHECK(runs == 0);
    td_drop(v);

    CHECK(runs == 1);
    td_close(cx);
    CHECK(runs == 1);
}

TEST(a_failed_wrap_leaves_the_memory_to_the_caller) {
    td_ctx *cx = td_open();
    float   bytes[4] = {0};
    int     runs = 0;

    CHECK(td_is_nil(
        td_wrap(cx, TD_F32, TD_SHAPE(4), TD_DIMS(-1), bytes, count_release, &runs)));
    CHECK_FAILS(cx, TD_E_ARG, "td_wrap: stride -1 of dim 0 is negative");
    CHECK(td_is_nil(
        td_wrap(cx, TD_F32, TD_SHAPE(2, 2), TD_DIMS(1), bytes, count_release, &runs)));
    CHECK_FAILS(cx, TD_E_ARG, "td_wrap: 1 strides for 2 sizes");
    CHECK(td_is_nil(
        td_wrap(cx, TD_F32, TD_SHAPE(-4), TD_ALL, bytes, count_release, &runs)));
    CHECK_FAILS(cx, TD_E_SHAPE, "td_wrap: [-4] has a negative size");
    CHECK(td_is_nil(
        td_wrap(cx, TD_F32, TD_SHAPE(4), TD_ALL, NULL, count_release, &runs)));
    CHECK_FAILS(cx, TD_E_ARG, "td_wrap: data is NULL");
    CHECK(td_is_nil(
        td_wrap(cx, (td_dtype)77, TD_SHAPE(4), TD_ALL, bytes, count_release, &runs)));
    CHECK_FAILS(cx, TD_E_DTYPE, "td_wrap: 77 is not a dtype");
    CHECK(td_is_nil(td_wrap(cx, TD_F32, TD_SHAPE(INT64_MAX, 8), TD_ALL, bytes,
                            count_release, &runs)));
    CHECK_FAILS(cx, TD_E_ARG, "td_wrap: too large");
    CHECK(td_is_nil(td_wrap(cx, TD_F32, TD_SHAPE(2), TD_DIMS(INT64_MAX), bytes,
                            count_release, &runs)));
    CHECK_FAILS(cx, TD_E_ARG, "td_wrap: too large");
    CHECK(td_is_nil(td_wrap(cx, TD_F32, TD_SHAPE(2), TD_ALL, (char *)bytes + 1,
                            count_release, &runs)));
    CHECK_FAILS(cx, TD_E_ARG, "td_wrap: data is not aligned for f32");

    td_close(cx);
    CHECK(runs == 0);
}

TEST(a_wrap_that_runs_out_of_memory_never_releases) {
    td_ctx *cx = td_open();
    float   bytes[8] = {0};
    int     runs = 0, failures = 0;

    td_scope_begin(cx, "a");
    for (int i = 0; i < 6; i++) {
        td__fault_arm(i, false);
        td_tensor *t = td_wrap(cx, TD_F32, TD_SHAPE(1, 1, 1, 1, 1, 1, 2, 4), TD_ALL,
                               bytes, count_release, &runs);
        td__fault_arm(-1, false);
        if (!td_is_nil(t)) continue;
        failures++;
        CHECK(td_error(cx) == TD_E_MEMORY);
        CHECK(runs == 0);
        td_clear(cx);
    }
    td_scope_end(cx, "a", NULL);

    CHECK(failures > 0 && failures < 6);
    CHECK(runs == 6 - failures);
    td_close(cx);
}

TEST(an_empty_wrap_needs_no_memory) {
    td_ctx *cx = td_open();
    int     runs = 0;

    td_tensor *t =
        td_wrap(cx, TD_F32, TD_SHAPE(0, 3), TD_ALL, NULL, count_release, &runs);

    CHECK_OK(cx);
    CHECK_SHAPE(t, 0, 3);
    CHECK(td_data(t) == NULL);
    td_close(cx);
    CHECK(runs == 1);
}

TEST(wrapped_memory_cannot_be_resized) {
    td_ctx *cx = td_open();
    float   bytes[4] = {0};

    td_tensor *t = td_wrap(cx, TD_F32, TD_SHAPE(4), TD_ALL, bytes, NULL, NULL);
    CHECK(td_is_nil(td_resize_(t, TD_SHAPE(100))));

    CHECK(!td_ok(cx));
    CHECK_SHAPE(t, 4);
    td_close(cx);
}

/* ---- elements in and out ------------------------------------------------ */

TEST(every_dtype_reads_back_what_was_written) {
    static const double in[] = {0, 1, 2, 5, 100};
    td_ctx             *cx = td_open();

    for (int dt = 0; dt < TD_BOOL; dt++) {
        td_tensor *t = td_zeros(cx, TD_SHAPE(5), (td_dtype)dt);
        CHECK(td_write(t, TD_F64, in, sizeof in));
        CHECK_VALUES(t, 0, 1, 2, 5, 100);
        for (int as = 0; as < TD_BOOL; as++) {
            unsigned char raw[40];
            size_t        bytes = 5 * td_dtype_size((td_dtype)as);
            CHECK(td_read(t, (td_dtype)as, raw, bytes));
            td_tensor *copy = td_zeros(cx, TD_SHAPE(5), (td_dtype)dt);
            CHECK(td_write(copy, (td_dtype)as, raw, bytes));
            CHECK_VALUES(copy, 0, 1, 2, 5, 100);
        }
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(floats_become_integers_as_in_pytorch) {
    static const double in[] = {1.7, -1.7, 300, -300};
    td_ctx             *cx = td_open();

    static const struct {
        td_dtype dt;
        double   want[4];
    } cases[] = {{TD_I64, {1, -1, 300, -300}}, {TD_I32, {1, -1, 300, -300}},
                 {TD_I16, {1, -1, 300, -300}}, {TD_I8, {1, -1, 44, -44}},
                 {TD_U8, {1, 255, 44, 212}},   {TD_BOOL, {1, 1, 1, 1}}};
    for (int i = 0; i < TD_COUNT(cases); i++) {
        td_tensor *t = td_zeros(cx, TD_SHAPE(4), cases[i].dt);
        CHECK(td_write(t, TD_F64, in, sizeof in));
        CHECK_ARRAY(t, cases[i].want, 4, 0);
        td_tensor *f = td_from(cx, TD_F64, TD_SHAPE(4), in);
        CHECK_ARRAY(td_to(f, cases[i].dt), cases[i].want, 4, 0);
    }
    td_close(cx);
}

TEST(halves_round_to_nearest_even_and_overflow_to_infinity) {
    static const double in[] = {65519, 65520, 1e-8, 6e-8, -1e9};
    td_ctx             *cx = td_open();
    td_tensor          *h = td_zeros(cx, TD_SHAPE(5), TD_F16),
              *b = td_zeros(cx, TD_SHAPE(4), TD_BF16);

    CHECK(td_write(h, TD_F64, in, sizeof in));
    CHECK(td_write(b, TD_F64, (double[]){1.00390625, 1.01171875, 3.4e38, 1e-40}, 32));

    double got[5];
    CHECK(td_read(h, TD_F64, got, sizeof got));
    CHECK(got[0] == 65504 && got[1] == INFINITY && got[2] == 0);
    CHECK(got[3] == 5.960464477539063e-08 && got[4] == -INFINITY);
    CHECK(td_read(b, TD_F64, got, 32));
    CHECK(got[0] == 1.0 && got[1] == 1.015625 && got[2] == INFINITY);
    CHECK(got[3] == 9.183549615799121e-41);
    td_close(cx);
}

TEST(large_integers_are_rounded_once) {
    td_ctx *cx = td_open();
    int64_t in[2] = {16777217, ((int64_t)1 << 53) + 1};
    float   f[2];
    double  d[2];

    td_tensor *t = td_from(cx, TD_I64, TD_SHAPE(2), in);
    CHECK(td_read(t, TD_F32, f, sizeof f));
    CHECK(td_read(t, TD_F64, d, sizeof d));

    CHECK(f[0] == 16777216.0f && f[1] == 9007199254740992.0f);
    CHECK(d[0] == 16777217.0 && d[1] == 9007199254740992.0);
    td_close(cx);
}

TEST(reads_and_writes_go_through_strides) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 3)), *t = td_t(x);

    CHECK(td_write(t, TD_F64, (double[]){1, 2, 3, 4, 5, 6}, 48));

    CHECK_VALUES(x, 1, 3, 5, 2, 4, 6);
    CHECK_VALUES(t, 1, 2, 3, 4, 5, 6);
    td_close(cx);
}

TEST(a_transfer_of_the_wrong_length_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2));
    double     v[3] = {7, 7, 7};

    CHECK(!td_read(x, TD_F64, v, 24));
    CHECK_FAILS(cx, TD_E_ARG,
                "td_read: the buffer has 24 bytes; f32[2] as f64 takes 16");
    CHECK(v[0] == 7);
    CHECK(!td_write(x, TD_F64, v, 8));
    CHECK_FAILS(cx, TD_E_ARG,
                "td_write: the buffer has 8 bytes; f32[2] as f64 takes 16");
    CHECK(!td_write(x, (td_dtype)42, v, 8));
    CHECK_FAILS(cx, TD_E_DTYPE, "td_write: 42 is not a dtype");
    CHECK_VALUES(x, 1, 1);
    CHECK(td_version(x) == 0);

    td_close(cx);
}

TEST(a_transfer_of_more_bytes_than_a_machine_has_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_expand(td_ones(cx, TD_SHAPE(1)), TD_SHAPE((int64_t)1 << 61));
    double     v = 3;

    CHECK(!td_read(x, TD_F64, &v, 0)); /* 2^61 * 8 is 0 in 64 bits */

    CHECK(!td_ok(cx));
    CHECK(v == 3);
    td_close(cx);
}

TEST(a_write_counts_as_one_version) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2));

    td_write(x, TD_F32, (float[]){1, 2}, 8);
    CHECK(td_version(x) == 1);
    td_bump(x);

    CHECK(td_version(x) == 2);
    td_close(cx);
}

TEST(an_item_is_the_one_element_of_any_rank) {
    td_ctx *cx = td_open();

    CHECK(td_item(td_full(cx, TD_SHAPE(), 2.5)) == 2.5);
    CHECK(td_item(td_full(cx, TD_SHAPE(1, 1, 1), 2.5)) == 2.5);
    CHECK(td_item_int(td_full(cx, TD_SHAPE(1), 7)) == 7);
    CHECK(isnan(td_item(td_ones(cx, TD_SHAPE(2)))));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "td_item: the tensor is f32[2]; it must have one element");
    CHECK(td_item_int(td_ones(cx, TD_SHAPE(0))) == 0);
    CHECK_FAILS(cx, TD_E_SHAPE,
                "td_item_int: the tensor is f32[0]; it must have one element");

    td_close(cx);
}

/* ---- promotion ---------------------------------------------------------- */

/* What torch.result_type gives, one letter per dtype in the order of td_dtype. */
/* Real dtypes; complex ones are in complex.c. */
static const char        letters[] = "DFHBlisctb";
static const char *const two_tensors[] = {"DDDDDDDDDD", "DFFFFFFFFF", "DFHFHHHHHH",
                                          "DFFBBBBBBB", "DFHBllllll", "DFHBliiiii",
                                          "DFHBlissss", "DFHBliscsc", "DFHBlisstt",
                                          "DFHBlisctb"};
static const char *const with_zero_dim[] = {"DDDDDDDDDD", "FFFFFFFFFF", "HHHHHHHHHH",
                                            "BBBBBBBBBB", "DFHBllllll", "DFHBiiiiii",
                                            "DFHBssssss", "DFHBcccccc", "DFHBtttttt",
                                            "DFHBlisctb"};
static const char *const with_number[] = {"DDD", "FFF", "HHH", "BBB", "llF",
                                          "iiF", "ssF", "ccF", "ttF", "blF"};

static void check_pair(td_tensor *a, td_value b, char want) {
    td_tensor *r = td_op_mul(a, b);
    CHECK(!td_is_nil(r));
    TD_CHECK_THAT(letters[td_dtype_of(r)] == want, "%s gives %s, not %c", text_of(a),
                  td_dtype_name(td_dtype_of(r)), want);
}

TEST(tensors_promote_as_in_pytorch) {
    td_ctx *cx = td_open();

    for (int a = 0; a <= TD_BOOL; a++)
        for (int b = 0; b <= TD_BOOL; b++) {
            td_scope_begin(cx, "pair");
            td_tensor *x = td_ones(cx, TD_SHAPE(2), (td_dtype)a);
            td_tensor *y = td_ones(cx, TD_SHAPE(2), (td_dtype)b);
            check_pair(x, TD_V(y), two_tensors[a][b]);
            td_scope_end(cx, "pair", NULL);
        }
    td_close(cx);
}

TEST(tensors_without_dims_weigh_less) {
    td_ctx *cx = td_open();

    for (int a = 0; a <= TD_BOOL; a++)
        for (int b = 0; b <= TD_BOOL; b++) {
            td_scope_begin(cx, "pair");
            td_tensor *x = td_ones(cx, TD_SHAPE(2), (td_dtype)a);
            td_tensor *y = td_ones(cx, TD_SHAPE(), (td_dtype)b);
            td_tensor *z = td_ones(cx, TD_SHAPE(), (td_dtype)a);
            check_pair(x, TD_V(y), with_zero_dim[a][b]);
            check_pair(y, TD_V(x), with_zero_dim[a][b]);
            check_pair(z, TD_V(y), two_tensors[a][b]);
            td_scope_end(cx, "pair", NULL);
        }
    td_close(cx);
}

TEST(numbers_only_raise_the_class) {
    td_ctx *cx = td_open();

    for (int a = 0; a <= TD_BOOL; a++) {
        td_tensor *x = td_ones(cx, TD_SHAPE(2), (td_dtype)a);
        td_tensor *z = td_ones(cx, TD_SHAPE(), (td_dtype)a);
        td_value numbers[] = {td_value_bool(true), td_value_int(1), td_value_float(1)};
        for (int k = 0; k < 3; k++) {
            check_pair(x, numbers[k], with_number[a][k]);
            check_pair(z, numbers[k], with_number[a][k]);
        }
    }
    td_close(cx);
}

/* ---- looking ------------------------------------------------------------ */

TEST(dims_count_from_both_ends_and_not_further) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 3));

    CHECK(td_size(x, 0) == 2 && td_size(x, -1) == 3 && td_stride(x, -2) == 3);
    CHECK(td_size(x, 2) == 0);
    CHECK_FAILS(cx, TD_E_INDEX, "dim 2 is out of range for f32[2,3]");
    CHECK(td_stride(x, -3) == 0);
    CHECK_FAILS(cx, TD_E_INDEX, "dim -3 is out of range for f32[2,3]");
    CHECK(td_size(x, INT64_MIN) == 0);
    CHECK_FAILS(cx, TD_E_INDEX, "out of range");
    CHECK(td_size(td_zeros(cx, TD_SHAPE()), 0) == 0);
    CHECK_FAILS(cx, TD_E_INDEX, "dim 0 is out of range for f32[]");

    td_close(cx);
}

TEST(ops_refuse_dims_out_of_range) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 3)), *s = td_zeros(cx, TD_SHAPE());

    CHECK(td_is_nil(td_sum(x, TD_DIMS(2))));
    CHECK_FAILS(cx, TD_E_INDEX, "sum: dim 2 is out of range for rank 2");
    CHECK(td_is_nil(td_transpose(x, 0, -3)));
    CHECK_FAILS(cx, TD_E_INDEX, "transpose: dim -3 is out of range for rank 2");
    CHECK(td_is_nil(td_softmax(x, 5)));
    CHECK_FAILS(cx, TD_E_INDEX, "dim 5 is out of range");
    CHECK(td_is_nil(td_select(x, INT64_MAX, 0)));
    CHECK_FAILS(cx, TD_E_INDEX, "out of range");
    CHECK(td_is_nil(td_cat(TD_LIST(x, x), 2)));
    CHECK_FAILS(cx, TD_E_INDEX, "dim 2 is out of range");
    CHECK(td_is_nil(td_sum(x, TD_DIMS(0, 0))));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(!td_is_nil(td_sum(s, TD_DIMS(-1)))); /* no dims: 0 and -1 name all of it */
    CHECK(!td_is_nil(td_softmax(s, 0)));
    CHECK(td_is_nil(td_sum(s, TD_DIMS(1))));
    CHECK_FAILS(cx, TD_E_INDEX, "dim 1 is out of range for rank 0");

    td_close(cx);
}

TEST(views_know_their_base) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 3)), *v = td_select(td_t(x), 0, 1);

    CHECK(!td_is_view(x) && td_is_nil(td_base(x)));
    CHECK(td_is_view(v) && td_base(v) == x);
    CHECK(td_offset(v) == 1 && td_stride(v, 0) == 3);
    CHECK(td_same_storage(v, x));
    CHECK(!td_same_storage(td_clone(x), x));
    td_add_(v, 1);
    CHECK(td_version(x) == 1 && td_version(v) == 1);

    td_close(cx);
}

/* ---- sharing ------------------------------------------------------------ */

TEST(a_shared_tensor_has_the_same_bytes_and_no_history) {
    td_ctx    *cx = td_open(), *other = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(2, 2)), true);

    td_tensor *s = td_share(other, td_t(x));
    CHECK(td_ctx_of(s) == other);
    CHECK(td_same_storage(s, x));
    CHECK(td_stride(s, 0) == 1 && td_stride(s, 1) == 2);
    CHECK(!td_requires_grad(s) && !td_is_view(s));
    td_fill_(s, 5.0);
    CHECK(td_version(x) == 1);
    td_close(cx);

    CHECK_VALUES(s, 5, 5, 5, 5); /* the bytes live as long as anyone holds them */
    td_close(other);
}

typedef struct sharing {
    td_ctx    *cx;
    td_tensor *t;
    double     sum;
} sharing;

static void *sum_shared(void *arg) {
    sharing *s = arg;
    s->sum = td_item(td_sum(s->t));
    td_close(s->cx); /* drops its hold on the bytes */
    return NULL;
}

TEST(threads_share_bytes_and_the_last_one_frees_them) {
    td_ctx *cx = td_open();
    float   bytes[256];
    int     runs = 0;
    for (int i = 0; i < 256; i++) bytes[i] = (float)i;
    td_tensor *t =
        td_wrap(cx, TD_F32, TD_SHAPE(256), TD_ALL, bytes, count_release, &runs);

    sharing   s[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        s[i].cx = td_open();
        s[i].t = td_share(s[i].cx, t);
    }
    td_close(cx);
    for (int i = 0; i < 4; i++)
        CHECK(!pthread_create(&threads[i], NULL, sum_shared, &s[i]));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);

    for (int i = 0; i < 4; i++) CHECK(s[i].sum == 255 * 128);
    CHECK(runs == 1);
}

/* call.c -- schemas, formulas, arguments of a call, and writes into arguments. */
#include "op_help.h"

#include "ops/ops.h"

/* ---- schemas ------------------------------------------------------------ */

TEST(a_schema_gives_names_types_and_defaults) {
    td_schema s;
    char      why[160];

    CHECK(td__schema_parse(
        "f(Tensor(a!) x, Tensor?[] ix, Scalar k=-2, float eps=1e-5, "
        "int[] dims=[1, 2], bool on=True, str how='mean', int[]? o=None, "
        "dtype? dtype=None) -> (Tensor(a!) y, Tensor z)",
        &s, why, sizeof why));

    CHECK_STR(s.name, "f");
    CHECK(s.n_in == 9 && s.n_out == 2);
    CHECK(s.in[0].type == TD_T_TENSOR && s.in[0].alias == 'a' && s.in[0].write);
    CHECK(s.in[1].type == TD_T_OPT_TENSORS && !s.in[1].has_default);
    CHECK(s.in[2].def.kind == TD_K_INT && s.in[2].def.u.i == -2);
    CHECK(s.in[3].def.kind == TD_K_FLOAT && s.in[3].def.u.f == 1e-5);
    CHECK(s.in[4].def.n == 2 && s.in[4].def.u.ints[1] == 2);
    CHECK(s.in[5].def.kind == TD_K_BOOL && s.in[5].def.u.i == 1);
    CHECK_STR(s.in[6].def.u.s, "mean");
    CHECK(s.in[7].has_default && s.in[7].def.kind == TD_K_NONE);
    CHECK_STR(s.out[0].name, "y");
    CHECK(s.out[0].write && !s.out[1].write);
}

TEST(wrong_schemas_are_refused_with_a_reason) {
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "expected a name"},
        {"f", "expected ("},
        {"f(", "expected a name"},
        {"f()", "expected ->"},
        {"f() -> ", "expected a name"},
        {"f() -> int", "a result is Tensor or Tensor[]"},
        {"f() -> Tensor junk", "trailing text"},
        {"f() -> (Tensor a", "expected )"},
        {"f(Tensor) -> Tensor", "expected a name"},
        {"f(Matrix x) -> Tensor", "unknown type"},
        {"f(bool? x) -> Tensor", "no such form of this type"},
        {"f(float[] x) -> Tensor", "no such form of this type"},
        {"f(Tensor(A) x) -> Tensor", "expected an alias letter"},
        {"f(Tensor(a x) -> Tensor", "expected ) after the alias mark"},
        {"f(Tensor(", "expected an alias letter"},
        {"f(int x=) -> Tensor", "bad default"},
        {"f(int[] x=[1) -> Tensor", "expected an integer"},
        {"f(int[] x=[1,2,3,4,5]) -> Tensor", "default list is too long"},
        {"f(str x='mean) -> Tensor", "bad default string"},
        {"f(str x='a very long default string') -> Tensor", "bad default string"},
        {"f(int x int y) -> Tensor", "expected , or )"},
        {"f(int a,int b,int c,int d,int e,int f,int g,int h,int i,int j,int k,int "
         "l,int m,"
         "int n,int o,int p,int q) -> Tensor",
         "too many arguments"},
        {"f() -> (Tensor,Tensor,Tensor,Tensor,Tensor,Tensor,Tensor,Tensor,Tensor)",
         "too many results"},
        {"f(int an_argument_name_without_any_end) -> Tensor", "expected a name"},
    };
    td_schema s;
    char      why[160];
    for (int i = 0; i < TD_COUNT(cases); i++) {
        TD_CHECK_THAT(!td__schema_parse(cases[i].text, &s, why, sizeof why), "%s",
                      cases[i].text);
        TD_CHECK_THAT(strstr(why, cases[i].why) != NULL, "%s: %s", cases[i].text, why);
    }
}

TEST(every_prefix_of_a_schema_is_read_or_refused) {
    const char *text = "f(Tensor(a!) x, Tensor?[] ix, Scalar k=-2, int[] d=[1, 2], "
                       "str how='mean', int[]? o=None) -> (Tensor(a!) y, Tensor z)";
    td_schema   s;
    char        why[160], part[256];

    for (size_t n = 0; n < strlen(text); n++) {
        memcpy(part, text, n);
        part[n] = 0;
        CHECK(!td__schema_parse(part, &s, why, sizeof why));
    }
}

TEST(a_writers_schema_comes_from_its_twin) {
    td_schema pure, s;
    char      why[160];

    CHECK(td__schema_parse("f(Tensor a, int[] d=[3], str how='x') -> Tensor", &pure,
                           why, sizeof why));
    CHECK(td__schema_writer(&pure, &s, why, sizeof why));
    CHECK_STR(s.name, "f_");
    CHECK(s.in[0].write && s.out[0].write && s.in[0].alias == s.out[0].alias);
    CHECK(s.in[1].def.u.ints == s.in[1].ints_def && s.in[2].def.u.s == s.in[2].str_def);
    CHECK(td__schema_parse("f(int a) -> Tensor", &pure, why, sizeof why));
    CHECK(!td__schema_writer(&pure, &s, why, sizeof why));
    CHECK(strstr(why, "cannot have an in-place twin") != NULL);
}

TEST(every_op_is_found_by_its_name) {
    td_ctx *cx = td_open();

    for (int op = 0; op < TD_OP_COUNT; op++) {
        CHECK(td__op_find(td__ops[op].name) == (td_op)op);
        CHECK_STR(td__opinfo((td_op)op)->s.name, td__ops[op].name);
        CHECK(td__ops[op].doc && strlen(td__ops[op].doc) > 3);
    }
    CHECK(td__op_find("no_such_op") == TD_OP_COUNT);

    td_close(cx);
}

/* ---- formulas ----------------------------------------------------------- */

static const td_formula *parse(const char *text, char *why) {
    static td_schema s;
    char             msg[160];
    CHECK(td__schema_parse(
        "f(Tensor a, Tensor b, int[] d, float k=2) -> (Tensor y, Tensor z)", &s, msg,
        sizeof msg));
    why[0] = 0;
    return td__formula_parse(text, &s, true, why, 160);
}

TEST(a_formula_knows_what_it_reads) {
    td_ctx *cx = td_open();
    char    why[160];

    const td_formula *f = parse("g_z * mul(a, 2) + -z / 3.5e1 - sum(b, d, true)", why);
    CHECK(f != NULL);
    CHECK(td__formula_reads_in(f) == 3); /* a and b; d is no tensor */
    CHECK(td__formula_reads_out(f) == 2);
    f = parse("expand(g, a.sizes) * b.numel * a.rank", why);
    CHECK(f != NULL);
    CHECK(td__formula_reads_in(f) == 0); /* attributes save nothing */

    td_close(cx);
}

TEST(wrong_formulas_are_refused_with_a_reason) {
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "expected a value"},
        {"a +", "expected a value"},
        {"a b", "trailing text"},
        {"(a", "expected )"},
        {"a)", "trailing text"},
        {"nosuch(a)", "unknown op nosuch"},
        {"x", "unknown name x"},
        {"a.color", "unknown attribute"},
        {"mul(a", "expected , or )"},
        {"mul(a b)", "expected , or )"},
        {"sum(a, [0 1])", "expected , or ]"},
        {"g_nothing", "unknown name g_nothing"},
        {"a_name_that_is_longer_than_any_argument_may_be", "name is too long"},
        {"a ? b : a", "trailing text"},
        {"((((((((((((((((((((((((((((((((((((((((((((((a))))", "nested too deep"},
        {"a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a",
         "too long"},
        {"mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,"
         "mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,mul(a,"
         "a))))))))))))))))))))))))",
         "too many values"},
    };
    td_ctx *cx = td_open();
    char    why[160];
    for (int i = 0; i < TD_COUNT(cases); i++) {
        TD_CHECK_THAT(!parse(cases[i].text, why), "%s", cases[i].text);
        TD_CHECK_THAT(strstr(why, cases[i].why) != NULL, "%s: %s", cases[i].text, why);
    }
    td_close(cx);
}

/* ---- arguments ---------------------------------------------------------- */

TEST(missing_arguments_take_their_defaults) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 2, 3), *out;
    td_value   in[] = {TD_V(x), td_value_int(1)};

    CHECK(td__call(cx, TD_OP_add, in, 2, &out, 1)); /* alpha = 1 */
    CHECK_VALUES(out, 2, 3, 4);
    CHECK(!td__call(cx, TD_OP_add, in, 1, &out, 1));
    CHECK(td_is_nil(out));
    CHECK_FAILS(cx, TD_E_ARG, "add: argument b is missing");

    td_close(cx);
}

TEST(arguments_of_the_wrong_kind_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *out;
    td_tensor *ts[] = {x};
    int64_t    two[] = {0, 1};
    td_value   list = td__value_ints((td_ints){two, 2}), tensor = TD_V(x);
    td_value   text = td__value_str("a"),
             tensors = td__value_tensors((td_tensors){ts, 1});
    const struct {
        td_op       op;
        td_value    in[3];
        int         n;
        const char *words;
    } cases[] = {
        {TD_OP_exp, {td_value_int(1)}, 1, "exp: argument a must be a tensor"},
        {TD_OP_exp, {list}, 1, "exp: argument a must be a tensor"},
        {TD_OP_exp, {tensors}, 1, "exp: argument a must be a tensor"},
        {TD_OP_add, {tensor, list}, 2, "add: argument b must be a tensor or a number"},
        {TD_OP_add,
         {tensor, tensor, tensor},
         3,
         "add: argument alpha must be a number"},
        {TD_OP_transpose,
         {tensor, td_value_float(1), td_value_int(0)},
         3,
         "must be an integer"},
        {TD_OP_transpose, {tensor, TD_NONE, td_value_int(0)}, 3, "must be an integer"},
        {TD_OP_sum,
         {tensor, td_value_int(1)},
         2,
         "must be a list of integers or nothing"},
        {TD_OP_reshape, {tensor, TD_NONE}, 2, "must be a list of integers"},
        {TD_OP_reshape, {tensor, tensors}, 2, "must be a list of integers"},
        {TD_OP_cat, {tensor, td_value_int(0)}, 2, "must be a list of tensors"},
        {TD_OP_cat, {list, td_value_int(0)}, 2, "must be a list of tensors"},
        {TD_OP_div, {tensor, tensor, td_value_int(0)}, 3, "must be a string"},
        {TD_OP_div, {tensor, tensor, td__value_str(NULL)}, 3, "must be a string"},
        {TD_OP_sum, {tensor, list, text}, 3, "must be a bool"},
        {TD_OP_zeros_like, {tensor, td_value_int(1)}, 2, "must be a dtype or nothing"},
        {TD_OP_zeros_like,
         {tensor, td__value_dtype((td_dtype)99)},
         2,
         "must be a dtype"},
    };
    for (int i = 0; i < TD_COUNT(cases); i++) {
        CHECK(!td__call(cx, cases[i].op, cases[i].in, cases[i].n, &out, 1));
        CHECK(td_is_nil(out));
        CHECK_FAILS(cx, TD_E_ARG, cases[i].words);
    }
    td_close(cx);
}

TEST(kinds_that_mean_the_same_are_taken) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *out;
    td_value   in[] = {TD_V(x), td_value_bool(true), td_value_int(0)};
    td_value   sum[] = {TD_V(x), TD_NONE, td_value_int(1)};

    CHECK(td__call(cx, TD_OP_transpose, in, 3, &out, 1)); /* bool as an integer */
    CHECK_SHAPE(out, 3, 2);
    CHECK(td__call(cx, TD_OP_sum, sum, 3, &out, 1)); /* integer as a bool */
    CHECK_SHAPE(out, 1, 1);
    td_value drop[] = {TD_V(x), td_value_int(0)}; /* integer as a float */
    CHECK(td__call(cx, TD_OP_dropout, drop, 2, &out, 1));

    CHECK_OK(cx);
    td_close(cx);
}

TEST(list_results_are_counted_and_capped) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_arange(cx, 0, 10), *out[12];

    CHECK(td_split(x, 3, 0, out, 12) == 4);
    CHECK_VALUES(out[3], 9);
    CHECK(td_is_nil(out[4]) && td_is_nil(out[11]));
    CHECK(td_split(x, 3, 0, out, 4) == 4);
    CHECK(td_split(x, 3, 0, out, 3) == -1);
    CHECK_FAILS(cx, TD_E_ARG, "split: returns 4 tensors, and out has room for 3");
    CHECK(td_is_nil(out[0]));
    CHECK(td_unbind(x, 0, out, 12) == 10);
    CHECK(td_unbind(x, 0, NULL, 0) == -1);
    CHECK_FAILS(cx, TD_E_ARG, "out has room for 0");

    td_close(cx);
}

TEST(further_results_may_be_left_out) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 3, 1, 2), *ix;

    CHECK_VALUES(td_sort(x, 0, false, true, NULL), 1, 2, 3);
    CHECK_VALUES(td_sort(x, 0, false, true, &ix), 1, 2, 3);
    CHECK_VALUES(ix, 1, 2, 0);

    td_close(cx);
}

TEST(a_thousand_results_come_from_one_call) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_arange(cx, 0, 1000), *out[1000];

    CHECK(td_unbind(x, 0, out, 1000) == 1000);
    CHECK(td_item(out[999]) == 999);
    CHECK(td_item(td_sum(td_op_stack((td_tensors){out, 1000}, 0))) == 499500);

    CHECK_OK(cx);
    td_close(cx);
}

/* ---- writes ------------------------------------------------------------- */

TEST(a_writer_returns_the_tensor_it_wrote) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 2, 3);

    CHECK(td_add_(x, 1) == x);
    CHECK(td_mul_(x, x) == x);
    CHECK_VALUES(x, 4, 9, 16);
    CHECK(td_cumsum_(x, 0) == x);

    CHECK_VALUES(x, 4, 13, 29);
    td_close(cx);
}

TEST(a_write_that_would_grow_the_tensor_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *y = td_ones(cx, TD_SHAPE(2, 3));

    CHECK(td_is_nil(td_add_(x, y)));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "add_: result of size [2,3] does not fit the written tensor f32[3]");
    CHECK(td_is_nil(td_mul_(td_ones(cx, TD_SHAPE(1)), x)));
    CHECK_FAILS(cx, TD_E_SHAPE, "does not fit the written tensor f32[1]");
    CHECK(td_is_nil(td_copy_(x, y)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK_VALUES(x, 1, 1, 1);
    CHECK(td_version(x) == 0);

    td_close(cx);
}

TEST(a_write_may_narrow_but_not_leave_the_class) {
    td_ctx    *cx = td_open();
    td_tensor *i = td_ones(cx, TD_SHAPE(2), TD_I32), *f = td_ones(cx, TD_SHAPE(2));
    td_tensor *b = td_ones(cx, TD_SHAPE(2), TD_BOOL);

    CHECK(td_is_nil(td_add_(i, 1.5)));
    CHECK_FAILS(cx, TD_E_DTYPE,
                "add_: a result of dtype f32 cannot be stored in i32[2]");
    CHECK(td_is_nil(td_div_(i, 2)));
    CHECK_FAILS(cx, TD_E_DTYPE, "cannot be stored in i32[2]");
    CHECK(td_is_nil(td_add_(b, 1)));
    CHECK_FAILS(cx, TD_E_DTYPE, "cannot be stored in bool[2]");
    CHECK_VALUES(i, 1, 1);
    td_add_(f, td_ones(cx, TD_SHAPE(2), TD_F64)); /* f64 into f32 */
    CHECK_VALUES(f, 2, 2);
    td_add_(f, i);
    CHECK_VALUES(f, 3, 3);
    CHECK_OK(cx);

    td_close(cx);
}

TEST(an_expanded_tensor_cannot_be_written) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(1, 3)), *e = td_expand(x, TD_SHAPE(2, 3));

    CHECK(td_is_nil(td_add_(e, 1)));
    CHECK_FAILS(
        cx, TD_E_ALIAS,
        "add_: several elements of the written tensor f32[2,3] have the same address");
    CHECK(td_is_nil(td_copy_(e, td_zeros(cx, TD_SHAPE(2, 3)))));
    CHECK(td_error(cx) == TD_E_ALIAS);
    td_clear(cx);
    CHECK(td_is_nil(td_uniform_(e, 0, 1)));
    CHECK(td_error(cx) == TD_E_ALIAS);
    td_clear(cx);
    CHECK(td_is_nil(td_cumsum_(e, 0)));
    CHECK(td_error(cx) == TD_E_ALIAS);
    td_clear(cx);
    CHECK_VALUES(x, 1, 1, 1);
    CHECK(td_version(x) == 0);
    CHECK(td_fill_(e, 3) == e); /* one value everywhere: as in PyTorch */
    CHECK_VALUES(x, 3, 3, 3);

    td_close(cx);
}

/* A 0-dim value is read as a number first: it may be an element of what is written. */
TEST(a_fill_takes_an_element_of_the_written_tensor) {
    td_ctx    *cx = td_open();
    bool       on[4] = {true, false, true, false};
    td_tensor *mask = td_from(cx, TD_BOOL, TD_SHAPE(4), on);
    td_tensor *at = td_from(cx, TD_I64, TD_SHAPE(2), (int64_t[]){0, 2});

    for (int k = 0; k < 4; k++) {
        double     v = k + 1;
        td_tensor *x = td_arange(cx, 1.0, 5.0), *y = td_clone(x), *z = td_clone(x);
        td_fill_(x, td_select(x, 0, k));
        CHECK_VALUES(x, v, v, v, v);
        td_masked_fill_(y, mask, td_select(y, 0, k));
        CHECK_VALUES(y, v, 2, v, 4);
        td_index_fill_(z, 0, at, td_select(z, 0, k));
        CHECK_VALUES(z, v, 2, v, 4);
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_list_with_a_negative_count_is_refused) {
    td_ctx       *cx = td_open();
    int64_t       size[2] = {2, 3};
    const td_ints short_list = {size, -1}, none = {NULL, -5};
    CHECK(td_is_nil(td_op_zeros(cx, short_list, TD_F32)));
    CHECK_FAILS(cx, TD_E_ARG, "argument size is a list of -1 integers");
    CHECK(
        td_is_nil(td_op_sum(td_ones(cx, TD_SHAPE(2, 3)), none, false, TD_DTYPE_NONE)));
    CHECK(td_error(cx) == TD_E_ARG);
    td_close(cx);
}

TEST(a_partial_overlap_is_refused_and_a_full_one_taken) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_arange(cx, 0.0, 6.0), *m = td_view(x, TD_SHAPE(2, 3));

    CHECK(td_is_nil(td_add_(td_narrow(x, 0, 0, 4), td_narrow(x, 0, 1, 4))));
    CHECK_FAILS(cx, TD_E_ALIAS,
                "add_: the written tensor and argument b partly overlap");
    CHECK(td_is_nil(td_true_divide_(td_narrow(x, 0, 0, 4), td_narrow(x, 0, 1, 4))));
    CHECK_FAILS(cx, TD_E_ALIAS, "partly overlap");
    CHECK(td_is_nil(td_copy_(td_narrow(x, 0, 0, 4), td_narrow(x, 0, 2, 4))));
    CHECK(td_error(cx) == TD_E_ALIAS);
    td_clear(cx);
    CHECK(td_is_nil(td_mul_(m, td_select(m, 0, 0))));
    CHECK(td_error(cx) == TD_E_ALIAS);
    td_clear(cx);
    CHECK_VALUES(x, 0, 1, 2, 3, 4, 5);
    td_add_(td_narrow(x, 0, 0, 3), td_narrow(x, 0, 3, 3));
    CHECK_VALUES(x, 3, 5, 7, 3, 4, 5);
    td_add_(x, td_narrow(x, 0, 0, 6));
    CHECK_VALUES(x, 6, 10, 14, 6, 8, 10);
    td_matmul(m, td_t(m));
    CHECK_OK(cx);

    td_close(cx);
}

TEST(an_indexed_write_refuses_what_overlaps_the_written_tensor) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_arange(cx, 0.0, 4.0), *i = td_arange(cx, 0, 4), *y;

    CHECK(td_is_nil(td_scatter_add_(x, 0, i, x)));
    CHECK_FAILS(cx, TD_E_ALIAS,
                "scatter_add_: the written tensor and argument src overlap");
    CHECK(td_is_nil(td_index_copy_(i, 0, i, td_clone(i))));
    CHECK(td_error(cx) == TD_E_ALIAS);
    td_clear(cx);
    CHECK(td_is_nil(td_index_put_(i, TD_LIST(i), td_clone(i), false)));
    CHECK(td_error(cx) == TD_E_ALIAS);
    td_clear(cx);
    CHECK_VALUES(x, 0, 1, 2, 3);
    y = td_scatter_add(x, 0, i, x); /* out of place: any */
    CHECK_VALUES(y, 0, 2, 4, 6);
    td_scatter_add_(td_narrow(x, 0, 0, 2), 0, td_narrow(i, 0, 0, 2),
                    td_narrow(x, 0, 2, 2));
    CHECK_VALUES(x, 2, 4, 2, 3);
    td_close(cx);
}

TEST(products_write_into_a_tensor_they_also_read) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_reshape(td_tensor1(cx, 1, 2, 3, 4), TD_SHAPE(2, 2));

    td_addmm_(x, x, x);

    CHECK_VALUES(x, 8, 12, 18, 26);
    CHECK(td_version(x) == 1);
    td_close(cx);
}

TEST(writes_go_through_strided_views) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 3));

    td_add_(td_t(x), td_reshape(td_arange(cx, 0.0, 6.0), TD_SHAPE(3, 2)));
    td_mul_(td_slice(x, 1, td_value_int(0), td_value_int(3), 2), 10);

    CHECK_VALUES(x, 0, 2, 40, 10, 3, 50);
    td_close(cx);
}

TEST(a_failing_kernel_writes_nothing) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_from(cx, TD_I64, TD_SHAPE(3), (int64_t[]){6, 7, 8});
    td_tensor *d = td_from(cx, TD_I64, TD_SHAPE(3), (int64_t[]){2, 0, 2});
    td_tensor *ix = td_from(cx, TD_I64, TD_SHAPE(2), (int64_t[]){0, 5});

    CHECK(td_is_nil(td_floor_divide_(x, d)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_index_fill_(x, 0, ix, 1)));
    CHECK(td_error(cx) == TD_E_INDEX);
    td_clear(cx);
    CHECK(td_is_nil(td_index_add_(x, 0, ix, td_ones(cx, TD_SHAPE(2), TD_I64))));
    CHECK(td_error(cx) == TD_E_INDEX);
    td_clear(cx);
    CHECK(td_is_nil(td_scatter_(x, 0, ix, td_ones(cx, TD_SHAPE(2), TD_I64))));
    CHECK(td_error(cx) == TD_E_INDEX);
    td_clear(cx);
    CHECK(td_is_nil(
        td_index_put_(x, TD_LIST(ix), td_ones(cx, TD_SHAPE(2), TD_I64), false)));
    CHECK(td_error(cx) == TD_E_INDEX);
    td_clear(cx);

    CHECK_VALUES(x, 6, 7, 8);
    CHECK(td_version(x) == 0);
    td_close(cx);
}

/* How often PyTorch counts each write. */
#define VERSIONS(n, stmt)                                                         \
    do {                                                                          \
        td_tensor *x = td_tensor1(cx, 1, 2, 3);                                   \
        stmt;                                                                     \
        TD_CHECK_THAT(td_version(x) == (n), "%s: version %d, not %d (%s)", #stmt, \
                      (int)td_version(x), (n), td_message(cx));                   \
    } while (0)

TEST(writes_are_counted_as_in_pytorch) {
    td_ctx    *cx = td_open();
    td_tensor *one = td_ones(cx, TD_SHAPE(3)), *ix = td_zeros(cx, TD_SHAPE(1), TD_I64);
    td_tensor *first = td_ones(cx, TD_SHAPE(1));

    VERSIONS(1, td_add_(x, 1));
    VERSIONS(1, td_mul_(x, x));
    VERSIONS(1, td_zero_(x));
    VERSIONS(1, td_fill_(x, 2));
    VERSIONS(1, td_copy_(x, one));
    VERSIONS(1, td_copy_(x, x));
    VERSIONS(1, td_clamp_(x, td_value_int(0), td_value_int(1)));
    VERSIONS(1, td_relu_(x));
    VERSIONS(1, td_celu_(x));
    VERSIONS(1, td_square_(x));
    VERSIONS(1, td_masked_fill_(x, td_gt(x, 0), 1));
    VERSIONS(1, td_masked_scatter_(x, td_gt(x, 0), one));
    VERSIONS(1, td_index_fill_(x, 0, ix, 1));
    VERSIONS(1, td_index_add_(x, 0, ix, first));
    VERSIONS(1, td_scatter_(x, 0, ix, first));
    VERSIONS(1, td_index_put_(x, TD_LIST(ix), first, false));
    VERSIONS(1, td_uniform_(x, 0, 1));
    VERSIONS(1, td_normal_(x, 0, 1));
    VERSIONS(1, td_bernoulli_(x, 0.5));
    VERSIONS(1, td_lerp_(x, one, 0.5));
    VERSIONS(1, td_addcmul_(x, x, x));
    VERSIONS(1, td_addmv_(x, td_eye(cx, 3), one));
    VERSIONS(1, td_cumsum_(x, 0));
    VERSIONS(1, td_logical_not_(x));
    VERSIONS(1, td_eq_(x, 1));
    VERSIONS(1, td_dropout_(x, 0.5, true));
    VERSIONS(0, td_dropout_(x, 0.5, false));
    VERSIONS(0, td_dropout_(x, 0.0, true));
    VERSIONS(1, td_add_(td_narrow(x, 0, 0, 0), 1)); /* of nothing */
    VERSIONS(1, td_tril_(td_unsqueeze(x, 0), 0));
    VERSIONS(1, td_t_(x));
    VERSIONS(1, td_unsqueeze_(x, 0));
    VERSIONS(1, td_squeeze_(x));
    VERSIONS(1, td_transpose_(x, 0, 0));
    VERSIONS(1, td_resize_(x, TD_SHAPE(2)));
    VERSIONS(1, td_resize_(x, TD_SHAPE(20)));
    VERSIONS(1, td_as_strided_(x, TD_SHAPE(2), TD_DIMS(1)));
    VERSIONS(0, td_detach_(x));
    VERSIONS(0, td_set_requires_grad(x, true));
    VERSIONS(0, td_exp(x));

    CHECK_OK(cx);
    td_close(cx);
}

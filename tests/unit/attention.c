/* attention.c -- scaled dot product attention against numbers from PyTorch 2.x. */
#include "op_help.h"

#include "core/core.h"

typedef struct attention_case {
    const char *name;
    double      out[12], dq[24];
} attention_case;

static const attention_case attentions[] = {
    {"plain",
     {0.158953261, -0.257461051, 0.485320173, -0.531197226, 0.629583712, -0.611551986,
      -0.441529667, 0.566429555, -0.0589576595, 0.305136328, -0.286959906, 0.457264302},
     {0.0531041177,   0.0531041177,  0.0531041177,  0.0243975378,   0.00404461859,
      0.00404461859,  0.00404461859, -0.0179037074, -0.00840210513, -0.00840210513,
      -0.00840210513, -0.0703998531, -0.0201054769, 0.118068971,    -0.0201054769,
      -0.0201054769,  0.0566436659,  0.0945133174,  0.0566436659,   0.0566436659,
      0.00805352694,  0.11445512,    0.00805352694, 0.00805352694}},
    {"causal",
     {-1.25, 0, 0.0390497893, -0.128904979, 0.6208607, -0.37031922, 0.25, -1.25,
      0.130855087, -0.0585508723, 0.0052074858, 0.309750487},
     {0,
      0,
      0,
      0,
      0.0702438801,
      0.0702438801,
      0.0702438801,
      0.0702438801,
      0.0554816519,
      0.0554816519,
      0.0554816519,
      -0.1730637,
      0,
      0,
      0,
      0,
      0.0701582308,
      0.0701582308,
      0.0701582308,
      0.0701582308,
      0.0740740692,
      0.0740740692,
      0.0740740692,
      0.0740740692}},
    {"bool",
     {-0.689132861, -0.164960923, 0, 0, 0.692623994, -0.807376006, -0.312668593,
      0.474783831, 0, 0, -0.421632376, 0.828367624},
     {0.0869421419,
      0.0869421419,
      0.0869421419,
      -0.313748984,
      0,
      0,
      0,
      0,
      -0.107363992,
      -0.107363992,
      -0.107363992,
      0.286303979,
      0.0553160317,
      -0.0156267305,
      0.0553160317,
      0.0553160317,
      0,
      0,
      0,
      0,
      -0.138450422,
      0.369201124,
      -0.138450422,
      -0.138450422}},
    {"float",
     {0.486912469, -0.490709788, -0.154952756, -0.438800473, 0.179384168, -0.564662131,
      -0.593939546, 0.604845766, 0.0908486985, -0.656542141, -0.187134212,
      -0.175231004},
     {-0.0112607758, -0.0112607758, -0.0112607758, 0.0955078314, 0.0802994079,
      0.0802994079,  0.0802994079,  -0.210015974,  0.0577114163, 0.0577114163,
      0.0577114163,  -0.224789214,  -0.0301130094, 0.0819574948, -0.0301130094,
      -0.0301130094, 0.0717967711,  0.00137262778, 0.0717967711, 0.0717967711,
      0.0826117198,  -0.0977373066, 0.0826117198,  0.0826117198}},
    {"scale",
     {0.261350186, -0.342791821, 0.471719328, -0.518738584, 0.560544131, -0.576891993,
      -0.3688703, 0.531144315, -0.118275578, 0.359040624, -0.271962121, 0.453899512},
     {0.0240960759,   0.0240960759,  0.0240960759,   0.000682810589, 0.00443266043,
      0.00443266043,  0.00443266043, -0.0132921878,  2.05749681e-05, 2.05749681e-05,
      2.05749681e-05, -0.037212914,  -0.00630352602, 0.0767472244,   -0.00630352602,
      -0.00630352602, 0.0250231899,  0.0640402986,   0.0250231899,   0.0250231899,
      0.00585643993,  0.0708664257,  0.00585643993,  0.00585643993}},
    {"negscale",
     {0.605959089, -0.629965907, 0.426735137, -0.481261416, 0.357876434, -0.405886312,
      -0.140075132, 0.343178917, -0.403354738, 0.5318534, -0.228924142, 0.447543283},
     {0.00845954756,  0.00845954756, 0.00845954756,  0.0244614124,  -0.0106094431,
      -0.0106094431,  -0.0106094431, 0.0213161003,   -0.0138443469, -0.0138443469,
      -0.0138443469,  -0.0122995925, -0.0232186196,  -0.0621168826, -0.0232186196,
      -0.0232186196,  0.00656266859, -0.0645865903,  0.00656266859, 0.00656266859,
      -0.00925039928, -0.0753159366, -0.00925039928, -0.00925039928}},
    {"float inf row",
     {0.486912469, -0.490709788, 0, 0, 0.179384168, -0.564662131, -0.593939546,
      0.604845766, 0, 0, -0.187134212, -0.175231004},
     {-0.0112607758,
      -0.0112607758,
      -0.0112607758,
      0.0955078314,
      0,
      0,
      0,
      0,
      0.0577114163,
      0.0577114163,
      0.0577114163,
      -0.224789214,
      -0.0301130094,
      0.0819574948,
      -0.0301130094,
      -0.0301130094,
      0,
      0,
      0,
      0,
      0.0826117198,
      -0.0977373066,
      0.0826117198,
      0.0826117198}},
};

static const attention_case *attention(const char *name) {
    for (int i = 0; i < TD_COUNT(attentions); i++)
        if (!strcmp(attentions[i].name, name)) return &attentions[i];
    return NULL;
}

static void check_attention(td_ctx *cx, const char *name, td_tensor *mask, bool causal,
                            td_value scale) {
    const attention_case *a = attention(name);
    td_tensor *q = td_set_requires_grad(pattern(cx, TD_SHAPE(1, 2, 3, 4), 7), true);
    td_tensor *k = pattern(cx, TD_SHAPE(1, 2, 5, 4), 3),
              *v = pattern(cx, TD_SHAPE(1, 2, 5, 2), 5);
    td_tensor *y =
        td_op_scaled_dot_product_attention(q, k, v, mask, 0, causal, scale, false);
    CHECK_OK(cx);
    TD_CHECK_THAT(first_bad(y, a->out, 12, 1e-8) == -1, "%s: %s", name, text_of(y));
    CHECK(td_backward(td_sum(y)));
    TD_CHECK_THAT(first_bad(td_grad_of(q), a->dq, 24, 1e-8) == -1, "%s: gradient %s",
                  name, text_of(td_grad_of(q)));
}

TEST(attention_is_that_of_pytorch) {
    td_ctx *cx = td_open();

    check_attention(cx, "plain", NULL, false, TD_NONE);
    check_attention(cx, "causal", NULL, true, TD_NONE);
    check_attention(cx, "scale", NULL, false, td_value_float(0.3));
    check_attention(cx, "negscale", NULL, false, td_value_float(-0.3));
    check_attention(cx, "float", pattern(cx, TD_SHAPE(3, 5), 2), false, TD_NONE);

    td_close(cx);
}

TEST(a_fully_masked_row_of_attention_gives_zeros_and_no_gradient) {
    static const uint8_t keep[] = {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1};
    td_ctx              *cx = td_open();
    td_tensor           *mask = td_from(cx, TD_BOOL, TD_SHAPE(3, 5), keep);
    td_tensor           *added = pattern(cx, TD_SHAPE(3, 5), 2);
    td_fill_(td_select(added, 0, 1), -INFINITY);

    check_attention(cx, "bool", mask, false, TD_NONE);
    check_attention(cx, "bool", td_expand(mask, TD_SHAPE(1, 2, 3, 5)), false, TD_NONE);
    check_attention(cx, "float inf row", added, false, TD_NONE);

    td_close(cx);
}

TEST(attention_refuses_what_does_not_fit) {
    td_ctx    *cx = td_open();
    td_tensor *q = pattern(cx, TD_SHAPE(2, 3, 4), 7),
              *k = pattern(cx, TD_SHAPE(2, 5, 3), 7);
    td_tensor *m = td_ones(cx, TD_SHAPE(3, 3), TD_BOOL);

    CHECK(td_is_nil(td_scaled_dot_product_attention(q, k, q)));
    CHECK_FAILS(
        cx, TD_E_SHAPE,
        "scaled_dot_product_attention: query f64[2,3,4] and key f64[2,5,3] must "
        "have the same last size");
    CHECK(td_is_nil(td_scaled_dot_product_attention(q, td_to(q, TD_F32), q)));
    CHECK_FAILS(cx, TD_E_DTYPE, "query, key and value must have one dtype");
    CHECK(td_is_nil(td_scaled_dot_product_attention(q, q, q, m, 0.0, true)));
    CHECK_FAILS(cx, TD_E_ARG, "give attn_mask or is_causal, not both");
    CHECK(td_is_nil(td_scaled_dot_product_attention(td_ones(cx, TD_SHAPE(3)), q, q)));
    CHECK(!td_ok(cx));

    td_close(cx);
}

TEST(dropout_in_attention_draws_from_the_generator) {
    td_ctx    *cx = td_open();
    td_tensor *q = pattern(cx, TD_SHAPE(2, 8, 4), 7);

    td_seed(cx, 3);
    double *a = values_of(td_scaled_dot_product_attention(q, q, q, NULL, 0.5));
    CHECK(td_rng_offset(cx) > 0);
    td_seed(cx, 3);
    CHECK_ARRAY(td_scaled_dot_product_attention(q, q, q, NULL, 0.5), a, 64, 0);
    CHECK(first_bad(td_scaled_dot_product_attention(q, q, q), a, 64, 1e-9) >= 0);
    free(a);

    td_close(cx);
}

/* ---- blocks -------------------------------------------------------------- */

/* Sizes that leave rests in every block, and heads few and many enough that the
 * backward splits them or not. */
typedef struct block_case {
    int64_t  b, h, t, s, d;
    bool     causal, mask;
    td_dtype dtype;
    double   tol;
} block_case;

static const block_case blocks[] = {
    {1, 1, 130, 300, 20, false, false, TD_F64, 1e-12},
    {1, 2, 130, 300, 20, true, false, TD_F64, 1e-12},
    {2, 5, 70, 140, 64, true, false, TD_F32, 2e-5},
    {1, 3, 200, 70, 7, true, false, TD_F32, 2e-5},
    {2, 2, 65, 129, 64, false, true, TD_F64, 1e-12},
    {1, 1, 1, 600, 16, false, true, TD_F64, 1e-12},
    {1, 2, 3, 40, 300, false, false, TD_F64, 1e-12},
    {1, 9, 66, 150, 32, true, false, TD_BF16, 2e-2},
};

/* Heads lie between the rows, as slices of a packed projection have them. */
static td_tensor *heads(td_ctx *cx, const block_case *k, int64_t rows) {
    td_tensor *x = td_mul(td_randn(cx, TD_SHAPE(k->b, rows, k->h, k->d + 3)), 0.7);
    x = td_transpose(td_slice(td_to(x, k->dtype), 3, 0, k->d), 1, 2);
    return td_set_requires_grad(td_detach(x), true);
}

/* The result and the gradients of query, key and value, all in scope. */
static void attend(td_tensor *const *qkv, const block_case *k, td_tensor **out) {
    td_tensor *mask = qkv[3];
    out[0] =
        td_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], mask, 0.0, k->causal);
    td_grad_opts o = {TD_GRAD_OPTS, .grads = TD_LIST(qkv[4])};
    td_grad(TD_LIST(out[0]), TD_LIST(qkv[0], qkv[1], qkv[2]), out + 1, &o);
}

static double distance(td_tensor *a, td_tensor *b) {
    td_tensor *d = td_sub(td_to(a, TD_F64), td_to(b, TD_F64));
    return td_is_nil(d) ? INFINITY : td_item(td_max(td_abs(d)));
}

static void check_blocks(td_ctx *cx, const block_case *k) {
    td_tensor *qkv[5] = {heads(cx, k, k->t), heads(cx, k, k->s), heads(cx, k, k->s),
                         NULL,
                         td_to(td_randn(cx, TD_SHAPE(k->b, k->h, k->t, k->d)),
                               k->dtype)};
    td_tensor *one[4], *two[4], *plain[4];
    if (k->mask) {
        qkv[3] = td_gt(td_rand(cx, TD_SHAPE(k->b, 1, k->t, k->s)), 0.4);
        td_fill_(td_select(qkv[3], 2, 0), 0.0); /* a query that sees nothing */
    }
    td_set_threads(1);
    attend(qkv, k, one);
    td_set_threads(3);
    attend(qkv, k, two);
    CHECK(td_decompose_begin(cx, "_flash_attention,_flash_attention_backward"));
    attend(qkv, k, plain);
    td_decompose_end(cx);
    for (int i = 0; i < 4; i++) {
        CHECK(distance(one[i], two[i]) == 0);
        TD_CHECK_THAT(distance(one[i], plain[i]) <= k->tol,
                      "case %d, %d: %g from the plain form", (int)(k - blocks), i,
                      distance(one[i], plain[i]));
    }
    CHECK(td_ok(cx));
}

TEST(attention_by_blocks_is_the_plain_form_on_any_number_of_threads) {
    td_ctx *cx = td_open();
    td_seed(cx, 5);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        td_scope_begin(cx, "case");
        check_blocks(cx, &blocks[i]);
        td_scope_end(cx, "case", NULL);
    }
    td_close(cx);
}

TEST(attention_keeps_no_scores) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_randn(cx, TD_SHAPE(1, 2, 1024, 16)), true);
    size_t     before = td_memory_live();
    td_memory_peak_reset();
    td_backward(td_sum(td_scaled_dot_product_attention(x, x, x)));
    CHECK(td_memory_peak() - before < (size_t)1024 * 1024 * 4);
    CHECK(td_ok(cx));
    td_close(cx);
}

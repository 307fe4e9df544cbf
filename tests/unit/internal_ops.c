/* internal_ops.c -- ops made for formulas are called from text as well: each refuses
 * arguments that do not belong together, and says which rule they break. */
#include "graph/graph.h"
#include "tandem/tensor.h"
#include "td_test.h"

#include <string.h>

/* One bad call of every internal op that can refuse; the inputs are those of call(). */
static const char *const bad[] = {
    "select_backward(%a, [2,3], 0, 7)",
    "slice_backward(%a, [5,5], 0, 0, 2, 1)",
    "diagonal_backward(%a, [2,2], 0, 0, 1)",
    "unfold_backward(%a, [2,3], 0, 9, 1)",
    "expect(1, \"about\", 2)",
    "random_state(%a)",
    "to_device(%a, \"nowhere\")",
    "offload_store(%a, \"nowhere\")",
    "offload_fetch(%a)",
    "offload_wait(%a, [2,3], [3,1], f32)",
    "_index(%a, [%a])",
    "_index_put(%a, [%i], %x)",
    "_index_put_(%a, [%i], %x)",
    "masked_scatter_backward(%a, %b, [2,3])",
    "_classes(%a)",
    "embedding_dense_backward(%b, %i, 4, -1, false)",
    "_mm_for(%s, %s, [1,2])",
    "_mm_strips(%a, %x)",
    "conv_data_grad(%x, %a, [2,3,4,4], [1,1], [0,0], [1,1], 1)",
    "conv_weight_grad(%x, %x, [2,3], [1,1], [0,0], [1,1], 1)",
    "convolution_backward(%x, %a, %x, none, [1], [0], [1], false, [0], 1, [1,1,1])",
    "convolution_backward(%x, %x, %x, none, [1], [0], [1], false, [0], 1, [1])",
    "nll_loss_forward(%a, %a, none, \"mean\", -1)",
    "nll_loss_backward(%a, %j, none, %b, [2,3], \"none\", -1)",
    "_safe_softmax(%a, 5)",
    "_flash_attention(%x, %x, %a, none, false, 1.0)",
    "_flash_attention_backward(%x, %x, %x, %x, none, %x, %a, none, false, 1.0)",
    "_layer_norm_stats(%a, [2], none, none, 0.1)",
    "native_layer_norm_backward(%a, %a, [3], %b, %b, none, [1,1,1])",
    "native_group_norm_backward(%x, %x, %a, %a, none, 2, 3, 16, 1, [1,1,1])",
    "_batch_norm_train(%x, %a, none, none, none, 0.1, 0.1)",
    "_batch_norm_functional(%x, none, none, %b, none, 0.1, 0.1)",
    "_batch_norm_backward(%x, %x, %a, %b, none, [1,1,1])",
    "_batch_norm_backward(%x, %x, %b, %b, none, [1])",
    "_batch_norm_eval(%b, none, none, %b, %b, 0.1)",
    "max_pool2d_with_indices_backward(%x, %x, [2,2], [1,1], [0,0], [1,1], false, %i)",
    "avg_pool2d_backward(%a, %x, [2,2], [1,1], [0,0], false, true, none)",
    "_adaptive_avg_pool2d(%a, [1,1])",
    "_adaptive_avg_pool2d_backward(%a, %x)",
    "avg_pool3d_backward(%a, %x, [2,2,2], [1], [0], false, true, none)",
    "_adaptive_avg_pool3d(%a, [1,1,1])",
    "_adaptive_avg_pool3d_backward(%a, %x)",
    "_pool_put(%x, %i, [2,3,4,4], 2)",
    "_pool_put(%a, %i, [5,5,5], 2)",
    "_pool_take(%a, %i, 7)",
    "_pool_take(%x, %i, 2)",
    "_max_unpool(%a, %a, [2,3], 2)",
    "_resample(%x, [2,2], \"other\", false, none, none, none)",
    "_resample(%x, [2], \"linear\", false, none, none, none)",
    "_resample_backward(%x, [2,2], [2,3,4,4], \"linear\", false, none, none, none)",
    "_pad_edge(%x, [1,1], \"wrap\")",
    "_fft_c2c(%a, [0], 0, true)",
    "_fft_r2c(%a, [2], 0, true)",
    "_fft_c2r(%a, [0], 0, 2)",
    "_istft_divisor(%a)",
    "_grid_sampler_backward(%x, %x, %a, 0, 0, false)",
    "_grid_sampler_double_backward(%x, %x, %x, %x, %x, 0, 0, false)",
    "_pad_edge(%x, [1,1,1], \"reflect\")",
    "_pad_edge_backward(%x, [2,3,4,4], [1,1,1,1], \"reflect\")",
    "upsample_nearest2d_backward(%x, [2], [2,3,4,4])",
    "upsample_nearest1d_backward(%a, [2], [2,3])",
    "native_dropout_backward(%a, %x, 2.0)",
    "_expand_reduced(%s, [2,3], [9], false)",
    "_linear_scan(%a, %b, 0, false)",
    "value_selecting_reduction_backward(%b, 7, %i, [2,3], false)",
    "_inner(%a, 0)",
    "_wrap([%a], \"nothing\", \"\", [2,3], [3,1], f32)",
    "_unsafe_view(%a, [4])",
    "_reshape_copy(%a, [4])",
    "view_inverse(%a, %b, [6])",
    "view_dtype_inverse(%i, %b, f32)",
    "view_as_real_inverse(%a, %i)",
    "view_as_complex_inverse(%a, %i)",
    "expand_inverse(%a, %s, [2,3])",
    "squeeze_inverse(%a, %b)",
    "squeeze_dim_inverse(%a, %b, 0)",
    "squeeze_dims_inverse(%a, %b, [0])",
    "unsqueeze_inverse(%a, %a, 4)",
    "transpose_inverse(%a, %a, 0, 5)",
    "t_inverse(%a, %x)",
    "permute_inverse(%a, %a, [0])",
    "split_inverse(%a, %b, 0, 1, 0)",
    "split_with_sizes_inverse(%a, %b, 0, [1,1], 0)",
    "unbind_inverse(%a, %x, 0, 0)",
    "unfold_inverse(%a, %b, 7, 1, 1)",
    "as_strided_backward(%a, [2,3], [1], 0, [2,3], [3,1], 0)",
    "requires_grad_(%i, true)",
    "_held(%b, %a, 0)",
    "_put(%b, %a)",
    "_put_(%b, %a)",
    "_assign(%a, %b, 1)",
    "_assign(%a, %i, 1)",
    "_bump(%a, -1)",
    "_give(%a, %b, 0, false)",
    "_give(%a, none, 9, false)",
    "_bind(%i, %a, 0)",
    "_bind(%a, %b, 0)",
    "_matrix_exp(%b)",
    "_cdist(%a, %x, 2.0)",
    "_linalg_solve_ex(%a, %b)",
    "_linalg_lstsq(%b, %b, none, \"gels\")",
    "_linalg_det(%a)",
    "_linalg_eig(%a)",
    "_sparse_t(%a)",
    "_sparse_transpose(%a, 0, 1)",
    "embedding_sparse_backward(%b, %i, 4, -1, false)",
    "_sparse_like(%a, %b)",
    "_values_at(%a, %i)",
    "_sparse_sampled(%a, %a, %a)",
    "_indices(%a)",
    "_coalesced(%a, %i, %j)",
    "_coo_to_csr(%a)",
    "_csr_to_coo(%a)",
    "_coo_check(%a, [2,3])",
    "_coo_flat(%a, [2,3])",
    "_coo_unflat(%a, [2,3])",
    "_coo_crow(%a, 0)",
    "_coo_order(%a, 0)",
    "_coo_first(%a)",
    "_coo_lookup(%a, %a, %a)",
    "_csr_check(%a, %a, [2,3])",
    "_csr_same(%a, %a, %a, %a)",
    "_csr_rows(%a, %a)",
    "_csr_mm(%a, %a, %a, %a)",
    "_sampled_mm(%a, %a, %a, %a)",
    "_linalg_slogdet(%a)",
    "_lu_permutation(%a, 3)",
    "_searchsorted(%a, %x, false, false, none)",
    "_histogram_edges(%a, 0, none, none)",
    "_histogram(%a, %a, none, true)",
    "_segment_offsets(%a, 3, false)",
    "_repeat_interleave(%a)",
    "_combinations(-1, 2, false)",
    "_sorted_at(%a, 5, %j)",
    "_expect_range(%i, 1.0, 2.0, \"q\")",
    "requires_grad_(%s, true)\n  %e = exp(%s)\n  _bind(%a, %e, 0)",
};

/* Take any tensor, or give back what they were given. */
static const char *const never[] = {"_to_copy",       "_scale",  "alias_inverse",
                                    "detach_inverse", "detach_", "_made",
                                    "_touch",         "_late",   "_late_inverse",
                                    "_pinv_of"};

/* The first `rank` of these sizes; a single one is the number of classes, 3. */
static td_value zeros(td_ctx *cx, td_dtype dt, int rank) {
    static const int64_t size[] = {2, 3, 4, 4}, one = 3;
    td_ints              sizes = {rank == 1 ? &one : size, rank};
    return td_value_tensor(td_op_zeros(cx, sizes, dt));
}

static bool call(td_ctx *cx, const char *text) {
    char all[256];
    snprintf(all, sizeof all,
             "func @f(%%a, %%b, %%i, %%j, %%s, %%x) {\n  %s\n  return\n}\n", text);
    td_gfile *f = td__gfile_parse(cx, all, strlen(all), "text.td");
    if (td_is_nil(f)) return false;
    td_value in[6] = {zeros(cx, TD_F32, 2), zeros(cx, TD_F32, 1), zeros(cx, TD_I64, 2),
                      zeros(cx, TD_I64, 1), zeros(cx, TD_F32, 0), zeros(cx, TD_F32, 4)};
    bool     ok = td__graph_replay(f->graphs.v[0], in, in);
    td__gfile_drop(f);
    return ok;
}

TEST(internal_ops_refuse_arguments_that_do_not_belong_together) {
    td_ctx *cx = td_open();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        td_scope_begin(cx, "call");
        TD_CHECK_THAT(!call(cx, bad[i]), "%s is not refused", bad[i]);
        td_code code = td_error(cx);
        TD_CHECK_THAT(code == TD_E_SHAPE || code == TD_E_DTYPE || code == TD_E_ARG ||
                          code == TD_E_INDEX || code == TD_E_GRAD,
                      "%s: %s", bad[i], td_message(cx));
        TD_CHECK_THAT(!strstr(td_message(cx), "text.td:2: "), "%s: %s", bad[i],
                      td_message(cx));
        td_clear(cx);
        td_scope_end(cx, "call", NULL);
    }
    td_close(cx);
}

static bool is_among(const char *name, const char *const *list, size_t n) {
    size_t len = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (!strncmp(list[i], name, len) && (list[i][len] == '(' || !list[i][len]))
            return true;
    return false;
}

TEST(every_internal_op_has_a_bad_call) {
    for (int op = 0; op < TD_OP_COUNT; op++) {
        uint64_t flags = td__ops[op].flags;
        if (!(flags & TD_OPF_INTERNAL) || flags & (TD_OPF_POINTWISE | TD_OPF_NESTS))
            continue;
        const char *name = td__ops[op].name;
        TD_CHECK_THAT(is_among(name, bad, sizeof bad / sizeof *bad) ||
                          is_among(name, never, sizeof never / sizeof *never),
                      "no bad call of %s", name);
    }
}

/* c_calls.c -- calls of ops in an artefact: which function of kernels/portable*.h
 * computes an op, and its arguments: tensors, lists, integers and floats of the schema,
 * then the results. */
#include "export/c_model.h"
#include "ops/expr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whose dtype a function's name ends in: of the op's first result, of its first
 * argument, or none, if it moves elements of any dtype. */
typedef enum typed { ANY, RESULT, FIRST } typed;

typedef struct row {
    td_op       op;
    const char *function;
    typed       of;
} row;

static const row rows[] = {{TD_OP_mm, "td_c_mm", RESULT},
                           {TD_OP__mm_for, "td_c_mm_for", RESULT},
                           {TD_OP_bmm, "td_c_bmm", RESULT},
                           {TD_OP_gather, "td_c_gather", ANY},
                           {TD_OP_scatter, "td_c_scatter", ANY},
                           {TD_OP_scatter_value, "td_c_scatter_value", RESULT},
                           {TD_OP_scatter_add, "td_c_scatter_add", RESULT},
                           {TD_OP_index_select, "td_c_index_select", ANY},
                           {TD_OP_index_add, "td_c_index_add", RESULT},
                           {TD_OP__index, "td_c_index", ANY},
                           {TD_OP__index_put, "td_c_index_put", RESULT},
                           {TD_OP_as_strided_scatter, "td_c_as_strided_scatter", ANY},
                           {TD_OP_embedding, "td_c_embedding", ANY},
                           {TD_OP_embedding_dense_backward,
                            "td_c_embedding_dense_backward", RESULT},
                           {TD_OP_cat, "td_c_cat", ANY},
                           {TD_OP__reshape_copy, "td_c_reshape_copy", ANY},
                           {TD_OP_tril, "td_c_tril", ANY},
                           {TD_OP_triu, "td_c_triu", ANY},
                           {TD_OP_repeat, "td_c_repeat", ANY},
                           {TD_OP_roll, "td_c_roll", ANY},
                           {TD_OP_stack, "td_c_stack", ANY},
                           {TD_OP_select_scatter, "td_c_select_scatter", ANY},
                           {TD_OP_slice_scatter, "td_c_slice_scatter", ANY},
                           {TD_OP_flip, "td_c_flip", ANY},
                           {TD_OP_constant_pad_nd, "td_c_constant_pad_nd", RESULT},
                           {TD_OP_cumsum, "td_c_cumsum", RESULT},
                           {TD_OP_max_dim, "td_c_max_dim", RESULT},
                           {TD_OP_min_dim, "td_c_min_dim", RESULT},
                           {TD_OP_randint, "td_c_randint", RESULT},
                           {TD_OP_argmax, "td_c_argmax", FIRST},
                           {TD_OP_argmin, "td_c_argmin", FIRST},
                           {TD_OP_norm, "td_c_norm", RESULT},
                           {TD_OP_convolution, "td_c_convolution", RESULT},
                           {TD_OP_conv_data_grad, "td_c_conv_data_grad", RESULT},
                           {TD_OP_conv_weight_grad, "td_c_conv_weight_grad", RESULT},
                           {TD_OP_max_pool2d_with_indices, "td_c_max_pool2d", RESULT},
                           {TD_OP_max_pool2d_with_indices_backward,
                            "td_c_max_pool2d_backward", RESULT}};

static const row *find(td_op op) {
    for (int i = 0; i < TD_COUNT(rows); i++)
        if (rows[i].op == op) return &rows[i];
    return NULL;
}

static bool is_float(const td_gval *v) {
    return v->type->dtype == TD_F32 || v->type->dtype == TD_F64;
}

/* Sums, products and pools exist for f32 and f64; index arrays are i64 or i32. The
 * operands have the result's dtype. */
static bool has_dtypes(const td_gnode *n, const row *r) {
    const td_gval *out = n->out[0];
    if (r->of == FIRST) return n->in[0].kind == TD_G_VALUE && is_float(n->in[0].u.v);
    bool whole = n->op == TD_OP_randint && out->type->dtype == TD_I64;
    if (r->of == RESULT && !is_float(out) && !whole) return false;
    for (int i = 0; i < n->n_in; i++) {
        const td_param *p = &td__opinfo(n->op)->s.in[i];
        const td_gval  *v = n->in[i].kind == TD_G_VALUE ? n->in[i].u.v : NULL;
        if (!v) continue;
        if (!v->type || v->type->kind != TD_K_TENSOR) return false;
        bool index = !strcmp(p->name, "index") || !strcmp(p->name, "indices");
        if (index && v->type->dtype != TD_I64 && v->type->dtype != TD_I32) return false;
        if (!index && v->type->dtype != out->type->dtype) return false;
    }
    return true;
}

/* Tensors of a list have the result's dtype; those of indices are i64 or i32, and there
 * may be holes. */
static bool has_list(const td_gnode *n) {
    bool index = n->op == TD_OP__index || n->op == TD_OP__index_put;
    for (int i = 0; i < n->n_in; i++)
        for (uint32_t k = 0; n->in[i].kind == TD_G_LIST && k < n->in[i].n; k++) {
            const td_garg  *a = &n->in[i].u.list[k];
            const td_gtype *l = a->kind == TD_G_VALUE ? a->u.v->type : NULL;
            if (a->kind == TD_G_NONE && index) continue;
            if (!l || l->kind != TD_K_TENSOR || l->rank > 8) return false;
            if (index ? l->dtype != TD_I64 && l->dtype != TD_I32
                      : l->dtype != n->out[0]->type->dtype)
                return false;
        }
    return true;
}

/* as_strided reaches all of a storage: it must be the tensor's own, from its start. */
static bool owns_storage(const td_gval *v) {
    const td_gtype *l = v->type;
    return (!v->node || td__view_operand(v->node) < 0) && l->offset == 0 &&
           td__is_packed(l->rank, l->size, l->stride);
}

bool td__c_has_call(const td_graph *g, const td_gnode *n) {
    const row *r = find(n->op);
    (void)g;
    if (!r || n->n_out < 1 || !n->out[0]->type) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].kind == TD_G_VALUE && n->in[i].u.v->type &&
            n->in[i].u.v->type->rank > 8)
            return false;
    for (int i = 0; i < n->n_out; i++)
        if (!n->out[i]->type || n->out[i]->type->rank > 8) return false;
    if (td__c_draws(n) && td__gnode_has_rng(n)) return false;
    if (n->op == TD_OP_as_strided_scatter && !owns_storage(n->in[0].u.v)) return false;
    return has_dtypes(n, r) && has_list(n);
}

bool td__c_is_nothing(const td_gnode *n) {
    if (td__view_operand(n) >= 0) return true;
    if (n->op == TD_OP_empty || n->op == TD_OP_empty_strided) return true;
    bool none = n->n_out > 0 && !td__opinfo(n->op)->writes;
    for (int i = 0; none && i < n->n_out; i++) {
        const td_gtype *l = n->out[i]->type;
        bool            empty = false;
        for (int d = 0; l && l->kind == TD_K_TENSOR && d < l->rank; d++)
            empty |= l->size[d] == 0;
        none = empty;
    }
    return none;
}

/* ---- texts ---------------------------------------------------------------- */

static void add_ints(td_buf *b, const int64_t *v, int n) {
    td__buf_add(b, "{");
    for (int i = 0; i < n; i++)
        td__buf_printf(b, "%s%lld", i ? ", " : "", (long long)v[i]);
    td__buf_add(b, n ? "}" : "0}");
}

/* "{mem + 64, 4, 2, {8, 3}, {3, 1}}" */
static void add_array(const td_c_model *m, td_buf *b, const td_gval *v) {
    const td_gtype *l = v->type;
    const td_gval  *root = m->n->low.root_of[v->id];
    int             item = td__dtype_bytes[l->dtype];
    int64_t         at = root == v ? 0
                                   : l->offset * item - root->type->offset *
                                                    td__dtype_bytes[root->type->dtype];
    td__buf_add(b, "{");
    td__c_address(m, b, root, at);
    td__buf_printf(b, ", %d, %d, ", item, l->rank);
    add_ints(b, l->size, l->rank);
    td__buf_add(b, ", ");
    add_ints(b, l->stride, l->rank);
    td__buf_add(b, "}");
}

void td__c_array(const td_c_model *m, td_buf *b, const td_gval *v) {
    td__buf_add(b, "&(td_c_array)");
    add_array(m, b, v);
}

static void add_number(td_buf *b, const td_value *v) {
    if (v->kind == TD_K_FLOAT && isnan(v->u.f)) td__buf_add(b, "__builtin_nan(\"\")");
    else if (v->kind == TD_K_FLOAT && isinf(v->u.f))
        td__buf_printf(b, "%s__builtin_inf()", v->u.f < 0 ? "-" : "");
    else if (v->kind == TD_K_FLOAT) td__buf_printf(b, "%.17g", v->u.f);
    else if (v->kind == TD_K_INT) td__buf_printf(b, "%lld", (long long)v->u.i);
    else if (v->kind == TD_K_BOOL) td__buf_add(b, v->u.b ? "1" : "0");
    else td__buf_add(b, "0");
}

/* The value of argument i, or its default. */
static td_value number_of(const td_gnode *n, int i) {
    const td_param *p = &td__opinfo(n->op)->s.in[i];
    const td_garg  *a = i < n->n_in ? &n->in[i] : NULL;
    td_value        v = p->def;
    if (a && (a->kind == TD_G_NONE || !td__garg_literal(a, &v)))
        v = p->has_default ? p->def : td_value_none();
    return v;
}

/* What the C function takes argument i as. */
typedef enum group { TENSOR, LIST, INTEGER, FLOAT } group;

static group group_of(const td_param *p) {
    switch (p->type) {
    case TD_T_INTS:
    case TD_T_OPT_INTS: return LIST;
    case TD_T_INT:
    case TD_T_OPT_INT:
    case TD_T_BOOL:
    case TD_T_DTYPE:
    case TD_T_OPT_DTYPE: return INTEGER;
    case TD_T_SCALAR:
    case TD_T_OPT_SCALAR:
    case TD_T_FLOAT:
    case TD_T_OPT_FLOAT:
    case TD_T_OPERAND: return FLOAT;
    default: return TENSOR;
    }
}

static void add_tensor(const td_c_model *m, td_buf *b, const td_garg *a) {
    if (a && a->kind == TD_G_VALUE) td__c_array(m, b, a->u.v);
    else if (a && a->kind == TD_G_LIST) {
        td__buf_add(b, "(const td_c_array[]){");
        for (uint32_t k = 0; k < a->n; k++) {
            td__buf_add(b, k ? ",\n            " : "");
            if (a->u.list[k].kind == TD_G_VALUE) add_array(m, b, a->u.list[k].u.v);
            else td__buf_add(b, "{0, 0, 0, {0}, {0}}");
        }
        td__buf_printf(b, "}, %d", (int)a->n);
    } else td__buf_add(b, "(const td_c_array *)0");
}

/* "{(const int64_t[]){2, 2}, 2}" */
static void add_list(td_buf *b, const td_gnode *n, int i) {
    const td_param *p = &td__opinfo(n->op)->s.in[i];
    bool            given = i < n->n_in && n->in[i].kind == TD_G_INTS;
    bool            none = i < n->n_in && !given;
    int             count = given ? (int)n->in[i].n : none ? 0 : (int)p->def.n;
    td__buf_add(b, "{(const int64_t[])");
    add_ints(b, given ? n->in[i].u.ints : p->ints_def, count);
    td__buf_printf(b, ", %d}", count);
}

static void add_integer(td_buf *b, const td_gnode *n, int i) {
    td_value v = number_of(n, i);
    if (v.kind == TD_K_NONE) td__buf_add(b, "INT64_MIN");
    else add_number(b, &v);
}

/* The arguments of one group among the first n_in. */
static void add_group(const td_c_model *m, td_buf *b, const td_gnode *n, group which,
                      int n_in) {
    static const char *const open[] = {"", "(const td_c_ints[]){", "(const int64_t[]){",
                                       ""};
    int                      count = 0;
    for (int i = 0; i < n_in; i++) {
        if (group_of(&td__opinfo(n->op)->s.in[i]) != which) continue;
        bool array = which == LIST || which == INTEGER;
        td__buf_add(b, count++ ? (array ? ", " : ",\n            ") : open[which]);
        td_value v = which == FLOAT ? number_of(n, i) : td_value_none();
        if (which == TENSOR) add_tensor(m, b, i < n->n_in ? &n->in[i] : NULL);
        else if (which == LIST) add_list(b, n, i);
        else if (which == INTEGER) add_integer(b, n, i);
        else add_number(b, &v);
    }
    if (!count) return;
    td__buf_add(b, which == LIST || which == INTEGER ? "},\n            "
                                                     : ",\n            ");
}

/* low, high, size, dtype; the state of the generator, which may follow, is the model's.
 */
enum { RANDINT_ARGS = 4 };

bool td__c_draws(const td_gnode *n) { return n->op == TD_OP_randint; }

void td__c_call(const td_c_model *m, const td_gnode *n, td_buf *b, td_buf *helpers) {
    const row       *r = find(n->op);
    const td_schema *s = &td__opinfo(n->op)->s;
    char             name[80];
    const td_gval   *by = r->of == FIRST ? n->in[0].u.v : n->out[0];
    snprintf(name, sizeof name, "%s%s%s", r->function, r->of ? "_" : "",
             r->of ? td__dtype_text[by->type->dtype].suffix : "");
    td__buf_printf(helpers, "%s\n", name);
    td__buf_printf(b, "%s(%s", name, td__c_draws(n) ? "m->seed, m->offset, " : "");
    for (int k = TENSOR; k <= FLOAT; k++)
        add_group(m, b, n, (group)k, td__c_draws(n) ? RANDINT_ARGS : s->n_in);
    for (int i = 0; i < s->n_out; i++) {
        td__buf_add(b, i ? ",\n            " : "");
        if (i < n->n_out) td__c_array(m, b, n->out[i]);
        else td__buf_add(b, "(const td_c_array *)0");
    }
    td__buf_add(b, ")");
}

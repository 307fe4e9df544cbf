/* explain_facts.c -- facts as a table a person can read. */
#include "aot/facts.h"

#include <string.h>

static const char *const kind_words[] = {"non_alias",
                                         "custom_function_view",
                                         "is_input",
                                         "alias_of_input",
                                         "unsafe_view_alias",
                                         "alias_of_intermediate_base_is_user_output",
                                         "alias_of_intermediate",
                                         "alias_of_intermediate_save_as_output"};
static const char *const mutation_words[] = {"not mutated", "in graph", "out of graph"};

static void add_flag(td_buf *b, bool on, const char *word, bool *any) {
    if (!on) return;
    td__buf_printf(b, "%s%s", *any ? ", " : "", word);
    *any = true;
}

static void print_input(td_buf *b, const td_facts *f, int i) {
    const td_input_fact *in = &f->in[i];
    bool                 any = false;
    td__buf_printf(b, "  %2d  %-8.40s ", i, in->name);
    if (!in->tensor) {
        td__buf_add(b, "not a tensor\n");
        return;
    }
    td__buf_printf(b, "%-12s  ", mutation_words[in->mutation]);
    add_flag(b, in->is_leaf, "leaf", &any);
    add_flag(b, in->requires_grad, "requires_grad", &any);
    add_flag(b, in->mutates_data, "mutates_data", &any);
    add_flag(b, in->mutates_metadata, "mutates_metadata", &any);
    add_flag(b, in->mutates_storage, "mutates_storage_metadata", &any);
    add_flag(b, in->no_grad, "mutations_under_no_grad", &any);
    add_flag(b, in->resized, "storage_resized", &any);
    add_flag(b, in->is_static, "static", &any);
    if (in->duplicate >= 0)
        td__buf_printf(b, "%ssame tensor as %d", any ? ", " : "", in->duplicate);
    td__buf_add(b, "\n");
}

static void print_ints(td_buf *b, const int64_t *v, int n) {
    for (int i = 0; i < n; i++) td__buf_add(b, i ? "," : ""), td__dim_text(v[i], b);
}

/* An argument of a view op. Symbolic sizes print as expressions. */
static void print_value(td_buf *b, td_value v) {
    if (v.kind == TD_K_INT) td__dim_text(v.u.i, b);
    else if (v.kind == TD_K_BOOL) td__buf_add(b, v.u.i ? "true" : "false");
    else if (v.kind == TD_K_FLOAT) td__buf_printf(b, "%g", v.u.f);
    else if (v.kind == TD_K_DTYPE) td__buf_add(b, td_dtype_name(v.u.dt));
    else if (v.kind == TD_K_INTS) {
        td__buf_add(b, "[");
        print_ints(b, v.u.ints, (int)v.n);
        td__buf_add(b, "]");
    } else td__buf_add(b, "none");
}

/* A view op without its tensor argument: `transpose(0, 1)`. `#i` names one of several
 * results. */
static void print_view(td_buf *b, const td_view_op *v) {
    td__buf_printf(b, "%s(", v->op);
    for (int k = 1; k < v->n_in; k++) {
        if (k > 1) td__buf_add(b, ", ");
        print_value(b, v->in[k]);
    }
    td__buf_add(b, ")");
    if (v->nr >= 0) td__buf_printf(b, "#%d", v->nr);
}

static void print_views(td_buf *b, const td_output_fact *o) {
    td__buf_add(b, "        views:");
    if (o->n_views == 0) td__buf_add(b, " none, the same elements");
    for (int i = 0; i < o->n_views; i++) {
        td__buf_add(b, " ");
        print_view(b, &o->views[i]);
    }
    td__buf_add(b, "\n");
}

static void print_base(td_buf *b, const td_output_fact *o) {
    if (o->base < 0) return;
    const char *of = o->kind == TD_OUT_ALIAS_OF_OUTPUT ? "output"
                     : o->kind >= TD_OUT_ALIAS_OF_BASE ? "base"
                                                       : "input";
    td__buf_printf(b, " (%s %d)", of, o->base);
}

/* "f32[2,3]"; symbolic sizes print as expressions. */
static void print_type(td_buf *b, const td_tensor_type *t) {
    td__buf_printf(b, "%s[", td_dtype_name(t->dtype));
    print_ints(b, t->size, t->rank);
    td__buf_add(b, "]");
}

/* The type in a column of 20 characters. */
static void print_column(td_buf *b, const td_tensor_type *t) {
    size_t from = b->n;
    print_type(b, t);
    while (!b->failed && b->n - from < 20) td__buf_add(b, " ");
}

/* One line per output, PyTorch's term for its kind first; the view ops that remake it
 * follow on a line of their own. */
static void print_output(td_buf *b, const td_output_fact *o, int i) {
    bool any = true;
    td__buf_printf(b, "  %2d  ", i);
    if (o->value_kind != TD_K_TENSOR) {
        td__buf_printf(b, "%-20s  non_alias\n",
                       o->value_kind == TD_K_NONE ? "absent" : "a number");
        return;
    }
    print_column(b, &o->type);
    td__buf_printf(b, "  %s", kind_words[o->kind]);
    print_base(b, o);
    add_flag(b, o->requires_grad, "requires_grad", &any);
    add_flag(b, o->requires_grad && !o->for_backward, "not for backward", &any);
    add_flag(b, o->multi, "of a multi-output view", &any);
    for (int d = 0; d < o->type.rank; d++)
        if (o->dynamic >> d & 1) td__buf_printf(b, ", dim %d dynamic", d);
    td__buf_add(b, "\n");
    if (o->has_views) print_views(b, o);
}

/* The type of a tangent; strides only if they are not row-major. */
static void print_tangent(td_buf *b, const td_tangent_fact *t, int i) {
    static const char *const words[] = {"input", "output", "base"};
    td__buf_printf(b, "  %2d  of %s %d: ", i, words[t->of], t->index);
    print_type(b, &t->type);
    if (!td__is_dense(t->type.rank, t->type.size, t->type.stride)) {
        td__buf_add(b, "{");
        print_ints(b, t->type.stride, t->type.rank);
        td__buf_add(b, "}");
    }
    td__buf_add(b, "\n");
}

/* The text that `tandem facts` prints and that tests compare with stored files. */
bool td__facts_print(td_buf *b, const td_facts *f) {
    td__buf_printf(b, "@%s: %s graph\n", f->name, f->trains ? "training" : "inference");
    if (f->n_in) td__buf_add(b, "inputs\n");
    for (int i = 0; i < f->n_in; i++) print_input(b, f, i);
    if (f->n_out) td__buf_add(b, "outputs\n");
    for (int i = 0; i < f->n_out; i++) print_output(b, &f->out[i], i);
    if (f->n_bases) td__buf_add(b, "intermediate bases\n");
    for (int i = 0; i < f->n_bases; i++) {
        td__buf_printf(b, "  %2d  ", i);
        print_type(b, &f->bases[i].type);
        td__buf_add(b, f->bases[i].requires_grad ? ", requires_grad\n" : "\n");
    }
    if (f->n_tangents) td__buf_add(b, "tangents\n");
    for (int i = 0; i < f->n_tangents; i++) print_tangent(b, &f->tangents[i], i);
    if (f->grad_mode >= 0)
        td__buf_printf(b, "leaves gradients %s\n", f->grad_mode ? "on" : "off");
    if (f->random) td__buf_add(b, "draws random numbers\n");
    return !b->failed;
}

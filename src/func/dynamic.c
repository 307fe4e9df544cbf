/* dynamic.c -- a program without writes for inputs of many sizes: traced once with
 * symbols in the place of sizes, under guards. */
#include "func/func_int.h"
#include "trace/sym_args.h"

/* Guards are read from inputs by number: every one counts, also numbers. */
static bool take_guards(td_functional *f, td_symenv *e) {
    td_buf b = {0};
    td__guards_print(e, &b);
    f->guard_text = b.s;
    if (b.failed) return td__fail_memory(f->cx);
    return (f->guards = td__guards_compile(e)) != NULL;
}

static bool counts_bytes(const td_gnode *n) {
    if (n->kind != TD_N_OP) return false;
    return n->op == TD_OP_as_strided || n->op == TD_OP_as_strided_ ||
           (n->op == TD_OP_set_ && n->n_in > 2) || td__ops[n->op].flags & TD_OPF_WHOLE;
}

bool td__program_may_vary(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (counts_bytes(g->nodes.v[i]))
            return td__fail(g->cx, TD_E_UNSUPPORTED,
                            "%s counts in bytes, which symbols do not",
                            td__ops[g->nodes.v[i]->op].name);
    return true;
}

static td_functional *trace(const td_graph *program, const td_value *in, td_symenv *e,
                            td_symplan plan) {
    td_symargs     a;
    td_functional *f = NULL;
    td_values      args = {in, program->inputs.n};
    if (td__symargs_make(&a, e, args, plan)) f = td__functionalize(program, a.v);
    td__symargs_drop(&a);
    if (!f || take_guards(f, e)) return f;
    td__functional_drop(f);
    return NULL;
}

td_functional *td__functionalize_dynamic(const td_graph *program, const td_value *in,
                                         td_dynamic dynamic) {
    td_symenv *e = td__symenv_make(program->cx);
    bool      *fixed = td__zalloc((size_t)program->inputs.n + 1); /* consts are */
    td_symplan plan = {.dynamic = dynamic,
                       .by_argument = true,
                       .named_as = program,
                       .fixed = fixed};
    if (!fixed) td__fail_memory(program->cx);
    if (!e || !fixed) return td__symenv_drop(e), td__free(fixed), NULL;
    for (int i = 0; i < program->inputs.n; i++)
        fixed[i] = program->in_desc.v[i].kind == TD_D_CONST;
    td__symenv_begin(e);
    td_functional *f = trace(program, in, e, plan);
    td__symenv_end(e);
    td__symenv_drop(e);
    td__free(fixed);
    return f;
}

bool td__functional_guard(const td_functional *f, const td_value *in) {
    int failed = f->guards ? td__guards_run(f->guards, in) : -1;
    return failed < 0 ||
           td__fail(f->cx, TD_E_GUARD,
                    "@%.60s: the guard %s does not hold for these arguments",
                    f->g->name, f->guards->texts.v[failed]);
}

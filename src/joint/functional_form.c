/* functional_form.c -- a program without writes, as the command and tests print it: the
 * joint graph with nothing to differentiate. */
#include "joint/joint.h"
#include "trace/sym_args.h"

static td_joint *make(const td_graph *program, const td_value *in) {
    td_joint_opts o = {.merge_writes = true, .merge_made = true, .assign_writes = true};
    return td__joint(program, in, &o);
}

/* The same with symbolic sizes, whose guards are printed to b. */
static td_joint *make_symbolic(const td_graph *program, const td_value *in,
                               td_symenv *e, td_buf *b) {
    td_symargs a;
    td_joint  *j = NULL;
    bool      *fixed =
        td__zalloc((size_t)program->inputs.n + 1); /* consts have fixed sizes */
    td_symplan plan = {.dynamic = TD_DYNAMIC_ALL,
                       .by_argument = true,
                       .named_as = program,
                       .fixed = fixed};
    if (!fixed) return td__fail_memory(program->cx), NULL;
    for (int i = 0; i < program->inputs.n; i++)
        fixed[i] = program->in_desc.v[i].kind == TD_D_CONST;
    if (td__symargs_make(&a, e, (td_values){in, program->inputs.n}, plan))
        j = make(program, a.v);
    td__symargs_drop(&a);
    td__free(fixed);
    if (j) td__guards_print(e, b);
    return j;
}

/* The program as a graph without writes. guards not NULL: with symbolic sizes; the
 * guards are printed there. */
td_joint *td__functional_form(const td_graph *program, const td_value *in,
                              td_buf *guards) {
    if (!guards) return make(program, in);
    td_symenv *e = td__symenv_make(program->cx);
    if (!e) return NULL;
    td__symenv_begin(e);
    td_joint *j = make_symbolic(program, in, e, guards);
    td__symenv_end(e);
    td__symenv_drop(e);
    return j;
}

/* case_control.c -- control=true of a call: the function is replayed with td_cond,
 * td_while and td_call_region in place of the ops cond, while_loop and region, as a C
 * body would call them. An input of a nested function with the descriptor <const> is
 * closed over: the body reads the tensor itself. So are the fixed tensors of a loop.
 *
 * The name of a region says more: with `once` in it td_region_body.once is set, if the
 * region closes over nothing; with `grad` its body adds the sum of the gradient of its
 * first result with respect to its first operand, taken inside, to that result. */
#include "cli/case_run.h"
#include "tandem/grad.h"
#include "trace/trace.h"

#include <string.h>

/* One call of td_cond, td_while or td_call_region: its graphs and the tensors they
 * close over. */
typedef struct control {
    const td_graph *first,
        *second;          /* yes and no, test and body, or the body of a region */
    td_tensor **operands; /* of the op, in the order of the graphs' inputs */
    int         n_state;  /* of a loop: state tensors; -1 for others */
} control;

typedef TD_VEC(td_tensor *) operands;

bool case_has_control(const td_gcase *c) {
    for (int i = 0; i < c->steps.n; i++)
        if (c->steps.v[i].control) return true;
    return false;
}

/* Is the operand for input i of g closed over? */
static bool closes_over(const control *k, const td_graph *g, int i, int operand) {
    if (k->n_state >= 0) return operand >= k->n_state;
    return g->in_desc.v[i].kind == TD_D_CONST;
}

/* result += sum(d result / d operand) where both require grad. False after
 * td__fail. */
static bool add_gradient(td_value *result, td_value operand) {
    td_tensor *y = result->kind == TD_K_TENSOR ? result->u.t : NULL, *g = NULL;
    td_tensor *x = operand.kind == TD_K_TENSOR ? operand.u.t : NULL;
    if (!x || !y || !td_requires_grad(x) || !td_requires_grad(y)) return true;
    td_tensor   *one = td_op_ones_like(y, TD_DTYPE_NONE);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true, .allow_unused = true,
                      .grads = {&one, 1}};
    if (!td_grad((td_tensors){&y, 1}, (td_tensors){&x, 1}, &g, &o)) return false;
    if (!g || td_is_nil(g)) return td_ok(y->cx);
    g = td_op_sum(g, TD_ALL, false, TD_DTYPE_NONE);
    *result = td_value_tensor(td_op_add(y, td_value_tensor(g), td_value_int(1)));
    return td_ok(y->cx);
}

/* The body of a branch, a test, an iteration or a region: replays g. Literals of g are
 * left absent; the replay takes them from the graph. k: its call; NULL: g closes over
 * nothing. */
static bool replay_nested(td_call *c, const td_graph *g, const control *k) {
    td_value *in = td__zalloc(sizeof *in * (size_t)(g->inputs.n + g->outputs.n + 1));
    if (!in) return td__fail_memory(td_call_ctx(c));
    for (int i = 0, operand = 0, arg = 0; i < g->inputs.n; i++) {
        if (td__graph_holds(g, i)) continue;
        bool closed = k && closes_over(k, g, i, operand);
        in[i] = td_value_tensor(closed ? k->operands[operand] : td_arg(c, arg++));
        operand++;
    }
    td_value *out = in + g->inputs.n;
    bool      ok = case_replay_control(g, in, out);
    if (ok && strstr(g->name, "grad") && g->inputs.n && g->outputs.n)
        ok = add_gradient(&out[0], in[0]);
    ok = ok && td_return_values(c, (td_values){out, g->outputs.n});
    td__free(in);
    return ok;
}

static bool run_first(td_call *c) {
    const control *k = td_call_env(c);
    return replay_nested(c, k->first, k);
}

static bool run_second(td_call *c) {
    const control *k = td_call_env(c);
    return replay_nested(c, k->second, k);
}

static bool run_once(td_call *c) { return replay_nested(c, td_call_env(c), NULL); }

static bool closes_over_any(const td_graph *g) {
    bool any = false;
    for (int i = 0; i < g->inputs.n; i++) any |= g->in_desc.v[i].kind == TD_D_CONST;
    return any;
}

/* Appends the tensors of a list argument to the operands. */
static bool add_operands(td_replay *r, const td_garg *list, operands *to) {
    td_value v;
    if (!td__replay_arg(r, list, &v)) return false;
    for (uint32_t i = 0; i < v.n; i++)
        if (!td__vec_push(to, v.u.ts[i])) return td__fail_memory(r->g->cx);
    return true;
}

/* The operands that k->first does not close over, which are passed as arguments. *v is
 * for td__free. */
static bool make_args(const control *k, const operands *of, td_value **v, int *n) {
    *n = 0;
    if (!(*v = td__zalloc(sizeof **v * (size_t)(of->n + 1))))
        return td__fail_memory(k->first->cx);
    for (int i = 0, at = 0; i < k->first->inputs.n && at < of->n; i++) {
        if (td__graph_holds(k->first, i)) continue;
        if (!closes_over(k, k->first, i, at)) (*v)[(*n)++] = td_value_tensor(of->v[at]);
        at++;
    }
    return true;
}

static bool call_cond(td_replay *r, const td_gnode *n, operands *of, td_tensor **out) {
    control   k = {n->in[1].u.g, n->in[2].u.g, NULL, -1};
    td_value  pred, *args;
    td_values list;
    if (!add_operands(r, &n->in[3], of) || !td__replay_arg(r, &n->in[0], &pred) ||
        !make_args(&k, of, &args, &list.n))
        return false;
    list.v = args;
    k.operands = of->v;
    td_branches b = {.yes = run_first, .no = run_second, .env = &k};
    bool        ok = td_cond(pred.u.t, b, list, out, n->n_out);
    td__free(args);
    return ok;
}

static bool call_region(td_replay *r, const td_gnode *n, operands *of,
                        td_tensor **out) {
    control   k = {n->in[0].u.g, NULL, NULL, -1};
    td_value *args;
    td_values list;
    if (!add_operands(r, &n->in[1], of) || !make_args(&k, of, &args, &list.n))
        return false;
    list.v = args;
    k.operands = of->v;
    td_region_body b = {.body = run_first, .env = &k, .name = k.first->name};
    if (strstr(k.first->name, "once") && !closes_over_any(k.first)) {
        b.once = true; /* the graph is there as long as the case */
        b.body = run_once;
        b.env = n->in[0].u.g;
    }
    bool ok = td_call_region(r->g->cx, b, list, out, n->n_out);
    td__free(args);
    return ok;
}

/* The bodies get the state as arguments and close over the fixed tensors. */
static bool call_while(td_replay *r, const td_gnode *n, operands *of, td_tensor **out) {
    if (!add_operands(r, &n->in[2], of)) return false;
    control k = {n->in[0].u.g, n->in[1].u.g, NULL, of->n};
    if (!add_operands(r, &n->in[3], of)) return false;
    k.operands = of->v;
    td_loop l = {.test = run_first, .body = run_second, .env = &k};
    return td_while(r->g->cx, l, (td_tensors){of->v, k.n_state}, out);
}

static void forget_read(void *env, td_gval *v) { td__replay_read(env, v); }

/* Runs a node of one of these ops. The replay references the results; temporaries
 * are freed with a scope. td_while gives a result for each state tensor. */
static bool control_node(td_replay *r, const td_gnode *n) {
    td_ctx     *cx = r->g->cx;
    operands    of = {0};
    bool        loop = n->op == TD_OP_while_loop;
    size_t      most = (size_t)n->n_out + (loop ? n->in[2].n : 0) + 1;
    td_tensor **out = td__zalloc(sizeof *out * most);
    bool        ok = out ? td__scope_push(cx) : td__fail_memory(cx);
    if (ok) {
        ok = loop                  ? call_while(r, n, &of, out)
             : n->op == TD_OP_cond ? call_cond(r, n, &of, out)
                                   : call_region(r, n, &of, out);
        for (int i = 0; i < n->n_out && ok; i++)
            td__replay_set(r, n->out[i], td_value_tensor(out[i]));
        td__scope_pop(cx, NULL, 0);
    }
    td__free(out);
    td__vec_free(&of);
    for (int i = 0; ok && i < n->n_in; i++) td__garg_each(&n->in[i], forget_read, r);
    return ok;
}

static bool walk(void *env, td_replay *r) {
    bool ok = true;
    (void)env;
    for (int i = 0; ok && i < r->g->nodes.n; i++) {
        const td_gnode *n = r->g->nodes.v[i];
        bool            nests =
            n->kind == TD_N_OP &&
            (n->op == TD_OP_cond || n->op == TD_OP_while_loop || n->op == TD_OP_region);
        if (!n->dead) ok = nests ? control_node(r, n) : td__replay_node(r, n);
    }
    return ok;
}

bool case_replay_control(const td_graph *g, const td_value *in, td_value *out) {
    td_replay r;
    bool      ok = td__replay_begin_whole(&r, g);
    r.walk = walk;
    ok = ok && td__replay_whole(&r, in, out);
    td__replay_end(&r);
    return ok;
}

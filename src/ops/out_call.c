/* out_call.c -- td_call_out: an op whose results are written into tensors of the
 * caller, as PyTorch's out=. Where only the tape is on, the op is offered the storages
 * of these tensors for its results (td_ctx.results_in). A result that is not there
 * afterwards is copied: by resize_ and copy_, which every mode receives like the user's
 * own. */
#include "core/log.h"
#include "ops/call.h"
#include "ops/user_ops.h"

#include <string.h>

static const char who[] = "td_call_out";

/* One call: the op, its arguments with defaults, the tensors to write. */
typedef struct out_call {
    td_ctx           *cx;
    const td_opinfo  *info;
    td_value          in[TD_MAX_ARGS];
    int               n_in;
    td_tensor *const *out;
    int               n_out;
} out_call;

/* The tensors of argument i. */
static int tensors_of(const out_call *c, int i, td_tensor *const **t) {
    const td_value *v = &c->in[i];
    *t = v->kind == TD_K_TENSORS ? v->u.ts : &v->u.t;
    return v->kind == TD_K_TENSORS ? (int)v->n : v->kind == TD_K_TENSOR;
}

/* ---- checks -------------------------------------------------------------- */

static bool refuse_grad(const out_call *c, const char *what, const char *name) {
    return td__fail(
        c->cx, TD_E_GRAD,
        "%s: %s: %s %s requires grad, and a write into a given tensor has no "
        "derivative; call it between td_no_grad_begin and td_no_grad_end, "
        "or use the op's result",
        who, c->info->s.name, what, name);
}

/* As PyTorch: while gradients are on, no argument and no tensor to write requires
 * grad. */
static bool check_grads(const out_call *c) {
    td_tensor *const *t;
    if (!c->cx->grad_enabled || c->cx->inference) return true;
    for (int i = 0; i < c->n_in; i++) {
        int n = tensors_of(c, i, &t);
        for (int k = 0; k < n; k++)
            if (t[k] && td__is_live(t[k], TD_H_TENSOR) &&
                (t[k]->flags & TD_TF_NEEDS_GRAD))
                return refuse_grad(c, "argument", c->info->s.in[i].name);
    }
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i]->flags & TD_TF_NEEDS_GRAD) return refuse_grad(c, "tensor", "out");
    return true;
}

static bool check_out(const out_call *c) {
    const td_schema *s = &c->info->s;
    if (c->info->writes)
        return td__fail(c->cx, TD_E_ARG,
                        "%s: %s writes its arguments; only ops that return new tensors "
                        "can write into others",
                        who, s->name);
    if (s->out[0].type == TD_T_TENSORS)
        return td__fail(c->cx, TD_E_UNSUPPORTED, "%s: %s returns a list of tensors",
                        who, s->name);
    for (int i = 0; i < c->n_out; i++)
        for (int k = 0; k < i; k++)
            if (c->out[i] == c->out[k])
                return td__fail(c->cx, TD_E_ARG,
                                "%s: %s: results %d and %d are to be written into one "
                                "tensor",
                                who, s->name, k, i);
    return check_grads(c);
}

/* The dtype of out is the default of an op that makes a tensor from numbers. */
static void take_dtype(out_call *c) {
    int at =
        c->info->def->flags & TD_OPF_CREATE ? td__op_arg(c->info->op, "dtype") : -1;
    if (at < 0 || (at < c->n_in && c->in[at].kind != TD_K_NONE)) return;
    for (; c->n_in <= at; c->n_in++) c->in[c->n_in] = c->info->s.in[c->n_in].def;
    c->in[at] = td__value_dtype((td_dtype)c->out[0]->dtype);
}

/* ---- direct writes ------------------------------------------------------- */

/* May the kernel write into t while it reads the arguments? A pointwise op may read the
 * element that it writes. */
static bool is_apart(const out_call *c, const td_tensor *t) {
    const td_opdef *def = c->info->def;
    bool pointwise = def->flags & TD_OPF_POINTWISE && !(def->flags & TD_OPF_READ_FIRST);
    td_tensor *const *x;
    for (int i = 0; i < c->n_in; i++) {
        int n = tensors_of(c, i, &x);
        for (int k = 0; k < n; k++) {
            if (!x[k] || x[k]->st != t->st) continue;
            td_overlap is = td__overlap(x[k], t);
            if (is != TD_OVERLAP_NO && !(pointwise && is == TD_OVERLAP_FULL))
                return false;
        }
    }
    return true;
}

static bool may_offer(const out_call *c) {
    const td_ctx *cx = c->cx;
    bool          quiet = cx->top == cx->tape && (!cx->tape || !cx->tape->below);
    if (!quiet || cx->fake || cx->takes_fakes || cx->n_typed || cx->devices ||
        c->info->composite || cx->results_in)
        return false;
    for (int i = 0; i < c->n_out; i++) {
        const td_tensor *t = c->out[i];
        if (t->st->fake || t->st->device || t->st->readonly ||
            td__may_share_places(t) || (t->flags & TD_TF_INFERENCE && !cx->inference) ||
            !is_apart(c, t))
            return false;
    }
    return true;
}

/* Calls the op; results may be in the storages of out. */
static bool compute(out_call *c, td_tensor **result) {
    td_result_place place[TD_MAX_RESULTS] = {0};
    td_meta *as = td__arena_alloc(&c->cx->scratch, sizeof *as * (size_t)c->n_out);
    if (!as) return td__fail_memory(c->cx);
    for (int i = 0; i < c->n_out; i++) {
        const td_tensor *t = c->out[i];
        as[i] =
            (td_meta){.dtype = (td_dtype)t->dtype, .rank = t->rank, .strided = true};
        as[i].offset = t->offset;
        memcpy(as[i].size, t->size, sizeof *t->size * (size_t)t->rank);
        memcpy(as[i].stride, t->stride, sizeof *t->stride * (size_t)t->rank);
        place[i] = (td_result_place){.st = t->st, .as = &as[i], .own = true};
    }
    bool offer = may_offer(c);
    if (offer) c->cx->results_in = place;
    bool ok = td__call(c->cx, c->info->op, c->in, c->n_in, result, c->n_out);
    if (offer) c->cx->results_in = NULL;
    return ok;
}

/* ---- copies -------------------------------------------------------------- */

static bool same_sizes(const td_tensor *a, const td_tensor *b) {
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = td__dim_eq(a->size[d], b->size[d]);
    return same;
}

/* Gives t the sizes of `as`, and its strides if they are another order of dims. */
static bool resize(const out_call *c, td_tensor *t, const td_tensor *as) {
    td_ints size = {as->size, as->rank}, stride = {as->stride, as->rank};
    if (!td__dim_eq(t->numel, 0))
        td__warn(c->cx,
                 "%s: %s: the tensor to write, %s, has elements and is resized to %s; "
                 "pass one of these sizes, or resize it to 0 elements first",
                 who, c->info->s.name, td__type_str(t),
                 td__sizes_str(as->rank, as->size));
    if (td_is_nil(td_op_resize_(t, size))) return false;
    if (td__is_dense(as->rank, as->size, as->stride) ||
        !td__is_packed(as->rank, as->size, as->stride))
        return true;
    return !td_is_nil(td_op_as_strided_(t, size, stride, td_value_none()));
}

/* Writes a result that is not in t yet. */
static bool put(const out_call *c, td_tensor *t, td_tensor *result) {
    if (!td__can_cast((td_dtype)result->dtype, (td_dtype)t->dtype))
        return td__fail(c->cx, TD_E_DTYPE,
                        "%s: %s: the result, %s, cannot be cast to the dtype of the "
                        "tensor to write, %s",
                        who, c->info->s.name, td__type_str(result), td__type_str(t));
    if (!same_sizes(t, result) && !resize(c, t, result)) return false;
    return !td_is_nil(td_op_copy_(t, result, false));
}

/* Counts the write of a kernel. */
static void count(const out_call *c, td_tensor *t) {
    atomic_fetch_add_explicit(&t->st->version, 1, memory_order_relaxed);
    t->st->writer = c->info->s.name;
}

/* Is the result, which no one else has, in the place of t? */
static bool is_there(const td_tensor *result, const td_tensor *t) {
    size_t n = sizeof *t->stride * (size_t)t->rank;
    return result != t && result->st == t->st && !result->base &&
           result->offset == t->offset && same_sizes(result, t) &&
           !memcmp(result->stride, t->stride, n);
}

static bool write_all(out_call *c) {
    td_tensor *result[TD_MAX_RESULTS];
    bool       ok = compute(c, result);
    for (int i = 0; ok && i < c->n_out; i++) {
        if (!is_there(result[i], c->out[i])) ok = put(c, c->out[i], result[i]);
        else {
            count(c, c->out[i]);
            td_drop(result[i]);
        }
    }
    return ok;
}

bool(td_call_out)(td_ctx *cx, const char *name, td_values args, td_tensor *const *out,
                  int n_out) {
    out_call c = {.cx = cx, .out = out, .n_out = n_out, .n_in = args.n};
    if (!TD_ENTER_CTX(cx) || !td_ok(cx) || !td__has_list(cx, who, out, n_out))
        return false;
    td_op op = td__op_named(cx, who, name, args, n_out);
    if (op == TD_OP_COUNT) return false;
    for (int i = 0; i < n_out; i++)
        if (!TD_ENTER(out[i], TENSOR)) return false;
    c.info = td__opinfo(op);
    if (args.n) memcpy(c.in, args.v, sizeof *args.v * (size_t)args.n);
    if (!check_out(&c)) return false;
    take_dtype(&c);
    td_arena_mark mark = td__arena_mark(&cx->scratch);
    bool          ok = write_all(&c);
    td__arena_reset(&cx->scratch, mark);
    return ok;
}

td_tensor *(td_call_into)(td_tensor *out, const char *name, td_values args) {
    if (!TD_ENTER(out, TENSOR)) return td_nil(td_ctx_of(out));
    bool ok = (td_call_out)(out->cx, name, args, &out, 1);
    return ok ? out : td_nil(out->cx);
}

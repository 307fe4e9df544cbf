/* functional.c -- the mode that replaces writes by new values. Each op first runs on
 * the outer tensors without bytes exactly as in eager: with its checks, errors, views
 * and versions. Then its functional form computes the inner values. */
#include "func/func_int.h"
#include "ops/call.h"
#include "trace/sym.h"

#include <string.h>

/* ---- outer tensors ------------------------------------------------------ */

/* Runs the op on the outer, fake tensors: for its checks and the metadata of its
 * results. */
static bool run_outer(td_opcall *c) {
    td_ctx  *cx = c->cx;
    bool     was = cx->fake;
    td_mode *top = td__modes_from(cx, NULL); /* a type calls ops on outer tensors */
    cx->fake = true;
    bool ok = td__exec(c);
    cx->fake = was;
    td__modes_from(cx, top);
    return ok;
}

/* An iteration over the tensors among the arguments of a call. */
typedef struct tensors {
    const td_opcall *c;
    int              i;
    uint32_t         k;
} tensors;

/* The next tensor; NULL: the end. */
static td_tensor *next_tensor(tensors *a) {
    for (; a->i < a->c->n_in; a->i++, a->k = 0) {
        const td_value *v = &a->c->in[a->i];
        uint32_t        n = v->kind == TD_K_TENSORS ? v->n : v->kind == TD_K_TENSOR;
        while (a->k < n) {
            td_tensor *t = v->kind == TD_K_TENSOR ? v->u.t : v->u.ts[a->k];
            a->k++;
            if (t) return t;
        }
    }
    return NULL;
}

/* Makes sure that every tensor among the arguments has a record. */
static bool record_args(td_func *f, const td_opcall *c) {
    tensors a = {c, 0, 0};
    for (td_tensor *t; (t = next_tensor(&a));)
        if (!td__fval_of(f, t)) return false;
    return true;
}

/* ---- inner values ------------------------------------------------------- */

/* Replaces the tensors of a list by their current functional values. */
static bool inner_list(td_func *f, td_value *v) {
    td_tensor **ts = td__arena_alloc(&f->cx->scratch, sizeof *ts * (v->n + 1));
    if (!ts) return td__fail_memory(f->cx);
    for (uint32_t k = 0; k < v->n; k++) {
        td_tensor *t = v->u.ts[k];
        ts[k] = t ? td__fval_value(td__fval_of(f, t)) : NULL;
        if (t && !ts[k]) return false;
    }
    v->u.ts = ts;
    return true;
}

/* Computing the value of one argument may make the whole storage the root, which
 * outdates values computed before: so all are computed before any is used. */
static bool derive_args(td_func *f, const td_opcall *c) {
    tensors a = {c, 0, 0};
    for (td_tensor *t; (t = next_tensor(&a));)
        if (!td__fval_value(td__fval_of(f, t))) return false;
    return true;
}

/* The arguments for the mode below: each tensor is replaced by its functional value.
 * The first argument of as_strided_scatter has its whole storage, because the op
 * copies that; so have the inner tensors of one of a type. */
static bool inner_args(td_func *f, const td_opcall *c, td_value *in) {
    if (!derive_args(f, c)) return false;
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i];
        if (in[i].kind == TD_K_TENSOR) {
            td_fval *v = td__fval_of(f, in[i].u.t);
            bool     around = i == 0 && c->info->op == TD_OP_as_strided_scatter;
            in[i].u.t = !around ? td__fval_value(v)
                        : v->of ? td__fval_typed_in_storage(v)
                                : td__fval_in_storage(v);
            if (!in[i].u.t) return false;
        } else if (in[i].kind == TD_K_TENSORS && !inner_list(f, &in[i])) return false;
    }
    return true;
}

/* ---- ops without aliases ------------------------------------------------ */

/* Gives a result that took over bytes of an argument no longer in use its own
 * storage. */
static bool separate_storage(td_opcall *c) {
    td_storage *st = td__storage_make(c->out[0]->st->bytes, true);
    if (!st) return td__fail_memory(c->cx);
    st->span = c->out[0]->st->span;
    st->open = c->out[0]->st->open;
    st->device = c->out[0]->st->device;
    td__tensor_set_storage(c->out[0], st);
    td__storage_drop(st);
    return true;
}

/* Outer results with the metadata of the inner ones, for ops whose sizes depend on
 * values. */
static bool make_outer(td_opcall *c, td_tensor **inner) {
    for (int i = 0; i < c->n_out; i++) {
        td_meta m;
        td__tensor_meta(inner[i], &m);
        if (!(c->out[i] = td__tensor_make(c->cx, &m, true))) return false;
    }
    return true;
}

/* An op without writes or views: the mode below computes its value, and the outer
 * result is a fake tensor that gets it. If the size of the result depends on values,
 * the outer result is made after the value. */
static bool call_plain(td_func *f, td_opcall *c) {
    bool     late = c->def->flags & TD_OPF_DYNAMIC;
    td_value in[TD_MAX_ARGS];
    if (!late && !run_outer(c)) return false;
    if (c->def->flags & TD_OPF_SHARE && !separate_storage(c)) return false;
    size_t      bytes = sizeof(td_tensor *) * (size_t)(c->n_out + 1);
    td_tensor **out = td__arena_alloc(&f->cx->scratch, bytes);
    if (!out) return td__fail_memory(f->cx);
    if (!inner_args(f, c, in)) return false;
    bool nests = c->def->flags & TD_OPF_NESTS;
    if (nests ? !td__func_nested(f, c, in, out)
              : !td__func_call(f, c->info->op, in, c->n_in, out, c->n_out))
        return false;
    if (late && !make_outer(c, out)) return false;
    for (int i = 0; i < c->n_out; i++)
        if (!td__fval_fresh(f, c->out[i], out[i])) return false;
    return true;
}

/* ---- views -------------------------------------------------------------- */

td_fstep *td__fstep_make(td_func *f, td_op op, const td_value *from, int n_in) {
    td_fstep *s = td__arena_zalloc(&f->arena, sizeof *s);
    td_value *in = td__arena_zalloc(&f->arena, sizeof *in * (size_t)(n_in + 1));
    if (!s || !in) return td__fail_memory(f->cx), NULL;
    for (int i = 1; i < n_in; i++) {
        in[i] = from[i];
        if (in[i].kind != TD_K_INTS) continue;
        int64_t *v = td__arena_alloc(&f->arena, sizeof *v * (in[i].n + 1));
        if (!v) return td__fail_memory(f->cx), NULL;
        if (in[i].n) memcpy(v, in[i].u.ints, sizeof *v * in[i].n);
        in[i].u.ints = v;
    }
    *s = (td_fstep){.op = op, .n_in = n_in, .in = in};
    return s;
}

/* as_strided makes a piece of the storage; alias and detach are the same tensor; all
 * other views have an inverse op. */
static td_fkind kind_of(td_op op) {
    td_view_kind kind = td__op_view_kind(op);
    if (kind == TD_VIEW_STRIDED) return TD_F_PIECE;
    return kind == TD_VIEW_SAME ? TD_F_SAME : TD_F_VIEW;
}

/* t becomes a piece of its storage, cut from `up`. */
static bool make_piece(td_func *f, td_fval *up, td_tensor *t) {
    td_fval *v = td__fval_make(f, TD_F_PIECE, td__group_of(up), t);
    if (v) v->from = up;
    return (t->payload = v) != NULL;
}

/* A record of `t`, made from `up` by step s, as its result nr. */
static td_fval *make_view(td_func *f, td_fval *up, td_tensor *t, td_fstep *s, int nr) {
    td_fkind kind = kind_of(s->op);
    if (kind == TD_F_PIECE) return make_piece(f, up, t) ? t->payload : NULL;
    td_fval *v = td__fval_make(f, kind, td__group_of(up), t);
    if (!v) return NULL;
    t->payload = v;
    v->overlap |= up->overlap;
    v->up = up;
    v->step = s;
    v->nr = nr;
    return v;
}

/* A view is recorded as a step of its base's record and computed only when it is read.
 * The results of one multi-output op know each other (`peers`). */
static bool call_view(td_func *f, td_opcall *c) {
    td_fval *up = td__fval_of(f, td__in(c, 0));
    if (!run_outer(c)) return false;
    td_fstep *s = td__fstep_make(f, c->info->op, c->in, c->n_in);
    if (!s) return false;
    if (c->def->flags & TD_OPF_MULTI) {
        s->n_peers = c->n_out;
        s->peers =
            td__arena_zalloc(&f->arena, sizeof *s->peers * (size_t)(c->n_out + 1));
        if (!s->peers) return td__fail_memory(f->cx);
    }
    for (int i = 0; i < c->n_out; i++) {
        td_fval *v = make_view(f, up, c->out[i], s, i);
        if (!v) return false;
        if (s->peers) s->peers[i] = v;
    }
    return true;
}

/* ---- metadata writes ---------------------------------------------------- */

/* set_ moves t into the group of the source's storage: as the source itself, or as a
 * piece if sizes, strides or an offset are given. */
static bool call_set(td_func *f, td_opcall *c) {
    td_tensor *t = td__in(c, 0), *source = td__in(c, 1);
    td_fval   *from = td__fval_of(f, source);
    size_t     was = source->st->bytes;
    bool       whole = true;
    for (int i = 2; i < c->n_in; i++) whole &= td__in_none(c, i);
    if (!run_outer(c) || !td__group_grow(td__group_of(from), was)) return false;
    td_fkind kind = whole ? TD_F_SAME : TD_F_PIECE;
    td_fval *v = td__fval_make(f, kind, td__group_of(from), t);
    if (!v) return false;
    if (whole) {
        v->up = from;
        v->overlap |= from->overlap;
    }
    t->payload = v;
    return true;
}

/* A metadata write: the tensor gets a new record, a view of its old one. resize_ and
 * set_ may change the storage; ops that only set flags have no functional form. */
static bool call_meta(td_func *f, td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_fval   *up = td__fval_of(f, t);
    size_t     was = t->st->bytes;
    if (c->info->op == TD_OP_set_) return call_set(f, c);
    if (c->info->op == TD_OP_resize_) {
        if (td__resize_is_same(c)) return c->out[0] = t, true;
        if (!run_outer(c) || !td__group_grow(td__group_of(up), was)) return false;
        return make_piece(f, up, t);
    }
    if (c->info->pure == TD_OP_COUNT) { /* flags alone: the tape's, if there is one */
        c->out[0] = t;
        return true;
    }
    if (!run_outer(c)) return false;
    td_fstep *s = td__fstep_make(f, c->info->pure, c->in, c->n_in);
    td_fval  *v = s ? make_view(f, up, t, s, 0) : NULL;
    return v != NULL;
}

/* ---- writes of elements ------------------------------------------------- */

/* Only arguments and values of the program may be written: a write to a closed-over
 * tensor with real bytes would happen at trace time. */
static bool may_write(td_opcall *c) {
    for (int i = 0; i < c->n_in; i++)
        if (c->info->s.in[i].write && td__in(c, i) && !td__is_traced(td__in(c, i)))
            return td__op_fail(
                c, TD_E_TRACE,
                "argument %s is a tensor from outside of the program, which cannot "
                "write it; pass it as an argument",
                c->info->s.in[i].name);
    return true;
}

/* Converts the value to the type of the written tensor, whose record is v. */
static td_tensor *typed_value(td_func *f, td_fval *v, td_tensor *value) {
    td_tensor *old = td__fval_value(v);
    if (!old) return NULL;
    td_mode_scope outer = td__modes_enter_plain(f->cx, f->mode.below);
    value = td__typed_for(f->cx, "a write", value, old);
    if (value) value = td__typed_laid_out(value, old);
    td__modes_leave(f->cx, &outer);
    return value;
}

/* Stores the new value of the written tensor t. */
static bool write(td_func *f, td_tensor *t, td_tensor *value) {
    td_fval *v = td__fval_of(f, t);
    td_ctx  *cx = f->cx;
    if (value->dtype != t->dtype) {
        td_value in[2] = {td_value_tensor(value), td__value_dtype((td_dtype)t->dtype)};
        value = td__func_call1(f, TD_OP__to_copy, in, 2);
    }
    if (value && TD_UNLIKELY(t->typed || value->typed))
        value = typed_value(f, v, value);
    if (!value || !td__fval_store(v, value)) return false;
    td_group *g = td__group_of(v);
    if (TD_UNLIKELY(cx->n_typed > 0) && !td__func_share_write(f, g)) return false;
    g->writes++;
    g->quiet_writes += !td__recording(cx);
    return true;
}

/* Batch norm writes two arguments, its running statistics, and returns results. */
static bool call_batch_norm(td_func *f, td_opcall *c) {
    td_tensor *out[5];
    td_value   in[TD_MAX_ARGS];
    if (!inner_args(f, c, in) ||
        !td__func_call(f, TD_OP__batch_norm_functional, in, c->n_in, out, 5))
        return false;
    for (int i = 0; i < c->n_out; i++)
        if (!td__fval_fresh(f, c->out[i], out[i])) return false;
    for (int i = 3; i < 5; i++)
        if (td__in(c, i) && !write(f, td__in(c, i), out[i])) return false;
    return true;
}

/* Will the tape record this call? */
static bool takes_gradients(const td_opcall *c) {
    tensors a = {c, 0, 0};
    bool    any = false;
    for (td_tensor *t; (t = next_tensor(&a));) any |= td__needs_grad(t);
    return any && td__recording(c->cx);
}

/* Where elements overlap in memory only the last one written is stored, so only that
 * one gets a gradient. A compiled call copies all elements of the written tensor and
 * does not know which one is the last. Where elements of the base of a written view
 * overlap, eager divides its gradient by their number, and multiplies it back only if
 * the write reads the base, which the epilogue's copy_ does not. A fill is supported:
 * all its elements are equal. */
static bool check_places(td_func *f, td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    bool       fills =
        c->info->pure < TD_OP_COUNT && td__row(c->info->pure)->flags & TD_OPF_FILLS;
    if (fills || !t || !c->info->s.in[0].write || !takes_gradients(c)) return true;
    td_geom base = td__geom_of(t->base ? t->base : t);
    bool    own = td__geom_overlaps_itself(&td__fval_of(f, t)->geom);
    if (!own && !td__geom_overlaps_itself(&base)) return true;
    return td__op_fail(c, TD_E_UNSUPPORTED,
                       "unsupported: elements of the written tensor%s %s overlap in "
                       "memory, and gradients pass through the write; use a clone of "
                       "it, or td_no_grad_begin",
                       own ? "" : "'s base", td__type_str(own ? t : t->base));
}

/* An in-place op: its functional twin computes the new value, which is then written to
 * the record of argument 0. */
static bool call_write(td_func *f, td_opcall *c) {
    td_value in[TD_MAX_ARGS];
    if (!may_write(c) || !run_outer(c) || !check_places(f, c)) return false;
    if (c->info->op == TD_OP__batch_norm_train) return call_batch_norm(f, c);
    if (c->info->pure == TD_OP_COUNT)
        return td__op_fail(
            c, TD_E_UNSUPPORTED,
            "unsupported: this op writes its argument and has no functional form");
    if (!inner_args(f, c, in)) return false;
    td_tensor *value = td__func_call1(f, c->info->pure, in, c->n_in);
    return value && write(f, td__in(c, 0), value);
}

/* ---- the mode ----------------------------------------------------------- */

static bool call_writer(td_func *f, td_opcall *c) {
    return c->def->flags & TD_OPF_META ? call_meta(f, c) : call_write(f, c);
}

/* td_mode.call. Symbols for sizes that are created during the call are named after the
 * op. */
static bool func_call(td_mode *m, td_opcall *c) {
    td_func *f = (td_func *)m;
    if (!record_args(f, c)) return false;
    const char *outer = td__symenv_op(c->info->s.name);
    bool        ok = c->info->writes               ? call_writer(f, c)
                     : c->def->flags & TD_OPF_VIEW ? call_view(f, c)
                                                   : call_plain(f, c);
    td__symenv_op_end(outer);
    return ok;
}

/* Begins a functional run: ops pass through the tape, this mode and the recorder, which
 * records into g. The grad modes of the caller are switched off; the program sets its
 * own. */
void td__func_record(td_func *f, td_ctx *cx, td_record *rec, td_graph *g) {
    cx->grad_enabled = cx->inference = false;
    td__record_begin(rec, g);
    rec->mode.composites = false;
    rec->mode.flat = true;
    *f = (td_func){.mode = {.name = "functional",
                            .call = func_call,
                            .below = &rec->mode},
                   .cx = cx};
    td__modes_tape(cx, &f->mode);
    cx->fake = true;
}

int td__func_writes(const td_func *f, int nr) {
    return td__group_of(f->in.v[nr].given)->writes;
}

int td__func_quiet_writes(const td_func *f, int nr) {
    return td__group_of(f->in.v[nr].given)->quiet_writes;
}

td_tensor *td__func_given_value(td_func *f, int nr) {
    return td__fval_value(f->in.v[nr].given);
}

td_tensor *td__func_value(td_func *f, td_tensor *outer) {
    td_fval *v = td__fval_of(f, outer);
    return v ? td__fval_value(v) : NULL;
}

bool td__func_knows(const td_func *f, const td_tensor *outer) {
    const td_fval *v = outer->payload;
    return v && v->owner == &f->mode;
}

/* Drops all references of the run and removes its records from tensors of the context
 * that may outlive it. */
void td__func_end(td_func *f) {
    for (td_tensor *t = f->cx->all; t; t = t->next) {
        td_mode **owner = t->payload;
        if (owner && *owner == &f->mode) t->payload = NULL;
    }
    for (td_fval *v = f->all; v; v = v->next) {
        if (v->inner) td__unref(v->inner);
        td__typed_drop(v->of);
    }
    for (int i = 0; i < f->in.n; i++) {
        td__unref(f->in.v[i].t);
        td__unref(f->in.v[i].inner);
        td__storage_drop(f->in.v[i].st);
    }
    for (int i = 0; i < f->storages.n; i++) td__storage_drop(f->storages.v[i]);
    td__vec_free(&f->in);
    td__vec_free(&f->storages);
    td__ptrmap_free(&f->groups);
    td__arena_free(&f->arena);
}

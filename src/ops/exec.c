/* exec.c -- runs one op below all modes. Three kinds: views share storage and
 * remember how they were made; writers change an argument after every check has
 * passed; the rest get fresh results and a kernel. The rules that hold for all
 * ops (overlap, versions, fake tensors) live here, once. */
#include "core/readonly.h"
#include "ops/call.h"
#include "ops/cast.h"

#include <string.h>

/* ---- what holds for every op -------------------------------------------- */

/* In fake mode, among the user's fakes, or with a fake tensor among the arguments where
 * those are taken: there are no elements to compute. */
bool td__call_is_fake(const td_opcall *c) {
    if (TD_UNLIKELY(c->cx->fake || c->cx->takes_fakes == TD_FAKES_SCOPE)) return true;
    for (int i = 0; c->cx->takes_fakes && i < c->n_in; i++) {
        td_value v = c->in[i];
        if (v.kind == TD_K_TENSOR && td__is_fake(v.u.t)) return true;
        for (uint32_t k = 0; v.kind == TD_K_TENSORS && k < v.n; k++)
            if (v.u.ts[k] && td__is_fake(v.u.ts[k])) return true;
    }
    return false;
}

/* Counts a write: the version that saved values are compared with, and the op that
 * errors name. set_ gives t a storage and writes none of its elements: other tensors in
 * that storage are as they were. */
void td__count_write(td_opcall *c, td_tensor *t) {
    if (c->info->op == TD_OP_set_) {
        t->moves++;
        return;
    }
    atomic_fetch_add_explicit(&t->st->version, 1, memory_order_relaxed);
    t->st->writer = td__row(c->info->op)->name;
}

/* The kernel, on the device of the call. */
static inline bool compute(td_opcall *c) {
    return TD_LIKELY(!c->device) ? c->def->cpu(c) : td__exec_on_device(c);
}

/* The shape rule; results are on the device of the call. */
static bool run_shape(td_opcall *c) {
    if (!c->def->shape(c)) return false;
    for (int i = 0; i < c->n_out; i++) c->meta[i].device = c->device;
    return true;
}

/* ---- fresh results ------------------------------------------------------ */

/* The result gets room for every byte of the argument's storage. A tensor whose
 * elements overlap is copied densely instead and needs no more room. */
static bool take_whole(td_opcall *c) {
    td_storage *from = td__in(c, 0)->st, *to = c->out[0]->st;
    if (td__overlaps_itself(td__in(c, 0))) return true;
    if (from->open) { /* how many there are is not known here either */
        to->open = true;
        to->span = from->span;
    }
    if (to->bytes >= from->bytes) return true;
    return td__storage_resize(to, from->bytes) || td__fail_memory(c->cx);
}

/* Has a fresh result of m the strides of `as`? */
static bool same_strides(const td_meta *as, const td_meta *m) {
    size_t n = sizeof *m->stride * (size_t)m->rank;
    if (as->rank != m->rank) return false;
    return m->strided ? m->offset == 0 && !memcmp(as->stride, m->stride, n)
                      : td__is_dense(m->rank, as->size, as->stride);
}

/* Without gaps, and as large as the storage; or of the sizes that the place is for. */
static bool fits(const td_opdef *def, const td_result_place *p, const td_meta *m) {
    int64_t bytes = td__numel(m->rank, m->size) * td__dtype_bytes[m->dtype];
    if (p->own && !(def->flags & TD_OPF_POINTWISE) && !same_strides(p->as, m))
        return false;
    if (p->as)
        return p->as->dtype == m->dtype && p->as->rank == m->rank &&
               !memcmp(p->as->size, m->size, sizeof *m->size * (size_t)m->rank);
    return bytes == (int64_t)p->st->bytes && m->offset == 0 &&
           (!m->strided || td__is_packed(m->rank, m->size, m->stride));
}

/* Results in the storages that compiled code has offered (td_ctx.results_in), where
 * they fit; else fresh ones. */
static bool make_results(td_opcall *c, bool fake) {
    const td_result_place *to = c->cx->results_in;
    c->cx->results_in = NULL;
    for (int i = 0; i < c->n_out; i++) {
        td_storage *st = to && !fake ? to[i].st : NULL;
        bool there = st && st->device == c->device && fits(c->def, &to[i], &c->meta[i]);
        c->out[i] = there
                        ? td__tensor_over(c->cx, st, to[i].as ? to[i].as : &c->meta[i])
                        : td__tensor_make(c->cx, &c->meta[i], fake);
        if (!c->out[i]) return false;
    }
    return !(c->def->flags & TD_OPF_WHOLE) || take_whole(c);
}

/* The kernel of an op whose result has a size that depends on values. */
static bool exec_dynamic(td_opcall *c) {
    td_dim_list *seen = c->cx->sizes_seen;
    return compute(c) &&
           (!seen || td__vec_push(seen, c->out[0]->size[0]) || td__fail_memory(c->cx));
}

/* Ops without views and writes: shape rule, results, kernel. Fake calls end after the
 * results. */
static bool exec_plain(td_opcall *c) {
    bool fake = td__call_is_fake(c);
    if (c->def->flags & (TD_OPF_NESTS | TD_OPF_TYPED)) return c->def->cpu(c);
    if (c->def->flags & TD_OPF_DYNAMIC) {
        if (!fake) return exec_dynamic(c);
        if (!td__dim_served())
            return td__fail_no_bytes(c->cx, c->info->s.name,
                                     "the size of the result depends on values, which "
                                     "takes a capture with dynamic sizes");
    }
    if (!run_shape(c)) return false;
    if (c->def->flags & TD_OPF_SHARE) {
        c->out[0] = td__tensor_over(c->cx, td__in(c, 0)->st, &c->meta[0]);
        return c->out[0] != NULL;
    }
    if (c->def->flags & TD_OPF_HOLDS && !fake) return compute(c);
    return make_results(c, fake) && (fake || compute(c));
}

/* ---- views -------------------------------------------------------------- */

/* Bytes of an integer list argument. */
static size_t list_bytes(const td_value *v) {
    return v->kind == TD_K_INTS ? sizeof(int64_t) * v->n : 0;
}

/* A copy of the call that outlives it: lists are packed behind the arguments. */
static td_view_step *make_step(td_opcall *c, int out_nr) {
    size_t lists = 0, args = sizeof(td_value) * (size_t)c->n_in;
    for (int i = 0; i < c->n_in; i++) lists += list_bytes(&c->in[i]);
    td_view_step *s = td__alloc(sizeof *s + args + lists);
    if (!s) return td__fail_memory(c->cx), NULL;
    td_view_step *up = c->in[c->info->view_of].u.t->steps;
    *s = (td_view_step){.refs = 1,
                        .out_nr = out_nr,
                        .up = up,
                        .def = c->def,
                        .n_in = c->n_in,
                        .grad = c->cx->grad_enabled,
                        .inference = c->cx->inference};
    if (up) up->refs++;
    char *at = (char *)s + sizeof *s + args;
    for (int i = 0; i < c->n_in; i++) {
        s->in[i] = c->in[i];
        if (c->in[i].kind == TD_K_TENSOR) s->in[i] = td_value_none();
        if (c->in[i].kind != TD_K_INTS) continue;
        if (c->in[i].n) memcpy(at, c->in[i].u.ints, list_bytes(&c->in[i]));
        s->in[i].u.ints = (const int64_t *)(const void *)at;
        at += list_bytes(&c->in[i]);
    }
    return s;
}

/* A view shares the storage and records its call, so that it can be replayed on another
 * base. Detached views are not related to the base. */
bool td__exec_view(td_opcall *c) {
    td_tensor *src = td__in(c, c->info->view_of);
    if (!c->def->shape(c)) return false;
    for (int i = 0; i < c->n_out; i++) {
        td_tensor *v = td__tensor_over(c->cx, src->st, &c->meta[i]);
        if (!v) return false;
        c->out[i] = v;
        v->flags = (uint8_t)((v->flags & ~TD_TF_INFERENCE) |
                             (src->flags & TD_TF_INFERENCE)); /* as what it shows */
        /* Inference tensors have no versions to check, and so no views either. */
        if (c->def->flags & TD_OPF_DETACH || src->flags & TD_TF_INFERENCE) continue;
        if (!(v->steps = make_step(c, i))) return false;
        v->base = td__ref(src->base ? src->base : src);
    }
    return true;
}

/* ---- writers ------------------------------------------------------------ */

/* The overlaps that ATen refuses: in part, and, where arguments must be `apart`, of all
 * elements too. Layouts with gaps are too hard for it to tell. */
static bool may_overlap(const td_tensor *t, const td_tensor *x, bool apart) {
    td_overlap is = td__overlap(t, x);
    bool       clear = t == x || (td__is_packed(t->rank, t->size, t->stride) &&
                            td__is_packed(x->rank, x->size, x->stride));
    return is == TD_OVERLAP_NO || (is == TD_OVERLAP_FULL && !(apart && clear));
}

bool td__may_read_beside(td_opcall *c, int i, const td_tensor *t, bool apart) {
    const td_value   *v = &c->in[i];
    td_tensor *const *x = v->kind == TD_K_TENSORS ? v->u.ts : &v->u.t;
    int               n = v->kind == TD_K_TENSORS ? (int)v->n : v->kind == TD_K_TENSOR;
    for (int k = 0; k < n; k++)
        if (x[k] && !may_overlap(t, x[k], apart))
            return td__op_fail(
                c, TD_E_ALIAS,
                "the written tensor and argument %s%s overlap in memory; clone one "
                "first",
                c->info->s.in[i].name,
                td__overlap(t, x[k]) == TD_OVERLAP_PARTIAL ? " partly" : "");
    return true;
}

bool td__may_write(td_opcall *c, const td_param *p, td_tensor *t) {
    if (t->st->readonly)
        return td__op_fail(c, TD_E_ALIAS, "%s " TD_READONLY_CLONE, p->name);
    if (TD_UNLIKELY(t->st->inner) && !c->cx->handling)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported in a captured body: %s is an inner tensor of a "
                           "tensor of a type, or shares one, and is written; write the "
                           "whole tensor, or a clone",
                           p->name);
    const td_opdef *pure =
        c->info->pure == TD_OP_COUNT ? c->def : td__row(c->info->pure);
    if (td__overlaps_itself(t) && !(pure->flags & TD_OPF_UNIFORM))
        return td__op_fail(c, TD_E_ALIAS,
                           "several elements of the written tensor %s have the same "
                           "address, as in an expanded view; write to a clone of it",
                           td__type_str(t));
    bool apart = pure->flags & TD_OPF_APART;
    int  n = pure->flags & TD_OPF_READ_FIRST ? c->n_in - 1 : c->n_in;
    for (int i = 0; i < n; i++)
        if (&c->info->s.in[i] != p && !td__may_read_beside(c, i, t, apart))
            return false;
    return true;
}

/* Is a size of the tensor the one asked for? Rules take a size that only run time knows
 * to be not 0; an empty tensor that is resized to no elements is not written at all, so
 * that size is refused when it comes. */
static bool has_size(int64_t size, int64_t wanted) {
    return td__dim_eq(size, wanted) || !td__dim_expect(size, TD_DIM_IS_NE, wanted);
}

/* An inference tensor has no version counter; a write outside inference mode could not
 * be noticed by backward. */
bool td__may_write_inference(td_opcall *c, const td_tensor *t) {
    if (!(t->flags & TD_TF_INFERENCE) || c->cx->inference) return true;
    return td__op_fail(c, TD_E_GRAD,
                       "an inference tensor cannot be written outside inference mode; "
                       "write a clone of it");
}

bool td__resize_is_same(const td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    const td_value  *size = &c->in[1];
    bool             same = c->info->op == TD_OP_resize_ && (int)size->n == t->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = has_size(t->size[i], size->u.ints[i]);
    return same;
}

/* The result of the functional twin must fit what is written. */
static bool result_fits(td_opcall *c, const td_tensor *self) {
    const td_meta *m = &c->meta[0];
    bool           same = m->rank == self->rank;
    for (int d = 0; same && d < m->rank; d++)
        same = td__dim_eq(m->size[d], self->size[d]);
    if (!same)
        return td__op_fail(c, TD_E_SHAPE,
                           "result of size %s does not fit the written tensor %s",
                           td__sizes_str(m->rank, m->size), td__type_str(self));
    if (!td__can_cast(m->dtype, (td_dtype)self->dtype))
        return td__op_fail(c, TD_E_DTYPE, "a result of dtype %s cannot be stored in %s",
                           td_dtype_name(m->dtype), td__type_str(self));
    return true;
}

/* Does another argument read the bytes being written? */
static bool read_elsewhere(const td_opcall *c, const td_tensor *self) {
    for (int i = 1; i < c->n_in; i++)
        if (td__in(c, i) && td__in(c, i)->st == self->st) return true;
    return false;
}

/* Runs the functional twin's kernel straight into self where that is safe, else
 * into a new tensor, which is copied to self. Where elements of self share places, all
 * results are computed from the old elements, and the last in row-major order stays. */
static bool exec_twin(td_opcall *c) {
    td_tensor      *self = td__in(c, 0);
    const td_opdef *own = c->def, *pure = td__row(c->info->pure);
    c->def = pure; /* shape rules and kernels look at the twin's flags */
    bool ok = run_shape(c) && result_fits(c, self);
    if (ok && !td__call_is_fake(c)) {
        bool direct =
            (pure->flags & TD_OPF_POINTWISE && !(pure->flags & TD_OPF_READ_FIRST)) ||
            (pure->flags & (TD_OPF_POINTWISE | TD_OPF_WRITES_OK) &&
             !read_elsewhere(c, self));
        if (direct && !td__may_share_places(self)) {
            c->out[0] = self;
            ok = compute(c);
        } else
            ok = make_results(c, false) && compute(c) && td__copy_into(self, c->out[0]);
    }
    c->def = own;
    c->out[0] = self;
    return ok;
}

/* A writer with a kernel of its own: its shape rule only checks. */
static bool exec_writer(td_opcall *c) {
    bool fake = td__call_is_fake(c), meta = c->def->flags & TD_OPF_META;
    if (c->def->shape && !run_shape(c)) return false;
    for (int i = 0; i < c->n_out; i++) {
        char alias = c->info->s.out[i].alias;
        for (int k = 0; alias && k < c->n_in; k++)
            if (c->info->s.in[k].alias == alias) c->out[i] = td__in(c, k);
        if (alias) continue;
        if (!(c->out[i] = td__tensor_make(c->cx, &c->meta[i], fake))) return false;
    }
    if (fake && !meta) return true;
    return meta ? c->def->cpu(c) : compute(c);
}

/* Checks every written argument before the first write; versions count afterwards, so a
 * failed call changes nothing. */
static bool exec_write(td_opcall *c) {
    const td_schema *s = &c->info->s;
    bool             meta = c->def->flags & TD_OPF_META;
    bool             nothing = meta && td__resize_is_same(c);
    for (int i = 0; i < c->n_in && !meta; i++)
        if (s->in[i].write && td__in(c, i) &&
            !td__may_write(c, &s->in[i], td__in(c, i)))
            return false;
    if (!(c->def->cpu ? exec_writer(c) : exec_twin(c))) return false;
    for (int i = 0; i < c->n_in && !nothing; i++)
        if (s->in[i].write && td__in(c, i)) td__count_write(c, td__in(c, i));
    return true;
}

bool td__exec_meta_write(td_opcall *c) { return exec_write(c); }

/* cx->making names the op in error messages of allocations. */
bool td__exec(td_opcall *c) {
    if (TD_UNLIKELY(c->cx->n_typed > 0 || c->def->typed_fn) && td__call_is_typed(c))
        return td__exec_typed(c, false);
    const char *outer = c->cx->making;
    c->cx->making = td__op_name(c);
    bool ok = c->info->writes               ? exec_write(c)
              : c->def->flags & TD_OPF_VIEW ? td__exec_view(c)
                                            : exec_plain(c);
    c->cx->making = outer;
    return ok;
}

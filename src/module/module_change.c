/* module_change.c -- operations on a whole module: train and eval mode,
 * requires_grad, gradients, dtypes, copies. */
#include "module/modules.h"
#include "eager/node.h"

#include <string.h>

/* ---- modes and gradients ------------------------------------------------ */

static void train(td_module *m, bool on) {
    m->training = on;
    for (int i = 0; i < m->children.n; i++) train(m->children.v[i].m, on);
}

void td_module_train(td_module *m, bool on) {
    if (!TD_ENTER(m, MODULE)) return;
    if (!td__module_may_change(m, "td_module_train")) return;
    train(m, on);
    td__module_changed();
}

bool td_module_training(const td_module *m) {
    if (!TD_ENTER(m, MODULE)) return false;
    td__module_used(m);
    return m->training;
}

/* Recursive instead of a walk, which could run out of memory: this cannot fail. */
void td_module_zero_grad(td_module *m) {
    if (!TD_ENTER(m, MODULE)) return;
    for (int i = 0; i < m->tensors.n; i++)
        if (m->tensors.v[i].t && !m->tensors.v[i].buffer)
            td_zero_grad(m->tensors.v[i].t);
    for (int i = 0; i < m->children.n; i++) td_module_zero_grad(m->children.v[i].m);
}

/* Checks all parameters before any is changed. */
static bool is_a_leaf(void *env, const td_member *m) {
    (void)env;
    return td_is_leaf(m->t) ||
           td__fail(m->owner->cx, TD_E_GRAD,
                    "td_module_requires_grad: \"%s\" is a result of %s; only leaves "
                    "have requires_grad of their own. Replace it with td_module_set",
                    m->name, td__made_by(m->t));
}

static bool set_grad(void *env, const td_member *m) {
    return !td_is_nil(td_set_requires_grad(m->t, *(bool *)env));
}

bool td_module_requires_grad(td_module *m, bool on) {
    if (!TD_ENTER(m, MODULE)) return false;
    if (!td__module_may_change(m, "td_module_requires_grad")) return false;
    td__module_changed();
    return td_module_visit(m, TD_VISIT_PARAMS, is_a_leaf, NULL) &&
           td_module_visit(m, TD_VISIT_PARAMS, set_grad, &on);
}

/* ---- dtypes ------------------------------------------------------------- */

/* t gets the storage of fresh; one reference to each. */
typedef struct swap {
    td_tensor *t, *fresh;
} swap;

/* Conversions are planned first, then done, so that a failure changes nothing. */
typedef struct casting {
    td_ctx  *cx;
    td_dtype to;
    TD_VEC(swap) swaps;
} casting;

static bool plan_swap(casting *c, td_tensor *t) {
    td_tensor *fresh = td_op_to(t, c->to, false);
    swap       s = {t, fresh};
    if (td_is_nil(fresh)) return false;
    if (!td__vec_push(&c->swaps, s)) return td__fail_memory(c->cx);
    td__ref(t);
    td__ref(fresh);
    return true;
}

/* Plans the conversion of a member and its gradient. False after td__fail. */
static bool plan_cast(void *env, const td_member *m) {
    casting   *c = env;
    td_tensor *grad = td_grad_of(m->t);
    if (!td__is_float((td_dtype)m->t->dtype) || m->t->dtype == c->to) return true;
    if (m->t->base)
        return td__fail(c->cx, TD_E_ALIAS,
                        "td_module_to: \"%s\" is a view of another tensor, which keeps "
                        "its dtype; register a clone (td_clone) instead",
                        m->name);
    return plan_swap(c, m->t) && (td_is_nil(grad) || plan_swap(c, grad));
}

static void count_write(td_storage *st, uint64_t version) {
    atomic_store_explicit(&st->version, version, memory_order_relaxed);
    st->writer = "td_module_to";
}

/* The tensor stays the same object with a new storage. Both storages count a write,
 * so that histories that saved the tensor, or a view of it, detect the change. */
static void do_swap(const swap *s) {
    td_meta  meta;
    uint64_t version = td__version(s->t) + 1;
    count_write(s->t->st, version);
    td__tensor_meta(s->fresh, &meta);
    (void)td__tensor_set_geometry(s->t, &meta); /* of the same rank: no memory needed */
    td__tensor_set_storage(s->t, s->fresh->st);
    count_write(s->t->st, version);
}

bool td_module_to(td_module *m, td_dtype dtype) {
    if (!TD_ENTER(m, MODULE)) return false;
    casting c = {.cx = m->cx, .to = dtype};
    if (!td_dtype_is_float(dtype))
        return td__fail(m->cx, TD_E_DTYPE,
                        "td_module_to: the dtype is %s; it must be a float dtype",
                        td_dtype_name(dtype));
    if (!td__module_may_change(m, "td_module_to")) return false;
    if (!td__scope_push(m->cx)) return false;
    td_grad_mode was = td_no_grad_begin(m->cx);
    bool         ok = td_module_visit(m, TD_VISIT_ALL, plan_cast, &c);
    for (int i = 0; ok && i < c.swaps.n; i++) do_swap(&c.swaps.v[i]);
    for (int i = 0; i < c.swaps.n; i++) {
        td__unref(c.swaps.v[i].fresh);
        td__unref(c.swaps.v[i].t);
    }
    td__vec_free(&c.swaps);
    td_no_grad_end(m->cx, was);
    td__scope_pop(m->cx, NULL, 0);
    td__module_changed();
    return ok;
}

/* ---- copies ------------------------------------------------------------- */

/* Maps originals to copies, so that shared modules and tied tensors stay shared. */
typedef struct copier {
    td_ctx   *cx;
    td_ptrmap modules, tensors; /* original: copy */
} copier;

/* A state with a drop function needs a copy function. False after td__fail. */
static bool can_copy(void *env, td_module *m, const char *name) {
    (void)env;
    if (!m->type->drop || m->type->copy) return true;
    return td__fail(m->cx, TD_E_ARG,
                    "td_module_copy: \"%s\": td_module_type of %s has `drop` but no "
                    "`copy`; set `copy` to make it copyable",
                    name, td_module_name(m));
}

/* The address in the copy that corresponds to a slot in from's state; NULL: outside
 * of it. */
static void *moved(const td_module *from, const td_module *to, void *slot) {
    uintptr_t at = (uintptr_t)slot - (uintptr_t)from->state;
    if (!slot || at >= from->type->bytes) return NULL;
    return (char *)to->state + at;
}

static td_tensor *copy_tensor(copier *c, td_tensor *t, bool buffer) {
    td_tensor *twin = td__ptrmap_get(&c->tensors, t);
    if (twin) return twin;
    twin = td_clone(t);
    if (td_is_nil(twin)) return NULL;
    if (!buffer && td_is_nil(td_set_requires_grad(twin, td_requires_grad(t))))
        return NULL;
    if (td__ptrmap_put(&c->tensors, t, twin)) return twin;
    td__fail_memory(c->cx);
    return NULL;
}

static bool copy_tensors(copier *c, td_module *from, td_module *to) {
    for (int i = 0; i < from->tensors.n; i++) {
        td_own_tensor own = from->tensors.v[i];
        if (own.t && !(own.t = copy_tensor(c, own.t, own.buffer))) return false;
        own.slot = moved(from, to, own.slot);
        if (!td__module_add(to, own.name, own)) return false;
        if (own.slot) *own.slot = own.t;
    }
    return true;
}

static td_module *copy_module(copier *c, td_module *from);

static bool copy_children(copier *c, td_module *from, td_module *to) {
    for (int i = 0; i < from->children.n; i++) {
        const td_own_child *own = &from->children.v[i];
        td_module          *child = copy_module(c, own->m);
        if (!child) return false;
        if (!td__module_adopt(to, own->name, child)) {
            if (!child->parents) td__module_destroy(child);
            return false;
        }
        td_module **slot = moved(from, to, own->slot);
        to->children.v[i].slot = slot;
        if (slot) *slot = child;
    }
    return true;
}

/* Destroys a module whose state is incomplete, without calling its drop function. */
static void abandon(td_module *m) {
    static const td_module_type bare = {.name = "copy"};
    m->type = &bare;
    td__module_destroy(m);
}

/* The copy of a module, made if it is the first time; NULL after td__fail. */
static td_module *copy_module(copier *c, td_module *from) {
    td_module *to = td__ptrmap_get(&c->modules, from);
    if (to) return to;
    if (td_is_nil(to = td_module_make(c->cx, from->type))) return NULL;
    to->training = from->training;
    memcpy(to->state, from->state, from->type->bytes);
    bool ok = copy_tensors(c, from, to) && copy_children(c, from, to);
    if (ok && !td__ptrmap_put(&c->modules, from, to)) ok = td__fail_memory(c->cx);
    if (ok && from->type->copy) ok = from->type->copy(to, from);
    if (ok) return to;
    abandon(to);
    return NULL;
}

td_module *td_module_copy(td_module *m) {
    if (!TD_ENTER(m, MODULE)) return TD_NIL_BY(m, MODULE);
    copier c = {.cx = m->cx};
    if (!td__may_read(m->cx, "td_module_copy", "the values of a module"))
        return TD_NIL(m->cx, MODULE);
    if (!td_module_apply(m, can_copy, NULL) || !td__scope_push(m->cx))
        return TD_NIL(m->cx, MODULE);
    td_grad_mode was = td_no_grad_begin(m->cx);
    td_module   *copy = copy_module(&c, m);
    td_no_grad_end(m->cx, was);
    td__scope_pop(m->cx, NULL, 0);
    td__ptrmap_free(&c.modules);
    td__ptrmap_free(&c.tensors);
    return copy ? copy : TD_NIL(m->cx, MODULE);
}

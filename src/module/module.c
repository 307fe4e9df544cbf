/* module.c -- modules: making and freeing, registering members by name, finding them
 * by dotted name, calling. module_walk.c walks whole trees. */
#include "module/modules.h"

#include <string.h>

/* Counts changes of any module in the process, so that a compiled call can skip its
 * checks. */
static _Atomic uint64_t epoch;

uint64_t td__module_epoch(void) {
    return atomic_load_explicit(&epoch, memory_order_relaxed);
}

void td__module_changed(void) {
    atomic_fetch_add_explicit(&epoch, 1, memory_order_relaxed);
}

/* ---- making and freeing ------------------------------------------------- */

static void end(void *object) {
    td__module_changed();
    td__module_destroy(object);
}

/* The state is zeroed memory of type->bytes, owned by the module; the type must outlive
 * it. */
td_module *td_module_make(td_ctx *cx, const td_module_type *type) {
    static const char who[] = "td_module_make";
    if (!TD_ENTER_CTX(cx) || !td__has(cx, who, "the type", type) ||
        !td__has(cx, who, "the name of the type, for messages,", type->name))
        return TD_NIL(cx, MODULE);
    td_module *m = td__handle_make(cx, TD_H_MODULE, sizeof *m);
    void      *state = m ? td__zalloc(type->bytes + 1) : NULL;
    if (!state) {
        td__handle_free(m, TD_H_MODULE);
        td__fail_memory(cx);
        return TD_NIL(cx, MODULE);
    }
    m->type = type;
    m->state = state;
    m->training = true;
    m->label = type->name;
    return td__handle_own(m, end);
}

/* Children are freed with their last parent. Not recursive over user depth beyond the
 * nesting of modules. */
void td__module_destroy(td_module *m) {
    td__handle_disown(m);
    if (m->link) m->link->m = NULL;
    td__module_unlink(m->link);
    if (m->type->drop) m->type->drop(m);
    for (int i = 0; i < m->tensors.n; i++) {
        if (m->tensors.v[i].t) td__unref_held(m->tensors.v[i].t);
        td__free(m->tensors.v[i].name);
    }
    for (int i = 0; i < m->children.n; i++) {
        td_module *child = m->children.v[i].m;
        if (--child->parents == 0) td__module_destroy(child);
        else
            child->label =
                td_module_name(child); /* its label may be a name in this module */
        td__free(m->children.v[i].name);
    }
    td__vec_free(&m->tensors);
    td__vec_free(&m->children);
    td__free(m->state);
    td__handle_free(m, TD_H_MODULE);
}

/* Is a forward in its tree running? Scopes then use names of children as labels. */
static bool is_running(const td_module *m) {
    for (int i = 0; i < m->children.n; i++)
        if (is_running(m->children.v[i].m)) return true;
    return m->running > 0;
}

/* A child is freed by its parent, and a module whose forward is running cannot be
 * freed. */
void td_module_free(td_module *m) {
    if (!TD_MAY_FREE(m, MODULE)) return;
    if (is_running(m)) {
        td__fail(m->cx, TD_E_ARG,
                 "td_module_free: the forward of this %s or of one of its children is "
                 "running; free it after the call",
                 m->type->name);
        return;
    }
    if (m->parents) {
        td__fail(m->cx, TD_E_ARG,
                 "td_module_free: this %s is child \"%s\" of another module, which "
                 "frees it; free the parent instead",
                 td_module_name(m), m->label);
        return;
    }
    end(m);
}

void *td_module_state(const td_module *m) {
    if (!TD_ENTER(m, MODULE)) return NULL;
    return m->state;
}
td_ctx *td_module_ctx(const td_module *m) {
    if (!TD_ENTER(m, MODULE)) return td__ctx_of_any(m);
    return m->cx;
}
const char *td_module_name(const td_module *m) {
    if (!TD_ENTER(m, MODULE)) return "";
    return m->type->name ? m->type->name : "module";
}

/* ---- own names ---------------------------------------------------------- */

td_own_tensor *td__module_own(td_module *m, const char *name) {
    for (int i = 0; i < m->tensors.n; i++)
        if (!strcmp(m->tensors.v[i].name, name)) return &m->tensors.v[i];
    return NULL;
}

/* The child of that name, n characters long; NULL: none. */
static td_own_child *own_child(td_module *m, const char *name, size_t n) {
    for (int i = 0; i < m->children.n; i++) {
        const char *have = m->children.v[i].name;
        if (!strncmp(have, name, n) && !have[n]) return &m->children.v[i];
    }
    return NULL;
}

/* Is the name valid and free? False after td__fail. */
static bool check_name(td_module *m, const char *who, const char *name) {
    const char *why = NULL;
    if (!name || !*name) why = "a name must not be empty";
    else if (strchr(name, '.'))
        why = "a name must not contain a dot, which separates names of children";
    else if (td__module_own(m, name) || own_child(m, name, strlen(name)))
        why = "the name is in use; td_module_set replaces a tensor";
    if (!why) return true;
    return td__fail(m->cx, TD_E_ARG, "%s: %s \"%.80s\": %s", who, td_module_name(m),
                    name ? name : "", why);
}

/* May t be registered under this name? False after td__fail. */
static bool check_tensor(td_module *m, const char *who, const char *name, td_tensor *t,
                         bool buffer) {
    const char *kind = td_module_name(m);
    if (!t) return true;
    if (!td__enter_in(m->cx, t, TD_H_TENSOR, who))
        return td_ok(m->cx) ? td__fail(m->cx, TD_E_ARG, "%s: %s \"%.80s\" is nil", who,
                                       kind, name)
                            : false;
    if (t->cx != m->cx)
        return td__fail(m->cx, TD_E_ARG, "%s: %s \"%.80s\" belongs to another context",
                        who, kind, name);
    if (TD_IS_KEPT(t) || (td__is_fake(t) && m->cx->fake))
        return td__fail(m->cx, TD_E_TRACE,
                        "%s: %s \"%.80s\": the tensor was made during a capture; "
                        "register tensors outside of captured bodies",
                        who, kind, name);
    if (buffer) return true;
    if (!td__is_differentiable((td_dtype)t->dtype))
        return td__fail(
            m->cx, TD_E_DTYPE,
            "%s: %s \"%.80s\": a parameter must have a float or complex dtype; this is "
            "%s. Register it as a buffer (td_module_buffer)",
            who, kind, name, td__type_str(t));
    if (!td_is_leaf(t))
        return td__fail(m->cx, TD_E_GRAD,
                        "%s: %s \"%.80s\": the tensor was made by %s; a parameter must "
                        "be a leaf. Make it under td_no_grad_begin, or td_detach it",
                        who, kind, name, td__made_by(t));
    return true;
}

/* ---- registering -------------------------------------------------------- */

/* Adds a reference to the tensor. Changes of any module advance the epoch, by which
 * compiled functions notice. */
bool td__module_add(td_module *m, const char *name, td_own_tensor own) {
    own.name = td__strdup(name);
    if (!own.name || !td__vec_push(&m->tensors, own)) {
        td__free(own.name);
        return td__fail_memory(m->cx);
    }
    if (own.t) td__ref(own.t);
    td__module_changed();
    return true;
}

bool td__module_may_change(td_module *m, const char *who) {
    return td__may_change_object(m, who, "a module");
}

td_tensor *td_module_param(td_module *m, const char *name, td_tensor *t) {
    static const char who[] = "td_module_param";
    if (!TD_ENTER(m, MODULE)) return TD_NIL_BY(m, TENSOR);
    td_tensor *nil = td_nil(m->cx);
    if (!td__module_may_change(m, who) || !check_name(m, who, name) ||
        !check_tensor(m, who, name, t, false))
        return nil;
    if (t && td_is_nil(td_set_requires_grad(t, true))) return nil;
    return td__module_add(m, name, (td_own_tensor){.t = t}) ? t : nil;
}

td_tensor *td_module_buffer(td_module *m, const char *name, td_tensor *t,
                            bool persistent) {
    static const char who[] = "td_module_buffer";
    if (!TD_ENTER(m, MODULE)) return TD_NIL_BY(m, TENSOR);
    td_own_tensor own = {.t = t, .buffer = true, .persistent = persistent};
    if (!td__module_may_change(m, who) || !check_name(m, who, name) ||
        !check_tensor(m, who, name, t, true) || !td__module_add(m, name, own))
        return td_nil(m->cx);
    return t;
}

/* Is `it` m itself or in its tree? */
static bool contains(const td_module *m, const td_module *it) {
    if (m == it) return true;
    for (int i = 0; i < m->children.n; i++)
        if (contains(m->children.v[i].m, it)) return true;
    return false;
}

/* A module may have several parents; its label is its name in the first. */
bool td__module_adopt(td_module *m, const char *name, td_module *child) {
    td_own_child own = {.name = td__strdup(name), .m = child};
    if (!own.name || !td__vec_push(&m->children, own)) {
        td__free(own.name);
        return td__fail_memory(m->cx);
    }
    if (child->parents++ == 0) child->label = own.name;
    td__module_changed();
    return true;
}

td_module *td_module_child(td_module *m, const char *name, td_module *child) {
    static const char who[] = "td_module_child";
    if (!TD_ENTER(m, MODULE) || !td__enter_in(m->cx, child, TD_H_MODULE, who) ||
        !td__module_may_change(m, who) || !check_name(m, who, name))
        return TD_NIL_BY(m, MODULE);
    if (child->cx != m->cx || contains(child, m)) {
        td__fail(m->cx, TD_E_ARG, "%s: %s \"%.80s\" %s", who, td_module_name(m), name,
                 child->cx != m->cx ? "belongs to another context"
                                    : "contains the module itself");
        return TD_NIL(m->cx, MODULE);
    }
    return td__module_adopt(m, name, child) ? child : TD_NIL(m->cx, MODULE);
}

/* Fails: there is no such member. Returns false. */
static bool no_name(td_module *m, const char *who, const char *what, const char *name) {
    return td__fail(m->cx, TD_E_ARG, "%s: %s has no %s \"%.200s\"", who,
                    td_module_name(m), what, name);
}

/* *slot always is the current tensor of that name, also after td_module_set or
 * td_module_load. */
bool td_module_follow(td_module *m, const char *name, td_tensor **slot) {
    static const char who[] = "td_module_follow";
    if (!TD_ENTER(m, MODULE) || !td__has(m->cx, who, "the name", name) ||
        !td__has(m->cx, who, "the slot", slot) || !td__module_may_change(m, who))
        return false;
    td_own_tensor *own = td__module_own(m, name);
    if (!own) return no_name(m, "td_module_follow", "tensor", name);
    own->slot = slot;
    *slot = own->t;
    return true;
}

bool td_module_follow_child(td_module *m, const char *name, td_module **slot) {
    static const char who[] = "td_module_follow_child";
    if (!TD_ENTER(m, MODULE) || !td__has(m->cx, who, "the name", name) ||
        !td__has(m->cx, who, "the slot", slot) || !td__module_may_change(m, who))
        return false;
    td_own_child *own = own_child(m, name, strlen(name));
    if (!own) return no_name(m, "td_module_follow_child", "child", name);
    own->slot = slot;
    *slot = own->m;
    return true;
}

/* ---- dotted names ------------------------------------------------------- */

/* The module that holds the last part of a dotted path, which goes to *last. NULL:
 * none. */
static td_module *descend(td_module *m, const char *path, const char **last) {
    const char *dot;
    while ((dot = strchr(path, '.'))) {
        td_own_child *child = own_child(m, path, (size_t)(dot - path));
        if (!child) return NULL;
        m = child->m;
        path = dot + 1;
    }
    *last = path;
    return m;
}

td_module *td_module_find(td_module *m, const char *name) {
    if (!TD_ENTER(m, MODULE) || !td__has(m->cx, "td_module_find", "the name", name))
        return TD_NIL_BY(m, MODULE);
    const char   *last;
    td_module    *in = *name ? descend(m, name, &last) : m;
    td_own_child *child = in && *name ? own_child(in, last, strlen(last)) : NULL;
    td__module_used(m);
    if (!*name) return m;
    if (child) return child->m;
    no_name(m, "td_module_find", "child", name);
    return TD_NIL(m->cx, MODULE);
}

/* A body that is captured and gets a member depends on the whole module. */
td_tensor *td_module_get(td_module *m, const char *name) {
    if (!TD_ENTER(m, MODULE) || !td__has(m->cx, "td_module_get", "the name", name))
        return TD_NIL_BY(m, TENSOR);
    const char    *last;
    td_module     *in = descend(m, name, &last);
    td_own_tensor *own = in ? td__module_own(in, last) : NULL;
    td__module_used(m);
    if (own) return own->t;
    no_name(m, "td_module_get", "parameter or buffer", name);
    return td_nil(m->cx);
}

/* The new tensor takes over requires_grad of the old one. The old tensor stays alive if
 * others have a reference. */
bool td_module_set(td_module *m, const char *name, td_tensor *t) {
    static const char who[] = "td_module_set";
    if (!TD_ENTER(m, MODULE) || !td__has(m->cx, who, "the name", name)) return false;
    const char    *last;
    td_module     *in = descend(m, name, &last);
    td_own_tensor *own = in ? td__module_own(in, last) : NULL;
    if (!own) return no_name(m, who, "parameter or buffer", name);
    if (!check_tensor(m, who, name, t, own->buffer)) return false;
    if (!td__module_may_change(m, who)) return false;
    bool grad = !own->t || td_requires_grad(own->t);
    if (t && !own->buffer && td_is_nil(td_set_requires_grad(t, grad))) return false;
    if (t) td__ref(t);
    if (own->t) td__unref_held(own->t);
    own->t = t;
    if (own->slot) *own->slot = t;
    td__module_changed();
    return true;
}

int td_module_children(const td_module *m) {
    if (!TD_ENTER(m, MODULE)) return 0;
    td__module_used(m);
    return m->children.n;
}

td_module *td_module_child_at(const td_module *m, int i, const char **name) {
    if (!TD_ENTER(m, MODULE)) return NULL;
    td__module_used(m);
    if (i < 0 || i >= m->children.n) return NULL;
    if (name) *name = m->children.v[i].name;
    return m->children.v[i].m;
}

/* ---- calling ------------------------------------------------------------ */

bool td_module_body(td_call *c) {
    td_module *m = td_call_env(c);
    if (!TD_ENTER(m, MODULE)) return false;
    td__module_used(m);
    if (m->type->forward) {
        m->running++;
        bool ok = m->type->forward(m, c);
        m->running--;
        return ok;
    }
    return td__fail(m->cx, TD_E_ARG,
                    "%s has no forward function; call its children instead",
                    td_module_name(m));
}

/* Ends the call's scope and those left open inside it; results move to the parent
 * scope. */
static void leave(td_ctx *cx, int depth, td_tensor **results, int n) {
    while (cx->scopes.n > depth) td__scope_pop(cx, results, n);
}

int td_module_call_values(td_module *m, td_values args, td_value *out, int n_out) {
    static const char who[] = "td_module_call";
    if (!td__enter(m, TD_H_MODULE, who) || !td__has_list(m->cx, who, args.v, args.n) ||
        !td__has_room(m->cx, who, out, n_out)) {
        td__nil_values(td__ctx_of_any(m), out, n_out);
        return -1;
    }
    td_ctx    *cx = m->cx;
    td_tensor *few[16], **results = few;
    int        depth = cx->scopes.n, missed = cx->missed;
    for (int i = 0; i < n_out; i++) out[i] = td_value_tensor(td_nil(cx));
    if (n_out > TD_COUNT(few) &&
        !(results = td__alloc(sizeof *results * (size_t)n_out))) {
        td__fail_memory(cx);
        return -1;
    }
    td_scope_begin(cx, m->label);
    bool begun = cx->missed == missed;
    int  n = td_call_body(cx, td_module_body, m, args, out, n_out);
    for (int i = 0; i < n_out; i++)
        results[i] = out[i].kind == TD_K_TENSOR ? out[i].u.t : NULL;
    cx->missed = missed;
    if (begun) leave(cx, depth, results, n_out);
    if (results != few) td__free(results);
    return n;
}

td_tensor *td_module_call(td_module *m, td_values args) {
    td_value out;
    int      n = td_module_call_values(m, args, &out, 1);
    if (n < 0) return TD_NIL_BY(m, TENSOR);
    if (n && out.kind == TD_K_TENSOR) return out.u.t;
    if (!n || out.kind == TD_K_NONE) return NULL;
    return td_fail(m->cx, TD_E_ARG,
                   "td_module_call: the first result of %s is a number; use "
                   "td_module_call_values",
                   td_module_name(m));
}

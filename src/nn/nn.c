/* nn.c -- building blocks of layers, and the containers Sequential and ModuleList. */
#include "nn/nn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- making ------------------------------------------------------------- */

td_making td__nn_begin(td_ctx *cx, const td_module_type *type) {
    td_making k = {.cx = cx, .label = type->name};
    if (!td__enter_ctx(cx, type->name)) return k;
    k.was = td_no_grad_begin(cx);
    td_scope_begin(cx, k.label);
    td_module *m = td_ok(cx) ? td_module_make(cx, type) : NULL;
    if (!td_is_nil(m)) k.m = m;
    return k;
}

td_module *td__nn_end(td_making *k) {
    if (!td__is_live(k->cx, TD_H_CTX)) return TD_NIL(k->cx, MODULE);
    td_scope_end(k->cx, k->label, NULL);
    td_no_grad_end(k->cx, k->was);
    if (td_ok(k->cx)) return k->m;
    td_module_free(k->m);
    return TD_NIL(k->cx, MODULE);
}

void td__nn_param(td_making *k, const char *name, td_tensor *t, td_tensor **slot) {
    if (!k->m || !td_ok(k->cx)) return;
    td_module_param(k->m, name, t);
    if (td_ok(k->cx)) td_module_follow(k->m, name, slot);
}

void td__nn_buffer(td_making *k, const char *name, td_tensor *t, td_tensor **slot) {
    if (!k->m || !td_ok(k->cx)) return;
    td_module_buffer(k->m, name, t, true);
    if (td_ok(k->cx)) td_module_follow(k->m, name, slot);
}

void td__nn_child(td_making *k, const char *name, td_module *child, td_module **slot) {
    if (!td_is_nil(td_nn_add(k->m, name, child)))
        td_module_follow_child(k->m, name, slot);
}

bool td__nn_positive(td_ctx *cx, const char *who, const char *what, int64_t v) {
    return v > 0 || td__fail(cx, TD_E_ARG, "%s: %s is %lld; it must be at least 1", who,
                             what, (long long)v);
}

bool td__nn_fraction(td_ctx *cx, const char *who, const char *what, double v) {
    return (v >= 0 && v <= 1) ||
           td__fail(cx, TD_E_ARG, "%s: %s is %g; it must be from 0 to 1", who, what, v);
}

bool td__nn_takes(td_module *m, td_call *c, int most) {
    int n = td_arg_count(c);
    return n <= most ||
           td__fail(td_module_ctx(m), TD_E_ARG,
                    "%s: called with %d arguments; it takes %s%d", td_module_name(m), n,
                    most > 1 ? "at most " : "", most);
}

td_tensor *td__nn_arg(td_module *m, td_call *c) {
    return td__nn_takes(m, c, 1) ? td_arg(c, 0) : td_nil(td_module_ctx(m));
}

td_tensor *td__nn_uniform(td_ctx *cx, td_ints shape, int64_t fan) {
    double bound = 1 / sqrt((double)fan);
    return td_uniform_(td_empty(cx, shape), -bound, bound);
}

/* ---- modules of modules ------------------------------------------------- */

/* Is `it` in the tree of m? */
static bool contains(const td_module *m, const td_module *it) {
    if (m == it) return true;
    for (int i = 0; i < td_module_children(m); i++)
        if (contains(td_module_child_at(m, i, NULL), it)) return true;
    return false;
}

/* Takes over the child even on failure; a child that contains m is not freed then. */
td_module *td_nn_add(td_module *m, const char *name, td_module *child) {
    if (!TD_ENTER(child, MODULE)) return TD_NIL_BY(child, MODULE);
    td_ctx *cx = td_module_ctx(child);
    if (TD_ENTER(m, MODULE) && td_ok(cx) && !td_is_nil(td_module_child(m, name, child)))
        return child;
    if (td_is_nil(m) || !contains(child, m))
        td_module_free(child); /* its other parents keep it alive */
    return TD_NIL(cx, MODULE);
}

static const td_module_type sequential_type, list_type;

/* Does the module number its children (Sequential, ModuleList)? */
static bool is_list(const td_module *m) {
    const char *name = td_module_name(m);
    return name == sequential_type.name || name == list_type.name;
}

td_module *td_nn_append(td_module *list, td_module *child) {
    char name[16];
    snprintf(name, sizeof name, "%d", td_is_nil(list) ? 0 : td_module_children(list));
    if (td_is_nil(list) || is_list(list)) return td_nn_add(list, name, child);
    td_ctx *cx = td_module_ctx(list);
    td__fail(
        cx, TD_E_ARG,
        "td_nn_append: the module is a %s; it must be a Sequential or a ModuleList. "
        "td_nn_add gives any module a named child",
        td_module_name(list));
    if (!td_is_nil(child) && !contains(child, list)) td_module_free(child);
    return TD_NIL(cx, MODULE);
}

/* Frees modules that were not adopted, each once. */
static void free_rest(td_modules of, int from) {
    for (int i = from; of.v && i < of.n; i++) {
        int first = 0;
        while (of.v[first] != of.v[i]) first++;
        if (first == i) td_module_free(of.v[i]);
    }
}

/* A container of the modules, which it takes over even on failure. */
static td_module *make_holder(td_ctx *cx, const td_module_type *type, td_modules of) {
    td_making k = td__nn_begin(cx, type);
    int       i = 0;
    if (!td__has_list(td__ctx_of_any(cx), type->name, of.v, of.n)) of.n = 0;
    while (i < of.n && td_ok(cx) && !td_is_nil(of.v[i]) &&
           !td_is_nil(td_nn_append(k.m, of.v[i])))
        i++;
    if (i < of.n) {
        bool failed = !td_is_nil(of.v[i]) && k.m; /* td_nn_append freed it */
        if (td_ok(cx))
            td__fail(cx, TD_E_ARG, "%s: module %d is %s", type->name, i,
                     of.v[i] ? "nil" : "NULL");
        free_rest(of, failed ? i + 1 : i);
    }
    return td__nn_end(&k);
}

static bool sequential_forward(td_module *m, td_call *c) {
    td_tensor *x = td__nn_arg(m, c);
    for (int i = 0; i < td_module_children(m); i++)
        x = td_module_call(td_module_child_at(m, i, NULL), TD_ARGS(x));
    return td_return(c, x);
}

static const td_module_type sequential_type = {.name = "Sequential",
                                               .forward = sequential_forward};
static const td_module_type list_type = {.name = "ModuleList"};

td_module *td_nn_sequential(td_ctx *cx, td_modules of) {
    return make_holder(cx, &sequential_type, of);
}

td_module *td_nn_list(td_ctx *cx, td_modules of) {
    return make_holder(cx, &list_type, of);
}

/* ---- members without a forward ------------------------------------------- */

static const td_module_type dict_type = {.name = "ModuleDict"};
static const td_module_type parameters_type = {.name = "ParameterList"};

td_module *td_nn_dict(td_ctx *cx) {
    td_making k = td__nn_begin(cx, &dict_type);
    return td__nn_end(&k);
}

td_module *td_nn_parameters(td_ctx *cx, td_tensors params) {
    if (!td__has_list(td__ctx_of_any(cx), parameters_type.name, params.v, params.n))
        return TD_NIL(cx, MODULE);
    td_making k = td__nn_begin(cx, &parameters_type);
    for (int i = 0; k.m && i < params.n && td_ok(cx); i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        td_module_param(k.m, name, params.v[i]);
    }
    return td__nn_end(&k);
}

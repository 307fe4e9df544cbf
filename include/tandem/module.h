/* tandem/module.h -- modules: parameters and buffers under names, children under
 * names, and a forward that uses them. Names, order and files are those of PyTorch's
 * modules (docs/modules.md): "layers.0.weight" is the same tensor there and here.
 *
 *     typedef struct linear { td_tensor *weight, *bias; } linear;
 *
 *     static bool linear_forward(td_module *m, td_call *c) {
 *         linear *l = td_module_state(m);
 *         return td_return(c, td_linear(td_arg(c, 0), l->weight, l->bias));
 *     }
 *     static const td_module_type linear_type = {
 *         .name = "Linear", .bytes = sizeof(linear), .forward = linear_forward};
 *
 *     td_module *m = td_module_make(cx, &linear_type);
 *     linear    *l = td_module_state(m);
 *     l->weight = td_module_param(m, "weight", td_randn(cx, TD_SHAPE(3, 4)));
 *     l->bias = td_module_param(m, "bias", td_zeros(cx, TD_SHAPE(3)));
 *     td_tensor *y = td_module_call(m, TD_ARGS(x));
 *     td_module_free(m);
 *
 * A module keeps its tensors alive until it is freed, by td_close at the latest. It
 * belongs to its context's thread. */
#ifndef TANDEM_MODULE_H
#define TANDEM_MODULE_H

#include "tandem/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_module td_module;

/* What modules of one type share; must outlive them. */
typedef struct td_module_type {
    const char *name TD_0; /* "Linear", for messages; required */
    size_t bytes     TD_0; /* size of the state; may be 0 */
    bool (*forward)(td_module *m, td_call *c) TD_0; /* NULL: a container */
    void (*drop)(td_module *m) TD_0; /* frees what the state owns; or NULL */
    /* Completes the state of a copy, which starts as a byte copy of the original's;
     * required if there is a drop. False after a failure. */
    bool (*copy)(td_module *to, td_module *from) TD_0;
} td_module_type;

/* ---- making ------------------------------------------------------------- */

/* A module with zeroed state, in training mode. nil after a failure. */
TD_API td_module  *td_module_make(td_ctx *cx, const td_module_type *type);
/* Frees the module and the children that no other module has. NULL is allowed;
 * freeing a child is an error, because its parents free it. */
TD_API void        td_module_free(td_module *m);
TD_API void       *td_module_state(const td_module *m);
TD_API td_ctx     *td_module_ctx(const td_module *m);
TD_API const char *td_module_name(const td_module *m); /* the name of its type */

/* Registers a parameter: a float leaf, made to require grad. A tensor may have
 * several names, here and in other modules (tied weights). NULL reserves the name for
 * an absent parameter. Returns t; nil after a failure.
 *
 *   fails  TD_E_ARG    the name is in use, empty or has a dot; t is of another context
 *          TD_E_DTYPE  not a float: register a buffer
 *          TD_E_GRAD   t is not a leaf: detach it */
TD_API td_tensor *td_module_param(td_module *m, const char *name, td_tensor *t);
/* Registers state that is not optimized, of any dtype. Files contain the persistent
 * ones. */
TD_API td_tensor *td_module_buffer(td_module *m, const char *name, td_tensor *t,
                                   bool persistent);
/* Registers a child, which m takes over. A module may be a child under several names,
 * but not its own ancestor. Returns the child; nil after a failure: then the caller
 * still owns it. */
TD_API td_module *td_module_child(td_module *m, const char *name, td_module *child);

/* Keeps *slot equal to the tensor (child) of that name, also after td_module_set. In
 * a copy of m, a slot inside the state becomes a slot of the copy. */
TD_API bool td_module_follow(td_module *m, const char *name, td_tensor **slot);
TD_API bool td_module_follow_child(td_module *m, const char *name, td_module **slot);

/* ---- by name ------------------------------------------------------------ */

/* "layers.0.weight"; NULL if the member is absent, nil and an error if there is no
 * such name. */
TD_API td_tensor *td_module_get(td_module *m, const char *name);
/* "layers.0"; "" is m itself. nil and an error if there is no such name. */
TD_API td_module *td_module_find(td_module *m, const char *name);
/* Replaces the tensor under this name only; NULL: absent. A parameter requires grad
 * if the previous one did. Fails as td_module_param. */
TD_API bool       td_module_set(td_module *m, const char *name, td_tensor *t);
TD_API int td_module_children(const td_module *m); /* number of its own children */
TD_API td_module *td_module_child_at(const td_module *m, int i, const char **name);

/* ---- walking a module ------------------------------------------------------ */

/* A parameter or buffer, during a walk. */
typedef struct td_member {
    const char *name; /* "layers.0.weight"; borrowed for the call */
    td_tensor  *t;
    td_module  *owner;
    bool        buffer, persistent;
} td_member;

enum {
    TD_VISIT_PARAMS = 1,
    TD_VISIT_BUFFERS = 2,
    TD_VISIT_ALL = 3,
    TD_VISIT_DUPLICATES = 4 /* under every name, not only the first */
};
/* Visits own parameters, then own buffers, then children in order. False stops the
 * walk, and is returned. */
typedef bool td_member_fn(void *env, const td_member *m);
TD_API bool  td_module_visit(td_module *m, int what, td_member_fn *fn, void *env);
/* Visits each module once, children before parents; name is dotted, "" for m. */
typedef bool td_module_fn(void *env, td_module *m, const char *name);
TD_API bool  td_module_apply(td_module *m, td_module_fn *fn, void *env);

/* Each parameter (buffer) once: returns their number, -1 after a failure; out gets
 * the first `cap` of them. */
TD_API int td_module_parameters(td_module *m, td_tensor **out, int cap);
TD_API int td_module_buffers(td_module *m, td_tensor **out, int cap);

/* A flat list of members: each tensor once, with all its names. */
typedef struct td_flat_entry {
    td_tensor         *t;
    bool               buffer, persistent;
    int                n_names;
    const char *const *names; /* in the order of the visit */
} td_flat_entry;
typedef struct td_flat {
    int                  n_params, n_buffers; /* parameters come first */
    const td_flat_entry *entries;
} td_flat;
/* Keeps its tensors alive until td_flat_drop. nil after a failure. */
TD_API td_flat *td_module_flat(td_module *m);
TD_API void     td_flat_drop(td_flat *f); /* NULL is allowed */

/* A table as text: each module with its type and own tensors, the number of its own
 * parameters, and totals. At most cap bytes including the final NUL; returns the length
 * of the whole text. */
TD_API size_t td_module_summary(td_module *m, char *out, size_t cap);

/* ---- changing a whole module ------------------------------------------------ */

TD_API void       td_module_train(td_module *m, bool on); /* children too */
TD_API bool       td_module_training(const td_module *m);
TD_API void       td_module_zero_grad(td_module *m);
TD_API bool       td_module_requires_grad(td_module *m, bool on); /* all parameters */
/* Converts float parameters and buffers, and their gradients, to that dtype. The
 * tensors stay the same objects. False after a failure: then nothing has changed. */
TD_API bool       td_module_to(td_module *m, td_dtype dtype);
/* A deep copy: ties and shared children are preserved, gradients are not copied.
 * Tensors that only share storage get storages of their own. nil after a failure. */
TD_API td_module *td_module_copy(td_module *m);

/* ---- calling ------------------------------------------------------------ */

/* Runs forward eagerly, in a scope named after the module. Returns the first result:
 * NULL if it is absent, nil after a failure. */
TD_API td_tensor *td_module_call(td_module *m, td_values args);
/* As td_call_body. */
TD_API int        td_module_call_values(td_module *m, td_values args, td_value *out,
                                        int n_out);
/* The body of a module, which is its env: td_capture(cx, td_module_body, m, args). */
TD_API bool       td_module_body(td_call *c);

/* ---- files -------------------------------------------------------------- */

typedef struct td_save_opts {
    TD_SIZE(td_save_opts);
    bool distinct
        TD_0; /* a tensor under its first name only; a note names the others */
} td_save_opts;
#define TD_SAVE_OPTS .td_save_opts_size = sizeof(td_save_opts)

typedef struct td_load_opts {
    TD_SIZE(td_load_opts);
    bool partial TD_0; /* missing and unexpected names are no error */
    bool cast    TD_0; /* convert values of another dtype */
    /* Called for each missing or unexpected name. May be NULL. */
    void (*tell)(void *env, const char *name, bool missing) TD_0;
    void *env TD_0;
} td_load_opts;
#define TD_LOAD_OPTS .td_load_opts_size = sizeof(td_load_opts)

/* Saves parameters and persistent buffers as .safetensors, by name. opts may be NULL.
 * False after a failure. */
TD_API bool td_module_save(td_module *m, const char *path, const td_save_opts *opts);
/* Copies the file's values into the module's tensors: all of them, or none after a
 * failure. One name of a tied tensor suffices; several must agree. opts may be NULL.
 *
 *   fails  TD_E_ARG    names missing or unexpected, listed in the message
 *          TD_E_SHAPE  other sizes    TD_E_DTYPE  another dtype
 *          TD_E_IO     the file is malformed, or values of a tied tensor differ */
TD_API bool td_module_load(td_module *m, const char *path, const td_load_opts *opts);

#ifdef __cplusplus
}
#endif

#endif

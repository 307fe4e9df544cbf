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
 * A module holds its tensors until it is freed, by td_close at the latest. It belongs
 * to its context's thread. */
#ifndef TANDEM_MODULE_H
#define TANDEM_MODULE_H

#include "tandem/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_module td_module;

/* What modules of a kind have in common; must outlive them. */
typedef struct td_module_type {
    const char *name TD_0;                          /* "Linear", for messages; needed */
    size_t bytes     TD_0;                          /* of the state; may be 0 */
    bool (*forward)(td_module *m, td_call *c) TD_0; /* NULL: only holds others */
    void (*drop)(td_module *m) TD_0; /* the state's own things; or NULL */
    /* Completes the state of a copy, which has the bytes of the original's; needed
     * where there is a drop. False after a failure. */
    bool (*copy)(td_module *to, td_module *from) TD_0;
} td_module_type;

/* ---- making ------------------------------------------------------------- */

/* With zeroed state, in training mode. nil after a failure. */
TD_API td_module  *td_module_make(td_ctx *cx, const td_module_type *type);
/* Frees it and the children nobody else has. NULL is fine; a child is freed with its
 * parents and refused here. */
TD_API void        td_module_free(td_module *m);
TD_API void       *td_module_state(const td_module *m);
TD_API td_ctx     *td_module_ctx(const td_module *m);
TD_API const char *td_module_name(const td_module *m); /* of its type */

/* A parameter: a float leaf, made to require grad. One tensor may be a parameter
 * under several names, here and elsewhere (tied weights). NULL keeps the name for
 * one that is absent. Returns t.
 *
 *   fails  TD_E_ARG    the name is taken, empty or has a dot; another context's t
 *          TD_E_DTYPE  no float: register a buffer
 *          TD_E_GRAD   t has a history: detach it */
TD_API td_tensor *td_module_param(td_module *m, const char *name, td_tensor *t);
/* State that takes no steps, of any dtype. Files hold the persistent ones. */
TD_API td_tensor *td_module_buffer(td_module *m, const char *name, td_tensor *t,
                                   bool persistent);
/* m takes the child over. One module may be a child under several names; not its own
 * ancestor. Returns the child, nil after a failure: then it is still the caller's. */
TD_API td_module *td_module_child(td_module *m, const char *name, td_module *child);

/* *slot is the tensor (child) of that own name from now on: td_module_set changes it
 * too, and in a copy of m a slot inside the state is that of the copy. */
TD_API bool td_module_follow(td_module *m, const char *name, td_tensor **slot);
TD_API bool td_module_follow_child(td_module *m, const char *name, td_module **slot);

/* ---- by name ------------------------------------------------------------ */

/* "layers.0.weight": NULL when it is absent, nil and an error when there is none. */
TD_API td_tensor *td_module_get(td_module *m, const char *name);
/* "layers.0"; "" is m itself. nil and an error when there is none. */
TD_API td_module *td_module_find(td_module *m, const char *name);
/* Another tensor under this name, and this one only; NULL: absent. A parameter takes
 * gradients if the one before did. Fails as td_module_param does. */
TD_API bool       td_module_set(td_module *m, const char *name, td_tensor *t);
TD_API int        td_module_children(const td_module *m); /* its own */
TD_API td_module *td_module_child_at(const td_module *m, int i, const char **name);

/* ---- all of them -------------------------------------------------------- */

/* A parameter or buffer on the way through a module. */
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
/* A module's own parameters, then its own buffers, then its children in order. False
 * stops, and is returned. */
typedef bool td_member_fn(void *env, const td_member *m);
TD_API bool  td_module_visit(td_module *m, int what, td_member_fn *fn, void *env);
/* Each module once, children before parents; name is dotted, "" for m. */
typedef bool td_module_fn(void *env, td_module *m, const char *name);
TD_API bool  td_module_apply(td_module *m, td_module_fn *fn, void *env);

/* Each parameter (buffer) once; how many there are, -1 after a failure. out gets as
 * many as there is room for. */
TD_API int td_module_parameters(td_module *m, td_tensor **out, int cap);
TD_API int td_module_buffers(td_module *m, td_tensor **out, int cap);

/* Everything at a glance: each tensor once, with all its names. */
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
/* Holds its tensors. nil after a failure. */
TD_API td_flat *td_module_flat(td_module *m);
TD_API void     td_flat_drop(td_flat *f); /* NULL is fine */

/* ---- changing all ------------------------------------------------------- */

TD_API void       td_module_train(td_module *m, bool on); /* children too */
TD_API bool       td_module_training(const td_module *m);
TD_API void       td_module_zero_grad(td_module *m);
TD_API bool       td_module_requires_grad(td_module *m, bool on); /* all parameters */
/* Float parameters and buffers get that dtype, with their gradients. The tensors stay
 * the same objects. All of them or, after a failure, none. */
TD_API bool       td_module_to(td_module *m, td_dtype dtype);
/* A copy of everything: ties and shared children stay so, gradients are left out.
 * Tensors that only share bytes get bytes of their own. nil after a failure. */
TD_API td_module *td_module_copy(td_module *m);

/* ---- calling ------------------------------------------------------------ */

/* Runs forward eagerly, in a scope named after the module. The first result, NULL
 * when that is absent; nil after a failure. */
TD_API td_tensor *td_module_call(td_module *m, td_values args);
/* As td_call_body. */
TD_API int        td_module_call_values(td_module *m, td_values args, td_value *out,
                                        int n_out);
/* The body of a module, whose env it is: td_capture(cx, td_module_body, m, args). */
TD_API bool       td_module_body(td_call *c);

/* ---- files -------------------------------------------------------------- */

typedef struct td_save_opts {
    size_t size TD_SIZE(td_save_opts);
    bool distinct
        TD_0; /* a tensor under its first name only; a note names the others */
} td_save_opts;
#define TD_SAVE_OPTS .size = sizeof(td_save_opts)

typedef struct td_load_opts {
    size_t size  TD_SIZE(td_load_opts);
    bool partial TD_0; /* names missing in the file, or in the module, are no error */
    bool cast    TD_0; /* values of another dtype are converted */
    /* Hears of each such name. May be NULL. */
    void (*tell)(void *env, const char *name, bool missing) TD_0;
    void *env TD_0;
} td_load_opts;
#define TD_LOAD_OPTS .size = sizeof(td_load_opts)

/* Parameters and persistent buffers as .safetensors, by name. opts may be NULL. */
TD_API bool td_module_save(td_module *m, const char *path, const td_save_opts *opts);
/* Writes the file's values into the tensors there are: all of them, or after a
 * failure none. Of a tied tensor one name suffices; where there are more they must
 * agree. opts may be NULL.
 *
 *   fails  TD_E_ARG    names missing or unexpected, which the message lists
 *          TD_E_SHAPE  other sizes    TD_E_DTYPE  another dtype
 *          TD_E_IO     the file is malformed, or tied values differ */
TD_API bool td_module_load(td_module *m, const char *path, const td_load_opts *opts);

#ifdef __cplusplus
}
#endif

#endif

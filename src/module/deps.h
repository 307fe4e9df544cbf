/* module/deps.h -- what a captured body read besides its arguments: modes and members
 * of the modules it used, and the bytes it watches. */
#ifndef TD_DEPS_H
#define TD_DEPS_H

#include "module/modules.h"

enum { TD_WATCH_MOST = 1 << 20 }; /* bytes of one specialization */

/* Bytes the body passed to td_watch. */
typedef struct td_watched {
    const void *at; /* the user's */
    size_t      n;
    void       *copy;  /* what they were, owned */
    char       *place; /* "model.c:41", owned */
} td_watched;

/* A module the body used that is no member of the function's own. */
typedef struct td_used_module {
    td_module_link *link; /* held */
    char           *name; /* owned */
    char           *form; /* td__form_write, owned */
} td_used_module;

/* A number that moves whenever an object changes what a capture sees of it, and when it
 * is freed; shared by the object and the specializations that used it. */
typedef struct td_revision {
    int      refs;
    uint64_t nr;
} td_revision;
td_revision *td__revision_make(void);          /* NULL: no memory */
void         td__revision_end(td_revision *r); /* by the object; NULL is fine */

/* Another object the body used, such as an optimizer. */
typedef struct td_used_object {
    td_revision *now; /* held */
    uint64_t     was;
    const char  *what; /* "the optimizer", a literal */
} td_used_object;

/* A name for a tensor the body closes over: `name`, behind that of tensor `of`. */
typedef struct td_dep_name {
    const td_tensor *t, *of; /* compared only; of NULL: none */
    char            *name;   /* owned */
} td_dep_name;

/* Zero-initialized is empty. Invariant: no module of one tree is in another. */
typedef struct td_deps {
    TD_VEC(td_watched) watched;
    TD_VEC(td_used_module) modules;
    TD_VEC(td_used_object) objects;
    TD_VEC(td_dep_name) names; /* known while the body is captured */
    td_ptrmap seen;  /* modules in the trees of these, and in that of the function */
    size_t    bytes; /* watched */
    uint64_t  epoch; /* td__module_epoch when all modules were last found the same */
} td_deps;

/* Empty, for a capture of a function whose own module is `own`, which may be NULL: its
 * members are arguments. False after td__fail. */
bool               td__deps_begin(td_deps *d, td_module *own);
void               td__deps_free(td_deps *d);
static inline bool td__deps_any(const td_deps *d) {
    return d->watched.n || d->modules.n || d->objects.n;
}
/* The capture under way, if there is one, depends on the object from now on. *first:
 * it did not before; name its tensors. False after td__fail. */
bool td__deps_use(td_ctx *cx, td_revision *r, const char *what, bool *first);
bool td__deps_name(td_ctx *cx, td_dep_name n); /* name is copied */
void td__deps_forget_names(td_deps *d);        /* when the program has them */
/* Is everything as it was when the body was captured? False after td__fail, too. */
bool td__deps_hold(td_deps *d);
/* "module Dropout is in eval mode, was in training mode"; nothing where all is the
 * same. */
void td__deps_difference(td_buf *b, const td_deps *d);
/* Calls fn with one line of text for each. */
void td__deps_each(const td_deps *d, void (*fn)(void *env, const char *text),
                   void          *env);

/* ---- the form of a module (module_form.c) ------------------------------- */

/* All of a module that a capture sees and no argument shows, a line each: names and
 * modes of modules, names and ties of members; with `identities` also which tensors
 * these are. False after td__fail. */
bool td__form_write(td_buf *b, td_module *m, bool identities);
/* What two forms of the module called `name` first differ in; nothing if in nothing. */
void td__form_difference(td_buf *b, const char *name, const char *now, const char *was);

#endif

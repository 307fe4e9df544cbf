/* module/deps.h -- dependences of a captured body besides its arguments: modes and
 * members of the modules it used, other objects, tensors of other contexts, and watched
 * bytes. */
#ifndef TD_DEPS_H
#define TD_DEPS_H

#include "module/modules.h"

enum { TD_WATCH_MOST = 1 << 20 }; /* most watched bytes per specialization */

/* Bytes that the body passed to td_watch. */
typedef struct td_watched {
    const void *at; /* the user's memory, borrowed */
    size_t      n;
    void       *copy;  /* their value at the capture, owned */
    char       *place; /* "model.c:41", owned */
} td_watched;

/* A module that the body used and that is no member of the function's own module. */
typedef struct td_used_module {
    td_module_link *link; /* one reference */
    char           *name; /* owned */
    char           *form; /* its form at the capture (td__form_write), owned */
} td_used_module;

/* A counter that an object increments whenever it changes what a capture sees of it,
 * and when it is freed. The object and the specializations that used it share it. */
typedef struct td_revision {
    int      refs;
    uint64_t nr;
} td_revision;
td_revision *td__revision_make(void);  /* NULL: out of memory */
void td__revision_end(td_revision *r); /* when the object is freed; NULL is allowed */

/* Another object that the body used, such as an optimizer. */
typedef struct td_used_object {
    td_revision *now;  /* one reference */
    uint64_t     was;  /* the revision at the capture */
    const char  *what; /* "the optimizer", a literal */
} td_used_object;

/* A tensor of another context that the body shared. While that context is open, the
 * tensor's memory is readable, and tagged, even if the tensor was freed. */
typedef struct td_used_share {
    td_weak           cx;
    const td_tensor  *t;
    const td_storage *st; /* its storage at the capture */
    td_meta           m;  /* its type at the capture */
} td_used_share;

/* A name for a closed-over tensor: "name", or "<name of tensor of>.name". */
typedef struct td_dep_name {
    const td_tensor *t, *of; /* not dereferenced; of may be NULL */
    char            *name;   /* owned */
} td_dep_name;

/* All dependences; zero-initialized is empty. Invariant: the trees of `modules` are
 * disjoint. */
typedef struct td_deps {
    TD_VEC(td_watched) watched;
    TD_VEC(td_used_module) modules;
    TD_VEC(td_used_object) objects;
    TD_VEC(td_used_share) shares;
    TD_VEC(td_dep_name) names; /* during the capture only */
    td_ptrmap seen;  /* all modules of these trees and of the function's own */
    size_t    bytes; /* number of watched bytes */
    uint64_t  epoch; /* td__module_epoch when all modules were last found unchanged */
} td_deps;

/* Empties d for a capture. own: the function's module (NULL: none), whose members are
 * arguments and no dependences. False after td__fail. */
bool               td__deps_begin(td_deps *d, td_module *own);
void               td__deps_free(td_deps *d);
static inline bool td__deps_any(const td_deps *d) {
    return d->watched.n || d->modules.n || d->objects.n || d->shares.n;
}
/* Makes the capture in progress, if any, depend on the object. *first: it did not
 * before, so name its tensors now. False after td__fail. */
bool td__deps_use(td_ctx *cx, td_revision *r, const char *what, bool *first);
bool td__deps_name(td_ctx *cx, td_dep_name n); /* name is copied */
void td__deps_drop_names(td_deps *d);          /* after the capture */
/* Is everything as it was at the capture? False also after td__fail. */
bool td__deps_unchanged(td_deps *d);
/* Appends the first change: "module Dropout is in eval mode, was in training mode";
 * nothing if all is unchanged. */
void td__deps_difference(td_buf *b, const td_deps *d);
/* Calls fn with one line of text for each dependence. */
void td__deps_each(const td_deps *d, void (*fn)(void *env, const char *text),
                   void          *env);

/* ---- the form of a module (module_form.c) ------------------------------- */

/* Appends the form of a module: everything a capture sees of it beside its members'
 * values. One line per module (name, mode, type) and member (name, tie); with
 * identities also which tensor a member is. False after td__fail. */
bool td__form_write(td_buf *b, td_module *m, bool identities);
/* Appends the first difference of two forms of the module `name`; nothing if there is
 * none. */
void td__form_difference(td_buf *b, const char *name, const char *now, const char *was);

#endif

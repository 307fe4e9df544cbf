/* module/modules.h -- shared by the files of modules. */
#ifndef TD_MODULES_H
#define TD_MODULES_H

#include "tandem/module.h"
#include "trace/trace.h"

/* A parameter or buffer of a module. */
typedef struct td_own_tensor {
    char       *name;
    td_tensor  *t; /* one reference; NULL: absent */
    bool        buffer, persistent;
    td_tensor **slot; /* always set to t (td_module_follow); or NULL */
} td_own_tensor;

/* A child module. */
typedef struct td_own_child {
    char       *name;
    td_module  *m; /* counted in m->parents */
    td_module **slot;
} td_own_child;

/* A weak reference to a module. */
typedef struct td_module_link {
    int        refs;
    td_module *m; /* NULL: freed */
} td_module_link;
void td__module_unlink(td_module_link *l); /* NULL is allowed */

/* A module. Invariant: children form no cycle. */
struct td_module {
    TD_OWNED_FIELDS; /* parents: how many times it is a child */
    const td_module_type *type;
    void                 *state;
    bool                  training;
    int                   running; /* forward calls in progress */
    const char           *label;   /* of its scope: its first name as a child */
    TD_VEC(td_own_tensor) tensors;
    TD_VEC(td_own_child) children;
    td_module_link *link; /* one reference; NULL: not needed yet */
};

/* Called wherever a mode or member is read: the capture in progress, if any, depends
 * on m from now on (deps.c). Errors are left in the context. */
void td__module_used(const td_module *m);

/* Changes whenever any module of the process changes what a capture would see. */
uint64_t       td__module_epoch(void);
void           td__module_changed(void);
/* False after td__fail in a captured body. */
bool           td__module_may_change(td_module *m, const char *who);
/* The member of that name, not searched in children; NULL: none. */
td_own_tensor *td__module_own(td_module *m, const char *name);
/* As td_module_flat, but owned by the caller (td__flat_free). NULL after td__fail. */
td_flat       *td__module_flat(td_module *m);
void           td__flat_free(td_flat *f); /* NULL is allowed */
/* Frees m and the children that only it has, even if m has parents. */
void           td__module_destroy(td_module *m);
/* Appends a member, with a reference of its own to t. False after td__fail. */
bool           td__module_add(td_module *m, const char *name, td_own_tensor own);
bool           td__module_adopt(td_module *m, const char *name, td_module *child);

#endif

/* module/modules.h -- what the files of modules share. */
#ifndef TD_MODULES_H
#define TD_MODULES_H

#include "tandem/module.h"
#include "trace/trace.h"

typedef struct td_own_tensor {
    char       *name;
    td_tensor  *t; /* held; NULL: absent */
    bool        buffer, persistent;
    td_tensor **slot; /* follows t; NULL: none */
} td_own_tensor;

typedef struct td_own_child {
    char       *name;
    td_module  *m; /* counted in its parents */
    td_module **slot;
} td_own_child;

/* The way to a module for those who do not keep it alive. */
typedef struct td_module_link {
    int        refs;
    td_module *m; /* NULL: it was freed */
} td_module_link;
void td__module_unlink(td_module_link *l); /* NULL is fine */

/* Invariant: children make no circle. */
struct td_module {
    TD_OWNED_FIELDS; /* parents: entries of children that are this module */
    const td_module_type *type;
    void                 *state;
    bool                  training;
    int                   running; /* calls of its forward that have not returned */
    const char           *label;   /* of its scope: the name it was first given */
    TD_VEC(td_own_tensor) tensors;
    TD_VEC(td_own_child) children;
    td_module_link *link; /* held; NULL: nobody asked for one */
};

/* Called wherever a mode or member is read: a capture under way depends on m from now
 * on (deps.c). A failure sticks to the context. */
void td__module_used(const td_module *m);

/* Moves whenever any module of the process changes what a capture would see. */
uint64_t       td__module_epoch(void);
void           td__module_changed(void);
/* Not in a captured body: false after td__fail. */
bool           td__module_may_change(td_module *m, const char *who);
/* The entry of that own name; NULL: none. */
td_own_tensor *td__module_own(td_module *m, const char *name);
/* As td_module_flat, but nobody owns it: NULL after td__fail; td__flat_free frees. */
td_flat       *td__module_flat(td_module *m);
void           td__flat_free(td_flat *f); /* NULL is fine */
/* Frees m and what only it has, whoever its parents are. */
void           td__module_destroy(td_module *m);
/* Appends an entry that holds t; takes nothing over. False after td__fail. */
bool           td__module_add(td_module *m, const char *name, td_own_tensor own);
bool           td__module_adopt(td_module *m, const char *name, td_module *child);

#endif

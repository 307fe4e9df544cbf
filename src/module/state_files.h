/* module/state_files.h -- state under names in .safetensors files, of which a file may
 * have several, each under a prefix: "module.", "optim.". */
#ifndef TD_STATE_FILES_H
#define TD_STATE_FILES_H

#include "core/core.h"
#include "tandem/io.h"
#include "tandem/module.h"

/* Tensors to be saved. Zeroed but for cx at first; td__state_end frees it. */
typedef struct td_state_out {
    td_ctx  *cx;
    td_arena arena;
    TD_VEC(const char *) names;
    TD_VEC(td_tensor *) tensors;
} td_state_out;
/* Adds a tensor as prefix + name. False after td__fail. */
bool td__state_add(td_state_out *s, const char *prefix, const char *name, td_tensor *t);
void td__state_end(td_state_out *s);

/* The part of an open file that is loaded. */
typedef struct td_state_in {
    td_ctx         *cx;
    const char     *who, *path; /* for messages */
    td_safetensors *file;
    const char     *prefix; /* of the names of the part; "": all */
} td_state_in;
/* The file's tensor prefix + name; NULL: there is none, nil: after a failure. */
td_tensor *td__state_get(const td_state_in *in, const char *name);

/* Adds parameters and persistent buffers by name. False after td__fail. */
bool td__module_state(td_module *m, const char *prefix, td_state_out *s);
/* Loads in two steps: the first matches and checks everything, the second writes and
 * cannot fail but for memory. NULL after td__fail. */
typedef struct td_module_load_plan td_module_load_plan;
td_module_load_plan *td__module_load_begin(td_module *m, const td_state_in *in,
                                           const td_load_opts *opts);
bool                 td__module_load_write(td_module_load_plan *l);
void                 td__module_load_end(td_module_load_plan *l); /* NULL is allowed */

#endif

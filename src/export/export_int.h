/* export/export_int.h -- what the files of exports share. */
#ifndef TD_EXPORT_INT_H
#define TD_EXPORT_INT_H

#include "aot/aot.h"
#include "tandem/tree.h"

struct td_exported {
    TD_OWNED_FIELDS;
    td_graph *g; /* pure: primals and tangents to forward outputs and gradients */
    td_graph *epilogue; /* primals and forward outputs to results; writes primals */
    td_gfile *file;     /* owns both; NULL: they are owned themselves */
    char     *in_tree, *out_tree; /* NULL: not said */
};

/* Takes over the graphs or the file they are in, also when it fails. Trees are copied.
 * The nil object after td__fail. */
td_exported *td__exported_make(td_graph *g, td_graph *epilogue, td_gfile *file,
                               const char *in_tree, const char *out_tree);

#endif

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

/* What a function computes, traced for td_export_c: the pure graph with its writes at
 * the end, the epilogue, and the values of the graph's inputs. */
typedef struct td_traced {
    td_graph *g, *epilogue;
    td_value *in;        /* by input of g without tangents; borrowed tensors */
    int       n_forward; /* outputs of g before the gradients */
} td_traced;

/* Traces f on these arguments (with its state); f stays as it was. The caller frees
 * both graphs and the list. False after td__fail. */
bool td__export_trace(td_fn *f, td_values args, const td_export_opts *o, td_traced *to);

#endif

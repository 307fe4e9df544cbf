/* tandem/graph.h -- graphs from text: parse, inspect, print, run. docs/text-format.md
 * describes the text. */
#ifndef TANDEM_GRAPH_H
#define TANDEM_GRAPH_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_gfile td_gfile; /* the functions and cases of a .td text */
typedef struct td_graph td_graph; /* a function; owned by its file */

/* Reads a .td file, or text in memory.
 *
 *   returns  nil after a failure
 *   owns     the caller, until td_graphs_drop or td_close, in any order
 *   fails    TD_E_IO   no such file
 *            TD_E_ARG  "file:line:column: rule"
 *   since    0.1
 */
TD_API td_gfile *td_graphs_read(td_ctx *cx, const char *path);
TD_API td_gfile *td_graphs_parse(td_ctx *cx, const char *text, size_t n,
                                 const char *name);
TD_API void      td_graphs_drop(td_gfile *f); /* NULL is allowed */

TD_API int       td_graphs_count(const td_gfile *f);
TD_API td_graph *td_graphs_at(const td_gfile *f, int i);              /* NULL: none */
TD_API td_graph *td_graphs_find(const td_gfile *f, const char *name); /* NULL: none */

TD_API td_ctx     *td_graph_ctx(const td_graph *g);
TD_API const char *td_graph_name(const td_graph *g);
TD_API int td_graph_inputs(const td_graph *g);  /* number of inputs of td_graph_run */
TD_API int td_graph_outputs(const td_graph *g); /* and of its outputs */
TD_API int td_graph_nodes(const td_graph *g);
/* A hash of its meaning, stable across processes. */
TD_API uint64_t td_graph_hash(const td_graph *g);

/* Writes the graph's text, at most cap bytes including the final NUL; returns the
 * length of the text, 0 if memory is exhausted. */
TD_API size_t td_graph_format(const td_graph *g, char *out, size_t cap);

/* Calls the graph's ops one by one. An input that no node and no output reads may be
 * absent (TD_K_NONE): runners pass it on for a missing tangent.
 *
 *   returns  false if an op fails; out is all nil then
 *   owns     results belong to the innermost scope
 *   aliases  as the ops say: inputs may be written, outputs may be views of them
 *   fails    as its ops; TD_E_ARG for a wrong number of inputs or outputs
 *   grad     recorded as in eager calls
 *   since    0.1 */
TD_API bool td_graph_run(const td_graph *g, const td_value *in, int n_in, td_value *out,
                         int n_out);

#ifdef __cplusplus
}
#endif

#endif

/* backend/backend.h -- a backend turns a graph into something that runs. The
 * interpreter is one; users may bring their own (tandem/aot.h). */
#ifndef TD_BACKEND_H
#define TD_BACKEND_H

#include "graph/graph.h"
#include "tandem/aot.h"

/* Calls the graph's ops one after another, below all modes. The graph must outlive
 * the code. */
extern const td_backend td__interp;

/* Compiles with `b`, or fails with its name in the message. */
bool td__compile(td_ctx *cx, const td_backend *b, const td_graph *g,
                 const td_compile_info *info, td_runner *code);
void td__runner_drop(td_runner *code); /* leaves it empty; an empty one is fine */

#endif

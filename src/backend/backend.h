/* backend/backend.h -- a backend compiles a graph to a td_runner. The interpreter and
 * native code are built in; users can supply their own (tandem/aot.h). */
#ifndef TD_BACKEND_H
#define TD_BACKEND_H

#include "graph/graph.h"
#include "tandem/aot.h"

/* Calls the graph's ops one by one, below all modes. The graph must outlive the
 * runner. */
extern const td_backend td__interp;

/* Fused native code for the CPU (docs/native.md). The graph need not outlive the
 * runner. */
extern const td_backend td__native;

/* For tests: interprets the simplified graph that native code is generated from.
 * Native code must give the same results, up to the order of summation. */
extern const td_backend td__replayed;

/* Native code; if there is no compiler or the disk is full, the interpreter with a
 * warning. */
extern const td_backend td__auto;

/* Makes a runner that replays g, node by node or by `walk` (td_replay.walk). The
 * runner owns env and calls env_drop on it; after a failure the caller still owns it.
 * False after td__fail. */
typedef bool td_walk_fn(void *env, td_replay *r);
bool         td__runner_make(const td_graph *g, td_walk_fn *walk, void *env,
                             void (*env_drop)(void *env), td_runner *to);
td_replay   *td__runner_replay(
      const td_runner *r); /* NULL: not made by td__runner_make */
/* Code that may do without the replay: fills out from in. TD_DIRECT_NOT: it cannot for
 * these inputs, and has done nothing. */
typedef enum td_direct { TD_DIRECT_NOT, TD_DIRECT_DONE, TD_DIRECT_FAILED } td_direct;
typedef td_direct td_direct_fn(void *env, const td_value *in, td_value *out);
/* Calls direct, with the env of td__runner_make, in each run first. */
void              td__runner_direct(td_runner *r, td_direct_fn *direct);
/* After code that has no `take` of its own ran: drops the inputs it owns, unless it
 * returns them. out[] is all NONE or nil after a failure. own may be NULL. */
void              td__drop_owned(const td_graph *g, const td_value *in, const bool *own,
                                 const td_value *out);
/* Runs a backward graph op by op under the user's modes. The modes see the ops of
 * derivatives; recomputed forward ops are hidden, because they were seen in the
 * forward. The outputs are no views, like those of compiled code. False after
 * td__fail. */
bool td__replay_under_modes(const td_graph *g, const td_value *in, td_value *out);

/* Appends kernels, calls and memory of native code; nothing for another runner. */
void td__native_report(td_buf *b, const td_runner *r, const char *what);

/* One step of native code: a kernel, or a call of an op. */
typedef struct td_native_part {
    const char *label;         /* also the name of its span */
    const char *code;          /* C of the kernel; NULL: a call */
    int64_t     read, written; /* bytes per run; -1: the sizes are unknown */
} td_native_part;
int            td__native_parts(const td_runner *r); /* 0: not native code */
bool           td__native_found(const td_runner *r); /* read from the cache on disk? */
td_native_part td__native_part(const td_runner *r, int i);
/* Appends the loop nest of kernel i, before it became C. False: out of memory. */
bool           td__native_nest(td_buf *b, const td_runner *r, int i);

/* ---- compile_graph.c, code_image.c --------------------------------------- */

/* Compiles g with backend b, or reads its code from the disk cache. False after
 * td__fail; the message names the backend. */
bool    td__compile(td_ctx *cx, const td_backend *b, const td_graph *g,
                    const td_compile_info *info, td_runner *code);
/* td__compile between the calls of td_on_compile; on may be NULL. */
bool    td__compile_told(td_ctx *cx, const td_backend *b, const td_graph *g,
                         const td_compile_info *info, const td_on_compile *on,
                         td_runner *code);
/* Calls on->begin and on->end; what begin returns is for end. on may be NULL. */
int64_t td__compile_begin(td_ctx *cx, const td_on_compile *on,
                          const td_compile_info *info);
void td__compile_end(td_ctx *cx, const td_on_compile *on, const td_compile_info *info,
                     int64_t since, td_compiled how);
/* td__compile_told for a graph with values of a type: its inner tensors are compiled
 * (flat_types.c). */
bool td__compile_typed(td_ctx *cx, const td_backend *b, const td_graph *g,
                       const td_compile_info *info, const td_on_compile *on,
                       td_runner *code);
/* The runner that computes: r, or that of the inner tensors. */
const td_runner *td__runner_inside(const td_runner *r);
void td__runner_drop(td_runner *code); /* an empty runner is allowed, and is left */

/* Where the code of a user's backend is in the disk cache. */
typedef struct td_code_entry {
    char   name[48]; /* "u_..."; "": it is not cached */
    td_buf key;      /* what entries of this build are written for */
} td_code_entry;
/* Finds code of g by b in the disk cache; fills *at for td__code_store. False: there
 * is none, and no error. */
bool td__code_find(const td_backend *b, const td_graph *g, const td_compile_info *info,
                   td_code_entry *at, td_runner *code);
/* Writes code to the disk cache, unless at->name is "". Never fails a call. */
void td__code_store(const td_backend *b, const td_graph *g, const td_code_entry *at,
                    const td_runner *code);

#endif

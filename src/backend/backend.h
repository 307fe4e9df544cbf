/* backend/backend.h -- a backend turns a graph into something that runs. The
 * interpreter is one; users may bring their own (tandem/aot.h). */
#ifndef TD_BACKEND_H
#define TD_BACKEND_H

#include "graph/graph.h"
#include "tandem/aot.h"

/* Calls the graph's ops one after another, below all modes. The graph must outlive
 * the code. */
extern const td_backend td__interp;

/* Fused native code for the CPU (docs/native.md). The graph need not outlive it. */
extern const td_backend td__native;

/* The graph that native code is made of, replayed op by op: loops must give the same,
 * but for the order of sums. For tests. */
extern const td_backend td__replayed;

/* Native code, or the interpreter with a warning: no compiler, no room on the disk. */
extern const td_backend td__auto;

/* A runner that replays g, or walks it in another way (td_replay.walk). `env_drop` is
 * called on env in the end, not when this fails. */
typedef bool td_walk_fn(void *env, td_replay *r);
bool         td__runner_make(const td_graph *g, td_walk_fn *walk, void *env,
                             void (*env_drop)(void *env), td_runner *to);
td_replay   *td__runner_replay(const td_runner *r); /* NULL: it was not made so */
/* Runs a backward graph op by op under the modes that are pushed. They hear the ops of
 * derivatives; ops of the forward that it recomputes they have heard, or were not there
 * to hear. Its outputs are plain tensors, like those of compiled code. */
bool         td__replay_heard(const td_graph *g, const td_value *in, td_value *out);

/* What native code is made of, in lines; nothing where it is not native. */
void td__native_report(td_buf *b, const td_runner *r, const char *what);

/* A step of native code: a kernel, or an op that is called. */
typedef struct td_native_part {
    const char *label;         /* also the name of its span */
    const char *code;          /* C of the kernel; NULL: an op is called */
    int64_t     read, written; /* bytes in one run; -1: its sizes are not known */
} td_native_part;
int            td__native_parts(const td_runner *r); /* 0: it is no native code */
td_native_part td__native_part(const td_runner *r, int i);
/* The loops of a kernel before they became C; false: no memory. */
bool           td__native_nest(td_buf *b, const td_runner *r, int i);

/* Compiles with `b`, or fails with its name in the message. */
bool td__compile(td_ctx *cx, const td_backend *b, const td_graph *g,
                 const td_compile_info *info, td_runner *code);
void td__runner_drop(td_runner *code); /* leaves it empty; an empty one is fine */

#endif

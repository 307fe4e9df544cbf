/* tandem/config.h -- what can be tuned: settings, logs by topic, stage timings.
 *
 * A context has one td_config. When it opens, each field has its default, or what
 * its environment variable says (TD_MEMORY_BUDGET=0.5); `tandem config` lists them
 * all. A compiled function takes the settings of the moment it is compiled. A wrong
 * value in the environment is one warning and the default; in a call it is an error
 * and nothing changes. */
#ifndef TANDEM_CONFIG_H
#define TANDEM_CONFIG_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings ----------------------------------------------------------- */

typedef enum td_shapes {
    TD_SHAPES_AUTO,    /* a size that changed becomes symbolic */
    TD_SHAPES_DYNAMIC, /* every size but 0 and 1, at once */
    TD_SHAPES_STATIC,  /* none: other sizes are another specialization */
    TD_SHAPES_MARKED   /* those marked with td_mark_dynamic alone */
} td_shapes;
typedef enum td_partition { TD_PARTITION_MINCUT, TD_PARTITION_DEFAULT } td_partition;
typedef enum td_knapsack { TD_KNAPSACK_DP, TD_KNAPSACK_GREEDY } td_knapsack;
typedef enum td_backend_choice {
    TD_BACKEND_AUTO,   /* native, or interp with a warning where that cannot be */
    TD_BACKEND_NATIVE, /* native, or an error */
    TD_BACKEND_INTERP
} td_backend_choice;
typedef enum td_fallback {
    TD_FALLBACK_ERROR, /* what cannot be compiled is an error */
    TD_FALLBACK_EAGER  /* ...or runs as it is, with a warning */
} td_fallback;

/* docs/config.md describes the fields; src/core/config.def declares their defaults
 * and ranges. Options carry their size: td_config c = {TD_CONFIG}. Texts are borrowed
 * in td_config_put and belong to the context in td_config_get, until they change. */
typedef struct td_config {
    TD_SIZE(td_config);
    /* capture */
    td_shapes dynamic            TD_0;
    bool duck_sizes              TD_0;
    bool static_params           TD_0;
    int64_t specialization_limit TD_0;
    td_fallback fallback         TD_0;
    /* joint graph and wrappers */
    bool keep_mutations          TD_0;
    bool double_backward         TD_0;
    bool donated_buffers         TD_0;
    bool merge_writes            TD_0;
    bool merge_made              TD_0;
    bool assign_writes           TD_0;
    bool functional_rng          TD_0;
    bool debug_asserts           TD_0;
    /* partition */
    td_partition partition       TD_0;
    double memory_budget         TD_0;
    td_knapsack knapsack         TD_0;
    bool cse                     TD_0;
    bool free_params             TD_0;
    bool recompute_views         TD_0;
    bool aggressive_recompute    TD_0;
    bool ban_far_apart           TD_0;
    bool ban_long_chains         TD_0;
    bool ban_materialized        TD_0;
    bool ban_reductions          TD_0;
    /* compiling */
    td_backend_choice backend    TD_0;
    bool lazy_backward           TD_0;
    int64_t backward_limit       TD_0;
    /* native code */
    const char *cc               TD_0;
    const char *cc_flags         TD_0;
    int64_t cc_seconds           TD_0;
    const char *cache_dir        TD_0;
    int64_t cache_disk_mb        TD_0;
    const char *cache_remote     TD_0;
    const char *cache_remote_key TD_0;
    int64_t cache_remote_ms      TD_0;
    /* looking */
    const char *log              TD_0;
    const char *trace_file       TD_0;
    bool strict                  TD_0;
    const char *device_path      TD_0;
    bool device_graphs           TD_0;
    bool pack_products           TD_0; /* of native code */
    bool place_pieces            TD_0; /* likewise */
} td_config;
#define TD_CONFIG .td_config_size = sizeof(td_config)

/* Fills *c, whose size says how much of it the caller knows. */
TD_API bool   td_config_get(td_ctx *cx, td_config *c);
/* Takes all of *c, or nothing and false with TD_E_ARG naming the first wrong field.
 * Start from td_config_get; fields beyond c->size stay as they are. */
TD_API bool   td_config_put(td_ctx *cx, const td_config *c);
/* One setting by name, as text: td_config_set(cx, "memory_budget", "0.5").
 *   fails  TD_E_ARG  no such name (with the nearest one), not a value of it (with
 *                    its range), or one that is fixed when the process starts */
TD_API bool   td_config_set(td_ctx *cx, const char *name, const char *value);
/* The value as td_config_set takes it. Writes at most cap bytes with the final NUL;
 * returns the length it wants, 0 and an error when there is no such name. */
TD_API size_t td_config_text(td_ctx *cx, const char *name, char *out, size_t cap);

/* ---- logs --------------------------------------------------------------- */

/* TD_LOG=graphs,guards or td_config_set(cx, "log", "graphs,guards") choose topics;
 * "all" is every one. Warnings always come, under the topic "warning". */

/* One message, on the thread of its context: a line, or a heading and the text it
 * announces below it. No newline at the end. What the callback itself causes to be
 * logged is dropped. */
typedef void td_log_fn(void *env, const char *topic, const char *text);
/* Where messages go; NULL: to stderr, as at first. */
TD_API void  td_log_to(td_ctx *cx, td_log_fn *fn, void *env);

/* ---- stage timings ------------------------------------------------------ */

/* Writes what the compiler does and when to a file for Perfetto (ui.perfetto.dev)
 * or chrome://tracing; TD_TRACE=file does it for a whole run, and %p in a name stands
 * for the number of the process, as processes do not share one. Contexts and threads
 * may share a file, and it is complete after every event, also if the process is
 * killed. A file that cannot be written is one warning, and false here; nothing
 * else fails. A context writes one file at a time. */
TD_API bool td_trace_start(td_ctx *cx, const char *path);
TD_API void td_trace_stop(td_ctx *cx);

#ifdef __cplusplus
}
#endif

#endif

/* tandem/export.h -- a module or a function as text: a pure graph that says what its
 * inputs and outputs are (parameters, buffers, arguments; new values of what is
 * written, results, the loss, gradients), and the epilogue, which writes inputs as the
 * function does. It parses back, and runs without the code it was made from.
 * docs/aot.md says what can be exported and what not.
 *
 *     td_exported *e = td_export_module(m, TD_ARGS(x), NULL);
 *     td_exported_save(e, "net.td");
 *     td_exported_drop(e);
 */
#ifndef TANDEM_EXPORT_H
#define TANDEM_EXPORT_H

#include "tandem/aot.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_exported td_exported;

typedef enum td_export_what {
    TD_EXPORT_AUTO,    /* FORWARD of modules, TANGENTS of functions */
    TD_EXPORT_FORWARD, /* results only */
    TD_EXPORT_LOSS,    /* and the gradients of one of them */
    TD_EXPORT_TANGENTS /* and gradients, given one for each differentiable result */
} td_export_what;

typedef struct td_export_opts {
    TD_SIZE(td_export_opts);
    const char *name      TD_0; /* of the graph; NULL: the module's type, or "f" */
    td_export_what what   TD_0;
    int loss              TD_0;        /* TD_EXPORT_LOSS: which result */
    bool keep_mutations   TD_0;        /* writes stay, at the end of the graph */
    const char *decompose TD_0;        /* as in td_aot_opts */
    int n_params TD_0, n_buffers TD_0; /* of td_export_joint */
    const char *const *state_names TD_0;
    const char *in_tree            TD_0,
        *out_tree                  TD_0; /* specs of arguments and results, or NULL */
    td_shapes dynamic   TD_0; /* TD_SHAPES_DYNAMIC: sizes of arguments are symbols */
    bool functional_rng TD_0; /* seed and offset are inputs, the new offset an output */
    /* A pure function: unsupported if it writes an argument, returns a view of one or
     * two results that share a storage, or takes arguments that do. The epilogue then
     * only returns the results. */
    bool simple         TD_0;
} td_export_opts;
#define TD_EXPORT_OPTS .td_export_opts_size = sizeof(td_export_opts)

/* For arguments like these, in the mode the module is in.
 *
 *   returns  nil after a failure
 *   owns     the caller, until td_exported_drop or td_close, in any order
 *   fails    TD_E_UNSUPPORTED  what docs/aot.md lists
 *            TD_E_ARG          no such result; a tree of other leaves
 *            TD_E_GRAD         the loss is no scalar, or requires no grad
 *            any other         as td_capture does
 *   since    0.1
 */
TD_API td_exported *td_export_module(td_module *m, td_values args,
                                     const td_export_opts *opts);
TD_API td_exported *td_export_joint(td_ctx *cx, td_body *body, void *env,
                                    td_values args, const td_export_opts *opts);
TD_API void         td_exported_drop(td_exported *e); /* NULL is fine */

/* ---- the signature ------------------------------------------------------ */

/* Inputs: parameters, buffers, arguments, tangents, tokens. Outputs: results,
 * gradients, tokens. A function that calls ops with an ordered effect has tokens
 * (TD_SLOT_TOKEN); td_exported_run makes those that are passed as td_value_none. With
 * functional_rng, and if the graph draws, seed and offset come after all inputs, and
 * the new offset after all outputs: 0-d i64 tensors (docs/random.md). */
TD_API int     td_exported_inputs(const td_exported *e);
TD_API int     td_exported_outputs(const td_exported *e);
TD_API td_slot td_exported_input(const td_exported *e, int i);
TD_API td_slot td_exported_output(const td_exported *e, int i);
/* The first input (output) of that kind and index; -1: none. */
TD_API int td_exported_find_input(const td_exported *e, td_slot_kind kind, int index);
TD_API int td_exported_find_output(const td_exported *e, td_slot_kind kind, int index);
/* Which output the loss is; -1: there is none. */
TD_API int td_exported_loss(const td_exported *e);
TD_API const char     *td_exported_in_tree(const td_exported *e);  /* NULL: not said */
TD_API const char     *td_exported_out_tree(const td_exported *e); /* NULL: not said */
/* The pure graph. Its inputs are those of the export and tensors closed over. Its
 * outputs are values in program order, each with a descriptor (new elements of an
 * input, a result), then the gradients. */
TD_API const td_graph *td_exported_graph(const td_exported *e);
/* What a call does after the graph: its inputs are those of the graph without tangents,
 * then the graph's outputs without gradients; its outputs are the results. */
TD_API const td_graph *td_exported_epilogue(const td_exported *e);

/* ---- running and files -------------------------------------------------- */

/* Runs the graph on all inputs of the export, then the epilogue: inputs are written as
 * the function writes them. out gets the results and gradients, tensors of the
 * innermost scope that require no grad, none where there is no gradient. False after a
 * failure: TD_E_ARG names an input of another dtype or other sizes. Nothing is written
 * before the graph has run. A failure of the epilogue itself (an input that is
 * read-only, memory, a symbolic size that a changed file states wrongly) leaves the
 * inputs that it had written by then, as the function would. */
TD_API bool         td_exported_run(const td_exported *e, td_values in, td_value *out,
                                    int n_out);
/* Graph and epilogue as text. Writes at most cap bytes with the final NUL;
 * returns the length it wants. */
TD_API size_t       td_exported_text(const td_exported *e, char *out, size_t cap);
TD_API td_exported *td_exported_parse(td_ctx *cx, const char *text, size_t n,
                                      const char *name);
TD_API bool         td_exported_save(const td_exported *e, const char *path);
TD_API td_exported *td_exported_load(td_ctx *cx, const char *path);

/* ---- C files ------------------------------------------------------------ */

typedef enum td_c_weights {
    TD_C_WEIGHTS_AUTO,  /* an array up to 1 MiB, then a file */
    TD_C_WEIGHTS_ARRAY, /* weights.c */
    TD_C_WEIGHTS_FILE   /* weights.bin, which the program maps or reads */
} td_c_weights;

typedef struct td_export_c_opts {
    TD_SIZE(td_export_c_opts);
    const char *name     TD_0; /* prefix of C names; NULL: "model" */
    td_export_what what  TD_0; /* AUTO: FORWARD, which of a step is all of it */
    int loss             TD_0; /* TD_EXPORT_LOSS: which result */
    td_c_weights weights TD_0;
} td_export_c_opts;
#define TD_EXPORT_C_OPTS .td_export_c_opts_size = sizeof(td_export_c_opts)

/* Writes a function as C99 that needs libc and libm only: model.h, model.c, the
 * weights, an example main.c and a Makefile, into `dir`, which is made if it does not
 * exist. f is of td_aot_function, td_aot_module, td_aot_graph or td_aot_step; the code
 * is for arguments like these. Parameters, buffers and tensors closed over (the state
 * of an optimizer) become state of the model, with the values they have now.
 * docs/artefact.md describes the files, the memory and the ops that are supported.
 *
 *   returns  false after a failure; files may be incomplete
 *   fails    TD_E_UNSUPPORTED  an op without a C function, symbolic sizes, tensors of a
 *                              type, number arguments, results that share bytes with a
 *                              written argument
 *            TD_E_ARG          a name that is no C identifier; as td_export_joint does
 *            TD_E_IO           the directory or a file cannot be written
 *   since    0.1
 */
TD_API bool td_export_c(td_fn *f, td_values args, const char *dir,
                        const td_export_c_opts *opts);

#ifdef __cplusplus
}
#endif

#endif

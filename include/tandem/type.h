/* tandem/type.h -- types of tensors. A tensor of a type has sizes, a dtype and a
 * history as any other, and no elements of its own: it consists of inner tensors and a
 * text, its metadata. A function of the type computes its ops.
 *
 *     static bool both(void *env, td_mode_call *h) {
 *         (void)env;
 *         return td_type_each(h);
 *     }
 *     static const char *const names[] = {"a", "b"};
 *     const td_type *pair = td_register_type(cx, &(td_type_opts){TD_TYPE_OPTS,
 *         .name = "pair", .inner = names, .n_inner = 2, .call = both, .version = 1});
 *     td_tensor *x = td_type_make(pair, TD_LIST(a, b), "", td_sizes(a),
 *                                 (td_ints){0}, TD_F32);
 *
 * Autograd works above the type: it records ops on x itself, and its derivatives are
 * ops on tensors of the type. Compiled functions take such tensors as arguments,
 * members, results and gradients. docs/types.md is the guide. */
#ifndef TANDEM_TYPE_H
#define TANDEM_TYPE_H

#include "tandem/mode.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_type td_type; /* registered, for the life of the process */

/* Functions of a type; docs below, at the fields. */
typedef td_tensor *td_type_plain_fn(void *env, td_tensor *t);
typedef td_tensor *td_type_pack_fn(void *env, td_tensor *plain, td_tensor *like);
typedef td_tensor *td_type_coerce_fn(void *env, td_tensor *g, const td_type *type,
                                     const char *metadata);

typedef struct td_type_opts {
    TD_SIZE(td_type_opts);
    const char *name           TD_0; /* letters, digits and _; unique in the process */
    const char *const *inner   TD_0; /* names of the inner tensors */
    int n_inner                TD_0; /* how many each tensor of the type has, up to 8 */
    /* Computes an op of which an argument has the type: with td_type_each, with
     * td_type_plain, or with td_mode_call_answer for each result. Ops that write
     * arrive as the op that computes the new value (mul for mul_), composite ops as
     * their parts. Of a view op the results must be of the type, with views of the
     * inner tensors; other ops may answer with any tensors of the op's sizes and
     * dtype. It must not depend on elements. Runs while functions are compiled, too. */
    td_mode_fn *call           TD_0;
    /* The tensor with elements that t stands for. NULL: td_type_plain fails. */
    td_type_plain_fn *plain    TD_0;
    /* Makes a tensor of the type, like `like`, of plain elements: for writes whose new
     * value is a plain tensor. NULL: such writes fail. */
    td_type_pack_fn *pack      TD_0;
    /* A gradient g of this type, where compiled code was made for another type or other
     * metadata; `type` NULL: for a plain tensor. NULL, or nil: an error. */
    td_type_coerce_fn *coerce  TD_0;
    /* Stands for the C functions in cached code: change it when they change. 0:
     * functions that take tensors of the type are not cached on disk. */
    uint64_t version           TD_0;
    void *env                  TD_0; /* of the functions */
    /* Pairs of op names, ended by NULL: where an argument has the type, the second op
     * is called in place of the first, with the same arguments, and autograd records it
     * with a derivative of its own. For a view op that the type computes as a new
     * tensor, and an op whose gradient has the type. The strings must stay. */
    const char *const *instead TD_0;
    /* Tensors of the type of equal sizes and metadata may have inner tensors of other
     * sizes: the sum of two gradients is a new tensor, not a write to the first. */
    bool varies                TD_0;
} td_type_opts;
#define TD_TYPE_OPTS .td_type_opts_size = sizeof(td_type_opts)

/* Adds a type to this process, for all contexts and for good. Registering the same
 * again returns the first. NULL after a failure.
 *   fails  TD_E_ARG  a field is missing or wrong, or another type has the name */
TD_API const td_type *td_register_type(td_ctx *cx, const td_type_opts *opts);

/* A tensor of the type. The inner tensors are aliased without their histories: a write
 * to one of them changes x, too. Equal metadata is equal text (NULL: ""). An empty list
 * of strides stands for row-major ones. nil on failure.
 *   fails  TD_E_ARG  another number of inner tensors, or of another context */
TD_API td_tensor *td_type_make(const td_type *type, td_tensors inner,
                               const char *metadata, td_ints size, td_ints stride,
                               td_dtype dtype);

/* The type of t; NULL: a plain tensor. */
TD_API const td_type *td_type_of(const td_tensor *t);
TD_API const char    *td_type_name(const td_type *type);    /* "" for NULL */
TD_API const char    *td_type_metadata(const td_tensor *t); /* "" of a plain tensor */
TD_API int            td_type_inner_count(const td_tensor *t); /* 0 of a plain tensor */
/* Inner tensor i, as an alias without history. A captured body may read it, neither
 * write nor return it. nil on failure.
 *   fails  TD_E_INDEX  there is no such inner tensor */
TD_API td_tensor     *td_type_inner(td_tensor *t, int i);

/* ---- for td_type_opts.call ---------------------------------------------- */

/* Computes the op once for each inner tensor: in every argument of the type, the inner
 * tensors take its place. The results are of the type, with the same metadata. For
 * types whose inner tensors have the sizes of the tensor. Arguments of the type must
 * have equal metadata. */
TD_API bool td_type_each(td_mode_call *h);
/* Computes the op on plain tensors (td_type_opts.plain); so are the results. */
TD_API bool td_type_plain(td_mode_call *h);

#ifdef __cplusplus
}
#endif
#endif

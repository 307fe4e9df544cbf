/* tandem/facts.h -- what a function does to its inputs and what its results are, as
 * data: the table that `tandem facts` prints. The terms are those of AOTAutograd's
 * metadata (ViewAndMutationMeta); docs/explain.md, *Facts*, names the counterparts.
 *
 *     td_facts *facts = td_fn_facts(f, TD_ARGS(x, w));
 *     for (int i = 0; facts && i < facts->n_in; i++)
 *         if (facts->in[i].mutates_data) printf("writes %s\n", facts->in[i].name);
 *     td_facts_drop(facts); */
#ifndef TANDEM_FACTS_H
#define TANDEM_FACTS_H

#include "tandem/aot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a write to an input happens: in the compiled graph (keep_mutations), or
 * after it, in the epilogue. */
typedef enum td_mutation {
    TD_NOT_MUTATED,
    TD_MUTATED_IN_GRAPH,
    TD_MUTATED_OUT_GRAPH
} td_mutation;

/* What the function does to an input. */
typedef struct td_input_fact {
    const char *name;          /* as in the graph's text; "": it has none */
    bool        tensor;        /* false: a number or absent, and the rest is unset */
    bool        is_leaf;       /* before the call */
    bool        requires_grad; /* after the call: a write may have made it so */
    bool        mutates_data, mutates_metadata, mutates_storage;
    bool        hidden;  /* every write bypasses versions: true without a write only */
    bool        no_grad; /* it is written, and always under no_grad */
    bool        resized; /* its storage grows */
    bool        is_static; /* a parameter or buffer */
    int         duplicate; /* the same tensor as this earlier input; -1: of none */
    td_mutation mutation;
} td_input_fact;

/* Dtype and geometry of a tensor. */
typedef struct td_tensor_type {
    td_dtype       dtype;
    int            rank;
    const int64_t *size, *stride;
    int64_t        offset; /* in elements */
} td_tensor_type;

/* One view op between a base and a result, base first. */
typedef struct td_view_op {
    const char     *op; /* "select" */
    int             nr; /* which result of an op with several; -1: it has one */
    int             n_in;
    const td_value *in; /* its arguments; in[0] is absent: what is viewed */
} td_view_op;

/* What a result is. */
typedef enum td_output_kind {
    TD_OUT_NON_ALIAS,   /* a value of its own */
    TD_OUT_CUSTOM_VIEW, /* a view of an input, through a custom function */
    TD_OUT_IS_INPUT,
    TD_OUT_ALIAS_OF_INPUT,
    TD_OUT_UNSAFE_VIEW,     /* the only view of an intermediate */
    TD_OUT_ALIAS_OF_OUTPUT, /* its base, or a result like it, is result `base` */
    TD_OUT_ALIAS_OF_BASE,   /* of intermediate `base`, which is saved as an output */
    TD_OUT_ALIAS_SAVES_BASE /* the first result with that base */
} td_output_kind;

typedef struct td_output_fact {
    td_output_kind kind;
    int            base;       /* input, result or intermediate base; -1: none */
    td_kind        value_kind; /* TD_K_TENSOR, or a number, or TD_K_NONE: absent */
    bool           requires_grad, for_backward;
    bool           multi;     /* came through a view op with several results */
    bool           has_views; /* views[] leads from the base to the result */
    int            n_views;
    td_view_op    *views;
    uint64_t       dynamic; /* a bit per dim whose size is symbolic */
    td_tensor_type type;
} td_output_fact;

typedef enum td_tangent_of {
    TD_TANGENT_INPUT,
    TD_TANGENT_OUTPUT,
    TD_TANGENT_BASE
} td_tangent_of;

/* A gradient that the backward takes, in this order. */
typedef struct td_tangent_fact {
    td_tangent_of  of; /* the new value of an input, a result, or a base */
    int            index;
    td_tensor_type type; /* with the strides it is expected to have */
} td_tangent_fact;

typedef struct td_facts {
    const char      *name; /* of the function */
    int              n_in, n_out, n_bases, n_tangents;
    td_input_fact   *in;    /* members of a module first, then arguments */
    td_output_fact  *out;   /* results */
    td_output_fact  *bases; /* intermediates that become outputs for backward */
    td_tangent_fact *tangents;
    int              grad_mode;      /* what it leaves: -1 as it was, 0 off, 1 on */
    bool             random;         /* it draws random numbers */
    bool             trains;         /* there is something to differentiate */
    bool             keep_mutations; /* writes may stay in the graph */
} td_facts;

/* The facts of a call with arguments like these, for their sizes. The body is captured
 * and nothing is compiled; the arguments are only inspected.
 *
 *   returns  NULL after a failure
 *   owns     the caller, until td_facts_drop or td_close, in any order
 *   fails    as td_invoke does when it captures the body
 *   since    0.1 */
TD_API td_facts *td_fn_facts(td_fn *f, td_values args);
TD_API void      td_facts_drop(td_facts *facts); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif

/* aot/facts.h -- how a program mutates its inputs and aliases its outputs, in terms of
 * AOTAutograd's metadata analysis. Facts are derived from the trace that makes the
 * joint graph; nothing is compiled from them. */
#ifndef TD_FACTS_H
#define TD_FACTS_H

#include "joint/event_log.h"
#include "joint/joint.h"

typedef enum td_mutation {
    TD_NOT_MUTATED,
    TD_MUTATED_IN_GRAPH,
    TD_MUTATED_OUT_GRAPH
} td_mutation;

/* What a program does to an input. */
typedef struct td_input_fact {
    bool        tensor;
    bool        is_leaf;       /* before */
    bool        requires_grad; /* after: a write may have made it so */
    bool        mutates_data, mutates_metadata, mutates_storage;
    bool        hidden;    /* every write passed by autograd; true without any */
    bool        no_grad;   /* it was written, always with gradients off */
    bool        resized;   /* its storage grew */
    bool        is_static; /* a parameter or buffer */
    int         duplicate; /* the same tensor as this earlier input; -1: of none */
    td_mutation mutation;
} td_input_fact;

/* One view op between a base and a result, base first. */
typedef struct td_view_op {
    td_op     op;
    int       nr;   /* which result */
    int       n_in; /* in[0] is NONE: what is viewed */
    td_value *in;
} td_view_op;

typedef enum td_output_kind {
    TD_OUT_NON_ALIAS,
    TD_OUT_CUSTOM_VIEW, /* an input's, through a custom function */
    TD_OUT_IS_INPUT,
    TD_OUT_ALIAS_OF_INPUT,
    TD_OUT_UNSAFE_VIEW,     /* of an intermediate nobody else sees */
    TD_OUT_ALIAS_OF_OUTPUT, /* its base, or its like, is output `base` */
    TD_OUT_ALIAS_OF_BASE,
    TD_OUT_ALIAS_SAVES_BASE, /* the first of its base, which becomes an output */
    TD_OUT_KINDS
} td_output_kind;

typedef struct td_output_fact {
    td_output_kind kind;
    int            base; /* input, output or intermediate base; -1: none */
    uint8_t        raw;  /* td_kind: TENSOR, INT, ..., NONE */
    bool           requires_grad, for_backward;
    bool           multi;     /* came through a view op of several results */
    bool           has_views; /* a view sequence was recorded */
    int            n_views;
    td_view_op    *views;
    uint64_t       dynamic; /* bit per dim whose size is symbolic */
    td_geom        geom;
    const char    *type; /* "f32[2,3]" */
} td_output_fact;

typedef enum td_tangent_of {
    TD_TANGENT_INPUT,
    TD_TANGENT_OUTPUT,
    TD_TANGENT_BASE
} td_tangent_of;

/* A gradient that comes in from outside. */
typedef struct td_tangent_fact {
    td_tangent_of of;
    int           index;
    td_geom       geom; /* sizes and the strides it is expected to have */
} td_tangent_fact;

typedef struct td_facts {
    td_ctx          *cx;
    td_arena         arena;
    const char      *name;
    const char     **names; /* of inputs, NULL where they have none */
    int              n_in, n_out, n_bases, n_tangents;
    td_input_fact   *in;
    td_output_fact  *out;
    td_output_fact  *bases; /* intermediate bases: geometry, type, requires grad */
    td_tangent_fact *tangents;
    int              grad_mode; /* what it leaves: -1 as it was, 0 off, 1 on */
    bool             random;
    bool             trains; /* there is something to differentiate */
    bool             keep;   /* input mutations may stay in the graph */
} td_facts;

/* The facts of the program for inputs like these, as td__joint; the caller drops them.
 * NULL after td__fail. */
td_facts *td__facts(const td_graph *program, const td_value *in, bool keep_mutations);
void      td__facts_drop(td_facts *f); /* NULL is fine */
bool      td__facts_print(td_buf *b, const td_facts *f);

#endif

/* nn/plain.h -- layers without parameters: each is a row with PyTorch's name and a
 * function of a tensor and a few numbers. plain.c has activations, pools.c pools,
 * reshape.c pads, folds and samplers of planes. */
#ifndef TD_PLAIN_ROOM_H
#define TD_PLAIN_ROOM_H

#include "nn/nn.h"

typedef struct td_plain td_plain;
typedef td_tensor      *td_plain_fn(const td_plain *p, td_tensor *x);

/* The state of the module: what its function reads. */
struct td_plain {
    td_plain_fn *fn;
    td_tensor *(*own)(td_tensor *x); /* the function of td_nn_function */
    bool        training;
    bool        flag;    /* ceil_mode, align_corners or keepdim */
    double      a, b, c; /* slope, alpha, probability, bound, power or threshold */
    int64_t     i, j;    /* dims, groups or sizes */
    const char *mode;    /* static text */
    int         dims;    /* of a pool, pad or fold */
    int         n;       /* entries of `list`, where not dims */
    int64_t     kernel[3], stride[3], padding[3], dilation[3];
    int64_t     list[TD_MAX_RANK]; /* pads, or sizes */
};

typedef struct td_plain_row {
    td_module_type type;
    td_plain_fn   *fn; /* NULL: the type has a forward of its own */
} td_plain_row;

/* Calls the function of the state with the only argument. */
bool td__plain_forward(td_module *m, td_call *c);
#define TD_PLAIN(name_, fn_) TD_PLAIN_BY(name_, td__plain_forward, fn_)
/* A layer with several arguments or results has its own forward. */
#define TD_PLAIN_BY(name_, forward_, fn_) \
    { {.name = (name_), .bytes = sizeof(td_plain), .forward = (forward_)}, (fn_) }
/* Makes the layer of a row with these numbers. */
td_module *td__plain_make(td_ctx *cx, const td_plain_row *row, td_plain p);

/* A list of the constructor: one entry for all dims, or one for each. */
typedef struct td_plain_list {
    const char    *what; /* for messages */
    td_ints        given;
    const int64_t *none; /* entries if no list is given; NULL: it is required */
    int64_t        least;
} td_plain_list;
/* Expands it to `dims` entries. False after td__fail. */
bool td__plain_list(td_ctx *cx, const char *who, td_plain_list l, int dims,
                    int64_t *to);

/* An argument that may be absent: NULL then. */
static inline td_tensor *td__nn_optional(td_call *c, int i) {
    return i < td_arg_count(c) && !td_arg_absent(c, i) ? td_arg(c, i) : NULL;
}

#endif

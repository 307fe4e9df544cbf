/* kernels/dnnl_api.h -- the parts of oneDNN's C interface that differ between versions
 * 2 and 3, under one name each. Version 2 has descriptors as structs and a descriptor
 * of each operation; version 3 has descriptors as handles, which are destroyed, and
 * makes primitive descriptors in one call. All functions return true for success. */
#ifndef TD_DNNL_API_H
#define TD_DNNL_API_H

#include <dnnl.h>
#include <stdbool.h>
#include <stddef.h>

typedef dnnl_memory_desc_t td_md; /* all bits zero: none */

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t td_md_ref;
#else
typedef const dnnl_memory_desc_t *td_md_ref;
#endif

/* A convolution or one of its gradients: operands, the moves of its windows. */
typedef struct td_dnnl_conv {
    dnnl_engine_t         eng;
    dnnl_primitive_attr_t attr;
    td_md_ref   x, w, bias, y; /* gradients in the place of what they are of */
    dnnl_dims_t stride, dilation, pad;
} td_dnnl_conv;

#if DNNL_VERSION_MAJOR >= 3
static inline td_md_ref td__md(const td_md *md) { return *md; }

static inline void td__md_free(td_md *md) {
    if (*md) dnnl_memory_desc_destroy(*md);
    *md = NULL;
}

static inline bool td__md_copy(td_md *to, td_md_ref from) {
    td__md_free(to);
    return !dnnl_memory_desc_clone(to, from);
}

static inline bool td__md_tagged(td_md *md, int rank, const dnnl_dims_t dims,
                                 dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return !dnnl_memory_desc_create_with_tag(md, rank, dims, type, tag);
}

static inline bool td__md_strided(td_md *md, int rank, const dnnl_dims_t dims,
                                  const dnnl_dims_t strides) {
    return !dnnl_memory_desc_create_with_strides(md, rank, dims, dnnl_f32, strides);
}

static inline bool td__dnnl_add_sum(dnnl_post_ops_t ops) {
    return !dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static inline bool td__dnnl_matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t eng,
                                   td_md_ref a, td_md_ref b, td_md_ref c,
                                   dnnl_primitive_attr_t attr) {
    return !dnnl_matmul_primitive_desc_create(pd, eng, a, b, NULL, c, attr);
}

static inline bool td__dnnl_conv(dnnl_primitive_desc_t *pd, const td_dnnl_conv *c) {
    return !dnnl_convolution_forward_primitive_desc_create(
        pd, c->eng, dnnl_forward_training, dnnl_convolution_direct, c->x, c->w, c->bias,
        c->y, c->stride, c->dilation, c->pad, c->pad, c->attr);
}

static inline bool td__dnnl_conv_data(dnnl_primitive_desc_t *pd, const td_dnnl_conv *c,
                                      dnnl_primitive_desc_t hint) {
    return !dnnl_convolution_backward_data_primitive_desc_create(
        pd, c->eng, dnnl_convolution_direct, c->x, c->w, c->y, c->stride, c->dilation,
        c->pad, c->pad, hint, c->attr);
}

static inline bool td__dnnl_conv_weights(dnnl_primitive_desc_t *pd,
                                         const td_dnnl_conv    *c,
                                         dnnl_primitive_desc_t  hint) {
    return !dnnl_convolution_backward_weights_primitive_desc_create(
        pd, c->eng, dnnl_convolution_direct, c->x, c->w, NULL, c->y, c->stride,
        c->dilation, c->pad, c->pad, hint, c->attr);
}

#else
static inline td_md_ref           td__md(const td_md *md) { return md; }

static inline void td__md_free(td_md *md) { (void)md; }

static inline bool td__md_copy(td_md *to, td_md_ref from) { return *to = *from, true; }

static inline bool td__md_tagged(td_md *md, int rank, const dnnl_dims_t dims,
                                 dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return !dnnl_memory_desc_init_by_tag(md, rank, dims, type, tag);
}

static inline bool td__md_strided(td_md *md, int rank, const dnnl_dims_t dims,
                                  const dnnl_dims_t strides) {
    return !dnnl_memory_desc_init_by_strides(md, rank, dims, dnnl_f32, strides);
}

static inline bool td__dnnl_add_sum(dnnl_post_ops_t ops) {
    return !dnnl_post_ops_append_sum(ops, 1.0f);
}

static inline bool td__dnnl_matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t eng,
                                   td_md_ref a, td_md_ref b, td_md_ref c,
                                   dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t d;
    return !dnnl_matmul_desc_init(&d, a, b, NULL, c) &&
           !dnnl_primitive_desc_create(pd, &d, attr, eng, NULL);
}

static inline bool td__dnnl_conv(dnnl_primitive_desc_t *pd, const td_dnnl_conv *c) {
    dnnl_convolution_desc_t d;
    return !dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training,
                                                       dnnl_convolution_direct, c->x,
                                                       c->w, c->bias, c->y, c->stride,
                                                       c->dilation, c->pad, c->pad) &&
           !dnnl_primitive_desc_create(pd, &d, c->attr, c->eng, NULL);
}

static inline bool td__dnnl_conv_data(dnnl_primitive_desc_t *pd, const td_dnnl_conv *c,
                                      dnnl_primitive_desc_t hint) {
    dnnl_convolution_desc_t d;
    return !dnnl_dilated_convolution_backward_data_desc_init(&d,
                                                             dnnl_convolution_direct,
                                                             c->x, c->w, c->y,
                                                             c->stride, c->dilation,
                                                             c->pad, c->pad) &&
           !dnnl_primitive_desc_create(pd, &d, c->attr, c->eng, hint);
}

static inline bool td__dnnl_conv_weights(dnnl_primitive_desc_t *pd,
                                         const td_dnnl_conv    *c,
                                         dnnl_primitive_desc_t  hint) {
    dnnl_convolution_desc_t d;
    return !dnnl_dilated_convolution_backward_weights_desc_init(&d,
                                                                dnnl_convolution_direct,
                                                                c->x, c->w, NULL, c->y,
                                                                c->stride, c->dilation,
                                                                c->pad, c->pad) &&
           !dnnl_primitive_desc_create(pd, &d, c->attr, c->eng, hint);
}

#endif

#endif

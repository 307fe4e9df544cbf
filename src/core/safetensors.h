/* core/safetensors.h -- shared by the reader and the writer of .safetensors. */
#ifndef TD_SAFETENSORS_H
#define TD_SAFETENSORS_H

#include "core/files.h"
#include "core/utf8.h"

/* An element type of the format. */
typedef struct td_st_type {
    const char *name; /* NULL: the format has no such type */
    int         bytes;
    td_dtype    dt; /* TD_DTYPE_NONE: we have no such type */
} td_st_type;

#define TD_ST_TYPES (TD_DTYPE_COUNT + 1)
extern const td_st_type td__st_types[TD_ST_TYPES];

#endif

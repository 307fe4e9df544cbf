/* core/safetensors.h -- what reading and writing .safetensors share. */
#ifndef TD_SAFETENSORS_H
#define TD_SAFETENSORS_H

#include "core/files.h"

/* An element type of the format. */
typedef struct td_st_type {
    const char *name;
    int         bytes;
    td_dtype    dt; /* TD_DTYPE_NONE: we have no such type */
} td_st_type;

#define TD_ST_TYPES 17
extern const td_st_type td__st_types[TD_ST_TYPES];

/* Length of the UTF-8 sequence at p, 0 when there is none. */
int td__utf8_length(const uint8_t *p, const uint8_t *end);

#endif

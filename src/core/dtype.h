/* core/dtype.h -- the table of dtypes, type promotion, and access to single elements;
 * dtype.def has the rows. */
#ifndef TD_DTYPE_H
#define TD_DTYPE_H

#include "tandem/tensor.h"

/* Order matters: type promotion goes up this list. */
typedef enum td_dtype_class {
    TD_CLASS_BOOL,
    TD_CLASS_INT,
    TD_CLASS_FLOAT,
    TD_CLASS_COMPLEX
} td_dtype_class;

extern const uint8_t td__dtype_bytes[TD_DTYPE_COUNT]; /* element size */
extern const uint8_t td__dtype_classes[TD_DTYPE_COUNT];
static inline bool td__is_f8(td_dtype dt) { return dt == TD_F8E4M3 || dt == TD_F8E5M2; }
static inline bool td__is_float(td_dtype dt) { return dt <= TD_BF16 || td__is_f8(dt); }
static inline bool td__is_int(td_dtype dt) {
    return (dt >= TD_I64 && dt <= TD_U8) || (dt >= TD_U16 && dt <= TD_U64);
}
static inline bool td__is_half(td_dtype dt) { return dt == TD_F16 || dt == TD_BF16; }
/* A float that is computed and cast by way of f32: f16, bf16, f8. */
static inline bool td__is_narrow(td_dtype dt) {
    return td__is_half(dt) || td__is_f8(dt);
}
/* Ops move elements of this dtype and cast them, and do not compute with them. */
static inline bool td__is_stored(td_dtype dt) {
    return dt >= TD_U16 && dt <= TD_F8E5M2;
}
/* May an op refuse the dtype as such: complex, or stored? */
static inline bool td__is_special(td_dtype dt) { return dt >= TD_C64; }
static inline bool td__is_complex(td_dtype dt) { return dt == TD_C64 || dt == TD_C128; }
/* May a tensor of this dtype require grad: is it a float or complex? */
static inline bool td__is_differentiable(td_dtype dt) {
    return td__is_float(dt) || td__is_complex(dt);
}
/* The dtype of the real and imaginary parts; others are their own. */
static inline td_dtype td__real_of(td_dtype dt) {
    return dt == TD_C64 ? TD_F32 : dt == TD_C128 ? TD_F64 : dt;
}
/* The complex dtype whose parts have the precision of dt. */
static inline td_dtype td__complex_of(td_dtype dt) {
    return dt == TD_F64 || dt == TD_C128 ? TD_C128 : TD_C64;
}
/* Room for one element of any dtype. */
typedef struct td_element_bits {
    int64_t word[2];
} td_element_bits;

/* The common dtype of two tensors with at least one dim. Of stored dtypes: an unsigned
 * one gives way to floats and complex numbers; NONE: the others have none. */
td_dtype td__promote(td_dtype a, td_dtype b);
/* May a result of dtype `from` be stored as `to`? Not to a lower class. */
bool     td__can_cast(td_dtype from, td_dtype to);
/* Read and write one element; for scalars, printing and slow paths. Of a complex
 * element they read the real part, and write a real number. */
double   td__load_f(td_dtype dt, const void *p);
int64_t  td__load_i(td_dtype dt, const void *p);
/* The imaginary part; 0 of real dtypes. */
double   td__load_imag(td_dtype dt, const void *p);
void     td__store_f(td_dtype dt, void *p, double v);
void     td__store_i(td_dtype dt, void *p, int64_t v);
void     td__store_value(td_dtype dt, void *p, td_value number);

#endif

/* dtype.c -- the table of dtypes, type promotion, and access to single
 * elements. Bulk conversion is kernels/cast.c; this file serves scalars and
 * printing. */
#include "core/core.h"

#include <math.h>
#include <string.h>

typedef struct dtype_row {
    const char *name;
    uint8_t     bytes, klass;
} dtype_row;

static const dtype_row rows[TD_DTYPE_COUNT] = {
#define TD_DTYPE(id, text, bytes, klass, ...) \
    [TD_##id] = {text, bytes, TD_CLASS_##klass},
#include "core/dtype.def"
#undef TD_DTYPE
};
const uint8_t td__dtype_bytes[TD_DTYPE_COUNT] = {
#define TD_DTYPE(id, text, bytes, klass, ...) [TD_##id] = bytes,
#include "core/dtype.def"
#undef TD_DTYPE
};
const uint8_t td__dtype_classes[TD_DTYPE_COUNT] = {
#define TD_DTYPE(id, text, bytes, klass, ...) [TD_##id] = TD_CLASS_##klass,
#include "core/dtype.def"
#undef TD_DTYPE
};

static bool is_dtype(td_dtype dt) { return (unsigned)dt < TD_DTYPE_COUNT; }

const char *td_dtype_name(td_dtype dt) { return is_dtype(dt) ? rows[dt].name : "none"; }
size_t      td_dtype_size(td_dtype dt) { return is_dtype(dt) ? rows[dt].bytes : 0; }
bool        td_dtype_is_float(td_dtype dt) { return is_dtype(dt) && td__is_float(dt); }
bool td_dtype_is_complex(td_dtype dt) { return is_dtype(dt) && td__is_complex(dt); }

/* As PyTorch's: f8 with nothing else, u16, u32 and u64 with floats and complex only. */
static td_dtype promote_stored(td_dtype a, td_dtype b) {
    if (td__is_stored(b)) {
        td_dtype t = a;
        a = b;
        b = t;
    }
    bool gives = td__is_int(a) && !td__is_stored(b) && td__is_differentiable(b);
    return gives ? b : TD_DTYPE_NONE;
}

/* Complex numbers win over floats, floats over integers, integers over bool. Complex
 * is c128 if one of the two is c128 or f64. Among floats the wider one; f16 with bf16
 * gives f32. Among integers the wider one; u8 with i8 gives i16. */
td_dtype td__promote(td_dtype a, td_dtype b) {
    if (a == b) return a;
    if (td__is_stored(a) || td__is_stored(b)) return promote_stored(a, b);
    if (td__is_complex(a) || td__is_complex(b))
        return td__complex_of(a) == TD_C128 || td__complex_of(b) == TD_C128 ? TD_C128
                                                                            : TD_C64;
    if (rows[a].klass != rows[b].klass) return rows[a].klass > rows[b].klass ? a : b;
    if (td__is_half(a) && td__is_half(b)) return TD_F32;
    if (rows[a].bytes != rows[b].bytes) return rows[a].bytes > rows[b].bytes ? a : b;
    return TD_I16; /* u8 and i8 */
}

bool td__can_cast(td_dtype from, td_dtype to) {
    return rows[from].klass <= rows[to].klass;
}

/* Exact for every f16, with NaN payloads; subnormals are an integer times 2^-24. */
static float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fffu;
    float    f;
    if (mag >= 0x7c00) mag = 0x7f800000u | (mag & 0x3ff) << 13;
    else if (mag >= 0x400) mag = (mag << 13) + ((127u - 15) << 23);
    else { /* subnormal: an integer times 2^-24 */ f = (float)mag * 0x1p-24f;
        return sign ? -f : f;
    }
    mag |= sign;
    memcpy(&f, &mag, 4);
    return f;
}

/* Rounds to nearest even; overflow gives infinity. */
static uint16_t float_to_half(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00);  /* NaN */
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* rounds to infinity */
    if (u < 0x38800000u) {                                  /* subnormal or zero */
        float a;
        memcpy(&a, &u, 4);
        return (uint16_t)(sign | (uint16_t)nearbyintf(a * 0x1p24f));
    }
    u += 0xfffu + (u >> 13 & 1); /* nearest even */
    return (uint16_t)(sign | (u - ((127u - 15) << 23)) >> 13);
}

static float bf16_to_float(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float    f;
    memcpy(&f, &u, 4);
    return f;
}

static uint16_t float_to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* Exact. f8e5m2 is the upper byte of an f16; f8e4m3 has neither infinities nor more
 * than one NaN of each sign. */
static float f8_to_float(td_dtype dt, uint8_t b) {
    if (dt == TD_F8E5M2) return half_to_float((uint16_t)(b << 8));
    int   exp = b >> 3 & 15, low = b & 7;
    float f = (b & 0x7f) == 0x7f ? NAN
              : exp              ? ldexpf((float)(8 + low), exp - 10)
                                 : (float)low * 0x1p-9f;
    return b & 0x80 ? -f : f;
}

/* Rounds to nearest even. Beyond the largest number f8e4m3 gives that number, also for
 * infinity, and f8e5m2 infinity. */
static uint8_t float_to_f8(td_dtype dt, float f) {
    bool     four = dt == TD_F8E4M3;
    int      drop = four ? 20 : 21; /* bits of the mantissa */
    uint32_t u, bias = (127u - (four ? 7 : 15)) << 23, sign;
    memcpy(&u, &f, 4);
    sign = u >> 24 & 0x80;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint8_t)(sign | 0x7f);
    float a = fabsf(f);
    if (four && a > 448) return (uint8_t)(sign | 0x7e);
    if (a >= 61440) return (uint8_t)(sign | 0x7c);
    if (a < (four ? 0x1p-6f : 0x1p-14f)) /* a multiple of the least number */
        return (uint8_t)(sign | (uint8_t)nearbyintf(a * (four ? 0x1p9f : 0x1p16f)));
    u += (1u << (drop - 1)) - 1 + (u >> drop & 1);
    return (uint8_t)(sign | (u - bias) >> drop);
}

/* The integer a float truncates to; out of range and NaN give the minimum. */
static int64_t trunc_to_int(double v) {
    if (!(v >= -0x1p63 && v < 0x1p63)) return INT64_MIN;
    return (int64_t)v;
}

/* ...and to u64; below 0 it wraps, from 2^64 on it is 0, as PyTorch's on x86. */
static int64_t trunc_to_u64(double v) {
    if (!(v >= 0x1p63)) return trunc_to_int(v);
    return (int64_t)((uint64_t)trunc_to_int(v - 0x1p63) ^ (uint64_t)1 << 63);
}

static int64_t load_int(td_dtype dt, const void *p) {
    int64_t i64;
    int32_t i32;
    int16_t i16;
    switch (dt) {
    case TD_I64: memcpy(&i64, p, 8); return i64;
    case TD_I32: memcpy(&i32, p, 4); return i32;
    case TD_I16: memcpy(&i16, p, 2); return i16;
    case TD_I8: return *(const int8_t *)p;
    case TD_U64: memcpy(&i64, p, 8); return i64; /* its bits */
    case TD_U32: memcpy(&i32, p, 4); return (uint32_t)i32;
    case TD_U16: memcpy(&i16, p, 2); return (uint16_t)i16;
    default: return *(const uint8_t *)p;
    }
}

double td__load_f(td_dtype dt, const void *p) {
    double   d;
    float    f;
    uint16_t h;
    switch (td__real_of(dt)) {
    case TD_F64: memcpy(&d, p, 8); return d;
    case TD_F32: memcpy(&f, p, 4); return (double)f;
    case TD_F16: memcpy(&h, p, 2); return (double)half_to_float(h);
    case TD_BF16: memcpy(&h, p, 2); return (double)bf16_to_float(h);
    case TD_F8E4M3:
    case TD_F8E5M2: return (double)f8_to_float(dt, *(const uint8_t *)p);
    case TD_U64: return (double)(uint64_t)load_int(dt, p);
    default: return (double)load_int(dt, p);
    }
}

int64_t td__load_i(td_dtype dt, const void *p) {
    return td__is_differentiable(dt) ? trunc_to_int(td__load_f(dt, p))
                                     : load_int(dt, p);
}

double td__load_imag(td_dtype dt, const void *p) {
    if (!td__is_complex(dt)) return 0;
    return td__load_f(dt, (const char *)p + td__dtype_bytes[dt] / 2);
}

static void store_int(td_dtype dt, void *p, int64_t v) {
    switch (dt) {
    case TD_I64:
    case TD_U64: memcpy(p, &v, 8); break;
    case TD_I32:
    case TD_U32: memcpy(p, &(int32_t){(int32_t)v}, 4); break;
    case TD_I16:
    case TD_U16: memcpy(p, &(int16_t){(int16_t)v}, 2); break;
    case TD_BOOL: *(uint8_t *)p = v != 0; break;
    default: *(uint8_t *)p = (uint8_t)v; break;
    }
}

/* Rounds once to the dtype. Integers below 64 bits go through i32, as the vectorized
 * casts do, so that single elements and whole tensors agree also out of range. */
void td__store_f(td_dtype dt, void *p, double v) {
    float f = (float)v;
    switch (dt) {
    case TD_C128: memcpy(p, (double[2]){v, 0}, 16); break;
    case TD_C64: memcpy(p, (float[2]){f, 0}, 8); break;
    case TD_F64: memcpy(p, &v, 8); break;
    case TD_F32: memcpy(p, &f, 4); break;
    case TD_F16: memcpy(p, &(uint16_t){float_to_half(f)}, 2); break;
    case TD_BF16: memcpy(p, &(uint16_t){float_to_bf16(f)}, 2); break;
    case TD_F8E4M3:
    case TD_F8E5M2: *(uint8_t *)p = float_to_f8(dt, f); break;
    case TD_BOOL: *(uint8_t *)p = v != 0; break;
    case TD_I64:
    case TD_U32: store_int(dt, p, trunc_to_int(v)); break;
    case TD_U64: store_int(dt, p, trunc_to_u64(v)); break;
    default: /* through i32, as casts of whole tensors (docs/numerics.md) */
        store_int(dt, p, v > -0x1p31 - 1 && v < 0x1p31 ? (int64_t)v : INT32_MIN);
        break;
    }
}

void td__store_i(td_dtype dt, void *p, int64_t v) {
    float f = (float)v; /* directly from the integer: rounded once */
    switch (dt) {
    case TD_C128:
    case TD_F64: td__store_f(dt, p, (double)v); break;
    case TD_C64: memcpy(p, (float[2]){f, 0}, 8); break;
    case TD_F32: memcpy(p, &f, 4); break;
    case TD_F16:
    case TD_BF16:
    case TD_F8E4M3:
    case TD_F8E5M2: td__store_f(dt, p, (double)f); break;
    default: store_int(dt, p, v); break;
    }
}

void td__store_value(td_dtype dt, void *p, td_value number) {
    if (number.kind == TD_K_FLOAT) td__store_f(dt, p, number.u.f);
    else td__store_i(dt, p, number.u.i);
}

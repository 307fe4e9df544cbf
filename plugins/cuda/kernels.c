/* kernels.c -- kernels from text by NVRTC, straight to machine code of the device, and
 * launches. Products and sums are not contracted, so that a kernel computes what the
 * same text computes on the CPU. */
#include "cuda_int.h"

#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What kernels are written with (docs/cuda.md): the names of C's integers, and who
 * takes which elements. A kernel of elements divides them among all threads; a kernel
 * of rows divides rows among blocks, and the inside of a row among its threads. */
static const char prelude[] =
    "typedef signed char int8_t;\n"
    "typedef unsigned char uint8_t;\n"
    "typedef short int16_t;\n"
    "typedef unsigned short uint16_t;\n"
    "typedef int int32_t;\n"
    "typedef unsigned int uint32_t;\n"
    "typedef long long int64_t;\n"
    "typedef unsigned long long uint64_t;\n"
    "#define INT32_MIN (-2147483647 - 1)\n"
    "#define INT64_MIN (-9223372036854775807LL - 1)\n"
    "#define INT64_MAX 9223372036854775807LL\n"
    "#define INT32_MAX 2147483647\n"
    "#define UINT64_MAX 18446744073709551615ULL\n"
    "#define NULL 0\n"
    "#define restrict __restrict__\n"
    "#define _Alignas(n)\n"
    "#define __FMA__ 1\n"
    "#define __OPTIMIZE__ 1\n"
    "#define __builtin_fmaf __fmaf_rn\n"
    "#define __builtin_fma __fma_rn\n"
    "#define __builtin_sqrtf __fsqrt_rn\n"
    "#define __builtin_sqrt __dsqrt_rn\n"
    "#define __builtin_memcpy memcpy\n"
    "#define __builtin_inff() __int_as_float(0x7f800000)\n"
    "#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)\n"
    "#define __builtin_acos acos\n"
    "#define __builtin_acosh acosh\n"
    "#define __builtin_asin asin\n"
    "#define __builtin_asinh asinh\n"
    "#define __builtin_atan atan\n"
    "#define __builtin_atan2 atan2\n"
    "#define __builtin_atanh atanh\n"
    "#define __builtin_ceil ceil\n"
    "#define __builtin_ceilf ceilf\n"
    "#define __builtin_copysign copysign\n"
    "#define __builtin_copysignf copysignf\n"
    "#define __builtin_cos cos\n"
    "#define __builtin_cosh cosh\n"
    "#define __builtin_erf erf\n"
    "#define __builtin_erfc erfc\n"
    "#define __builtin_exp exp\n"
    "#define __builtin_expm1 expm1\n"
    "#define __builtin_fabs fabs\n"
    "#define __builtin_fabsf fabsf\n"
    "#define __builtin_floor floor\n"
    "#define __builtin_floorf floorf\n"
    "#define __builtin_fmod fmod\n"
    "#define __builtin_fmodf fmodf\n"
    "#define __builtin_hypot hypot\n"
    "#define __builtin_hypotf hypotf\n"
    "#define __builtin_ldexp ldexp\n"
    "#define __builtin_ldexpf ldexpf\n"
    "#define __builtin_log log\n"
    "#define __builtin_log1p log1p\n"
    "#define __builtin_memset memset\n"
    "#define __builtin_nan nan\n"
    "#define __builtin_nanf nanf\n"
    "#define __builtin_nextafter nextafter\n"
    "#define __builtin_nextafterf nextafterf\n"
    "#define __builtin_pow pow\n"
    "#define __builtin_rint rint\n"
    "#define __builtin_rintf rintf\n"
    "#define __builtin_sin sin\n"
    "#define __builtin_sinh sinh\n"
    "#define __builtin_tan tan\n"
    "#define __builtin_tgamma tgamma\n"
    "#define __builtin_trunc trunc\n"
    "#define __builtin_truncf truncf\n"
    "static inline double lgamma_r(double x, int *sign) {\n"
    "    *sign = x < 0 && fmod(floor(x), 2.0) != 0 ? -1 : 1;\n"
    "    return lgamma(x);\n"
    "}\n"
    /* The name that traces show, which the text defines. */
    "#define KERNEL TD_NAME\n"
    "#define TD_KERNEL extern \"C\" __global__ void __launch_bounds__(512)\n"
    "#define TD_RUN(T) const __grid_constant__ T td_argument\n"
    "#define TD_OPEN const td_nest_run *r = &td_argument; unsigned td_turn = 0;\n"
    "#define TD_UNROLL _Pragma(\"unroll 4\")\n"
    "#define TD_UNROLL_TWO _Pragma(\"unroll 2\")\n"
    "#define TD_UNROLL_MORE _Pragma(\"unroll 16\")\n"
    "#define TD_UNROLL_ALL _Pragma(\"unroll\")\n"
    "#define TD_ROLL _Pragma(\"unroll 1\")\n"
    "#define TD_FIRST (blockIdx.x * (int64_t)blockDim.x + threadIdx.x)\n"
    "#define TD_STEP (gridDim.x * (int64_t)blockDim.x)\n"
    "#define TD_ROW ((int64_t)blockIdx.x)\n"
    "#define TD_ROWS ((int64_t)gridDim.x)\n"
    "#define TD_LANE ((int64_t)threadIdx.x)\n"
    "#define TD_LANES ((int64_t)blockDim.x)\n"
    "#define TD_SYNC __syncthreads()\n"
    "#define TD_FETCH_ADD(p, n) atomicAdd(p, n)\n";

/* Numbers, by instructions that the GPU has for them. */
static const char numbers[] =
    /* An instruction that rounds to bf16; and a quotient as the compiler has it, but
     * without its test of exponents, whose branch keeps elements apart. */
    "static inline uint16_t td_bf16_of(float x) {\n"
    "    unsigned u;\n"
    "    asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(u) : \"f\"(0.0f), \"f\"(x));\n"
    "    return (uint16_t)u;\n"
    "}\n"
    "#define TD_BF16_OF(x) td_bf16_of(x)\n"
    "static inline float td_quotient(float a, float b) {\n"
    "    float r;\n"
    "    asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(b));\n"
    "    r = __fmaf_rn(__fmaf_rn(-b, r, 1.0f), r, r);\n"
    "    const float q = __fmul_rn(a, r);\n"
    "    return __fmaf_rn(__fmaf_rn(-b, q, a), r, q);\n"
    "}\n"
    "#define TD_QUOTIENT(a, b) td_quotient(a, b)\n"
    /* 2^x for small x, and what tanh is made of e^-2a, each by the instruction that
     * approximates to two units in the last place. */
    "static inline float td_ex2(float x) {\n"
    "    float y;\n"
    "    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));\n"
    "    return y;\n"
    "}\n"
    "#define TD_EX2(x) td_ex2(x)\n"
    "static inline float td_tanh_of(float e) {\n"
    "    float r;\n"
    "    asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(1.0f + e));\n"
    "    return __fmaf_rn(-2.0f * e, r, 1.0f);\n"
    "}\n"
    "#define TD_TANH_OF(e) td_tanh_of(e)\n"
    "static inline float td_larger(float a, float b) {\n"
    "    float y;\n"
    "    asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));\n"
    "    return y;\n"
    "}\n"
    "#define TD_LARGER(a, b) td_larger(a, b)\n"
    "static inline float td_smaller(float a, float b) {\n"
    "    float y;\n"
    "    asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));\n"
    "    return y;\n"
    "}\n"
    /* The larger of two of any type; a NaN wins. */
    "template <class T> T td_most(T a, T b) { return (a > b || a != a) ? a : b; }\n"
    "template <> float td_most(float a, float b) { return td_larger(a, b); }\n"
    "template <class T> T td_least(T a, T b) { return (a < b || a != a) ? a : b; }\n"
    "template <> float td_least(float a, float b) { return td_smaller(a, b); }\n"
    "#define TD_MOST(a, b) td_most(a, b)\n"
    "#define TD_LEAST(a, b) td_least(a, b)\n";

/* How the threads of a block find their values. */
static const char together[] =
    "template <class T> T td_across(T v, int by) {\n"
    "    unsigned w[(sizeof v + 3) / 4] = {0};\n"
    "    memcpy(w, &v, sizeof v);\n"
    "    for (unsigned i = 0; i < sizeof w / 4; i++)\n"
    "        w[i] = __shfl_xor_sync(0xffffffffu, w[i], by);\n"
    "    memcpy(&v, w, sizeof v);\n"
    "    return v;\n"
    "}\n"
    /* Rows that a block keeps: a thread brings the vectors that it reads later. They
     * are there after TD_ARRIVED. */
    "extern __shared__ uint4 td_kept[];\n"
    "#define TD_KEEP(V, name, at, n) V *name = (V *)((char *)td_kept + (at))\n"
    "template <class V> void td_bring(V *to, const void *from) {\n"
    "#if __CUDA_ARCH__ >= 800\n"
    "    const unsigned at = (unsigned)__cvta_generic_to_shared(to);\n"
    "    const size_t of = __cvta_generic_to_global(from);\n"
    "    if (sizeof(V) == 16)\n"
    "        asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\"\n"
    "                     :: \"r\"(at), \"l\"(of) : \"memory\");\n"
    "    else if (sizeof(V) == 8)\n"
    "        asm volatile(\"cp.async.ca.shared.global [%0], [%1], 8;\"\n"
    "                     :: \"r\"(at), \"l\"(of) : \"memory\");\n"
    "    else if (sizeof(V) == 4)\n"
    "        asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\"\n"
    "                     :: \"r\"(at), \"l\"(of) : \"memory\");\n"
    "    else\n"
    "#endif\n"
    "        *to = *(const V *)from;\n"
    "}\n"
    "#define TD_BRING(V, to, from) td_bring<V>(to, from)\n"
    "#if __CUDA_ARCH__ >= 800\n"
    "#define TD_ARRIVED asm volatile(\"cp.async.wait_all;\" ::: \"memory\")\n"
    "#else\n"
    "#define TD_ARRIVED (void)0\n"
    "#endif\n"
    /* A vector is read and written by one instruction. */
    "template <int n> struct td_word { typedef uint4 is; };\n"
    "template <> struct td_word<8> { typedef uint2 is; };\n"
    "template <> struct td_word<4> { typedef unsigned is; };\n"
    "template <> struct td_word<2> { typedef unsigned short is; };\n"
    "template <class V, class W> V td_take(const W *p) {\n"
    "    const W w = *p;\n"
    "    V v;\n"
    "    memcpy(&v, &w, sizeof v);\n"
    "    return v;\n"
    "}\n"
    "template <class V, class W> void td_give(W *p, const V &v) {\n"
    "    W w;\n"
    "    memcpy(&w, &v, sizeof v);\n"
    "    *p = w;\n"
    "}\n"
    "#define TD_TAKE(V, p) td_take<V>((const td_word<sizeof(V)>::is *)(p))\n"
    "#define TD_GIVE(V, p, q) td_give<V>((td_word<sizeof(V)>::is *)(p), q)\n"
    /* A vector that is read ahead stays in the words it was read in: its elements,
     * taken out where it is read, would be waited for there. */
    "#define TD_WORDS(V) td_word<sizeof(V)>::is\n"
    "#define TD_FETCH(V, p) (*(const td_word<sizeof(V)>::is *)(p))\n"
    "template <class V, class W> V td_vector(const W &w) {\n"
    "    V v;\n"
    "    memcpy(&v, &w, sizeof v);\n"
    "    return v;\n"
    "}\n"
    "#define TD_VECTOR(V, w) td_vector<V>(w)\n"
    "#define TD_SHARE(n, threads) (((n) + (threads) - 1) / (threads))\n"
    /* The text says TD_TILE, a power of 2: the columns of a block. */
    "#define TD_COLUMNS TD_TILE\n"
    "#define TD_COLUMN ((int64_t)(threadIdx.x % TD_TILE))\n"
    "#define TD_SLICE ((int64_t)(threadIdx.x / TD_TILE))\n"
    "#define TD_SLICES ((int64_t)(blockDim.x / TD_TILE))\n";

/* How the threads of a block fold their values. */
static const char folds[] =
    "#define TD_WARPS(value, fold) do { \\\n"
    "    value = td_all[0]; \\\n"
    "    _Pragma(\"unroll 8\") \\\n"
    "    for (unsigned td_k = 1; td_k < blockDim.x / 32; td_k++) { \\\n"
    "        auto a = value, b = td_all[td_k]; \\\n"
    "        value = fold; \\\n"
    "    } \\\n"
    "} while (0)\n"
    /* Two arrays in turn: a barrier is between two writes of one. */
    "#define TD_TOGETHER(T, value, fold) do { \\\n"
    "    __shared__ T td_both[2][32]; \\\n"
    "    for (int td_k = 16; td_k; td_k /= 2) { \\\n"
    "        T a = value, b = td_across(value, td_k); \\\n"
    "        value = fold; \\\n"
    "    } \\\n"
    "    if (blockDim.x == 32) break; \\\n"
    "    T *td_all = td_both[td_turn++ & 1]; \\\n"
    "    if ((threadIdx.x & 31) == 0) td_all[threadIdx.x / 32] = value; \\\n"
    "    __syncthreads(); \\\n"
    "    TD_WARPS(value, fold); \\\n"
    "} while (0)\n"
    "#define TD_TOGETHER_TWO(T, value, fold, U, other, fold_other) do { \\\n"
    "    __shared__ T td_one[2][32]; \\\n"
    "    __shared__ U td_two[2][32]; \\\n"
    "    for (int td_k = 16; td_k; td_k /= 2) { \\\n"
    "        { T a = value, b = td_across(value, td_k); value = fold; } \\\n"
    "        { U a = other, b = td_across(other, td_k); other = fold_other; } \\\n"
    "    } \\\n"
    "    if (blockDim.x == 32) break; \\\n"
    "    unsigned td_which = td_turn++ & 1; \\\n"
    "    if ((threadIdx.x & 31) == 0) { \\\n"
    "        td_one[td_which][threadIdx.x / 32] = value; \\\n"
    "        td_two[td_which][threadIdx.x / 32] = other; \\\n"
    "    } \\\n"
    "    __syncthreads(); \\\n"
    "    { T *td_all = td_one[td_which]; TD_WARPS(value, fold); } \\\n"
    "    { U *td_all = td_two[td_which]; TD_WARPS(other, fold_other); } \\\n"
    "} while (0)\n"
    "#define TD_DOWN(T, value, fold) do { \\\n"
    "    if (TD_TILE > 32) break; \\\n"
    "    __shared__ T td_of[32][33]; \\\n"
    "    for (int td_k = 16; td_k >= TD_TILE; td_k /= 2) { \\\n"
    "        T a = value, b = td_across(value, td_k); \\\n"
    "        value = fold; \\\n"
    "    } \\\n"
    "    if ((threadIdx.x & 31) < TD_TILE) \\\n"
    "        td_of[threadIdx.x & 31][threadIdx.x / 32] = value; \\\n"
    "    __syncthreads(); \\\n"
    "    T *td_all = td_of[threadIdx.x % TD_TILE]; \\\n"
    "    TD_WARPS(value, fold); \\\n"
    "    __syncthreads(); \\\n"
    "} while (0)\n";

/* Keeps the compiler's first lines. */
static void keep_log(nvrtcProgram p, char *why, size_t cap) {
    size_t n = 0;
    char  *log = nvrtcGetProgramLogSize(p, &n) ? NULL : malloc(n + 1);
    if (log && !nvrtcGetProgramLog(p, log)) snprintf(why, cap, "NVRTC: %s", log);
    else snprintf(why, cap, "NVRTC failed");
    free(log);
}

/* The machine code of a compiled program. */
static void *code_of(nvrtcProgram p, size_t *bytes) {
    void *code = nvrtcGetCUBINSize(p, bytes) ? NULL : malloc(*bytes);
    if (code && nvrtcGetCUBIN(p, code)) free(code), code = NULL;
    return code;
}

void *td_cuda_compile(const char *text, int arch, size_t *bytes, char *why,
                      size_t cap) {
    char        target[40];
    const char *options[] = {target, "-std=c++20", "-default-device", "-fmad=false",
                             "-w"};
    size_t      n =
        strlen(text) + sizeof prelude + sizeof numbers + sizeof together + sizeof folds;
    char        *all = malloc(n);
    void        *code = NULL;
    nvrtcProgram p = NULL;
    snprintf(target, sizeof target, "-arch=sm_%d", arch);
    if (all) snprintf(all, n, "%s%s%s%s%s", prelude, numbers, together, folds, text);
    if (!all || nvrtcCreateProgram(&p, all, "kernel.cu", 0, NULL, NULL))
        snprintf(why, cap, "out of memory");
    else if (nvrtcCompileProgram(p, 5, options)) keep_log(p, why, cap);
    else if (!(code = code_of(p, bytes))) snprintf(why, cap, "NVRTC gave no code");
    if (p) nvrtcDestroyProgram(&p);
    free(all);
    return code;
}

void *td_cuda_code(void *dev, const char *text, size_t *bytes) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    td_cuda               *d = dev;
    char                   why[sizeof d->error];
    void *code = td_cuda_compile(text, d->arch, bytes, why, sizeof why);
    if (code) return code;
    pthread_mutex_lock(&lock); /* others may fail at the same time */
    snprintf(d->error, sizeof d->error, "%s", why);
    pthread_mutex_unlock(&lock);
    return NULL;
}

void *td_cuda_load(void *dev, const void *code, size_t bytes, const char *entry) {
    td_cuda   *d = dev;
    CUmodule   module;
    CUfunction f = NULL;
    (void)bytes, (void)entry; /* TD_NAME, the only one */
    if (!td_cu_enter(d) ||
        !td_cu_ok(d, td_cu.cuModuleLoadData(&module, code), "cuModuleLoadData") ||
        !td_cu_ok(d, td_cu.cuModuleEnumerateFunctions(&f, 1, module),
                  "cuModuleEnumerateFunctions"))
        return NULL;
    return f;
}

void *td_cuda_build(void *dev, const char *text, const char *entry) {
    size_t bytes = 0;
    void  *code = td_cuda_code(dev, text, &bytes);
    void  *f = code ? td_cuda_load(dev, code, bytes, entry) : NULL;
    free(code);
    return f;
}

/* The words of the prelude are part of every kernel, so their hash counts. */
void td_cuda_target(void *dev, char *out, size_t cap) {
    const td_cuda    *d = dev;
    uint64_t          h = 14695981039346656037u;
    int               major = 0, minor = 0;
    const char *const words[] = {prelude, numbers, together, folds};
    for (int k = 0; k < 3; k++)
        for (const char *p = words[k]; *p; p++)
            h = (h ^ (unsigned char)*p) * 1099511628211u;
    nvrtcVersion(&major, &minor);
    snprintf(out, cap, "cuda sm_%d, NVRTC %d.%d, prelude %016llx", d->arch, major,
             minor, (unsigned long long)h);
}

int64_t td_cuda_shared(void *dev) { return ((td_cuda *)dev)->shared; }

/* LARGE: bytes that a block has without asking for them. */
enum { LARGE = 40 << 10 };

/* Lets a kernel have so many bytes in a block. */
static bool ask_shared(td_cuda *d, void *kernel, uint32_t bytes) {
    return bytes <= LARGE ||
           (td_cu_ok(d,
                     td_cu.cuFuncSetAttribute(
                         kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                         (int)bytes),
                     "cuFuncSetAttribute") &&
            td_cu_ok(d,
                     td_cu.cuFuncSetAttribute(
                         kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                         CU_SHAREDMEM_CARVEOUT_MAX_SHARED),
                     "cuFuncSetAttribute"));
}

bool td_cuda_launch(void *dev, void *kernel, td_device_grid grid, void **args) {
    td_cuda *d = dev;
    if (!td_cu_enter(d) || !ask_shared(d, kernel, grid.shared)) return false;
    bool ok = td_cu_ok(d,
                       td_cu.cuLaunchKernel(kernel, grid.blocks, 1, 1, grid.threads, 1,
                                            1, grid.shared, d->stream, args, NULL),
                       "cuLaunchKernel");
    if (ok && d->open) td_cuda_note(d, kernel, grid);
    return ok;
}

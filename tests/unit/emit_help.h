/* emit_help.h -- nests built by hand, compiled with cc and loaded. */
#ifndef TD_EMIT_HELP_H
#define TD_EMIT_HELP_H

#include "td_files.h"
#include "td_test.h"

#include "backend/nest.h"
#include "build/unit.h"

#include <dlfcn.h>

enum { MAKER_STMTS = 64, MAKER_PTRS = 16 };

/* A nest and room for all it points to. */
typedef struct maker {
    td_nest    n;
    td_stmt    stmt[MAKER_STMTS];
    td_extent  stride[MAKER_STMTS][TD_NEST_DIMS];
    td_scalars numbers[MAKER_STMTS];
    td_pointer ptr[MAKER_PTRS];
} maker;

static inline td_extent fix(int64_t c) { return (td_extent){c, -1}; }

/* Sizes below 0 stand for size number -1 - size of the run. */
static inline void maker_begin(maker *m, int outer, int dims, const int64_t *size) {
    memset(m, 0, sizeof *m);
    m->n.n_dims = dims;
    m->n.n_outer = outer;
    m->n.rows = m->n.inside = fix(1);
    for (int d = 0; d < dims; d++) {
        td_extent *all = d < outer ? &m->n.rows : &m->n.inside;
        m->n.size[d] =
            size[d] < 0 ? (td_extent){1, (int32_t)(-1 - size[d])} : fix(size[d]);
        if (size[d] < 0) all->p = m->n.size[d].p;
        else all->c *= size[d];
    }
    m->n.stmt.v = m->stmt;
    m->n.ptr.v = m->ptr;
}
#define BEGIN(m, outer, ...)                                           \
    maker_begin(m, outer, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), \
                (int64_t[]){__VA_ARGS__})

static inline int maker_ptr(maker *m, td_dtype dt, bool written) {
    m->ptr[m->n.ptr.n] = (td_pointer){(uint8_t)dt, written, false};
    return m->n.ptr.n++;
}

static inline int maker_add(maker *m, td_stmt s) {
    m->stmt[m->n.stmt.n] = s;
    return m->n.stmt.n++;
}

static inline const td_extent *maker_stride(maker *m, const int64_t *stride) {
    td_extent *e = m->stride[m->n.stmt.n];
    for (int d = 0; d < m->n.n_dims; d++) e[d] = fix(stride[d]);
    return e;
}

static inline int maker_load(maker *m, td_dtype dt, const int64_t *stride) {
    return maker_add(m, (td_stmt){.kind = TD_S_LOAD,
                                  .dtype = (uint8_t)dt,
                                  .ptr = (int16_t)maker_ptr(m, dt, false),
                                  .stride = maker_stride(m, stride)});
}
#define LOAD(m, dt, ...) maker_load(m, dt, (int64_t[]){__VA_ARGS__})

static inline int maker_store(maker *m, int v, const int64_t *stride) {
    td_dtype dt = (td_dtype)m->stmt[v].dtype;
    return maker_add(m, (td_stmt){.kind = TD_S_STORE,
                                  .dtype = (uint8_t)dt,
                                  .n = 1,
                                  .a = {v},
                                  .ptr = (int16_t)maker_ptr(m, dt, true),
                                  .stride = maker_stride(m, stride)});
}
#define STORE(m, v, ...) maker_store(m, v, (int64_t[]){__VA_ARGS__})

static inline int maker_place(maker *m, const int64_t *stride) {
    return maker_add(m, (td_stmt){.kind = TD_S_PLACE,
                                  .dtype = TD_I64,
                                  .stride = maker_stride(m, stride)});
}
#define PLACE(m, ...) maker_place(m, (int64_t[]){__VA_ARGS__})

static inline int number(maker *m, td_dtype dt, double x) {
    td_stmt s = {.kind = TD_S_NUM, .dtype = (uint8_t)dt};
    if (td__is_float(dt)) s.num.f = x;
    else s.num.i = (int64_t)x;
    return maker_add(m, s);
}

static inline td_compute compute_of(td_dtype dt) {
    return dt == TD_F64       ? TD_COMPUTE_F64
           : td__is_float(dt) ? TD_COMPUTE_F32
           : dt == TD_I64     ? TD_COMPUTE_I64
                              : TD_COMPUTE_I32;
}

/* An op on values, the type of the first of them that is not a mask; all its numbers
 * are 1. */
static inline int op3(maker *m, td_op op, int a, int b, int c) {
    td_scalars *p = &m->numbers[m->n.stmt.n];
    td_stmt     s = {.kind = TD_S_EXPR, .op = op, .a = {a, b, c}, .p = p};
    for (int k = 0; k < TD_LOOP_SCALARS; k++) p->f[k] = 1, p->i[k] = 1;
    s.n = (uint8_t)((a >= 0) + (b >= 0) + (c >= 0));
    if (op == TD_OP_where) s.masks = 1;
    td_dtype dt = (td_dtype)m->stmt[s.masks ? b : a].dtype;
    s.compute = (uint8_t)compute_of(dt);
    s.dtype = td__ops[op].dtypes & TD_DT_BOOL_OUT ? TD_BOOL : (uint8_t)dt;
    return maker_add(m, s);
}
static inline int op2(maker *m, td_op op, int a, int b) { return op3(m, op, a, b, -1); }
static inline int op1(maker *m, td_op op, int a) { return op3(m, op, a, -1, -1); }

static inline int cast(maker *m, int a, td_dtype dt) {
    return maker_add(
        m, (td_stmt){.kind = TD_S_CAST, .dtype = (uint8_t)dt, .n = 1, .a = {a}});
}

static inline int fold(maker *m, td_stmt_kind kind, td_fold how, int a) {
    return maker_add(m, (td_stmt){.kind = (uint8_t)kind,
                                  .dtype = m->stmt[a].dtype,
                                  .how = (uint8_t)how,
                                  .n = 1,
                                  .a = {a}});
}

/* ---- compiling ----------------------------------------------------------- */

/* Several nests, in one unit. */
typedef struct built {
    void           *lib;
    td_nest_fn     *run[1024];
    td_nest_end_fn *end[1024];
    td_nest_code    code[1024];
    int             n;
} built;

/* What makes emitted code give the bits of this process' eager loops. */
static inline const char *isa_flags(void) {
    const char *level = td__isa()->name;
    if (!strcmp(level, "avx512"))
        return "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl "
               "-mprefer-vector-width=512";
    return !strcmp(level, "avx2") ? "-mavx2 -mfma -mf16c" : "";
}

/* Code under the sanitizers is loaded only by a process under them, of one compiler. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED " -fsanitize=address,undefined -fno-sanitize-recover=undefined"
#else
#define SANITIZED ""
#endif

static inline bool has_compiler(const char *cc) {
    if (*SANITIZED && strcmp(cc, "gcc")) return false;
    char line[128];
    snprintf(line, sizeof line, "command -v %s >/dev/null 2>&1", cc);
    return system(line) == 0;
}

static inline bool compile(const char *cc, const char *more, const char *from,
                           const char *to) {
    const char *flags = getenv("TD_EMIT_FLAGS"); /* sanitizers, with their preload */
    char        line[2048];
    snprintf(line, sizeof line,
             "%s -O2 %s %s %s -fopenmp-simd -fno-math-errno -fno-trapping-math "
             "-ffp-contract=off -fwrapv -Wno-psabi %s" SANITIZED
             " -fPIC -shared -o %s %s -lm",
             cc, isa_flags(), more, flags ? flags : "",
             strstr(cc, "clang") ? "-Wno-pass-failed" : "", to, from);
    return system(line) == 0;
}

static inline void build_add(built *b, const td_nest *n) {
    CHECK(td__nest_emit(n, &b->code[b->n]));
    b->n++;
}

/* The text of all: helpers once, then each under its number. */
static inline void build_text(built *b, td_buf *text) {
    td_buf names = {0};
    for (int i = 0; i < b->n; i++)
        td__buf_add(&names, td__buf_str(&b->code[i].helpers));
    td__buf_add(text, td__unit_preamble);
    CHECK(td__helpers_text(text, td__buf_str(&names)));
    for (int i = 0; i < b->n; i++)
        td__buf_printf(text,
                       "#define KERNEL k%d\n#define KERNEL_end k%d_end\n"
                       "%s#undef KERNEL\n#undef KERNEL_end\n",
                       i, i, td__buf_str(&b->code[i].text));
    td__buf_free(&names);
}

static inline void build_end(built *b) {
    for (int i = 0; i < b->n; i++) td__nest_code_free(&b->code[i]);
    if (b->lib) dlclose(b->lib);
    memset(b, 0, sizeof *b);
}

static inline void build(built *b, const char *cc, const char *more) {
    td_buf text = {0};
    char   from[512], to[512], name[32];
    files_begin();
    strcpy(from, files_path("unit.c"));
    strcpy(to, files_path("unit.so"));
    build_text(b, &text);
    FILE *f = fopen(from, "w");
    CHECK(f && fputs(td__buf_str(&text), f) >= 0 && fclose(f) == 0);
    if (getenv("TD_EMIT_SHOW")) puts(td__buf_str(&text));
    CHECK(compile(cc, more, from, to));
    b->lib = dlopen(to, RTLD_NOW | RTLD_LOCAL);
    TD_CHECK_THAT(b->lib != NULL, "%s", dlerror());
    for (int i = 0; i < b->n; i++) {
        snprintf(name, sizeof name, "k%d", i);
        *(void **)&b->run[i] = dlsym(b->lib, name);
        snprintf(name, sizeof name, "k%d_end", i);
        *(void **)&b->end[i] = dlsym(b->lib, name);
        CHECK(b->run[i] && !b->end[i] == !b->code[i].has_end);
    }
    td__buf_free(&text);
    files_end();
}

/* Equal bits, but for what is not a number on both sides. */
static inline int64_t first_unequal(td_dtype dt, const void *a, const void *b,
                                    int64_t n) {
    size_t bytes = td__dtype_bytes[dt];
    for (int64_t i = 0; i < n; i++) {
        const char *x = (const char *)a + (size_t)i * bytes;
        const char *y = (const char *)b + (size_t)i * bytes;
        bool        nan = td__is_float(dt) && isnan(td__load_f(dt, x));
        if (nan ? !isnan(td__load_f(dt, y)) : memcmp(x, y, bytes) != 0) return i;
    }
    return -1;
}

/* Runs nest i over all its rows in `parts` calls, then the end in two. `sizes` and
 * `given` may be NULL. */
typedef struct run_args {
    void         **ptr;
    const int64_t *size, *given;
    int64_t        rows, inside;
    int            parts;
} run_args;

static inline void run(built *b, int i, run_args a) {
    const td_nest_code *c = &b->code[i];
    int64_t             bytes = 8 * (c->n_wide * a.inside + c->n_single);
    char               *parts = calloc((size_t)(a.parts + 1), (size_t)bytes + 8);
    td_nest_run         r = {(char *const *)a.ptr, a.size, a.given, parts, bytes, 0};
    for (int64_t p = 0; p < a.parts; p++)
        b->run[i](&r, p, a.rows * p / a.parts, a.rows * (p + 1) / a.parts);
    if (c->has_end) {
        int64_t half = a.inside / 2;
        b->end[i](&r, a.parts, 0, half);
        b->end[i](&r, a.parts, half, a.inside);
    }
    free(parts);
}

/* One nest by one compiler, with or without the sanitizers' flags. */
static inline void build_one(built *b, const maker *m, const char *cc) {
    memset(b, 0, sizeof *b);
    build_add(b, &m->n);
    build(b, cc, "");
}

#endif

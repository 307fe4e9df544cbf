/* c_source.c -- model.c: a preamble, the helper functions and kernels that are used,
 * and the function that runs the steps in order. Kernels are the texts of the native
 * backend, rewritten from GNU C11 to C99. */
#include "export/c_model.h"
#include "ops/expr.h"
#include "tandem/version.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- the preamble --------------------------------------------------------- */

static const char preamble[] =
    "#include <math.h>\n"
    "#include <string.h>\n"
    "\n"
    "/* Compilers without GNU builtins use the C library (also: -DTD_NO_BUILTINS). */\n"
    "#if !defined(__GNUC__) || defined(__TINYC__) || defined(TD_NO_BUILTINS)\n"
    "#define __builtin_memcpy memcpy\n"
    "#define __builtin_memset memset\n"
    "#define __builtin_acos acos\n#define __builtin_asin asin\n"
    "#define __builtin_atan atan\n#define __builtin_atan2 atan2\n"
    "#define __builtin_ceil ceil\n#define __builtin_ceilf ceilf\n"
    "#define __builtin_copysign copysign\n#define __builtin_copysignf copysignf\n"
    "#define __builtin_cos cos\n#define __builtin_cosh cosh\n"
    "#define __builtin_erfc erfc\n#define __builtin_fabs fabs\n"
    "#define __builtin_fabsf fabsf\n#define __builtin_floor floor\n"
    "#define __builtin_floorf floorf\n#define __builtin_fma fma\n"
    "#define __builtin_fmaf fmaf\n#define __builtin_fmod fmod\n"
    "#define __builtin_fmodf fmodf\n#define __builtin_hypot hypot\n"
    "#define __builtin_hypotf hypotf\n#define __builtin_log log\n"
    "#define __builtin_pow pow\n#define __builtin_rint rint\n"
    "#define __builtin_rintf rintf\n#define __builtin_sin sin\n"
    "#define __builtin_sinh sinh\n#define __builtin_sqrt sqrt\n"
    "#define __builtin_sqrtf sqrtf\n#define __builtin_tan tan\n"
    "#define __builtin_trunc trunc\n#define __builtin_truncf truncf\n"
    "#define __builtin_inf() HUGE_VAL\n#define __builtin_inff() HUGE_VALF\n"
    "#define __builtin_nan(s) nan(s)\n#define __builtin_nanf(s) nanf(s)\n"
    "#endif\n"
    "#ifdef __GNUC__\n"
    "#define TD_ALIGNED __attribute__((aligned(64)))\n"
    "#else\n"
    "#define TD_ALIGNED\n"
    "#define __attribute__(x)\n"
    "#endif\n"
    "/* The iterations of a loop are independent. */\n"
    "#if defined(__clang__)\n"
    "#pragma clang diagnostic ignored \"-Wpass-failed\" /* at -O0 and -O1 */\n"
    "#define TD_SIMD _Pragma(\"clang loop vectorize(assume_safety)\")\n"
    "#elif defined(__GNUC__)\n"
    "#define TD_SIMD _Pragma(\"GCC ivdep\")\n"
    "#else\n"
    "#define TD_SIMD\n"
    "#endif\n"
    "#ifdef TD_CBLAS\n"
    "#include <cblas.h>\n"
    "#endif\n"
    "\n"
    "/* The arguments of a kernel: arrays by number, random seeds, accumulators. */\n"
    "typedef struct td_nest_run {\n"
    "    char *const   *ptr;\n"
    "    const int64_t *size, *given;\n"
    "    char          *parts;\n"
    "    int64_t        part_bytes, zero;\n"
    "} td_nest_run;\n";

static const char td_kernel_type[] =
    "\ntypedef void td_kernel(const td_nest_run *r, int64_t part, int64_t begin,\n"
    "                       int64_t end);\n";

/* Runs a kernel over all rows; rows and parts are independent of each other. */
static const char td_rows[] =
    "\n/* All rows of a kernel, at least `grain` per thread. */\n"
    "static void td_rows(td_kernel *k, const td_nest_run *r, int64_t rows,\n"
    "                    int64_t grain) {\n"
    "#ifdef _OPENMP\n"
    "    int64_t n = rows / grain > 64 ? 64 : rows / grain;\n"
    "    if (n > 1) {\n"
    "#pragma omp parallel for schedule(static)\n"
    "        for (int64_t c = 0; c < n; c++) k(r, 0, rows * c / n, rows * (c + 1) / "
    "n);\n"
    "        return;\n"
    "    }\n"
    "#endif\n"
    "    (void)grain;\n"
    "    k(r, 0, 0, rows);\n"
    "}\n";

static const char td_parts[] =
    "\n/* A kernel that sums over rows: each part has accumulators of its own, and "
    "`end`\n"
    " * adds them in order, so that results do not depend on the number of threads. "
    "*/\n"
    "static void td_parts(td_kernel *k, td_kernel *end, const td_nest_run *r,\n"
    "                     int64_t rows, int64_t parts, int64_t inside) {\n"
    "#ifdef _OPENMP\n"
    "#pragma omp parallel for schedule(static) if (parts > 1)\n"
    "#endif\n"
    "    for (int64_t p = 0; p < parts; p++)\n"
    "        k(r, p, rows * p / parts, rows * (p + 1) / parts);\n"
    "    end(r, parts, 0, inside);\n"
    "}\n";

/* ---- kernels -------------------------------------------------------------- */

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* What differs in C99, and what a kernel is called. */
typedef struct change {
    const char *from, *to;
    bool        word; /* `from` begins a word */
} change;

static const change changes[] = {{"#pragma omp simd", "TD_SIMD", false},
                                 {"_Alignas(64)", "TD_ALIGNED", true},
                                 {"td_fold_sum_", "td_plain_sum_", true},
                                 {"td_fold_prod_", "td_plain_prod_", true},
                                 {"td_fold_max_", "td_plain_max_", true},
                                 {"td_fold_min_", "td_plain_min_", true},
                                 {"void KERNEL", "static void KERNEL", true}};

/* Appends text with the changes, and with `name` for KERNEL. */
static void add_c99(td_buf *b, const char *text, const char *name) {
    for (const char *p = text; *p;) {
        bool          start = p == text || !in_word(p[-1]);
        const change *c = NULL;
        for (int i = 0; i < TD_COUNT(changes) && !c; i++)
            if (!strncmp(p, changes[i].from, strlen(changes[i].from)) &&
                (start || !changes[i].word))
                c = &changes[i];
        if (c && !strcmp(c->from, "void KERNEL"))
            td__buf_printf(b, "static void %s", name);
        else if (c) {
            const char *next =
                p + strlen(c->from); /* a pragma is indented as its loop */
            if (*next == '\n') td__buf_addn(b, next + 1, strspn(next + 1, " "));
            td__buf_add(b, c->to);
        } else td__buf_addn(b, p, 1);
        p += c ? strlen(c->from) : 1;
    }
}

/* Does the text have the word? */
static bool has_word(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n)
        if ((p == text || !in_word(p[-1])) && !in_word(p[n])) return true;
    return false;
}

/* The end of the block that contains p. */
static const char *block_end(const char *p) {
    for (int depth = 0; *p; p++) {
        depth += (*p == '{') - (*p == '}');
        if (depth < 0) break;
    }
    return p;
}

/* Is the word in the text from p to `end`? */
static bool is_read(const char *p, const char *end, const char *word, size_t n) {
    for (; p + n <= end; p++)
        if (!strncmp(p, word, n) && !in_word(p[-1]) && !in_word(p[n])) return true;
    return false;
}

enum { GONE = 1 }; /* a character that is left out */

/* Removes declarations "const T v3 = ...;" of values that nothing reads, from the last
 * line to the first, so that values which only those read go too. */
static void drop_unread(char *text) {
    for (char *p = text + strlen(text); p > text;) {
        for (p--; p > text && p[-1] != '\n';) p--;
        char  *word = p + strspn(p, " ");
        char  *eq = strstr(word, " = "), *end = strstr(word, ";\n");
        size_t n = 0;
        if (strncmp(word, "const ", 6) || !eq || !end || eq > end) continue;
        while (eq - n > word && in_word(eq[-1 - (ptrdiff_t)n])) n++;
        if (memchr(word, '*', (size_t)(eq - word)) || !n) continue;
        if (!is_read(end, block_end(end), eq - n, n))
            memset(p, GONE, (size_t)(end + 2 - p));
    }
    char *to = text;
    for (char *p = text; *p; p++)
        if (*p != GONE) *to++ = *p;
    *to = 0;
}

/* Appends one function of a kernel, n characters long. Parameters that it does not read
 * are marked. */
static void add_function(td_buf *b, const char *text, size_t n, const char *name) {
    static const char *const params[] = {"r", "part", "parts", "begin", "end"};
    td_buf                   all = {0}, changed = {0};
    td__buf_addn(&all, text, n);
    td__buf_add(&all, "");
    if (!all.failed && all.n) {
        drop_unread(all.s);
        const char *body = strchr(all.s, '{') + 2;
        td__buf_addn(&changed, all.s, (size_t)(body - all.s));
        for (int i = 0; i < TD_COUNT(params); i++)
            if (is_read(all.s + 1, body, params[i], strlen(params[i])) &&
                !has_word(body, params[i]))
                td__buf_printf(&changed, "    (void)%s;\n", params[i]);
        td__buf_add(&changed, body);
    }
    add_c99(b, td__buf_str(&changed), name);
    b->failed |= all.failed | changed.failed;
    td__buf_free(&all);
    td__buf_free(&changed);
}

/* The launch whose text launch i has. */
static int text_of(const td_native *n, int i) {
    for (int k = 0; k < i; k++)
        if (n->launches[k].kernel.text == n->launches[i].kernel.text) return k;
    return i;
}

static void add_kernel(td_buf *b, const td_native *n, int i) {
    const td_launch *k = &n->launches[i];
    const char      *end = strstr(k->kernel.text, "void KERNEL_end");
    size_t first = end ? (size_t)(end - k->kernel.text) : strlen(k->kernel.text);
    char   name[32];
    snprintf(name, sizeof name, "kernel_%d", i);
    td__buf_printf(b, "\n/* %s */\n", k->label);
    add_function(b, k->kernel.text, first, name);
    if (end) add_function(b, end, strlen(end), name);
}

/* ---- steps ---------------------------------------------------------------- */

/* The arrays of a launch. An access beyond the end of a tensor, which loops that run
 * zero times load, gets the address of a zero. */
static void add_pointers(const td_c_model *m, td_buf *b, const td_launch *k) {
    td__buf_add(b, "        char *const p[] = {");
    for (int i = 0; i < k->b.bytes.n; i++) {
        const td_bytes *y = &k->b.bytes.v[i];
        int64_t         item = td__dtype_bytes[y->dtype], at = y->offset.c * item;
        td__buf_add(b, i ? ",\n                           " : "");
        if (td__c_bytes(m, y->v) >= at + item) td__c_address(m, b, y->v, at);
        else td__buf_add(b, "(char *)td_none");
    }
    td__buf_add(b, "};\n");
}

/* Does it access memory? A draw that nothing reads only advances the generator. */
static bool computes(const td_launch *k) { return k->b.bytes.n > 0; }

/* Seeds and offsets of a launch's random numbers. */
static void add_draws(td_buf *b, const td_launch *k) {
    if (computes(k))
        td__buf_printf(b, "        int64_t given[%d];\n", k->b.nest.n_given);
    for (int i = 0; i < k->b.draws.n; i++) {
        const td_draw  *d = &k->b.draws.v[i];
        const td_gtype *l = d->v->type;
        int64_t         n = 1;
        for (int j = 0; j < l->rank; j++) n *= l->size[j];
        if (computes(k))
            td__buf_printf(b,
                           "        given[%d] = (int64_t)m->seed;\n"
                           "        given[%d] = (int64_t)m->offset;\n",
                           d->at, d->at + 1);
        td__buf_printf(b, "        m->offset += %lld;\n",
                       (long long)((n + d->per - 1) / d->per));
    }
}

enum { GRAIN = 16384 }; /* as in native_run.c */

static void add_launch(const td_c_model *m, td_buf *b, int step) {
    const td_native *n = m->n;
    int              nr = n->steps.v[step].launch, name = text_of(n, nr);
    const td_launch *k = &n->launches[nr];
    td_c_shape       s = td__c_shape(k);
    bool             zero = strstr(k->kernel.text, "r->zero") != NULL;
    td__buf_printf(b, "    { /* %s */\n", k->label);
    if (computes(k)) add_pointers(m, b, k);
    if (k->b.draws.n) add_draws(b, k);
    if (!computes(k)) {
        td__buf_add(b, "    }\n");
        return;
    }
    td__buf_printf(b, "        const td_nest_run r = {p, 0, %s, ",
                   k->b.draws.n ? "given" : "0");
    if (m->work[step] >= 0)
        td__buf_printf(b, "mem + %lld", (long long)m->range[m->work[step]].at);
    else td__buf_add(b, "0");
    td__buf_printf(b, ", %lld, %s};\n", (long long)s.part_bytes,
                   zero ? "td_zero" : "0");
    if (k->kernel.has_end)
        td__buf_printf(b,
                       "        td_parts(kernel_%d, kernel_%d_end, &r, %lld, %lld, "
                       "%lld);\n",
                       name, name, (long long)s.rows, (long long)s.parts,
                       (long long)(k->n_wide ? s.inside : 1));
    else if (s.rows > 0)
        td__buf_printf(b, "        td_rows(kernel_%d, &r, %lld, %lld);\n", name,
                       (long long)s.rows, (long long)(GRAIN / (s.inside + 1) + 1));
    else td__buf_add(b, "        (void)r;\n");
    td__buf_add(b, "    }\n");
}

static void add_step(const td_c_model *m, td_buf *b, int i, td_buf *helpers) {
    const td_gnode *n = m->n->steps.v[i].node;
    if (!n) add_launch(m, b, i);
    else if (!td__c_is_nothing(n)) {
        td__buf_add(b, "    if (");
        td__c_call(m, n, b, helpers);
        td__buf_printf(b, ")\n        return %d;\n", i + 1);
        const td_gtype *l = n->out[0]->type;
        if (td__c_draws(n))
            td__buf_printf(b, "    m->offset += %lld;\n",
                           (long long)((td__numel(l->rank, l->size) + 1) / 2));
    }
}

/* Results that are views, or that two results share. */
static void add_copies(const td_c_model *m, td_buf *b, td_buf *helpers) {
    for (int i = 0; i < m->n_out; i++) {
        const td_gtype *l = m->out[i].v->type;
        if (!m->out[i].copied || m->out[i].bytes == 0) continue;
        td__buf_add(helpers, "td_c_copy\n");
        td__buf_add(b, "    td_c_copy(");
        td__c_array(m, b, m->out[i].v);
        td__buf_printf(b, ",\n              &(td_c_array){(char *)%s, %d, %d, {",
                       m->out[i].name, td__dtype_bytes[l->dtype], l->rank);
        for (int d = 0; d < l->rank; d++)
            td__buf_printf(b, "%s%lld", d ? ", " : "", (long long)l->size[d]);
        td__buf_add(b, l->rank ? "}, {" : "0}, {0");
        for (int d = 0; d < l->rank; d++)
            td__buf_printf(b, "%s%lld", d ? ", " : "", (long long)l->stride[d]);
        td__buf_add(b, "}});\n");
    }
}

static void add_run(const td_c_model *m, td_buf *b, td_buf *helpers) {
    td_buf body = {0};
    for (int i = 0; i < m->n->steps.n; i++) add_step(m, &body, i, helpers);
    add_copies(m, &body, helpers);
    td__buf_printf(b, "\nint %s_%s", m->name, m->function);
    td__c_parameters(m, b);
    td__buf_add(b, " {\n");
    const char *text = td__buf_str(&body);
    if (has_word(text, "mem"))
        td__buf_add(b, "    char *const mem = (char *)m->memory.bytes;\n");
    else if (!has_word(text, "m")) td__buf_add(b, "    (void)m;\n");
    for (int i = 0; i < m->n_in + m->n_out; i++) {
        const td_c_slot *s = i < m->n_in ? &m->in[i] : &m->out[i - m->n_in];
        if (!s->state && !has_word(text, s->name))
            td__buf_printf(b, "    (void)%s;\n", s->name);
    }
    td__buf_printf(b, "%s    return 0;\n}\n", text);
    b->failed |= body.failed;
    td__buf_free(&body);
}

/* Copies the state that is written from the weights. */
static void add_init(const td_c_model *m, td_buf *b) {
    td__buf_printf(b, "\nvoid %s_init(%s *m%s) {\n", m->name, m->name,
                   m->file ? ", const void *weights" : "");
    int64_t at = 0;
    td__buf_add(b, "    memset(m, 0, sizeof *m);\n");
    if (m->file) td__buf_add(b, "    m->weights = (const unsigned char *)weights;\n");
    for (int i = 0; i < m->n_in; i++) {
        const td_c_slot *s = &m->in[i];
        if (!s->state) continue;
        if (s->written && s->bytes && m->file)
            td__buf_printf(
                b, "    memcpy(m->memory.bytes + %lld, m->weights + %lld, %lld);\n",
                (long long)s->at, (long long)at, (long long)s->bytes);
        else if (s->written && s->bytes)
            td__buf_printf(b, "    memcpy(m->memory.bytes + %lld, %s_%s, %lld);\n",
                           (long long)s->at, m->name, s->name, (long long)s->bytes);
        at += (s->bytes + 63) / 64 * 64;
    }
    td__buf_add(b, "}\n");
}

/* The arrays of weights.c that model.c reads. */
static void add_externs(const td_c_model *m, td_buf *b) {
    for (int i = 0; i < m->n_in && !m->file; i++)
        if (m->in[i].state && m->in[i].bytes)
            td__buf_printf(b, "extern const %s %s_%s[];\n",
                           td__dtype_text[m->in[i].v->type->dtype].c, m->name,
                           m->in[i].name);
}

bool td__c_source(const td_c_model *m, td_buf *b) {
    td_buf kernels = {0}, run = {0}, names = {0}, helpers = {0}, changed = {0};
    bool   rows = false, parts = false, zero = false;
    for (int i = 0; i < m->n->n_launches; i++) {
        const td_launch *k = &m->n->launches[i];
        if (!computes(k)) continue;
        *(k->kernel.has_end ? &parts : &rows) |=
            td__c_shape(k).rows > 0 || k->kernel.has_end;
        zero |= strstr(k->kernel.text, "r->zero") != NULL;
        if (text_of(m->n, i) != i) continue;
        add_kernel(&kernels, m->n, i);
        td__buf_printf(&names, "%s\n", k->kernel.helpers);
    }
    add_run(m, &run, &names);
    add_c99(&changed, td__buf_str(&names), "");
    bool ok = td__helpers_text(&helpers, td__buf_str(&changed));
    td__buf_add(b, "/* model.c -- @");
    td__c_plain(b, m->g->name);
    td__buf_printf(b,
                   " as C, written by tandem %s. model.h says how it is called. */\n"
                   "#include \"model.h\"\n\n",
                   TD_VERSION_STRING);
    td__buf_add(b, preamble);
    if (has_word(td__buf_str(&run), "td_none"))
        td__buf_add(b, "\nstatic const int64_t td_none[1] = {0};\n");
    if (zero) td__buf_add(b, "\nstatic volatile int64_t td_zero;\n");
    td__buf_add(b, "\n");
    add_externs(m, b);
    td__buf_add(b, "\n");
    add_c99(b, td__buf_str(&helpers), "");
    td__buf_add(b, rows || parts ? td_kernel_type : "");
    td__buf_add(b, rows ? td_rows : "");
    td__buf_add(b, parts ? td_parts : "");
    td__buf_add(b, td__buf_str(&kernels));
    add_init(m, b);
    td__buf_add(b, td__buf_str(&run));
    bool memory = !b->failed && !kernels.failed && !run.failed && !names.failed &&
                  !helpers.failed && !changed.failed;
    td__buf_free(&kernels);
    td__buf_free(&run);
    td__buf_free(&names);
    td__buf_free(&helpers);
    td__buf_free(&changed);
    if (!memory) return td__fail_memory(m->cx);
    return ok || td__fail(m->cx, TD_E_UNSUPPORTED,
                          "td_export_c: internal error: a helper function is unknown");
}

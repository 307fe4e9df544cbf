/* c_files.c -- the files beside model.c: model.h, the weights, an example main.c and a
 * Makefile. */
#include "export/c_model.h"
#include "ops/expr.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

void td__c_plain(td_buf *b, const char *name) {
    for (const char *p = name ? name : ""; *p; p++) {
        bool plain = isalnum((unsigned char)*p) || strchr("._-", *p);
        td__buf_addn(b, plain ? p : "_", 1);
    }
}

static const char *c_type(const td_c_slot *s) {
    return td__dtype_text[s->v->type->dtype].c;
}

static int64_t items(const td_c_slot *s) {
    return s->bytes / td__dtype_bytes[s->v->type->dtype];
}

/* ---- model.h -------------------------------------------------------------- */

void td__c_parameters(const td_c_model *m, td_buf *b) {
    td__buf_printf(b, "(%s *m", m->name);
    for (int i = 0; i < m->n_in; i++)
        if (!m->in[i].state)
            td__buf_printf(b, ", %s%s *%s", m->in[i].written ? "" : "const ",
                           c_type(&m->in[i]), m->in[i].name);
    for (int i = 0; i < m->n_out; i++)
        td__buf_printf(b, ", %s *%s", c_type(&m->out[i]), m->out[i].name);
    td__buf_add(b, ")");
}

/* " *   x         f32[64,8], 512 elements, read" */
static void add_line(const td_c_model *m, td_buf *b, const td_c_slot *s,
                     const char *what) {
    td__buf_printf(b, " *   %-16s ", s->name);
    td__gtype_print(b, m->g, s->v->type);
    td__buf_printf(b, ", %lld elements, %s\n", (long long)items(s), what);
}

static void add_contract(const td_c_model *m, td_buf *b) {
    td__buf_printf(b, "/* Runs @");
    td__c_plain(b, m->g->name);
    td__buf_add(b,
                ". Arrays are row-major unless strides follow in braces, and do not\n"
                " * overlap. Returns 0, or the number of the step that met an index "
                "out of range;\n * the memory is then incomplete.\n *\n");
    for (int i = 0; i < m->n_in; i++)
        if (!m->in[i].state)
            add_line(m, b, &m->in[i], m->in[i].written ? "written" : "read");
    for (int i = 0; i < m->n_out; i++) add_line(m, b, &m->out[i], "result");
    td__buf_printf(b, " */\nint %s_%s", m->name, m->function);
    td__c_parameters(m, b);
    td__buf_add(b, ";\n");
}

/* Offsets of the state that the function writes, by name. */
static void add_state(const td_c_model *m, td_buf *b) {
    bool any = false;
    for (int i = 0; i < m->n_in; i++) any |= m->in[i].state && m->in[i].written;
    if (!any) return;
    td__buf_printf(
        b,
        "/* Byte offsets in the memory of what the function updates. To save "
        "a trained\n * model, write the first %s_state_bytes bytes; to load "
        "it, read them after init. */\nenum {\n",
        m->name);
    for (int i = 0; i < m->n_in; i++) {
        const td_c_slot *s = &m->in[i];
        if (!s->state || !s->written) continue;
        td__buf_printf(b, "    %s_at_%s = %lld, /* ", m->name, s->name,
                       (long long)s->at);
        td__gtype_print(b, m->g, s->v->type);
        td__buf_add(b, " */\n");
    }
    td__buf_printf(b, "    %s_state_bytes = %lld\n};\n\n", m->name,
                   (long long)m->state_bytes);
}

void td__c_header(const td_c_model *m, td_buf *b) {
    int64_t bytes = m->bytes > 0 ? m->bytes : 64;
    td__buf_add(b, "/* model.h -- @");
    td__c_plain(b, m->g->name);
    td__buf_printf(b,
                   " as C. Needs the C library and libm only; allocates nothing.\n"
                   " * A %s is a plain struct of constant size: make it static. */\n"
                   "#ifndef TD_ARTEFACT_%s_H\n#define TD_ARTEFACT_%s_H\n\n"
                   "#include <stdint.h>\n\n"
                   "/* State and all intermediate values. */\n"
                   "#define %s_bytes %lld\n\n"
                   "typedef struct %s {\n"
                   "    union {\n"
                   "        unsigned char bytes[%s_bytes];\n"
                   "        double        align_f;\n"
                   "        int64_t       align_i;\n"
                   "    } memory;\n",
                   m->name, m->name, m->name, m->name, (long long)bytes, m->name,
                   m->name);
    if (m->file) td__buf_add(b, "    const unsigned char *weights;\n");
    if (m->draws)
        td__buf_add(b, "    uint64_t seed, offset; /* of the random numbers */\n");
    td__buf_printf(b, "} %s;\n\n", m->name);
    add_state(m, b);
    if (m->file)
        td__buf_printf(b,
                       "/* weights: the %lld bytes of weights.bin (little-endian), "
                       "aligned to 8 bytes, which\n * must stay in memory. */\n"
                       "enum { %s_weight_bytes = %lld };\n"
                       "void %s_init(%s *m, const void *weights);\n\n",
                       (long long)m->weight_bytes, m->name, (long long)m->weight_bytes,
                       m->name, m->name);
    else td__buf_printf(b, "void %s_init(%s *m);\n\n", m->name, m->name);
    add_contract(m, b);
    td__buf_add(b, "\n#endif\n");
}

/* ---- weights -------------------------------------------------------------- */

/* An element as a C literal that reads back to the same bits. */
static void add_element(td_buf *b, td_dtype dt, const void *p) {
    uint16_t half;
    double   f;
    if (td__is_half(dt)) {
        memcpy(&half, p, 2);
        td__buf_printf(b, "0x%04x", half);
        return;
    }
    if (!td__is_float(dt)) {
        int64_t i = td__load_i(dt, p);
        if (i == INT64_MIN) td__buf_add(b, "INT64_MIN");
        else td__buf_printf(b, "%lld", (long long)i);
        return;
    }
    f = td__load_f(dt, p);
    if (isnan(f)) td__buf_add(b, "NAN");
    else if (isinf(f)) td__buf_add(b, f < 0 ? "-INFINITY" : "INFINITY");
    else td__buf_printf(b, dt == TD_F32 ? "%.9gf" : "%.17g", f);
}

/* Whole numbers need a point before the f. */
static void add_float(td_buf *b, td_dtype dt, const void *p) {
    td_buf t = {0};
    add_element(&t, dt, p);
    const char *s = td__buf_str(&t);
    size_t      n = strlen(s);
    bool        whole = (dt == TD_F32 || dt == TD_F64) && !strpbrk(s, ".eNI");
    if (whole && dt == TD_F32) td__buf_printf(b, "%.*s.0f", (int)n - 1, s);
    else td__buf_printf(b, "%s%s", s, whole ? ".0" : "");
    b->failed |= t.failed;
    td__buf_free(&t);
}

/* The bytes of a state tensor as they are in memory, from its first element on. */
static void add_array(const td_c_model *m, td_buf *b, const td_c_slot *s) {
    td_dtype    dt = (td_dtype)s->v->type->dtype;
    const char *p = td__ptr(s->value);
    td__buf_add(b, "\n/* ");
    td__c_plain(b, s->given ? s->given : s->name);
    td__buf_add(b, ": ");
    td__gtype_print(b, m->g, s->v->type);
    td__buf_printf(b, " */\nconst %s %s_%s[%lld] = {", c_type(s), m->name, s->name,
                   (long long)items(s));
    for (int64_t i = 0; i < items(s); i++) {
        td__buf_add(b, i % 6 ? " " : "\n    ");
        add_float(b, dt, p + i * td__dtype_bytes[dt]);
        td__buf_add(b, ",");
    }
    td__buf_add(b, "\n};\n");
}

void td__c_weights(const td_c_model *m, td_buf *b) {
    td__buf_add(b,
                "/* weights.c -- parameters and other state at the time of the export. "
                "*/\n#include <math.h>\n#include <stdint.h>\n");
    for (int i = 0; i < m->n_in; i++) {
        const td_c_slot *s = &m->in[i];
        if (!s->state || !s->bytes) continue;
        td__buf_printf(b, "extern const %s %s_%s[%lld];\n", c_type(s), m->name, s->name,
                       (long long)items(s));
        add_array(m, b, s);
    }
}

void td__c_weight_bytes(const td_c_model *m, td_buf *b) {
    static const char zeros[64] = {0};
    for (int i = 0; i < m->n_in; i++) {
        const td_c_slot *s = &m->in[i];
        if (!s->state) continue;
        if (s->bytes) td__buf_addn(b, td__ptr(s->value), (size_t)s->bytes);
        td__buf_addn(b, zeros, (size_t)((64 - s->bytes % 64) % 64));
    }
}

/* ---- main.c and the Makefile ---------------------------------------------- */

/* Declares an array, and fills arguments of floats with small numbers. */
static void add_declaration(td_buf *b, const td_c_slot *s) {
    td__buf_printf(b, "static %s %s[%lld];\n", c_type(s), s->name,
                   (long long)(items(s) > 0 ? items(s) : 1));
}

static void add_call(const td_c_model *m, td_buf *b) {
    td__buf_printf(b, "        int at = %s_%s(&model_", m->name, m->function);
    for (int i = 0; i < m->n_in; i++)
        if (!m->in[i].state) td__buf_printf(b, ", %s", m->in[i].name);
    for (int i = 0; i < m->n_out; i++) td__buf_printf(b, ", %s", m->out[i].name);
    td__buf_add(
        b, ");\n"
           "        if (at) return printf(\"step %d: an index is out of range\\n\", "
           "at), 1;\n");
}

static bool prints(const td_c_slot *s) {
    td_dtype dt = (td_dtype)s->v->type->dtype;
    return !td__is_half(dt) && items(s) > 0;
}

static void add_load(const td_c_model *m, td_buf *b) {
    if (!m->file) {
        td__buf_printf(b, "    %s_init(&model_);\n", m->name);
        return;
    }
    td__buf_printf(
        b,
        "    int fd = open(\"weights.bin\", O_RDONLY);\n"
        "    void *weights = mmap(0, %s_weight_bytes, PROT_READ, MAP_PRIVATE, "
        "fd, 0);\n"
        "    if (fd < 0 || weights == MAP_FAILED) return perror(\"weights.bin\"), "
        "1;\n"
        "    %s_init(&model_, weights);\n",
        m->name, m->name);
}

void td__c_main(const td_c_model *m, td_buf *b) {
    td__buf_printf(b, "/* main.c -- calls %s_%s ten times on made-up arguments. */\n",
                   m->name, m->function);
    if (m->file)
        td__buf_add(b, "#define _DEFAULT_SOURCE /* mmap */\n#include <fcntl.h>\n"
                       "#include <sys/mman.h>\n");
    td__buf_printf(b,
                   "#include <stdio.h>\n\n#include \"model.h\"\n\nstatic %s model_;\n",
                   m->name);
    for (int i = 0; i < m->n_in; i++)
        if (!m->in[i].state) add_declaration(b, &m->in[i]);
    for (int i = 0; i < m->n_out; i++) add_declaration(b, &m->out[i]);
    td__buf_add(b, "\nint main(void) {\n");
    add_load(m, b);
    for (int i = 0; i < m->n_in; i++) {
        const td_c_slot *s = &m->in[i];
        if (s->state || !items(s) || !td__is_float((td_dtype)s->v->type->dtype) ||
            td__is_half((td_dtype)s->v->type->dtype))
            continue;
        td__buf_printf(
            b,
            "    for (int i = 0; i < %lld; i++) %s[i] = (%s)(i %% 17) / 17 - "
            "(%s)0.5;\n",
            (long long)items(s), s->name, c_type(s), c_type(s));
    }
    td__buf_add(b, "    for (int k = 0; k < 10; k++) {\n");
    add_call(m, b);
    for (int i = 0; i < m->n_out; i++)
        if (prints(&m->out[i])) {
            td__buf_printf(b, "        printf(\"%s %%g\\n\", (double)%s[0]);\n",
                           m->out[i].name, m->out[i].name);
            break;
        }
    td__buf_add(b, "    }\n    return 0;\n}\n");
}

void td__c_makefile(const td_c_model *m, td_buf *b) {
    const char *weights = m->file ? "" : " weights.c";
    td__buf_printf(
        b,
        "# make; threads: make THREADS=-fopenmp; products by a library:\n"
        "# make BLAS='-DTD_CBLAS -lopenblas'\n"
        "CC     = cc\n"
        "CFLAGS = -std=c99 -O3 -march=native -Wall -Wextra -pedantic\n"
        "# These keep results equal to the library's.\n"
        "EXACT  = -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-math-errno\n"
        "\n"
        "example: main.c model.c%s model.h\n"
        "\t$(CC) $(CFLAGS) $(EXACT) $(THREADS) -o $@ main.c model.c%s -lm $(BLAS)\n",
        weights, weights);
}

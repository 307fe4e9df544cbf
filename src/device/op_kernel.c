/* op_kernel.c -- puts together the text of a kernel of text/NAME.h for the dtypes of a
 * call, and starts it. */
#include "device/op_kernel.h"

#include "ops/cast.h"
#include "ops/expr.h"
#include "rules/shape_rules.h"

#include <stdio.h>
#include <string.h>

/* ---- the text ----------------------------------------------------------- */

/* The dtype in which elements are computed. */
static td_dtype wide(td_dtype dt) {
    if (!td__is_float(dt)) return TD_I64;
    return dt == TD_F64 ? TD_F64 : TD_F32;
}

/* The words T0, P0, A0, GET0 and PUT0 of pointer k. */
static void define_pointer(td_buf *to, int k, td_dtype dt) {
    const char *c = td__dtype_text[dt].c, *name = td__dtype_text[dt].suffix;
    const char *a = td__dtype_text[wide(dt)].c;
    td__buf_printf(to,
                   "#define T%d %s\n"
                   "#define P%d ((%s *)r->ptr[%d])\n"
                   "#define A%d %s\n",
                   k, c, k, c, k, k, a);
    if (td__is_narrow(dt))
        td__buf_printf(to,
                       "#define GET%d(x) td_m_%s_to_f32(x)\n"
                       "#define PUT%d(x) td_m_f32_to_%s((float)(x))\n",
                       k, name, k, name);
    else if (dt == TD_BOOL)
        td__buf_printf(to, "#define GET%d(x) ((%s)(x))\n#define PUT%d(x) ((x) != 0)\n",
                       k, a, k);
    else
        td__buf_printf(to, "#define GET%d(x) ((%s)(x))\n#define PUT%d(x) ((%s)(x))\n",
                       k, a, k, c);
}

/* Names of the functions that the words above stand for. */
static void add_names(td_buf *names, const td_op_kernel *k) {
    td__buf_printf(names, "%s\ntd_k_double\n%s\n", k->name, k->uses ? k->uses : "");
    for (int i = 0; i < k->ptrs; i++) {
        const char *name = td__dtype_text[k->dtype[i]].suffix;
        if (td__is_narrow((td_dtype)k->dtype[i]))
            td__buf_printf(names, "td_m_%s_to_f32\ntd_m_f32_to_%s\n", name, name);
    }
    const char *m = td__dtype_text[wide((td_dtype)k->dtype[0])].suffix;
    if (k->math)
        td__buf_printf(names, "td_m_exp_%s\ntd_m_log_%s\ntd_m_sqrt_%s\n", m, m, m);
}

static bool write_text(td_buf *to, const void *of) {
    const td_op_kernel *k = of;
    td_buf              names = {0};
    td__buf_printf(to,
                   "typedef struct td_nest_run {\n"
                   "    char *ptr[%d];\n"
                   "    int64_t size[%d], given[%d], zero;\n"
                   "} td_nest_run;\n"
                   "#define TD_NAME %s\n"
                   "#define %s KERNEL\n"
                   "#define WAY %d\n%s",
                   TD_DEVICE_PTRS, TD_DEVICE_SIZES, TD_DEVICE_GIVEN, k->name, k->name,
                   k->way, k->defines ? k->defines : "");
    for (int i = 0; i < k->ptrs; i++) define_pointer(to, i, (td_dtype)k->dtype[i]);
    const char *m = td__dtype_text[wide((td_dtype)k->dtype[0])].suffix;
    if (k->math)
        td__buf_printf(to,
                       "#define td_m_exp_M0 td_m_exp_%s\n"
                       "#define td_m_log_M0 td_m_log_%s\n"
                       "#define td_m_sqrt_M0 td_m_sqrt_%s\n",
                       m, m, m);
    add_names(&names, k);
    bool ok = td__helpers_text(to, td__buf_str(&names)) && !names.failed;
    td__buf_free(&names);
    return ok && !to->failed;
}

/* ---- starting it -------------------------------------------------------- */

void td__op_ptr(td_op_kernel *k, const td_tensor *t) {
    k->run.ptr[k->ptrs] = t ? td__ptr(t) : NULL;
    k->dtype[k->ptrs] = t ? t->dtype : k->dtype[0];
    k->ptrs++;
}

int64_t td__op_mark(const td_opcall *c) { return (int64_t)(uintptr_t)c->info->s.name; }

int64_t td__double_bits(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Do dims d and e of all operands step as one? */
static bool joins(int64_t size, const int64_t *const *stride, int operands, int d,
                  int e) {
    for (int k = 0; k < operands; k++)
        if (stride[k][d] != stride[k][e] * size) return false;
    return true;
}

/* Dims of size 1 are left out and neighbours that step as one are joined. */
bool td__op_walk(td_op_kernel *k, int at, int rank, const int64_t *size,
                 const int64_t *const *stride, int operands) {
    int64_t n[TD_MAX_RANK];
    int     from[TD_MAX_RANK], dims = 0;
    for (int d = 0; d < rank; d++) {
        if (size[d] == 1) continue;
        if (dims > 0 && joins(size[d], stride, operands, from[dims - 1], d)) {
            n[dims - 1] *= size[d];
            from[dims - 1] = d;
            continue;
        }
        n[dims] = size[d];
        from[dims++] = d;
    }
    int room = (at ? TD_DEVICE_SIZES : TD_WALK_AT) - at;
    if (1 + dims * (operands + 1) > room) return false;
    int64_t *to = k->run.size + at;
    to[0] = dims;
    for (int d = 0; d < dims; d++) {
        to[1 + d] = n[d];
        for (int o = 0; o < operands; o++)
            to[1 + (o + 1) * dims + d] = stride[o][from[d]];
    }
    return true;
}

/* The status word of a device, made at its first use; NULL: out of memory. */
static void *status_of(td_device_state *d) {
    pthread_mutex_lock(&d->lock);
    if (!d->status && (d->status = d->plugin->alloc(d->dev, 256)))
        d->plugin->fill(d->dev, d->status, 0, 256);
    pthread_mutex_unlock(&d->lock);
    return d->status;
}

/* Everything that the text depends on. */
static td_hash128 hash_of(const td_op_kernel *k) {
    char key[512];
    int  n = snprintf(key, sizeof key, "%s %d %s ", k->name, k->way,
                     k->defines ? k->defines : "");
    for (int i = 0; i < k->ptrs && n < (int)sizeof key - 4; i++)
        n += snprintf(key + n, sizeof key - (size_t)n, "%d ", k->dtype[i]);
    return td__hash128(key, (size_t)n);
}

bool td__op_start(td_op_kernel *k, td_device_state *d, int64_t elements, int64_t rows,
                  bool *ok) {
    td_device_source from = {write_text, k};
    *ok = true;
    if (elements == 0) return true;
    void *kernel = td__device_find(k->c->cx, d, hash_of(k), &from);
    if (!kernel) return false;
    if (k->picky && !(k->run.ptr[TD_DEVICE_PTRS - 1] = status_of(d)))
        return *ok = td__fail_memory(k->c->cx), true;
    d->suspect |= k->picky;
    *ok = td__device_launch(k->c->cx, d, kernel,
                            td__device_grid(elements, rows, rows > 0), &k->run);
    return true;
}

/* ---- operands ----------------------------------------------------------- */

td_tensor *td__op_make(td_opcall *c, td_meta *m) {
    m->device = c->device;
    return td__tensor_make(c->cx, m, false);
}

td_tensor *td__op_dense(td_opcall *c, td_tensor *t) {
    td_meta m;
    if (td__is_dense(t->rank, t->size, t->stride)) return t;
    td__meta_dense(&m, (td_dtype)t->dtype, t->rank, t->size);
    td_tensor *copy = td__op_make(c, &m);
    return copy && td__copy_into(copy, t) ? copy : NULL;
}

td_tensor *td__op_room(td_opcall *c, td_dtype dt, int64_t n) {
    td_meta m;
    td__meta_dense(&m, dt, 1, &n);
    return td__op_make(c, &m);
}

td_lines td__op_lines(const td_tensor *t, int dim) {
    td_lines l = {1, 1, 1};
    for (int d = 0; d < t->rank; d++)
        *(d < dim ? &l.outer : d == dim ? &l.n : &l.inner) *= t->size[d];
    return l;
}

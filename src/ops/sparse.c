/* sparse.c -- the two types of sparse tensors: registration, and reading and making
 * tensors of them. */
#include "ops/sparse.h"
#include "core/handle.h"
#include "tandem/sparse.h"

#include <stdatomic.h>
#include <string.h>

static const td_type *_Atomic coo, *_Atomic csr;

/* Views that a sparse tensor does not have are computed as new tensors. */
static const char *const instead[] = {"t", "_sparse_t", "transpose",
                                      "_sparse_transpose", NULL};

bool td__sparse_init(void) {
    static const char *const coo_parts[] = {"indices", "values"};
    static const char *const csr_parts[] = {"crow_indices", "col_indices", "values"};
    td_type_opts             o = {TD_TYPE_OPTS,
                                  .name = "sparse_coo",
                                  .inner = coo_parts,
                                  .n_inner = TD_COO_PARTS,
                                  .call = td__sparse_call,
                                  .version = 1,
                                  .instead = instead,
                                  .varies = true};
    if (!coo) coo = td__type_add(&o);
    o.name = "sparse_csr";
    o.inner = csr_parts;
    o.n_inner = TD_CSR_PARTS;
    if (!csr) csr = td__type_add(&o);
    return coo && csr;
}

/* ---- reading ------------------------------------------------------------ */

bool td__is_coo(const td_tensor *t) { return t->typed && t->typed->type == coo; }
bool td__is_csr(const td_tensor *t) { return t->typed && t->typed->type == csr; }
bool td__is_sparse(const td_tensor *t) { return td__is_coo(t) || td__is_csr(t); }

bool td__is_coalesced(const td_tensor *t) {
    return td__is_csr(t) || (td__is_coo(t) && t->typed->metadata[0]);
}

int td__sparse_dims(const td_tensor *t) {
    return td__is_csr(t)   ? 2
           : td__is_coo(t) ? t->rank - t->typed->inner[TD_COO_VALUES]->rank + 1
                           : 0;
}

td_tensor *td__sparse_part(td_tensor *t, int i) { return td_op__inner(t, i); }

td_tensor *td__sparse_values(td_tensor *t) {
    return td__sparse_part(t, td__is_csr(t) ? TD_CSR_VALUES : TD_COO_VALUES);
}

/* The row of each entry. */
static td_tensor *csr_rows(td_tensor *t) {
    return td_op__csr_rows(td__sparse_part(t, TD_CSR_CROW),
                           td__sparse_part(t, TD_CSR_COL));
}

td_tensor *td__sparse_indices(td_tensor *t) {
    if (td__is_coo(t)) return td__sparse_part(t, TD_COO_INDICES);
    td_tensor *both[] = {csr_rows(t), td__sparse_part(t, TD_CSR_COL)};
    return td_op_stack((td_tensors){both, 2}, 0);
}

int td__sparse_places(td_tensor *t, td_tensor *to[TD_MAX_RANK]) {
    int n = td__sparse_dims(t);
    if (td__is_csr(t)) {
        to[0] = csr_rows(t);
        to[1] = td__sparse_part(t, TD_CSR_COL);
    } else {
        td_tensor *all = td__sparse_part(t, TD_COO_INDICES);
        for (int d = 0; d < n; d++) to[d] = td_op_select(all, 0, d);
    }
    for (int d = 0; d < n; d++)
        if (td_is_nil(to[d])) return 0;
    return n;
}

td_tensor *td__sparse_flat(td_tensor *t) {
    return td_op__coo_flat(td__sparse_indices(t),
                           (td_ints){t->size, td__sparse_dims(t)});
}

/* ---- making ------------------------------------------------------------- */

static td_tensor *wrap(td_tensors parts, const td_type *type, const char *metadata,
                       td_ints size) {
    for (int i = 0; i < parts.n; i++)
        if (td_is_nil(parts.v[i])) return parts.v[i];
    return td_op__wrap(parts, type->opts.name, metadata, size, (td_ints){0},
                       (td_dtype)parts.v[parts.n - 1]->dtype);
}

td_tensor *td__coo_wrap(td_tensor *indices, td_tensor *values, td_ints size,
                        bool coalesced) {
    td_tensor *parts[] = {indices, values};
    return wrap((td_tensors){parts, 2}, coo, coalesced ? "coalesced" : "", size);
}

td_tensor *td__csr_wrap(td_tensor *crow, td_tensor *col, td_tensor *values,
                        td_ints size) {
    td_tensor *parts[] = {crow, col, values};
    return wrap((td_tensors){parts, 3}, csr, "", size);
}

td_tensor *td__sparse_with(td_tensor *t, td_tensor *values) {
    td_ints size = {t->size, t->rank};
    if (td__is_coo(t))
        return td__coo_wrap(td__sparse_part(t, TD_COO_INDICES), values, size,
                            td__is_coalesced(t));
    return td__csr_wrap(td__sparse_part(t, TD_CSR_CROW), td__sparse_part(t, TD_CSR_COL),
                        values, size);
}

/* ---- public properties -------------------------------------------------- */

/* The tensor that a captured body computes with in place of t; NULL: t is nil. */
static const td_tensor *seen(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return NULL;
    const td_tensor *copy = TD_UNLIKELY(t->cx->fake) ? td__seen_as(t) : NULL;
    return copy ? copy : t;
}

bool td_is_sparse(const td_tensor *t) { return (t = seen(t)) && td__is_coo(t); }
bool td_is_sparse_csr(const td_tensor *t) { return (t = seen(t)) && td__is_csr(t); }

bool td_is_coalesced(const td_tensor *t) {
    return (t = seen(t)) && td__is_coo(t) && td__is_coalesced(t);
}

int td_sparse_dim(const td_tensor *t) { return (t = seen(t)) ? td__sparse_dims(t) : 0; }

int64_t td_nnz(const td_tensor *t) {
    if (!(t = seen(t)) || !td__is_sparse(t)) return 0;
    return td__dim_fixed(t->typed->inner[t->typed->n - 1]->size[0]);
}

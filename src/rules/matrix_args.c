/* matrix_args.c -- checks and layouts shared by the rules of linear algebra. */
#include "rules/matrix_args.h"

#include "rules/shape_rules.h"

#include <string.h>

bool td__want_matrix_dims(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    return t->rank >= 2 ||
           td__op_fail(c, TD_E_SHAPE,
                       "%s must be a matrix or a stack of matrices, got %s",
                       c->info->s.in[i].name, td__type_str(t));
}

bool td__want_matrix(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    td_dtype         part = td__real_of((td_dtype)t->dtype);
    if (t->rank >= 2 && part != TD_F32 && part != TD_F64)
        return td__op_fail(c, TD_E_DTYPE,
                           "%s must be f32 or f64, got %s; convert it with td_to",
                           c->info->s.in[i].name, td__type_str(t));
    return td__want_matrix_dims(c, i);
}

bool td__want_square(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    if (!td__want_matrix(c, i)) return false;
    if (td__dim_eq(t->size[t->rank - 1], t->size[t->rank - 2])) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "%s must be a square matrix or a stack of them, "
                       "got %s",
                       c->info->s.in[i].name, td__type_str(t));
}

bool td__want_same_dtype(td_opcall *c, int i, int k) {
    const td_tensor *a = td__in(c, i), *b = td__in(c, k);
    if (a->dtype == b->dtype) return true;
    return td__op_fail(c, TD_E_DTYPE, "%s and %s must have one dtype, got %s and %s",
                       c->info->s.in[i].name, c->info->s.in[k].name, td__type_str(a),
                       td__type_str(b));
}

bool td__want_word(td_opcall *c, int i, const char *const *words, int n) {
    char list[160] = "";
    for (int k = 0; k < n; k++) {
        if (!strcmp(c->in[i].u.s, words[k])) return true;
        strcat(strcat(strcat(list, k ? ", \"" : "\""), words[k]), "\"");
    }
    return td__op_fail(c, TD_E_ARG, "%s is \"%s\"; it must be one of %s",
                       c->info->s.in[i].name, c->in[i].u.s, list);
}

void td__meta_columns(td_meta *m, td_dtype dt, int rank, const int64_t *size) {
    td__meta_dense(m, dt, rank, size);
    if (rank < 2) return;
    td__strides_dense(rank, size, m->stride);
    m->strided = true;
    m->stride[rank - 2] = 1;
    m->stride[rank - 1] = td__dim_max(size[rank - 2], 1);
}

void td__meta_none(td_meta *m, td_dtype dt) {
    td__meta_dense(m, dt, 1, (int64_t[]){0});
}

bool td__is_vector_rhs(const td_tensor *a, const td_tensor *b) {
    if (b->rank == 1) return true;
    return a->rank - 1 == b->rank && td__dims_eq(a->size, b->size, b->rank);
}

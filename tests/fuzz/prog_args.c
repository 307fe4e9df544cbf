/* prog_args.c -- arguments for any op, from its schema: by type, by a few names that
 * say what a number means, and by the sizes of what is there. What does not fit the
 * shape rule refuses; the caller tries again. */
#include "prog.h"

#include <stdio.h>
#include <string.h>

/* ---- tensors ------------------------------------------------------------ */

typedef enum wanted { ANY, FLOATS, INTS, INDEX, PIVOTS, MASK } wanted;

static bool one_of(const char *name, const char *words) {
    size_t n = strlen(name);
    for (const char *at = words; (at = strstr(at, name)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static wanted what_fits(const prog_call *c, const td_param *p) {
    unsigned dtypes = td__row(c->op)->dtypes;
    bool     mask = prog_with & PROG_MASKS && one_of(p->name, "indices") &&
                prog_chance(&c->w->r, 60);
    if (mask) return MASK;
    if (one_of(p->name, "index indices target lengths offsets sorter ranks degree"))
        return INDEX;
    if (one_of(p->name, "pivots LU_pivots")) return PIVOTS;
    if (one_of(p->name, "mask condition")) return MASK;
    if (dtypes & TD_DT_FLOAT_ONLY) return FLOATS;
    if (dtypes & TD_DT_INT_ONLY) return INTS;
    return ANY;
}

static bool is_wanted(const td_tensor *t, wanted want) {
    td_dtype dt = (td_dtype)t->dtype;
    switch (want) {
    case ANY: return true;
    case FLOATS: return td__is_float(dt);
    case INTS: return !td__is_float(dt);
    case INDEX: return dt == TD_I64;
    case PIVOTS: return dt == TD_I32;
    case MASK: return dt == TD_BOOL;
    }
    return false;
}

static bool same_sizes(const td_tensor *a, const td_tensor *b) {
    return a->rank == b->rank &&
           !memcmp(a->size, b->size, sizeof *a->size * (size_t)a->rank);
}

/* The last value whose sizes depend on values; NULL: there is none of this kind. */
static const prog_val *by_values(const prog_world *w, wanted want) {
    for (int i = w->vals.n - 1; i >= 0; i--)
        if (w->vals.v[i].by_values && is_wanted(w->vals.v[i].t, want))
            return &w->vals.v[i];
    return NULL;
}

static const prog_val *existing(prog_call *c, wanted want) {
    prog_world     *w = c->w;
    const prog_val *last =
        prog_with & PROG_MASKS && prog_chance(&w->r, 30) ? by_values(w, want) : NULL;
    if (last) return last;
    bool like = c->self && prog_chance(&w->r, 60);
    for (int tries = 0; tries < 6 && w->vals.n; tries++) {
        int             back = prog_chance(&w->r, 50) && w->vals.n > 5 ? 5 : w->vals.n;
        const prog_val *v = &w->vals.v[w->vals.n - 1 - prog_upto(&w->r, back)];
        if (!is_wanted(v->t, want)) continue;
        if (like && tries < 4 && !same_sizes(v->t, c->self)) continue;
        return v;
    }
    return NULL;
}

/* Sizes that may go with the first tensor: its own, broadcast, for a product. */
static int fitting_sizes(prog_call *c, int64_t *size) {
    prog_world      *w = c->w;
    const td_tensor *t = c->self;
    int              how = prog_upto(&w->r, 12);
    if (!t || t->rank > 5 || how < 3) return prog_sizes(w, size);
    int rank = t->rank, from = 0;
    if (how < 5 && rank) return size[0] = t->size[prog_upto(&w->r, rank)], 1;
    if (how == 5) from = rank > 1 ? prog_upto(&w->r, rank) : 0;
    for (int i = from; i < rank; i++) size[i - from] = t->size[i];
    rank -= from;
    if (how == 6 && rank) size[prog_upto(&w->r, rank)] = 1;
    if (how == 7 && rank > 1) {
        size[rank - 2] = t->size[t->rank - 1];
        size[rank - 1] = prog_size(w);
    }
    return rank;
}

static td_tensor *fresh_for(prog_call *c, wanted want, const char *param, char *name) {
    prog_world *w = c->w;
    int64_t     size[PROG_LIST], most = w->usual;
    if (want == INDEX) {
        if (c->self && c->self->rank)
            most = c->self->size[prog_upto(&w->r, c->self->rank)];
        return prog_fresh_index(c, most, name);
    }
    if (want == PIVOTS) return prog_fresh_pivots(c, name);
    td_dtype dt = prog_dtype(&w->r);
    if (c->self && prog_chance(&w->r, 75)) dt = (td_dtype)c->self->dtype;
    if (want == MASK) dt = TD_BOOL;
    if (want == FLOATS && !td__is_float(dt)) dt = TD_F32;
    if (want == INTS && td__is_float(dt)) dt = TD_I64;
    int rank = prog_takes_images(c->op) ? prog_image_sizes(c, param, size) : -1;
    if (rank < 0) rank = fitting_sizes(c, size);
    while (rank && td__numel(rank, size) > PROG_NUMEL) rank--;
    if (want == MASK && prog_chance(&w->r, 20))
        return prog_fresh_none(w, &c->before, rank, size, name);
    return prog_fresh(w, &c->before, dt, rank, size, name);
}

static td_tensor *some_tensor(prog_call *c, const td_param *p) {
    wanted want = what_fits(c, p);
    bool   image = prog_takes_images(c->op);
    int    odds = want >= INDEX || (image && !c->self) ? 60 : c->self ? 25 : 10;
    if (image && one_of(p->name, "weight grid")) odds = 90;
    /* Computed degrees may be huge, and a recurrence of 2^60 steps does not end. */
    if (one_of(p->name, "degree")) odds = 100;
    const prog_val *old = prog_chance(&c->w->r, odds) ? NULL : existing(c, want);
    prog_val        v;
    if (old) v = *old;
    else {
        v.t = fresh_for(c, want, p->name, v.name);
        if (td_is_nil(v.t) || !td__vec_push(&c->fresh, v)) return NULL;
    }
    td__buf_add(&c->text, v.name);
    if (!c->self) c->self = v.t;
    return v.t;
}

static bool tensor_list(prog_call *c, int i, const td_param *p) {
    int n = prog_range(&c->w->r, 1, 3), kept = 0;
    td__buf_add(&c->text, "[");
    for (int k = 0; k < n; k++) {
        if (k) td__buf_add(&c->text, ", ");
        bool hole = p->type == TD_T_OPT_TENSORS && prog_chance(&c->w->r, 30);
        c->ts[i][kept++] = NULL;
        if (hole) td__buf_add(&c->text, "none");
        else if (!(c->ts[i][k] = some_tensor(c, p))) return false;
    }
    td__buf_add(&c->text, "]");
    c->in[i] = td__value_tensors((td_tensors){c->ts[i], kept});
    return true;
}

/* ---- numbers ------------------------------------------------------------ */

static void print_float(td_buf *b, double f) {
    char s[40];
    snprintf(s, sizeof s, "%.17g", f);
    td__buf_printf(b, strpbrk(s, ".ein") ? "%s" : "%s.0", s);
}

/* What an integer of this name is about. */
static const struct {
    const char *names;
    int         lo, hi;
} small_ints[] = {
    {"index start", -3, 3},
    {"end", -2, 5},
    {"length steps row col", 0, 4},
    {"step", 1, 2},
    {"storage_offset", 0, 3},
    {"offset diagonal decimals", -2, 2},
    {"split_size chunks k n m num_samples groups num_groups group size", 1, 3},
    {"divisor_override", 1, 3},
    {"num_classes num_weights", 3, 6},
    {"padding_idx ignore_index", -1, 2},
    {"low from", -3, 0},
    {"high to", 1, 4},
    {"interpolation_mode padding_mode", 0, 2},
    {"upscale_factor downscale_factor edge_order spatial bins sections ind r", 1, 3},
};

static int64_t some_int(prog_call *c, const char *name) {
    prog_rng *r = &c->w->r;
    int       rank = c->self ? c->self->rank : 2;
    if (one_of(name, "dim dim0 dim1 dim2 dimension axis axis0 axis1 start_dim end_dim"))
        return prog_range(r, rank ? -rank : -1, rank ? rank - 1 : 0);
    if (one_of(name, "N C HxW") && rank) return c->self->size[prog_upto(r, rank)];
    for (size_t i = 0; i < sizeof small_ints / sizeof *small_ints; i++)
        if (one_of(name, small_ints[i].names))
            return prog_range(r, small_ints[i].lo, small_ints[i].hi);
    return prog_range(r, -1, 4);
}

td_value prog_number(prog_rng *r) {
    if (prog_chance(r, 50)) return td_value_float(prog_range(r, -6, 8) * 0.25);
    return td_value_int(prog_chance(r, 90) ? prog_range(r, 2, 4)
                                           : prog_range(r, -1, 1));
}

void prog_print_number(td_buf *b, td_value v) {
    if (v.kind == TD_K_FLOAT) print_float(b, v.u.f);
    else td__buf_printf(b, "%lld", (long long)v.u.i);
}

/* Names an argument of the function that is a number, by chance; an int where `ints`.
 * False: none, nothing is printed. */
static bool number_argument(prog_call *c, int percent, bool ints, td_value *v) {
    prog_world *w = c->w;
    if (!w->n_numbers || !prog_chance(&w->r, percent)) return false;
    int i = prog_upto(&w->r, w->n_numbers);
    if (ints && w->number[i].kind != TD_K_INT) return false;
    td__buf_printf(&c->text, "%%n%d", i);
    *v = w->number[i];
    return true;
}

/* A list, with names of arguments for some of its elements that have their value. Other
 * numbers would leave gaps in an empty tensor of given strides. */
static void print_list(prog_call *c, const int64_t *v, int n) {
    prog_world *w = c->w;
    if (!w->n_numbers || prog_gives_unset(c->op)) {
        prog_print_ints(&c->text, v, n);
        return;
    }
    td__buf_add(&c->text, "[");
    for (int i = 0; i < n; i++) {
        int      k = prog_upto(&w->r, w->n_numbers);
        td_value x = w->number[k];
        td__buf_add(&c->text, i ? ", " : "");
        if (x.kind == TD_K_INT && x.u.i == v[i]) td__buf_printf(&c->text, "%%n%d", k);
        else td__buf_printf(&c->text, "%lld", (long long)v[i]);
    }
    td__buf_add(&c->text, "]");
}

static td_value some_scalar(prog_call *c) {
    prog_rng *r = &c->w->r;
    td_value  given;
    if (number_argument(c, 60, false, &given)) return given;
    int how = prog_upto(r, 10);
    if (how == 0) {
        bool b = prog_chance(r, 50);
        td__buf_add(&c->text, b ? "true" : "false");
        return td_value_bool(b);
    }
    if (how < 6) {
        int i = prog_range(r, -2, 3);
        td__buf_printf(&c->text, "%d", i);
        return td_value_int(i);
    }
    double f = prog_range(r, -6, 8) * 0.25;
    print_float(&c->text, f);
    return td_value_float(f);
}

static td_value some_float(prog_call *c, const char *name) {
    double f = prog_range(&c->w->r, 0, 4) * 0.25;
    if (one_of(name, "eps")) f = 1e-5;
    if (one_of(name, "scale scales scales_d scales_h scales_w beta delta lambd"))
        f = f * 2 + 0.5;
    print_float(&c->text, f);
    return td_value_float(f);
}

/* ---- lists of integers -------------------------------------------------- */

/* Another way to lay out n elements: its prime factors dealt out to dims. */
static int factors(prog_world *w, int64_t n, int64_t *size) {
    int rank = 0;
    for (int64_t f = 2; n > 1; f++)
        for (; n % f == 0; n /= f) {
            bool more = rank == 0 || (rank < 4 && prog_chance(&w->r, 50));
            if (more) size[rank++] = f;
            else size[prog_upto(&w->r, rank)] *= f;
        }
    return rank;
}

static int reshaped(prog_world *w, const td_tensor *t, int64_t *size) {
    if (t->numel == 0) return size[0] = 0, size[1] = 2, 2;
    int rank = factors(w, t->numel, size);
    if (prog_chance(&w->r, 20)) size[rank++] = 1;
    if (rank && prog_chance(&w->r, 25)) size[prog_upto(&w->r, rank)] = -1;
    return rank;
}

static int expanded(prog_world *w, const td_tensor *t, int64_t *size) {
    int lead = prog_chance(&w->r, 40);
    for (int i = 0; i < lead; i++) size[i] = prog_size(w);
    for (int i = 0; i < t->rank; i++) {
        size[lead + i] = t->size[i] == 1 ? prog_size(w) : t->size[i];
        if (prog_chance(&w->r, 10)) size[lead + i] = -1;
    }
    return lead + t->rank;
}

static int some_shape(prog_call *c, int64_t *size) {
    prog_world      *w = c->w;
    const td_tensor *t = c->self;
    int              how = prog_upto(&w->r, 10), n = 0;
    if (!t || t->rank > 5 || how == 0) return prog_sizes(w, size);
    if (how < 5) return reshaped(w, t, size);
    if (how < 7) return expanded(w, t, size);
    if (how == 7) { /* the last dims */
        int from = t->rank ? prog_upto(&w->r, t->rank) : 0;
        for (int i = from; i < t->rank; i++) size[n++] = t->size[i];
        return n;
    }
    for (int i = 0; i < t->rank; i++) size[n++] = t->size[i];
    if (how == 8 && n) size[prog_upto(&w->r, n)] = 1;
    return n;
}

/* A choice of dims, each once, in any order. */
static int some_dims(prog_call *c, int64_t *v, bool all) {
    prog_rng *r = &c->w->r;
    int       rank = c->self ? c->self->rank : 2;
    if (rank > PROG_LIST) rank = PROG_LIST;
    for (int i = 0; i < rank; i++) v[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int     k = prog_upto(r, i + 1);
        int64_t x = v[i];
        v[i] = v[k], v[k] = x;
    }
    for (int i = 0; i < rank; i++)
        if (prog_chance(r, 20)) v[i] -= rank;
    if (all || rank == 0) return rank;
    return c->list_len > 0 && c->list_len <= rank ? c->list_len
                                                  : prog_range(r, 1, rank);
}

static int some_strides(prog_call *c, int64_t *v) {
    prog_rng *r = &c->w->r;
    int       n = c->list_len >= 0 ? c->list_len : prog_range(r, 1, 2);
    bool      fresh = prog_gives_unset(c->op);
    if (fresh) td__strides_dense(n, c->ints[c->n - 1], v); /* no gaps: not set */
    for (int i = 0; i < n && !fresh; i++) v[i] = prog_range(r, 0, 3);
    return n;
}

static int some_ints(prog_call *c, const char *name, int64_t *v) {
    static const struct {
        const char *names;
        int         lo, hi, least, most;
    } lists[] = {
        {"kernel_size dilation", 1, 2, 1, 2},
        {"padding", 0, 1, 1, 2},
        {"repeats", 0, 2, 1, 3},
        {"shifts", -2, 2, 1, 2},
        {"output_mask", 0, 1, 3, 3},
        {"split_sizes", 0, 2, 1, 3},
    };
    prog_rng *r = &c->w->r;
    bool      image = prog_takes_images(c->op) && prog_chance(r, 80);
    int       n = image ? prog_image_list(c, name, v) : -1;
    if (n >= 0) return n;
    if (one_of(name, "dims dim source destination"))
        return some_dims(c, v, c->op == TD_OP_permute);
    if (one_of(name, "stride strides")) return some_strides(c, v);
    if (!strcmp(name, "pad")) {
        n = 2 * prog_range(r, 1, 2);
        for (int i = 0; i < n; i++) v[i] = prog_range(r, -1, 2);
        return n;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (one_of(name, lists[i].names)) {
            n = prog_range(r, lists[i].least, lists[i].most);
            for (int k = 0; k < n; k++) v[k] = prog_range(r, lists[i].lo, lists[i].hi);
            return n;
        }
    return some_shape(c, v);
}

/* ---- words -------------------------------------------------------------- */

static const char *some_word(prog_call *c, const char *name) {
    static const char *const words[][18] = {
        {"reduce", "sum", "prod", "mean", "amax", "amin", NULL},
        {"reduction", "none", "mean", "sum", NULL},
        {"rounding_mode", "", "floor", "trunc", NULL},
        {"approximate", "none", "tanh", NULL},
        {"equation", "ij,jk->ik", "ij->ji", "ii->i", "i,j->ij", "bij,bjk->bik", NULL},
        {"mode", "constant", "nearest", "reduced", "complete", "r", "reflect",
         "replicate", "circular", "linear", "bilinear", "bicubic", "nearest-exact",
         "sum", "mean", "max", NULL},
        {"padding_mode", "zeros", "border", "reflection", NULL},
        {"padding", "valid", "same", NULL},
        {"interpolation", "linear", "lower", "higher", "midpoint", "nearest", NULL},
        {"indexing", "ij", "xy", NULL},
        {"side", "left", "right", NULL},
        {"UPLO", "L", "U", NULL},
        {"driver", "gelsy", "gels", "gelsd", NULL},
        {"ord", "fro", "nuc", NULL},
        {"p", "fro", "nuc", NULL},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i][0], name)) continue;
        int n = 1;
        while (words[i][n]) n++;
        return words[i][prog_range(&c->w->r, 1, n - 1)];
    }
    return "none";
}

/* ---- the call ----------------------------------------------------------- */

static bool is_optional(const td_param *p) {
    switch ((td_arg_type)p->type) {
    case TD_T_OPT_TENSOR:
    case TD_T_OPT_SCALAR:
    case TD_T_OPT_INT:
    case TD_T_OPT_INTS:
    case TD_T_OPT_FLOAT:
    case TD_T_OPT_DTYPE: return true;
    default: return false;
    }
}

static bool scalar_arg(prog_call *c, const td_param *p, td_value *v) {
    switch ((td_arg_type)p->type) {
    case TD_T_INT:
    case TD_T_OPT_INT:
        if (number_argument(c, 30, true, v)) return true;
        *v = td_value_int(some_int(c, p->name));
        td__buf_printf(&c->text, "%lld", (long long)v->u.i);
        return true;
    case TD_T_SCALAR:
    case TD_T_OPT_SCALAR: *v = some_scalar(c); return true;
    case TD_T_FLOAT:
    case TD_T_OPT_FLOAT: *v = some_float(c, p->name); return true;
    case TD_T_BOOL:
        *v = td_value_bool(prog_chance(&c->w->r, 50));
        td__buf_add(&c->text, v->u.i ? "true" : "false");
        return true;
    case TD_T_DTYPE:
    case TD_T_OPT_DTYPE:
        *v = td__value_dtype(prog_dtype(&c->w->r));
        /* other bytes than 0 and 1 are no truth values */
        if (c->op == TD_OP_view_dtype && v->u.dt == TD_BOOL) v->u.dt = TD_U8;
        td__buf_add(&c->text, td_dtype_name(v->u.dt));
        return true;
    case TD_T_STR:
        *v = td__value_str(some_word(c, p->name));
        td__buf_printf(&c->text, "\"%s\"", v->u.s);
        return true;
    default: return false;
    }
}

static bool some_object(prog_call *c, td_value *to) {
    for (int i = 0; i < c->w->vals.n; i++) {
        const prog_val *v = &c->w->vals.v[i];
        if (!v->t->st->object) continue;
        *to = td_value_tensor(v->t);
        td__buf_add(&c->text, v->name);
        return true;
    }
    return false;
}

static bool one_arg(prog_call *c, int i, const td_param *p) {
    td_value *v = &c->in[i];
    switch ((td_arg_type)p->type) {
    case TD_T_OBJECT: return some_object(c, v);
    case TD_T_OPERAND:
        if (i > 0 && prog_chance(&c->w->r, 40)) return *v = some_scalar(c), true;
        /* fall through */
    case TD_T_TENSOR:
    case TD_T_OPT_TENSOR:
        *v = td_value_tensor(some_tensor(c, p));
        return v->u.t != NULL;
    case TD_T_TENSORS:
    case TD_T_OPT_TENSORS: return tensor_list(c, i, p);
    case TD_T_INTS:
    case TD_T_OPT_INTS: {
        int n = some_ints(c, p->name, c->ints[i]);
        c->list_len = n;
        *v = td__value_ints((td_ints){c->ints[i], n});
        print_list(c, c->ints[i], n);
        return true;
    }
    default: return scalar_arg(c, p, v);
    }
}

/* Floats drawn from all integers they can hold are so large that gradients which add
 * up in another order differ by whole numbers. */
static bool must_be_given(const prog_call *c, const td_param *p) {
    return one_of(p->name, "from to") && c->self &&
           td__is_float((td_dtype)c->self->dtype);
}

bool prog_args(prog_call *c) {
    const td_schema *s = &c->info->s;
    /* The state of the generator is passed by compiled graphs alone. */
    int              n = c->info->rng >= 0 ? c->info->rng : s->n_in;
    c->list_len = -1;
    for (int i = 0; i < n; i++) {
        const td_param *p = &s->in[i];
        bool            must = must_be_given(c, p);
        if (p->has_default && !must && prog_chance(&c->w->r, 30)) break;
        if (i) td__buf_add(&c->text, ", ");
        c->n = i;
        if (is_optional(p) && !must && prog_chance(&c->w->r, 35)) {
            td__buf_add(&c->text, "none");
            c->in[i] = TD_NONE;
        } else if (!one_arg(c, i, p)) return false;
        c->n = i + 1;
    }
    return true;
}

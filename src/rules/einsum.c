/* einsum.c -- decomposes an index equation into diagonals, permutations, sums and
 * batched products, folding operands from left to right as ATen does.
 * Every operand is brought to one common order of labels (results first, then
 * those that are summed), with size 1 where it lacks a label. */
#include "ops/ops.h"

#include <ctype.h>
#include <string.h>

#define LETTERS 52

typedef struct equation {
    td_opcall  *c;
    /* Parsed once; letters are numbered by `letter`. */
    const char *term[TD_MAX_ARGS]; /* subscripts of each operand */
    int         len[TD_MAX_ARGS];
    const char *out; /* subscripts of the result; NULL: implicit */
    int         n, out_len;
    int         dots;           /* dims under the widest "..." */
    int         count[LETTERS]; /* over all operands */
    int         last[LETTERS];  /* last operand with the letter */
    int         place[LETTERS]; /* position in the common order, -1: absent */
    int         dots_place, n_out, rank;
} equation;

/* a..z are 0..25, A..Z are 26..51. */
static int letter(char ch) {
    return islower((unsigned char)ch) ? ch - 'a' : ch - 'A' + 26;
}

static bool is_dots(const char *p, const char *end) {
    return end - p >= 3 && p[0] == '.' && p[1] == '.' && p[2] == '.';
}

/* An error that quotes the equation. */
static bool refuse(equation *e, const char *what) {
    return td__op_fail(e->c, TD_E_ARG, "%s in \"%s\"", what, e->c->in[0].u.s);
}

/* Counts letters and dots of operand i against its rank. */
static bool scan_term(equation *e, int i) {
    const char *p = e->term[i], *end = p + e->len[i];
    int         letters = 0, dots = 0, rank = e->c->in[1].u.ts[i]->rank;
    for (; p < end; p++) {
        if (*p == ' ') continue;
        if (is_dots(p, end)) {
            if (dots++) return refuse(e, "an operand has \"...\" twice");
            p += 2;
        } else if (isalpha((unsigned char)*p)) {
            letters++;
            e->count[letter(*p)]++;
            e->last[letter(*p)] = i;
        } else return refuse(e, "only letters and \"...\" may stand");
    }
    if (letters > rank || (!dots && letters != rank))
        return td__op_fail(e->c, TD_E_SHAPE,
                           "operand %d has %d dims, its subscripts name %d", i, rank,
                           letters);
    if (dots && rank - letters > e->dots) e->dots = rank - letters;
    return true;
}

/* Cuts the text at commas and "->" and scans each operand's subscripts. */
static bool split_terms(equation *e) {
    const char *text = e->c->in[0].u.s, *arrow = strstr(text, "->");
    const char *end = arrow ? arrow : text + strlen(text);
    int         n = (int)e->c->in[1].n;
    for (const char *p = text; e->n < n && p <= end; e->n++) {
        size_t len = strcspn(p, ",");
        if (p + len > end) len = (size_t)(end - p);
        e->term[e->n] = p;
        e->len[e->n] = (int)len;
        p += len + 1;
        if (e->n + 1 == n && p <= end)
            return refuse(e, "more subscripts than operands");
    }
    if (e->n != n || n == 0 || n > TD_MAX_ARGS)
        return refuse(e, "operands and subscripts differ");
    e->out = arrow ? arrow + 2 : NULL;
    e->out_len = arrow ? (int)strlen(arrow + 2) : 0;
    for (int i = 0; i < n; i++)
        if (!scan_term(e, i)) return false;
    return true;
}

/* Gives the letters after "->" their places, in order; each must occur in an operand,
 * and once only. */
static bool place_given(equation *e) {
    const char *end = e->out + e->out_len;
    bool        dots = false;
    for (const char *p = e->out; p < end; p++) {
        if (*p == ' ') continue;
        if (is_dots(p, end) && !dots) {
            e->dots_place = e->rank;
            e->rank += e->dots;
            dots = true;
            p += 2;
            continue;
        }
        if (!isalpha((unsigned char)*p)) return refuse(e, "bad result subscripts");
        int k = letter(*p);
        if (!e->count[k] || e->place[k] >= 0)
            return refuse(e, "a result letter is unknown or twice");
        e->place[k] = e->rank++;
    }
    if (!dots) e->dots_place = -1;
    return true;
}

/* The common order: the result's labels, then the summed ones. */
static bool place_labels(equation *e) {
    memset(e->place, -1, sizeof e->place);
    if (e->out) {
        if (!place_given(e)) return false;
    } else { /* "..." first, then letters used once; capitals sort before small ones */
        e->dots_place = 0;
        e->rank = e->dots;
        for (int k = 0; k < LETTERS; k++) {
            int id = (k + 26) % LETTERS;
            if (e->count[id] == 1) e->place[id] = e->rank++;
        }
    }
    e->n_out = e->rank;
    if (e->dots_place < 0) e->dots_place = e->rank, e->rank += e->dots;
    for (int k = 0; k < LETTERS; k++)
        if (e->count[k] && e->place[k] < 0) e->place[k] = e->rank++;
    return e->rank <= TD_MAX_RANK || refuse(e, "too many dims");
}

/* Operand i with dims in the common order. */
static td_tensor *arrange(equation *e, int i) {
    td_tensor  *t = e->c->in[1].u.ts[i];
    const char *p = e->term[i], *end = p + e->len[i];
    int         from[TD_MAX_RANK], letters = 0, dim = 0;
    int64_t     perm[TD_MAX_RANK];
    memset(from, -1, sizeof from);
    for (const char *q = p; q < end; q++) letters += isalpha((unsigned char)*q) != 0;
    int wide = t->rank - letters;
    for (; p < end; p++) {
        if (*p == ' ') continue;
        if (*p == '.') {
            for (int k = 0; k < wide; k++)
                from[e->dots_place + e->dots - wide + k] = dim++;
            p += 2;
            continue;
        }
        int at = e->place[letter(*p)];
        if (from[at] < 0) {
            from[at] = dim++;
            continue;
        }
        if (!td__dim_eq(t->size[from[at]], t->size[dim])) {
            td__op_fail(e->c, TD_E_SHAPE, "a repeated letter has different sizes in %s",
                        td__type_str(t));
            return NULL;
        }
        t = td_op_diagonal(t, 0, from[at], dim); /* the diagonal comes last */
        t = td_op_movedim(t, TD_DIMS(-1), TD_DIMS(from[at]));
    }
    int n = dim;
    for (int k = 0; k < e->rank; k++) {
        if (from[k] < 0) {
            t = td_op_unsqueeze(t, n);
            from[k] = n++;
        }
        perm[k] = from[k];
    }
    return td_op_permute(t, (td_ints){perm, e->rank});
}

/* ---- the product of two arranged operands ------------------------------- */

typedef struct groups {
    int64_t batch[TD_MAX_RANK], left[TD_MAX_RANK], right[TD_MAX_RANK], sum[TD_MAX_RANK];
    int     n_batch, n_left, n_right, n_sum;
} groups;

/* Sums over dim d, which stays with size 1: the common order of labels must not
 * shift. */
static td_tensor *sum_dim(td_tensor *t, int d) {
    return td_op_sum(t, TD_DIMS(d), true, TD_DTYPE_NONE);
}

/* Sorts dims into the roles of a batched matrix product; a summed dim that only
 * one side has is summed there first. */
static void sort_dims(td_tensor **l, td_tensor **r, const bool *summed, groups *g) {
    for (int d = 0; d < (*l)->rank; d++) {
        bool in_l = !td__dim_eq((*l)->size[d], 1), in_r = !td__dim_eq((*r)->size[d], 1);
        if (summed[d] && in_l && in_r) g->sum[g->n_sum++] = d;
        else if (summed[d] && (in_l || in_r)) {
            if (in_l) *l = sum_dim(*l, d);
            if (in_r) *r = sum_dim(*r, d);
            g->right[g->n_right++] = d;
        } else if (in_l && in_r) g->batch[g->n_batch++] = d;
        else if (in_l) g->left[g->n_left++] = d;
        else g->right[g->n_right++] = d;
    }
}

/* The product of the sizes of these dims. */
static int64_t size_of(const td_tensor *t, const int64_t *dims, int n) {
    int64_t s = 1;
    for (int i = 0; i < n; i++) s = td__dim_mul(s, t->size[dims[i]]);
    return s;
}

/* Appends dims to an order; returns its new length. */
static int append(int64_t *to, int n, const int64_t *dims, int count) {
    memcpy(to + n, dims, sizeof(int64_t) * (size_t)count);
    return n + count;
}

/* Both operands have all labels as dims, size 1 where absent. Permuted to [batch, left,
 * sum] and [batch, sum, right], multiplied by one bmm, and permuted back; summed dims
 * have size 1 afterwards. */
static td_tensor *multiply(td_tensor *l, td_tensor *r, const bool *summed) {
    groups  g = {.n_batch = 0};
    int64_t order[TD_MAX_RANK], back[TD_MAX_RANK], size[TD_MAX_RANK];
    int     rank = l->rank, n;
    sort_dims(&l, &r, summed, &g);
    if (td_is_nil(l) || td_is_nil(r)) return td_nil(l->cx);
    if (g.n_sum == 0) return td_op_mul(l, td_value_tensor(r)); /* dtypes promote */
    /* sizes of the four groups of labels: [b, m, k] @ [b, k, p] */
    int64_t b = size_of(l, g.batch, g.n_batch), m = size_of(l, g.left, g.n_left);
    int64_t k = size_of(l, g.sum, g.n_sum), p = size_of(r, g.right, g.n_right);
    n = append(order, 0, g.batch, g.n_batch);
    n = append(order, n, g.left, g.n_left);
    n = append(order, n, g.sum, g.n_sum);
    append(order, n, g.right, g.n_right);
    td_tensor *x =
        td_op_reshape(td_op_permute(l, (td_ints){order, rank}), TD_SHAPE(b, m, k));
    n = append(order, 0, g.batch, g.n_batch);
    n = append(order, n, g.sum, g.n_sum);
    n = append(order, n, g.right, g.n_right);
    append(order, n, g.left, g.n_left);
    td_tensor *y =
        td_op_reshape(td_op_permute(r, (td_ints){order, rank}), TD_SHAPE(b, k, p));
    n = append(order, 0, g.batch, g.n_batch);
    n = append(order, n, g.left, g.n_left);
    n = append(order, n, g.sum, g.n_sum);
    append(order, n, g.right, g.n_right);
    /* A label that one side lacks has size 1 there; a summed one has size 1 now. back[]
     * undoes the order of the product. */
    for (int i = 0; i < rank; i++) {
        int64_t d = order[i];
        bool is_sum = i >= g.n_batch + g.n_left && i < g.n_batch + g.n_left + g.n_sum;
        size[i] = is_sum ? 1 : td__dim_max(l->size[d], r->size[d]);
        if (!is_sum && (td__dim_eq(l->size[d], 0) || td__dim_eq(r->size[d], 0)))
            size[i] = 0;
        back[d] = i;
    }
    td_tensor *out = td_op__unsafe_view(td_op_bmm(x, y), (td_ints){size, rank});
    return td_op_permute(out, (td_ints){back, rank});
}

/* Which dims may be summed once operand i has been folded in; false: none. */
static bool summed_at(const equation *e, int i, bool *summed) {
    memset(summed, 0, sizeof(bool) * TD_MAX_RANK);
    for (int k = 0; k < LETTERS; k++)
        if (e->count[k] && e->place[k] >= e->n_out && e->last[k] == i)
            summed[e->place[k]] = true;
    for (int d = 0; e->dots_place >= e->n_out && d < e->dots && i == e->n - 1; d++)
        summed[e->dots_place + d] = true;
    for (int d = 0; d < e->rank; d++)
        if (summed[d]) return true;
    return false;
}

/* A letter has one size in all operands, or 1, which broadcasts. */
static bool sizes_agree(equation *e, const td_tensor *a, const td_tensor *b) {
    int     n = a->rank;
    int64_t size[TD_MAX_RANK];
    memcpy(size, a->size, sizeof(int64_t) * a->rank);
    return td__broadcast(&n, size, b->rank, b->size) ||
           td__op_fail(e->c, TD_E_SHAPE,
                       "operands have different sizes for one letter");
}

/* in: equation, operands. Folds the operands from left to right; a label is summed as
 * soon as the last operand that has it is folded in. */
bool td__decomp_einsum(td_opcall *c) {
    equation e = {.c = c};
    bool     summed[TD_MAX_RANK];
    int64_t  rest[TD_MAX_RANK];
    if (!split_terms(&e) || !place_labels(&e)) return false;
    td_tensor *acc = arrange(&e, 0);
    if (!acc || td_is_nil(acc)) return false;
    for (int i = 0; i < e.n; i++) {
        td_tensor *t = i ? arrange(&e, i) : acc;
        if (!t || td_is_nil(t) || !sizes_agree(&e, acc, t)) return false;
        bool any = summed_at(&e, i, summed);
        if (i)
            acc = any ? multiply(acc, t, summed) : td_op_mul(acc, td_value_tensor(t));
        else
            for (int d = 0; d < e.rank; d++)
                if (summed[d]) acc = sum_dim(acc, d);
        if (td_is_nil(acc)) return false;
    }
    for (int d = e.n_out; d < e.rank; d++) rest[d - e.n_out] = d;
    c->out[0] = e.rank > e.n_out
                    ? td_op_squeeze_dims(acc, (td_ints){rest, e.rank - e.n_out})
                    : acc;
    return true;
}

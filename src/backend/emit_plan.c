/* emit_plan.c -- decides in which loop each statement of a nest is computed.
 *
 * needs a nest; gives td_emit.at; fails only for lack of memory.
 *
 * A statement inside a row is computed in the first loop where its operands are
 * ready. A later loop that needs it too gets it in one of three ways: recomputed, if
 * that costs at most TD_EMIT_CHEAP; loaded from where it was stored; or read from a
 * row buffer. Costs: a load 1, of bf16 2, of f16 4; arithmetic 1; division and square
 * root 4; a function 10; plus the cost of the operands. If a row is too long for a
 * buffer, or its length is symbolic, the value is recomputed at any cost. */
#include "backend/emit.h"

#include "ops/expr.h"

#include <stdio.h>
#include <string.h>

td_dtype td__emit_var_dtype(td_dtype dt) {
    if (dt == TD_F64 || dt == TD_I64 || dt == TD_U64) return dt;
    if (dt == TD_U32) return TD_I64;
    return td__is_float(dt) ? TD_F32 : TD_I32;
}

td_dtype td__emit_acc(const td_stmt *s) {
    td_dtype dt = (td_dtype)s->dtype;
    return dt == TD_F64 ? TD_F64 : td__is_float(dt) ? TD_F32 : TD_I64;
}

/* A bool is folded as an integer: any of no elements is 0, not the least integer. */
const char *td__emit_unit(const td_stmt *s, td_dtype acc, td_emit_num out) {
    bool any = s->dtype == TD_BOOL && s->how == TD_FOLD_MAX;
    if (any) snprintf(out, sizeof(td_emit_num), "0");
    else
        snprintf(out, sizeof(td_emit_num), "td_fold_unit_%s(%d)",
                 td__dtype_text[acc].suffix, s->how);
    return out;
}

const char *td__emit_c(td_dtype dt) { return td__dtype_text[td__emit_var_dtype(dt)].c; }

static const td_stmt *stmt(const td_emit *e, int i) { return &e->n->stmt.v[i]; }

/* ---- dependence on dims -------------------------------------------------- */

/* The set of dims that an access depends on. */
static uint32_t strides_vary(const td_nest *n, const td_extent *stride) {
    uint32_t vary = 0;
    for (int d = 0; d < n->n_dims; d++)
        if (stride[d].c != 0 && !(n->size[d].p < 0 && n->size[d].c == 1))
            vary |= 1u << d;
    return vary;
}

/* The number of inner loops around a value that depends on these dims. */
static int depth_of(const td_emit *e, uint32_t vary) {
    for (int k = e->inner; k > 0; k--)
        if (vary >> (e->outer + k - 1) & 1) return k;
    return 0;
}

/* Does the load read a whole row, contiguous, in the dtype of the fold? */
static bool is_plain_row(const td_emit *e, const td_stmt *load, const td_stmt *reduce) {
    const td_nest *n = e->n;
    if (load->kind != TD_S_LOAD || n->ptr.v[load->ptr].dtype != td__emit_acc(reduce))
        return false;
    int64_t step = 1;
    for (int d = n->n_dims - 1; d >= e->outer; d--) {
        if (load->stride[d].p >= 0 || load->stride[d].c != step) return false;
        if (d > e->outer && n->size[d].p >= 0) return false;
        step *= n->size[d].c;
    }
    return e->inner > 0;
}

/* Value i is read before `loop`, and so are the elements it is computed from. */
static void note_late(td_emit *e, int i, int8_t loop) {
    const td_stmt *s = stmt(e, i);
    if (e->at[i].depth == 0) return;
    if (s->kind == TD_S_LOAD && e->at[i].late < loop) e->at[i].late = loop;
    for (int k = 0; k < s->n; k++) note_late(e, s->a[k], loop);
}

/* Fills e->at[i] from the statement's operands, which come earlier. */
static void place(td_emit *e, int i) {
    const td_stmt *s = stmt(e, i);
    td_emit_at    *a = &e->at[i];
    bool           reduced = s->kind == TD_S_REDUCE;
    a->store = -1;
    if (s->stride) a->vary = strides_vary(e->n, s->stride);
    for (int k = 0; k < s->n; k++) {
        const td_emit_at *r = &e->at[s->a[k]];
        a->vary |= r->vary;
        a->after |= r->after;
        reduced |= !r->fixed && r->depth == 0;
        if (r->loop > a->loop) a->loop = r->loop;
    }
    if (s->kind == TD_S_REDUCE) {
        td_emit_one one;
        a->vary &= (1u << e->outer) - 1u;
        a->one = td__emit_sums_one(e, i, &one);
        if (a->one) note_late(e, one.value, a->loop);
        else a->loop++;
    }
    a->depth = (int8_t)depth_of(e, a->vary);
    if (s->kind == TD_S_COLUMN) {
        a->wide = !e->flat && (a->depth > 0 || s->wide);
        a->vary &= a->wide ? ~((1u << e->outer) - 1u) : 0;
        if (s->wide) a->vary = ((1u << e->n->n_dims) - 1u) & ~((1u << e->outer) - 1u);
        a->depth = (int8_t)(!a->wide ? 0 : s->wide ? e->inner : a->depth);
        a->after = true;
    }
    /* A direct fold has no loop, so it precedes any store that overwrites its row. */
    a->direct = !e->device && s->kind == TD_S_REDUCE && e->at[s->a[0]].depth > 0 &&
                is_plain_row(e, stmt(e, s->a[0]), s);
    if (s->kind == TD_S_REDUCE && !a->direct && !a->one &&
        td__emit_acc(s) == td__emit_var_dtype((td_dtype)stmt(e, s->a[0])->dtype))
        e->at[s->a[0]].folded = true;
    a->fixed = a->depth == 0 && a->vary == 0 && !reduced && s->kind != TD_S_COLUMN;
}

/* ---- costs --------------------------------------------------------------- */

/* The cost of a function by its name. */
static int cost_of_word(const char *p, size_t n) {
    static const char *const cheap[] = {"abs",      "max",      "min",   "sign",
                                        "floor",    "ceil",     "trunc", "round",
                                        "isnan",    "isinf",    "clip",  "shl",
                                        "isfinite", "with_sign"};
    for (int i = 0; i < TD_COUNT(cheap); i++)
        if (strlen(cheap[i]) == n && !strncmp(p, cheap[i], n)) return 1;
    return n >= 4 && !strncmp(p + n - 4, "sqrt", 4) ? 4 : 10;
}

/* The cost of an expression: its functions and divisions. */
static int cost_of_expr(const td_stmt *s) {
    char text[TD_EXPR_MOST];
    int  cost = 1;
    if (!td__expr_pick(td__row(s->op)->expr, td__expr_types[s->compute].is_float, text))
        return cost;
    for (const char *p = text; (p = strchr(p, '(')); p++) {
        size_t n = 0;
        while (p - n > text &&
               (p[-1 - (ptrdiff_t)n] == '_' || (p[-1 - (ptrdiff_t)n] | 32) >= 'a'))
            n++;
        if (n) cost += cost_of_word(p - n, n);
    }
    for (const char *p = text; (p = strchr(p, '/')); p++) cost += 4;
    return cost;
}

/* The cost of the statement without its operands. */
static int own_cost(const td_stmt *s) {
    int cost = s->dtype == TD_F16 ? 4 : s->dtype == TD_BF16 ? 2 : 1;
    if (s->kind == TD_S_EXPR) cost += cost_of_expr(s) - 1;
    return s->kind == TD_S_DRAW ? 40 : cost;
}

/* The cost including operands; a buffered operand costs 1. */
static int cost_of(const td_emit *e, int i) {
    const td_stmt *s = stmt(e, i);
    int            cost = e->at[i].own;
    for (int k = 0; k < s->n; k++) {
        const td_emit_at *r = &e->at[s->a[k]];
        if (r->depth > 0) cost += r->want ? 1 : r->cost;
    }
    return cost < 1000 ? cost : 1000;
}

/* ---- which loop needs what ----------------------------------------------- */

/* The loop that a STORE, REDUCE or COLUMN makes necessary, as a set; empty for
 * others. */
static uint32_t own_loop(const td_emit *e, int i) {
    const td_stmt    *s = stmt(e, i);
    const td_emit_at *a = &e->at[i];
    if (s->kind == TD_S_REDUCE) return a->direct || a->one ? 0 : 1u << (a->loop - 1);
    if (s->kind == TD_S_STORE && a->depth > 0) return 1u << a->loop;
    if (s->kind == TD_S_COLUMN && (a->wide || e->flat)) return 1u << a->loop;
    return 0;
}

/* With a COLUMN over rows, a value that is equal for all rows is stored after them too,
 * because there may be no rows. Without outer dims there is always one row. */
static void store_after_rows(td_emit *e) {
    uint32_t rows = (1u << (e->flat ? e->n->n_dims : e->outer)) - 1u;
    bool     once = false, wide = false;
    for (int i = 0; i < e->n->stmt.n; i++) {
        once |= stmt(e, i)->kind == TD_S_STORE && e->at[i].after;
        wide |= stmt(e, i)->kind == TD_S_COLUMN && e->at[i].wide;
    }
    for (int i = 0; rows && once && i < e->n->stmt.n; i++)
        if (stmt(e, i)->kind == TD_S_STORE && !(e->at[i].vary & rows) &&
            (wide || e->at[i].depth == 0))
            e->at[i].after = true;
}

/* Which statements KERNEL and KERNEL_end need, from the last to the first. */
static void mark_needed(td_emit *e) {
    for (int i = e->n->stmt.n - 1; i >= 0; i--) {
        const td_stmt *s = stmt(e, i);
        td_emit_at    *a = &e->at[i];
        if (s->kind == TD_S_STORE) *(a->after ? &a->end : &a->main) = true;
        if (s->kind == TD_S_COLUMN) {
            a->main = a->end;
            if (a->main) e->at[s->a[0]].main = true;
            continue;
        }
        for (int k = 0; k < s->n; k++) {
            e->at[s->a[k]].main |= a->main;
            e->at[s->a[k]].end |= a->end;
        }
    }
}

/* The lowest bit of the mask. */
static uint32_t lowest(uint32_t mask) { return mask & (~mask + 1u); }

/* The set of loops that need value i and cannot load it from where it was stored. */
static uint32_t needs(const td_emit *e, int i) {
    const td_emit_at *a = &e->at[i];
    if (a->store < 0 || stmt(e, i)->kind == TD_S_LOAD) return a->needed;
    return a->needed & ((2u << e->at[a->store].loop) - 1u);
}

/* Decides which loops compute value i: all that need it, or the first, which buffers
 * it. */
static void settle(td_emit *e, int i) {
    td_emit_at *a = &e->at[i];
    td_dtype    held = td__emit_var_dtype((td_dtype)stmt(e, i)->dtype);
    int64_t     bytes = e->n->inside.c * td__dtype_bytes[held];
    uint32_t    need = needs(e, i);
    a->computed = need;
    a->buffered = a->want && need != lowest(need) && bytes <= TD_EMIT_ROW_BYTES &&
                  e->buffered + bytes <= TD_EMIT_ALL_BYTES;
    if (!a->buffered) return;
    e->buffered += bytes;
    a->computed = lowest(need);
}

/* Computes `needed` and `computed`, from the last statement to the first: readers
 * come later. */
static void spread(td_emit *e) {
    e->buffered = 0;
    for (int i = 0; i < e->n->stmt.n; i++) e->at[i].needed = 0;
    for (int i = e->n->stmt.n - 1; i >= 0; i--) {
        const td_stmt *s = stmt(e, i);
        td_emit_at    *a = &e->at[i];
        uint32_t       loops = own_loop(e, i);
        if (!a->main) continue;
        if (!loops && a->depth > 0) {
            settle(e, i);
            loops = a->computed;
        }
        for (int k = 0; k < s->n; k++) e->at[s->a[k]].needed |= loops;
    }
}

/* Decides which values are worth a row buffer, given the loops that need them. From
 * the first to the last, because buffering a value makes its readers cheap. True:
 * changed. */
static bool choose(td_emit *e) {
    bool changed = false;
    for (int i = 0; i < e->n->stmt.n; i++) {
        td_emit_at *a = &e->at[i];
        uint32_t    need = needs(e, i);
        bool        want = e->has_rows && a->main && a->depth && a->depth == e->inner &&
                    need != lowest(need);
        a->cost = cost_of(e, i);
        want &= a->cost > (a->folded ? 1 : TD_EMIT_CHEAP);
        changed |= want != a->want;
        a->want = want;
    }
    return changed;
}

/* May the two accesses have the same address? Then their strides are equal. */
static bool may_share(const td_emit *e, const td_stmt *a, const td_stmt *b) {
    const td_pointer *p = e->n->ptr.v;
    if (td__dtype_bytes[p[a->ptr].dtype] != td__dtype_bytes[p[b->ptr].dtype])
        return false;
    for (int d = 0; d < e->n->n_dims; d++)
        if (a->stride[d].c != b->stride[d].c ||
            (a->stride[d].c && a->stride[d].p != b->stride[d].p))
            return false;
    return true;
}

/* Moves a STORE to the last loop that may still read its old bytes. True: one moved. */
static bool delay_stores(td_emit *e) {
    bool moved = false;
    for (int i = 0; i < e->n->stmt.n; i++) {
        td_emit_at *a = &e->at[i];
        if (stmt(e, i)->kind != TD_S_STORE || !a->main || !a->depth) continue;
        for (int k = 0; k < e->n->stmt.n; k++) {
            const td_emit_at *r = &e->at[k];
            if (stmt(e, k)->kind != TD_S_LOAD || !r->main || !r->depth) continue;
            if (!may_share(e, stmt(e, i), stmt(e, k))) continue;
            for (; r->computed >> a->loop > 1u || a->loop < r->late; moved = true)
                a->loop++;
        }
    }
    return moved;
}

/* Finds for each value a STORE that later loops can load it from. */
static void find_stores(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = stmt(e, i);
        if (s->kind == TD_S_STORE && e->at[i].main && e->at[i].depth > 0 &&
            e->at[i].vary == e->at[s->a[0]].vary)
            e->at[s->a[0]].store = i;
    }
}

/* Numbers the accumulators. */
static void number_columns(td_emit *e) {
    td_nest_code *c = e->code;
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (stmt(e, i)->kind != TD_S_COLUMN || !e->at[i].main) continue;
        e->at[i].acc = (int16_t)(e->at[i].wide ? c->n_wide++ : c->n_single++);
        c->has_end = true;
    }
}

/* ---- buffers ------------------------------------------------------------- */

bool td__emit_folds_buffered(const td_emit *e, int i) {
    int a = stmt(e, i)->a[0];
    return e->at[a].buffered &&
           td__emit_var_dtype((td_dtype)stmt(e, a)->dtype) == td__emit_acc(stmt(e, i));
}

/* Does statement i fill a buffer s<k>? */
static bool has_buffer(const td_emit *e, int i) {
    const td_emit_at *a = &e->at[i];
    if (!a->main) return false;
    if (stmt(e, i)->kind == TD_S_COLUMN) return e->flat;
    return stmt(e, i)->kind == TD_S_REDUCE && !a->direct &&
           !td__emit_folds_buffered(e, i);
}

/* Does a statement before i use the buffer of `owner` in the same loop? */
static bool is_taken(const td_emit *e, int owner, int i) {
    for (int k = owner; k < i; k++)
        if (has_buffer(e, k) && e->at[k].buffer == owner &&
            e->at[k].loop == e->at[i].loop)
            return true;
    return false;
}

/* REDUCEs of different loops share a buffer: it is folded at the end of its loop. */
static void share_buffers(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        e->at[i].buffer = i;
        for (int k = 0; k < i && has_buffer(e, i) && !e->flat; k++)
            if (has_buffer(e, k) && e->at[k].buffer == k && !is_taken(e, k, i) &&
                td__emit_acc(stmt(e, k)) == td__emit_acc(stmt(e, i))) {
                e->at[i].buffer = k;
                break;
            }
    }
}

/* The bytes of all buffers. */
static int64_t stack_bytes(const td_emit *e) {
    int64_t sum = e->buffered, row = e->has_rows ? e->n->inside.c : e->block;
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (has_buffer(e, i) && e->at[i].buffer == i)
            sum += row * td__dtype_bytes[td__emit_acc(stmt(e, i))];
        if (e->at[i].main && stmt(e, i)->kind == TD_S_DRAW && td__emit_draws_runs(e, i))
            sum += e->block * 8;
    }
    return sum;
}

/* Chooses buffers within a thread's stack: whole rows, else blocks, else smaller
 * blocks. On a device they are registers. */
static void plan_buffers(td_emit *e) {
    for (e->block = TD_EMIT_BLOCK;;) {
        spread(e);
        for (int round = 0; round < 4 && choose(e); round++) spread(e);
        while (delay_stores(e)) spread(e);
        if (e->device) return;
        share_buffers(e);
        if (stack_bytes(e) <= TD_EMIT_STACK || e->block <= 16) return;
        if (e->has_rows) e->has_rows = false;
        else e->block /= 2;
    }
}

/* Decides the shape of the code: how many dims are rows, in how many inner loops a row
 * is run (a fold ends one), and which values are buffered between them or recomputed.
 * The caller frees e->at. */
bool td__emit_plan(td_emit *e) {
    const td_nest *n = e->n;
    e->at = td__zalloc((size_t)(n->stmt.n + 1) * sizeof *e->at);
    if (!e->at) return false;
    e->flat = n->n_dims == 1 && !e->device;
    for (int i = 0; i < n->stmt.n; i++)
        e->flat &= stmt(e, i)->kind != TD_S_REDUCE &&
                   (stmt(e, i)->kind != TD_S_COLUMN || n->n_outer == 1);
    e->outer = e->flat ? 0 : n->n_outer;
    e->inner = n->n_dims - e->outer;
    e->has_rows =
        e->device ? e->each > 0
                  : !e->flat && n->inside.p < 0 && n->inside.c <= TD_EMIT_ROW_BYTES / 4;
    for (int i = 0; i < n->stmt.n; i++) {
        place(e, i);
        e->at[i].own = own_cost(stmt(e, i));
        if (e->device && stmt(e, i)->kind == TD_S_LOAD) e->at[i].own = TD_EMIT_FAR;
        if (e->at[i].loop >= e->n_loops) e->n_loops = e->at[i].loop + 1;
    }
    TD_ASSERT(e->n_loops <= TD_EMIT_LOOPS);
    if (!e->device) store_after_rows(e); /* a device gets nests with rows only */
    mark_needed(e);
    if (!e->each) find_stores(e); /* registers are nearer */
    plan_buffers(e);
    number_columns(e);
    return true;
}

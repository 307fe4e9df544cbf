/* formula.c -- the little language of derivatives and decompositions.
 * A formula is parsed once into a flat postfix program and evaluated on a small
 * stack by calling ops. Names are the row's arguments, results and gradients;
 * there is no control flow: what needs an `if` is a C function in the row. */
#include "ops/ops.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum instr_kind {
    PUSH_VALUE, /* a constant */
    PUSH_IN,    /* argument a */
    PUSH_OUT,   /* result a */
    PUSH_G,     /* gradient of result a */
    PUSH_SIZES,
    PUSH_STRIDES,
    PUSH_DTYPE,
    PUSH_RANK,
    PUSH_NUMEL, /* of argument a */
    MAKE_INTS,  /* pops a integers */
    CALL,       /* op a on b values */
    ARITH       /* + - * / of two values, ~ for unary minus: a */
} instr_kind;

/* One step of a formula: a, b and v as the kind says. */
typedef struct instr {
    uint8_t  kind;
    uint8_t  b;
    uint16_t a;
    td_value v;
} instr;

#define MAX_INSTR 64
#define MAX_STACK 24

/* A formula as instructions. reads_*: bits of the arguments, results and gradients
 * whose tensors it reads. */
struct td_formula {
    int      n;
    uint32_t reads_in, reads_out, reads_g;
    instr    code[];
};

/* ---- parsing ------------------------------------------------------------ */

typedef struct parser {
    const char      *p;
    const td_schema *s;
    bool             vjp;
    int              n, depth;
    int              height; /* of the stack after the code so far */
    uint32_t         reads_in, reads_out, reads_g;
    char            *why;
    size_t           cap;
    instr            code[MAX_INSTR];
} parser;

static bool parse_sum(parser *ps);

static bool wrong(parser *ps, const char *what) {
    snprintf(ps->why, ps->cap, "formula: %s at \"%.32s\"", what, ps->p);
    return false;
}

/* How many values an instruction takes off the stack; each puts one on it. */
static int takes(instr_kind kind, int a, int b) {
    if (kind == MAKE_INTS) return a;
    if (kind == CALL) return b;
    return kind == ARITH ? (a == '~' ? 1 : 2) : 0;
}

/* Appends an instruction and follows the height of the stack, so that evaluation needs
 * no check. */
static bool emit(parser *ps, instr_kind kind, int a, int b, td_value v) {
    if (ps->n == MAX_INSTR) return wrong(ps, "too long");
    ps->height += 1 - takes(kind, a, b);
    if (ps->height > MAX_STACK) return wrong(ps, "too many values");
    ps->code[ps->n++] = (instr){(uint8_t)kind, (uint8_t)b, (uint16_t)a, v};
    return true;
}

/* The next character that is not blank. */
static char peek(parser *ps) {
    while (isspace((unsigned char)*ps->p)) ps->p++;
    return *ps->p;
}

static bool take(parser *ps, char c) {
    if (peek(ps) != c) return false;
    ps->p++;
    return true;
}

/* An int, or a float when it has a point or an exponent. */
static bool parse_number(parser *ps) {
    char    *end;
    int64_t  i = strtoll(ps->p, &end, 10);
    td_value v = td_value_int(i);
    if (*end == '.' || *end == 'e') v = td_value_float(strtod(ps->p, &end));
    ps->p = end;
    return emit(ps, PUSH_VALUE, 0, 0, v);
}

/* The entries of "[...]": each an expression that gives an integer. */
static bool parse_list(parser *ps) {
    int n = 0;
    while (!take(ps, ']')) {
        if (n && !take(ps, ',')) return wrong(ps, "expected , or ]");
        if (!parse_sum(ps)) return false;
        n++;
    }
    return emit(ps, MAKE_INTS, n, 0, td_value_none());
}

/* The arguments of an op; too few of them take their defaults when the op is called. */
static bool parse_call(parser *ps, const char *name) {
    td_op op = td__op_find(name);
    int   n = 0;
    if (op == TD_OP_COUNT) {
        snprintf(ps->why, ps->cap, "formula: unknown op %s", name);
        return false;
    }
    while (!take(ps, ')')) {
        if (n && !take(ps, ',')) return wrong(ps, "expected , or )");
        if (!parse_sum(ps)) return false;
        n++;
    }
    return emit(ps, CALL, (int)op, n, td_value_none());
}

/* ".sizes" and others: metadata, which does not save the tensor. */
static bool parse_attr(parser *ps, int arg) {
    static const struct {
        const char *name;
        instr_kind  kind;
    } attrs[] = {{"sizes", PUSH_SIZES},
                 {"strides", PUSH_STRIDES},
                 {"dtype", PUSH_DTYPE},
                 {"rank", PUSH_RANK},
                 {"numel", PUSH_NUMEL}};
    for (int k = 0; k < TD_COUNT(attrs); k++) {
        size_t n = strlen(attrs[k].name);
        if (strncmp(ps->p, attrs[k].name, n)) continue;
        ps->p += n;
        return emit(ps, attrs[k].kind, arg, 0, td_value_none());
    }
    return wrong(ps, "unknown attribute");
}

/* An argument of the row, or an attribute of it. */
static bool parse_arg(parser *ps, int arg) {
    if (*ps->p == '.') {
        ps->p++;
        return parse_attr(ps, arg);
    }
    uint8_t type = ps->s->in[arg].type;
    if (type == TD_T_TENSOR || type == TD_T_OPT_TENSOR || type == TD_T_OPERAND)
        ps->reads_in |= 1u << arg;
    return emit(ps, PUSH_IN, arg, 0, td_value_none());
}

/* A gradient: "g" is that of result 0, "g_NAME" that of the result NAME. */
static int gradient_of(const parser *ps, const char *name) {
    if (!ps->vjp || name[0] != 'g') return -1;
    if (name[1] == 0) return 0;
    for (int i = 0; i < ps->s->n_out && name[1] == '_'; i++)
        if (!strcmp(ps->s->out[i].name, name + 2)) return i;
    return -1;
}

/* Arguments first, then gradients, results and words. */
static bool parse_name(parser *ps, const char *name) {
    for (int i = 0; i < ps->s->n_in; i++)
        if (!strcmp(ps->s->in[i].name, name)) return parse_arg(ps, i);
    int g = gradient_of(ps, name);
    if (g >= 0) {
        ps->reads_g |= 1u << g;
        return emit(ps, PUSH_G, g, 0, td_value_none());
    }
    for (int i = 0; ps->vjp && i < ps->s->n_out; i++)
        if (!strcmp(ps->s->out[i].name, name)) {
            ps->reads_out |= 1u << i;
            return emit(ps, PUSH_OUT, i, 0, td_value_none());
        }
    if (!strcmp(name, "true")) return emit(ps, PUSH_VALUE, 0, 0, td_value_bool(true));
    if (!strcmp(name, "false")) return emit(ps, PUSH_VALUE, 0, 0, td_value_bool(false));
    if (!strcmp(name, "none")) return emit(ps, PUSH_VALUE, 0, 0, td_value_none());
    snprintf(ps->why, ps->cap, "formula: unknown name %s", name);
    return false;
}

static bool parse_primary(parser *ps) {
    char name[40], c = peek(ps);
    int  n = 0;
    if (isdigit((unsigned char)c) || c == '.') return parse_number(ps);
    if (take(ps, '[')) return parse_list(ps);
    if (take(ps, '('))
        return parse_sum(ps) && (take(ps, ')') || wrong(ps, "expected )"));
    while (isalnum((unsigned char)*ps->p) || *ps->p == '_') {
        if (n == TD_COUNT(name) - 1) return wrong(ps, "name is too long");
        name[n++] = *ps->p++;
    }
    name[n] = 0;
    if (n == 0) return wrong(ps, "expected a value");
    return take(ps, '(') ? parse_call(ps, name) : parse_name(ps, name);
}

/* Bounds the depth of nesting: rows are trusted, but a recursion has to end. */
static bool parse_unary(parser *ps) {
    if (++ps->depth > 40) return wrong(ps, "nested too deep");
    bool minus = take(ps, '-');
    bool ok = minus ? parse_unary(ps) && emit(ps, ARITH, '~', 0, td_value_none())
                    : parse_primary(ps);
    ps->depth--;
    return ok;
}

/* Unary factors joined by * and /. */
static bool parse_product(parser *ps) {
    if (!parse_unary(ps)) return false;
    for (char c = peek(ps); c == '*' || c == '/'; c = peek(ps)) {
        ps->p++;
        if (!parse_unary(ps) || !emit(ps, ARITH, c, 0, td_value_none())) return false;
    }
    return true;
}

/* Products joined by + and -. */
static bool parse_sum(parser *ps) {
    if (!parse_product(ps)) return false;
    for (char c = peek(ps); c == '+' || c == '-'; c = peek(ps)) {
        ps->p++;
        if (!parse_product(ps) || !emit(ps, ARITH, c, 0, td_value_none())) return false;
    }
    return true;
}

/* Recursive descent; programs live as long as the process. NULL with a message in
 * `why`. */
const td_formula *td__formula_parse(const char *text, const td_schema *s, bool vjp,
                                    char *why, size_t cap) {
    static td_arena
           programs; /* for the life of the process; filled under td__table_init */
    parser ps = {.p = text, .s = s, .vjp = vjp, .why = why, .cap = cap};
    if (!parse_sum(&ps)) return NULL;
    if (peek(&ps)) return wrong(&ps, "trailing text"), NULL;
    size_t      bytes = sizeof(instr) * (size_t)ps.n;
    td_formula *f = td__arena_alloc(&programs, sizeof *f + bytes);
    if (!f) return wrong(&ps, "out of memory"), NULL;
    f->n = ps.n;
    f->reads_in = ps.reads_in;
    f->reads_out = ps.reads_out;
    f->reads_g = ps.reads_g;
    memcpy(f->code, ps.code, bytes);
    return f;
}

uint32_t td__formula_reads_in(const td_formula *f) { return f->reads_in; }
uint32_t td__formula_reads_out(const td_formula *f) { return f->reads_out; }

/* ---- evaluation --------------------------------------------------------- */

/* The stack of one evaluation. `ints` holds the lists it builds. */
typedef struct machine {
    const td_vjp *v;
    int           n, n_ints;
    td_value      stack[MAX_STACK];
    int64_t       ints[2 * TD_MAX_RANK];
} machine;

static bool is_tensor(td_value v) { return v.kind == TD_K_TENSOR; }

/* Calls an op through the modes; only its first result is used. A real tensor is its
 * conjugate, without a call: formulas say conj for complex ones. */
static bool call(machine *m, td_op op, const td_value *in, int n, td_value *result) {
    if (op == TD_OP_conj && is_tensor(in[0]) &&
        !td__is_complex((td_dtype)in[0].u.t->dtype)) {
        *result = in[0];
        return true;
    }
    td_tensor *out[TD_MAX_RESULTS];
    int        n_out = td__opinfo(op)->s.n_out;
    if (!td__call(m->v->cx, op, in, n, out, n_out) || td_is_nil(out[0])) return false;
    *result = td_value_tensor(out[0]);
    return true;
}

/* Sizes may be symbolic: then sums and products are, and a fraction fixes them. */
static td_value number_arith(char sign, td_value a, td_value b) {
    bool floats = a.kind == TD_K_FLOAT || b.kind == TD_K_FLOAT || sign == '/';
    if (floats && a.kind == TD_K_INT) a.u.i = td__dim_fixed(a.u.i);
    if (floats && b.kind == TD_K_INT) b.u.i = td__dim_fixed(b.u.i);
    if (floats) {
        double x = td__value_f(a), y = td__value_f(b);
        return td_value_float(sign == '+'   ? x + y
                              : sign == '-' ? x - y
                              : sign == '*' ? x * y
                                            : x / y);
    }
    int64_t x = a.u.i, y = b.u.i;
    return td_value_int(sign == '+'   ? td__dim_add(x, y)
                        : sign == '-' ? td__dim_sub(x, y)
                                      : td__dim_mul(x, y));
}

/* A number over a tensor: a 0-dim tensor in the dtype of the quotient, so that the
 * quotient is rounded once. */
static bool as_dividend(machine *m, td_value a, td_value b, td_value *result) {
    td_dtype dt = (td_dtype)b.u.t->dtype;
    td_value in[2] = {a, td_value_none()};
    if (td__is_float(dt)) in[1] = td__value_dtype(dt);
    return call(m, TD_OP_scalar_tensor, in, 2, result);
}

/* A number on the left of a tensor: commute, use the reversed op, or divide. */
static bool arith(machine *m, char sign) {
    td_value b = m->stack[--m->n], a = td_value_none(), r = b;
    if (sign == '~') {
        if (!is_tensor(b)) r = number_arith('-', td_value_int(0), b);
        m->stack[m->n++] = r;
        return !is_tensor(b) || call(m, TD_OP_neg, &b, 1, &m->stack[m->n - 1]);
    }
    a = m->stack[--m->n];
    td_value *top = &m->stack[m->n++];
    if (!is_tensor(a) && !is_tensor(b)) return *top = number_arith(sign, a, b), true;
    td_value ab[2] = {a, b}, ba[2] = {b, a};
    bool     left = is_tensor(a);
    switch (sign) {
    case '+': return call(m, TD_OP_add, left ? ab : ba, 2, top);
    case '*': return call(m, TD_OP_mul, left ? ab : ba, 2, top);
    case '-': return call(m, left ? TD_OP_sub : TD_OP_rsub, left ? ab : ba, 2, top);
    default:
        if (left) return call(m, TD_OP_div, ab, 2, top);
        return as_dividend(m, a, b, &ab[0]) && call(m, TD_OP_div, ab, 2, top);
    }
}

/* Replaces n integers on the stack by one list of them. */
static bool make_ints(machine *m, int n) {
    if (m->n_ints + n > TD_COUNT(m->ints)) return false;
    int64_t *list = m->ints + m->n_ints;
    m->n_ints += n;
    m->n -= n;
    for (int i = 0; i < n; i++) list[i] = td__value_i(m->stack[m->n + i]);
    td_value v = {TD_K_INTS, (uint32_t)n, {0}};
    v.u.ints = list;
    m->stack[m->n++] = v;
    return true;
}

/* Metadata of an argument; none when it has none. */
static td_value attribute(const td_meta *meta, instr_kind kind) {
    td_value v = td_value_none();
    if (!meta) return v;
    if (kind == PUSH_RANK) return td_value_int(meta->rank);
    if (kind == PUSH_NUMEL) return td_value_int(td__numel(meta->rank, meta->size));
    v.kind = kind == PUSH_DTYPE ? TD_K_DTYPE : TD_K_INTS;
    if (kind == PUSH_DTYPE) v.u.dt = meta->dtype;
    else
        v.n = (uint32_t)meta->rank,
        v.u.ints = kind == PUSH_SIZES ? meta->size : meta->stride;
    return v;
}

/* An absent gradient beside a present one stands for zeros. */
static td_value gradient(machine *m, int i) {
    const td_vjp *v = m->v;
    if (v->g[i]) return td_value_tensor(v->g[i]);
    const td_meta *o = v->out_meta[i];
    return td_value_tensor(td_op_zeros(v->cx, (td_ints){o->size, o->rank}, o->dtype));
}

/* Runs one instruction; false after a failed op call. */
static bool step(machine *m, const instr *in) {
    const td_vjp *v = m->v;
    td_value      x = in->v;
    switch ((instr_kind)in->kind) {
    case PUSH_VALUE: break;
    case PUSH_IN: x = v->in[in->a]; break;
    case PUSH_OUT: x = td_value_tensor(v->out[in->a]); break;
    case PUSH_G: x = gradient(m, in->a); break;
    case PUSH_SIZES:
    case PUSH_STRIDES:
    case PUSH_DTYPE:
    case PUSH_RANK:
    case PUSH_NUMEL:
        x = attribute(v->in_meta ? v->in_meta[in->a] : NULL, (instr_kind)in->kind);
        break;
    case MAKE_INTS: return make_ints(m, in->a);
    case ARITH: return arith(m, (char)in->a);
    case CALL:
        m->n -= in->b;
        if (!call(m, (td_op)in->a, m->stack + m->n, in->b, &x)) return false;
        break;
    }
    TD_ASSERT(m->n < MAX_STACK); /* the parser saw to it */
    m->stack[m->n++] = x;
    return true;
}

/* The most results of an op that a formula calls for its list. */
enum { MOST_LISTED = 1024 };

td_tensor *const *td__formula_list(const td_formula *f, const td_vjp *v, int *n) {
    machine         m = {.v = v};
    const instr    *last = &f->code[f->n - 1];
    const td_value *in = last->kind == PUSH_IN ? &v->in[last->a] : NULL;
    const td_param *out = last->kind == CALL ? td__opinfo((td_op)last->a)->s.out : NULL;
    *n = -1;
    if (in && in->kind == TD_K_TENSORS) return *n = (int)in->n, in->u.ts;
    if (!out || out->type != TD_T_TENSORS) return NULL;
    td_tensor **to = td__arena_zalloc(&v->cx->scratch, sizeof *to * MOST_LISTED);
    if (!to) return td__fail_memory(v->cx), NULL;
    for (int i = 0; i < f->n - 1; i++)
        if (!step(&m, &f->code[i])) return NULL;
    m.n -= last->b;
    *n = td__call_list(v->cx, (td_op)last->a, m.stack + m.n, last->b, to, MOST_LISTED);
    return *n < 0 ? NULL : to;
}

/* NULL without an error means: the gradient is zero. */
td_tensor *td__formula_eval(const td_formula *f, const td_vjp *v) {
    machine m = {.v = v};
    bool    any = f->reads_g == 0;
    for (int i = 0; i < TD_MAX_RESULTS && !any; i++)
        any = f->reads_g >> i & 1 && v->g[i];
    if (!any) return NULL; /* every gradient it reads is zero, so is the result */
    for (int i = 0; i < f->n; i++)
        if (!step(&m, &f->code[i])) return NULL;
    return is_tensor(m.stack[0]) ? m.stack[0].u.t : NULL;
}

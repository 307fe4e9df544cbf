/* call.c -- the one point every op call passes: arguments are checked against the
 * schema, composites are replaced by their parts, each mode gets the call in turn, and
 * exec.c runs what is left. */
#include "ops/call.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

/* A fraction has no symbolic form: a symbolic number is fixed. */
double td__value_f(td_value v) {
    return v.kind == TD_K_FLOAT ? v.u.f : (double)td__dim_fixed(v.u.i);
}

/* A float outside the range of int64_t gives INT64_MIN, as x86 conversions do. */
int64_t td__value_i(td_value v) {
    if (v.kind != TD_K_FLOAT) return v.u.i;
    return v.u.f >= -0x1p63 && v.u.f < 0x1p63 ? (int64_t)v.u.f : INT64_MIN;
}

const char *td__op_name(const td_opcall *c) {
    return (c->cx->composite ? c->cx->composite : c->info)->s.name;
}

/* The name in front is that of the op the user called; a part that failed is named in
 * brackets, unless it is internal. */
bool td__op_fail(td_opcall *c, td_code code, const char *fmt, ...) {
    const td_opinfo *composite = c->cx->composite;
    char             text[1024];
    va_list          ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (composite && composite != c->info) {
        bool inner = c->def->flags & TD_OPF_INTERNAL; /* a name users do not know */
        return td__fail(c->cx, code, inner ? "%s: %s" : "%s: %s (in %s)",
                        composite->s.name, text, c->info->s.name);
    }
    return td__fail(c->cx, code, "%s: %s", c->info->s.name, text);
}

int td__op_dim(td_opcall *c, int64_t dim, int rank) {
    int d = td__wrap_dim(dim, rank);
    if (d < 0)
        td__op_fail(c, TD_E_INDEX,
                    "dim %lld is out of range for rank %d: it must be from %d to %d",
                    (long long)dim, rank, -(rank ? rank : 1), rank ? rank - 1 : 0);
    return d;
}

/* Replaces c->out and c->meta when the struct's own arrays are too short. Without
 * memory these stay. */
bool td__call_results(td_opcall *c, int n) {
    if (n > TD_FEW) {
        td_arena   *m = &c->cx->scratch;
        td_tensor **out = td__arena_zalloc(m, sizeof *out * (size_t)n);
        td_meta    *meta = td__arena_alloc(m, sizeof *meta * (size_t)n);
        if (!out || !meta) return td__fail_memory(c->cx);
        c->out = out;
        c->meta = meta;
    }
    c->n_out = n;
    return true;
}

/* The number in a 0-d i64 tensor. */
static uint64_t number_in(const td_tensor *t) {
    return (uint64_t) * (const int64_t *)(const void *)td__ptr(t);
}

/* From the arguments rng_seed and rng_offset, which shape rules have checked, or from
 * the generator, which then advances. */
void td__draw(td_opcall *c, uint64_t blocks) {
    const td_tensor *seed = c->info->rng >= 0 ? td__in(c, c->info->rng) : NULL;
    if (seed) {
        c->seed = number_in(seed);
        c->offset = number_in(td__in(c, c->info->rng + 1));
        return;
    }
    c->seed = c->cx->rng_seed;
    c->offset = c->cx->rng_offset;
    c->cx->rng_offset += blocks;
}

/* ---- arguments ---------------------------------------------------------- */

/* What an argument must be, by td_arg_type. */
static const char *const type_words[] = {"a tensor",
                                         "a tensor or nothing",
                                         "a list of tensors",
                                         "a list of tensors",
                                         "a tensor or a number",
                                         "a number",
                                         "a number or nothing",
                                         "an integer",
                                         "an integer or nothing",
                                         "a list of integers",
                                         "a list of integers or nothing",
                                         "a number",
                                         "a number or nothing",
                                         "a bool",
                                         "a dtype",
                                         "a dtype or nothing",
                                         "a string",
                                         "a graph",
                                         "an object (td_object)"};

/* What a value is, by td_kind. */
static const char *const kind_words[] = {
    "nothing", "a tensor",           "an integer",        "a float",  "a bool",
    "a dtype", "a list of integers", "a list of tensors", "a string", "a graph"};

/* An int, a float or a bool. */
static bool is_number(td_value v) {
    return v.kind == TD_K_INT || v.kind == TD_K_FLOAT || v.kind == TD_K_BOOL;
}

/* A tensor that stands for a float argument, as a captured body gets it. Compiled code
 * gets one with elements, which is a tensor like any other. */
static bool is_stand_in(td_value v) {
    return v.kind == TD_K_TENSOR && v.u.t && v.u.t->flags & TD_TF_NUMBER &&
           td__is_fake(v.u.t);
}

/* Is v of the type; converts integers to float where a float is asked for. */
static bool fits(uint8_t type, td_value *v) {
    bool none = v->kind == TD_K_NONE;
    switch ((td_arg_type)type) {
    case TD_T_TENSOR: return v->kind == TD_K_TENSOR && !is_stand_in(*v);
    case TD_T_OPT_TENSOR: return none || (v->kind == TD_K_TENSOR && !is_stand_in(*v));
    case TD_T_TENSORS:
    case TD_T_OPT_TENSORS: return v->kind == TD_K_TENSORS;
    case TD_T_OPERAND: return v->kind == TD_K_TENSOR || is_number(*v);
    case TD_T_OPT_SCALAR: return none || is_number(*v);
    case TD_T_SCALAR: return is_number(*v);
    case TD_T_OPT_INT:
    case TD_T_INT:
        if (v->kind == TD_K_BOOL) v->kind = TD_K_INT;
        return v->kind == TD_K_INT || (none && type == TD_T_OPT_INT);
    case TD_T_OPT_INTS: return none || v->kind == TD_K_INTS;
    case TD_T_INTS: return v->kind == TD_K_INTS;
    case TD_T_OPT_FLOAT:
    case TD_T_FLOAT:
        if (v->kind == TD_K_INT || v->kind == TD_K_BOOL)
            *v = td_value_float((double)td__dim_fixed(v->u.i));
        return v->kind == TD_K_FLOAT || (none && type == TD_T_OPT_FLOAT);
    case TD_T_BOOL: return v->kind == TD_K_BOOL || v->kind == TD_K_INT;
    case TD_T_OPT_DTYPE:
    case TD_T_DTYPE:
        if (v->kind == TD_K_DTYPE && v->u.dt == TD_DTYPE_NONE) *v = td_value_none();
        if (v->kind == TD_K_DTYPE) return (unsigned)v->u.dt < TD_DTYPE_COUNT;
        return v->kind == TD_K_NONE && type == TD_T_OPT_DTYPE;
    case TD_T_STR: return v->kind == TD_K_STR && v->u.s;
    case TD_T_GRAPH: return v->kind == TD_K_GRAPH && v->u.g;
    case TD_T_OBJECT: return v->kind == TD_K_TENSOR && v->u.t->st->object;
    }
    return false;
}

/* A tensor argument that is nil, freed, of another context or without elements. 1: nil
 * of this context, the call is inert; -1: an error is recorded. */
static int refuse_tensor(td_opcall *c, const td_param *p, const td_tensor *t) {
    char who[128];
    snprintf(who, sizeof who, "%.60s: argument %.40s", c->info->s.name, p->name);
    if (!td__is_live(t, TD_H_TENSOR)) {
        bool ok = c->cx->code == TD_OK, nil = t->tag == (TD_TAG_NIL | TD_H_TENSOR);
        td__enter_in(c->cx, t, TD_H_TENSOR, who);
        bool failed = ok && c->cx->code != TD_OK;
        if (nil && !failed && t->cx == c->cx) return 1;
        if (nil && ok && !failed)
            td__fail(c->cx, TD_E_ARG, "%s is the nil tensor of another context", who);
        return -1;
    }
    if (t->cx == c->cx) return td__fail_kept(c->cx, who, t), -1;
    td__fail(c->cx, TD_E_ARG,
             "%s belongs to another context (td_share gives it to this one)", who);
    return -1;
}

/* Looks at one tensor argument: 0 fine, 1 nil, -1 failed. */
static int check_tensor(td_opcall *c, const td_param *p, const td_tensor *t) {
    if (TD_LIKELY(t->tag == (TD_TAG_LIVE | TD_H_TENSOR) && t->cx == c->cx) &&
        !TD_IS_KEPT(t))
        return 0;
    return refuse_tensor(c, p, t);
}

/* Every entry of a list of tensors: 0 fine, 1 one is nil, -1 failed. NULL entries are
 * holes where the schema says Tensor?[]. */
static int check_list(td_opcall *c, const td_param *p, td_value v) {
    int nil = 0;
    if (v.n && !v.u.ts) {
        td__op_fail(c, TD_E_ARG,
                    "argument %s is a list of %u tensors whose pointer is NULL",
                    p->name, v.n);
        return -1;
    }
    for (uint32_t k = 0; k < v.n; k++) {
        if (!v.u.ts[k]) {
            if (p->type == TD_T_OPT_TENSORS) continue;
            td__op_fail(c, TD_E_ARG,
                        "entry %u of argument %s is NULL; every entry must be a tensor",
                        k, p->name);
            return -1;
        }
        int s = check_tensor(c, p, v.u.ts[k]);
        if (s < 0) return -1;
        nil |= s;
    }
    return nil;
}

/* Is f the tag of a symbolic size that C code converted? The tags are integers that a
 * double rounds to a multiple of 1024. */
static bool is_tag(double f) {
    double steps = ((double)TD_DIM_FIRST_TAG - f) / (1 << 24);
    double off = fabs(steps - round(steps)) * (1 << 24);
    return steps > -1 && steps < (1 << 20) && off <= 1024 && td__dim_tracing();
}

/* 0 fine, -1 failed. */
static int check_number(td_opcall *c, const td_param *p, double f) {
    if (TD_LIKELY(f > (double)TD_DIM_SYM_LIMIT) || !is_tag(f)) return 0;
    td__op_fail(c, TD_E_TRACE,
                "argument %s is a symbolic size that was converted to a float; pass "
                "the int64_t that td_sym_size gives, or read the size with td_size",
                p->name);
    return -1;
}

/* Checks and normalizes argument i: 0 fine, 1 nil, -1 failed. */
static int check_arg(td_opcall *c, int i) {
    const td_param *p = &c->info->s.in[i];
    td_value       *v = &c->in[i];
    if (v->kind == TD_K_TENSOR) {
        if (TD_LIKELY(v->u.t != NULL)) {
            bool operand = p->type == TD_T_OPERAND;
            bool plain = p->type <= TD_T_OPT_TENSOR || operand;
            if (plain || p->type == TD_T_OBJECT) {
                int state = check_tensor(c, p, v->u.t);
                if (state ||
                    (plain && (TD_LIKELY(!c->cx->fake) || operand || !is_stand_in(*v))))
                    return state;
            }
        } else *v = td_value_none();
    }
    if (v->kind == TD_K_INTS && v->n > INT32_MAX) {
        td__op_fail(
            c, TD_E_ARG,
            "argument %s is a list of %d integers; a length must not be negative",
            p->name, (int)v->n);
        return -1;
    }
    if (v->kind == TD_K_INTS && !v->u.ints && !v->n && p->type == TD_T_OPT_INTS)
        *v = td_value_none();
    if (v->kind == TD_K_NONE && p->has_default && p->def.kind != TD_K_NONE) *v = p->def;
    if (v->kind == TD_K_INTS && v->n && !v->u.ints) {
        td__op_fail(c, TD_E_ARG,
                    "argument %s is a list of %u integers whose pointer is NULL",
                    p->name, v->n);
        return -1;
    }
    if (!fits(p->type, v)) {
        td__op_fail(c, TD_E_ARG, "argument %s must be %s, got %s", p->name,
                    type_words[p->type], kind_words[v->kind]);
        return -1;
    }
    if (v->kind == TD_K_FLOAT) return check_number(c, p, v->u.f);
    if (v->kind == TD_K_DTYPE) c->cx->special |= td__is_special(v->u.dt);
    return v->kind == TD_K_TENSORS ? check_list(c, p, *v) : 0;
}

/* Fills c->in from what was given and the defaults: 0 fine, 1 nil, -1 failed. */
static int bind(td_opcall *c, const td_value *in, int n_in) {
    const td_schema *s = &c->info->s;
    int              nil = 0;
    for (int i = 0; i < s->n_in; i++) {
        if (i >= n_in && !s->in[i].has_default) {
            td__op_fail(c, TD_E_ARG, "argument %s is missing and has no default",
                        s->in[i].name);
            return -1;
        }
        c->in[i] = i < n_in ? in[i] : s->in[i].def;
        int state = check_arg(c, i);
        if (state < 0) return -1;
        nil |= state;
    }
    return nil;
}

/* ---- floats that are inputs of the program ------------------------------- */

static bool takes_stand_in(const td_opcall *c) {
    td_op pure = c->info->pure;
    return (pure == TD_OP_COUNT ? c->def : td__row(pure))->flags & TD_OPF_TAKES_0D;
}

/* The dtype in which the op computes with the tensor beside a float number; NONE: there
 * is no tensor. */
static td_dtype dtype_beside(const td_opcall *c) {
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i].kind != TD_K_TENSOR || is_stand_in(c->in[i])) continue;
        td_dtype dt = (td_dtype)c->in[i].u.t->dtype;
        return td__is_float(dt) ? dt : c->cx->default_dtype;
    }
    return TD_DTYPE_NONE;
}

/* Replaces a float argument of the body by a cast of its tensor to the dtype in which
 * the op computes with the number. */
static bool cast_stand_in(td_opcall *c, int i) {
    td_tensor *t = c->in[i].u.t;
    td_dtype   dt = dtype_beside(c);
    if (!takes_stand_in(c) || (dt != TD_F32 && dt != TD_F64))
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "argument %s is a float that varies between calls",
                           c->info->s.in[i].name);
    t->flags &= (uint8_t)~TD_TF_NUMBER;
    td_value in[3] = {c->in[i], {.kind = TD_K_DTYPE}, td_value_bool(true)};
    in[1].u.dt = dt;
    td_tensor *to = td__call1(c->cx, TD_OP_to, in, 3);
    t->flags |= TD_TF_NUMBER;
    c->in[i] = td_value_tensor(to);
    return !td_is_nil(to);
}

static bool take_stand_ins(td_opcall *c) {
    for (int i = 0; i < c->n_in; i++)
        if (is_stand_in(c->in[i]) && !cast_stand_in(c, i)) return false;
    return true;
}

/* ---- modes -------------------------------------------------------------- */

/* Passes a call to mode m and below. Op calls that the mode makes while it works start
 * below it, since cx->top is moved down for that time; a composite is replaced by its
 * parts first, unless the mode asks for composites. */
static bool dispatch(td_mode *m, td_opcall *c) {
    if (c->info->composite && !(m && m->composites)) return td__call_parts(c);
    if (!m) return td__exec(c);
    td_ctx *cx = c->cx;
    if (TD_UNLIKELY(cx->n_typed > 0 || c->def->typed_fn) && m->flat) {
        if (td__inner_is_known(m, c)) return td__exec(c);
        if (td__call_is_typed(c)) return td__exec_typed(c, true);
    }
    td_mode *top = td__modes_from(cx, m->below);
    bool     ok = m->call(m, c);
    td__modes_from(cx, top);
    return ok;
}

/* For modes: passes the call to the mode below, and in the end to the kernel. */
bool td__call_below(td_mode *m, td_opcall *c) { return dispatch(m->below, c); }

/* A call without a context, or in another context than a captured body's. Of an op
 * that makes a tensor the context is the first argument, which is refused as anywhere
 * else; of others no argument is a tensor that has one. Returns the context of the nil
 * results. */
static td_ctx *fail_nowhere(td_ctx *cx, td_op op, const td_value *in, int n_in) {
    bool             live = td__is_live(cx, TD_H_CTX);
    td_ctx          *to = live ? cx : td__current_ctx();
    const td_schema *s = td__table_init() ? &td__opinfo(op)->s : NULL;
    int              i = 0;
    if (live || !s || td__row(op)->flags & TD_OPF_CREATE) {
        td__enter(cx, TD_H_CTX, td__row(op)->name);
        return to;
    }
    for (i = 0; i < n_in && i < s->n_in; i++) {
        uint8_t type = s->in[i].type;
        bool    none =
            in[i].kind == TD_K_NONE || (in[i].kind == TD_K_TENSOR && !in[i].u.t);
        bool empty = in[i].kind == TD_K_TENSORS && !in[i].n;
        if (in[i].kind == TD_K_TENSOR && in[i].u.t) {
            td__enter(in[i].u.t, TD_H_TENSOR, s->name);
            return to;
        }
        if (none ? type != TD_T_TENSOR && type != TD_T_OPERAND
                 : !empty && type != TD_T_OPERAND)
            continue;
        td__fail(to, TD_E_ARG, "%s: argument %s must be %s, got %s", s->name,
                 s->in[i].name,
                 empty ? "a list of at least one tensor" : type_words[type],
                 none    ? "NULL"
                 : empty ? "an empty list"
                         : "a number, as all others are");
        return to;
    }
    td__fail(to, TD_E_ARG, "%s: no argument is a tensor; at least one must be",
             s->name);
    return to;
}

/* ---- complex and stored tensors -------------------------------------------- */

/* The first tensor of argument i of a complex or stored dtype; NULL: there is none. */
static const td_tensor *special_in(const td_value *v) {
    td_tensor *const *t = v->kind == TD_K_TENSORS ? v->u.ts : &v->u.t;
    int               n = v->kind == TD_K_TENSORS ? (int)v->n : v->kind == TD_K_TENSOR;
    for (int k = 0; k < n; k++)
        if (t[k] && td__is_special((td_dtype)t[k]->dtype)) return t[k];
    return NULL;
}

/* Reports argument i, a complex tensor or dtype, of a row without .complex. */
static bool refuse_complex(td_opcall *c, int i, const td_tensor *t) {
    return td__op_fail(
        c, TD_E_DTYPE,
        "argument %s is %s; %s is not defined on complex numbers. Pass %s",
        c->info->s.in[i].name, t ? td__type_str(t) : td_dtype_name(c->in[i].u.dt),
        c->info->s.name,
        t ? "real tensors (td_real, td_imag, td_abs, td_view_as_real)"
          : "a real dtype");
}

/* Does the op take tensors of stored dtypes? Composites leave the answer to their
 * parts. */
static bool takes_stored(const td_opcall *c, const td_opinfo *row) {
    const char *how = row->def->complex;
    if (c->def->flags & (TD_OPF_VIEW | TD_OPF_META | TD_OPF_CUTS)) return true;
    return how &&
           (!strcmp(how, TD_MOVES) || (row->composite && !strcmp(how, TD_COMPLEX)));
}

static bool refuse_stored(td_opcall *c, int i, const td_tensor *t) {
    td_dtype dt = t ? (td_dtype)t->dtype : c->in[i].u.dt;
    return td__op_fail(
        c, TD_E_DTYPE,
        "argument %s is %s; ops move and cast elements of %s and do not compute with "
        "them. %s, e.g. %s",
        c->info->s.in[i].name, t ? td__type_str(t) : td_dtype_name(dt),
        td_dtype_name(dt),
        t ? "Cast it to a dtype that computes" : "Pass another dtype",
        td__is_float(dt) ? "td_to(t, TD_F32)" : "td_to(t, TD_I64)");
}

/* The row whose .complex counts for the call: of a writer its twin's. */
static const td_opinfo *special_row(const td_opcall *c) {
    return c->info->pure == TD_OP_COUNT || c->def->complex ? c->info
                                                           : td__opinfo(c->info->pure);
}

/* Is an argument complex or of a stored dtype? -1: and the row does not take it.
 * *parts: a formula computes the op. */
static int check_special(td_opcall *c, bool *parts) {
    const td_opinfo *row = special_row(c);
    int              any = 0;
    for (int i = 0; i < c->n_in; i++) {
        const td_tensor *t = special_in(&c->in[i]);
        bool asked = c->in[i].kind == TD_K_DTYPE && td__is_special(c->in[i].u.dt);
        if (!t && !asked) continue;
        if (td__is_stored(t ? (td_dtype)t->dtype : c->in[i].u.dt)) {
            if (!takes_stored(c, row)) return refuse_stored(c, i, t), -1;
            continue;
        }
        any = 1;
        if (!row->def->complex) return refuse_complex(c, i, t), -1;
    }
    *parts = any && row->of_complex;
    return any;
}

/* What came of a call: results in c->out, nil because an argument was, or failure. */
typedef enum outcome { DONE, NIL, FAILED } outcome;

/* Between td_fakes_begin and td_fakes_end: is every tensor of argument i fake? */
static bool is_fake_arg(td_opcall *c, int i) {
    const td_value   *v = &c->in[i];
    td_tensor *const *t = v->kind == TD_K_TENSORS ? v->u.ts : &v->u.t;
    int               n = v->kind == TD_K_TENSORS ? (int)v->n : v->kind == TD_K_TENSOR;
    for (int k = 0; k < n; k++)
        if (t[k] && !td__is_fake(t[k]))
            return td__op_fail(c, TD_E_ARG,
                               "argument %s is a real tensor, and between "
                               "td_fakes_begin and td_fakes_end ops take fake ones; "
                               "pass a fake copy of it (td_fake_like)",
                               c->info->s.in[i].name);
    return true;
}

/* Checks that concern fake tensors alone. False after td__fail. */
static bool takes(td_opcall *c) {
    if (c->cx->fake)
        return (!c->info->writes || td__copies_written(c)) && take_stand_ins(c);
    for (int i = 0; c->cx->takes_fakes == TD_FAKES_SCOPE && i < c->n_in; i++)
        if (!is_fake_arg(c, i)) return false;
    return true;
}

/* Looks up the row, checks the arguments and runs the call; in fake mode, writes of
 * assumed copies are checked first. */
static outcome call(td_opcall *c, td_op op, const td_value *in, int n_in) {
    if (TD_UNLIKELY(c->cx->n_typed > 0)) op = td__typed_instead(op, in, n_in);
    c->info = td__opinfo(op);
    c->def = c->info->def;
    c->n_in = c->info->s.n_in;
    c->describe = NULL;
    c->out = c->few;
    c->meta = c->few_meta;
    c->n_out = c->info->s.n_out;
    for (int i = 0; i < TD_FEW; i++) c->few[i] = NULL;
    if (c->n_out > TD_FEW && !td__call_results(c, c->n_out)) return FAILED;
    int state = bind(c, in, n_in);
    if (state) return state == 1 ? NIL : FAILED;
    if (TD_UNLIKELY(c->cx->fake | c->cx->takes_fakes) && !takes(c)) return FAILED;
    bool parts = false;
    if (TD_UNLIKELY(c->cx->special) && check_special(c, &parts) < 0) return FAILED;
    c->device = 0;
    if (TD_UNLIKELY(c->cx->devices | (op == TD_OP_to_device)) && !td__call_device(c))
        return FAILED;
    if (TD_UNLIKELY(parts)) return td__call_complex_parts(c) ? DONE : FAILED;
    return dispatch(c->cx->top, c) ? DONE : FAILED;
}

/* Scratch of the call, such as long result arrays, is freed at the end; results belong
 * to the innermost scope. */
bool td__call(td_ctx *cx, td_op op, const td_value *in, int n_in, td_tensor **out,
              int n_out) {
    td_value  args[TD_MAX_ARGS];
    td_opcall c; /* large: only what is read gets set */
    if (TD_UNLIKELY(!td__is_usable(cx, TD_H_CTX))) {
        td__nil_tensors(fail_nowhere(cx, op, in, n_in), out, n_out);
        return false;
    }
    td_arena_mark mark = td__arena_mark(&cx->scratch);
    c.cx = cx;
    c.in = args;
    outcome r = call(&c, op, in, n_in);
    for (int i = 0; i < n_out; i++)
        out[i] = r == DONE && i < c.n_out ? c.out[i] : &cx->nil;
    td__arena_reset(&cx->scratch, mark);
    return r != FAILED;
}

/* For ops with one result: nil on failure, so that calls nest. */
td_tensor *td__call1(td_ctx *cx, td_op op, const td_value *in, int n_in) {
    td_tensor *out;
    td__call(cx, op, in, n_in, &out, 1);
    return out;
}

/* Of a live tensor if there is one, else of a nil or freed one of an open context. */
td_ctx *td__args_ctx(const td_value *in, int n) {
    td_ctx *other = NULL;
    if (TD_LIKELY(n > 0 && in[0].kind == TD_K_TENSOR &&
                  td__is_live(in[0].u.t, TD_H_TENSOR)))
        return in[0].u.t->cx;
    for (int i = 0; i < n; i++) {
        bool              list = in[i].kind == TD_K_TENSORS;
        td_tensor *const *v = list ? in[i].u.ts : &in[i].u.t;
        uint32_t          m = list ? in[i].n : in[i].kind == TD_K_TENSOR;
        for (uint32_t k = 0; v && k < m; k++) {
            if (TD_LIKELY(td__is_live(v[k], TD_H_TENSOR))) return v[k]->cx;
            if (v[k] && !other) other = td__ctx_of_any(v[k]);
        }
    }
    return other;
}

/* Copies into cap entries; the results belong to the scope either way. */
int td__call_list(td_ctx *cx, td_op op, const td_value *in, int n_in, td_tensor **out,
                  int cap) {
    td_value  args[TD_MAX_ARGS];
    td_opcall c;
    if (TD_UNLIKELY(!td__is_usable(cx, TD_H_CTX)) ||
        !td__has_room(cx, td__row(op)->name, out, cap)) {
        if (!td__is_usable(cx, TD_H_CTX)) cx = fail_nowhere(cx, op, in, n_in);
        td__nil_tensors(cx, out, cap);
        return -1;
    }
    td_arena_mark mark = td__arena_mark(&cx->scratch);
    c.cx = cx;
    c.in = args;
    int n = call(&c, op, in, n_in) == DONE ? c.n_out : -1;
    if (n > cap)
        td__op_fail(&c, TD_E_ARG,
                    "returns %d tensors, and out has room for %d; pass a larger cap", n,
                    cap),
            n = -1;
    for (int i = 0; i < cap; i++) out[i] = i < n ? c.out[i] : &cx->nil;
    td__arena_reset(&cx->scratch, mark);
    return n;
}

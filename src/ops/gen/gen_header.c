/* gen_header.c -- include/tandem/ops.h: a documented flat function per op, and
 * sugar macros that take numbers where tensors go and leave out trailing
 * arguments that have defaults; what stands for results comes behind them. */
#include "ops/gen/gen.h"

#include <string.h>

/* The default of a parameter as C text of its type. */
static void write_default(FILE *f, const td_param *p) {
    td_value v = p->def;
    switch ((td_kind)v.kind) {
    case TD_K_NONE:
        fprintf(f, p->type == TD_T_OPT_TENSOR  ? "NULL"
                   : p->type == TD_T_OPT_INTS  ? "TD_ALL"
                   : p->type == TD_T_OPT_DTYPE ? "TD_DTYPE_NONE"
                                               : "TD_NONE");
        break;
    case TD_K_INT:
        fprintf(f, p->type == TD_T_INT ? "%lld" : "td_value_int(%lld)",
                (long long)v.u.i);
        break;
    case TD_K_FLOAT:
        fprintf(f, p->type == TD_T_FLOAT ? "%.17g" : "td_value_float(%.17g)", v.u.f);
        break;
    case TD_K_BOOL:
        fprintf(f, p->type == TD_T_BOOL ? "%s" : "td_value_bool(%s)",
                v.u.i ? "true" : "false");
        break;
    case TD_K_STR: fprintf(f, "\"%s\"", v.u.s); break;
    case TD_K_INTS:
        fprintf(f, "TD_SHAPE(");
        for (uint32_t i = 0; i < v.n; i++)
            fprintf(f, i ? ", %lld" : "%lld", (long long)p->ints_def[i]);
        fprintf(f, ")");
        break;
    default: fprintf(f, "TD_NONE");
    }
}

/* Is the parameter a td_value, which a macro converts from a tensor or a number? */
static bool takes_number(const td_param *p) {
    return p->type == TD_T_OPERAND || p->type == TD_T_SCALAR ||
           p->type == TD_T_OPT_SCALAR || p->type == TD_T_OPT_INT ||
           p->type == TD_T_OPT_FLOAT;
}

/* The C text of a first argument that a call leaves out, arange(end); NULL: it may
 * not. */
static const char *first_default(td_op op) {
    if (!(td__ops[op].flags & TD_OPF_FROM_ZERO)) return NULL;
    return takes_number(&td__gen_schemas[op].in[0]) ? "td_value_int(0)" : "0";
}

/* Parameters of the C function that receive results. */
static int results_given(const td_schema *s) {
    return td__gen_is_list(s) ? 2 : s->n_out > 1 ? s->n_out - 1 : 0;
}

/* One macro that takes `given` parameters from `from` on and fills in the rest. They
 * stand without parentheses: (td_ints){v, n} counts as two, and what the compiler says
 * of the call then is one line. */
static void write_macro(FILE *f, td_op op, const char *macro, int from, int given) {
    const td_schema *s = &td__gen_schemas[op];
    const char      *sep = "";
    bool             create = td__ops[op].flags & TD_OPF_CREATE;
    int              outs = results_given(s);
    fprintf(f, "#define %s(", macro);
    if (create) fprintf(f, "cx"), sep = ", ";
    for (int i = 0; i < given + outs; i++, sep = ", ") fprintf(f, "%sx%d", sep, i);
    fprintf(f, ") \\\n    TD__CALL(td_op_%s%s", td__ops[op].name, create ? ", cx" : "");
    for (int i = 0; i < s->n_in; i++) {
        fprintf(f, ", ");
        if (i < from) fprintf(f, "%s", first_default(op));
        else if (i - from >= given) write_default(f, &s->in[i]);
        else fprintf(f, takes_number(&s->in[i]) ? "TD_V(x%d)" : "x%d", i - from);
    }
    for (int i = 0; i < outs; i++) fprintf(f, ", x%d", given + i);
    fprintf(f, ")\n");
}

/* What an op takes, for the message of a call with another count. */
static void write_usage(FILE *f, td_op op, int required) {
    const td_schema *s = &td__gen_schemas[op];
    const char      *sep = "";
    fprintf(f, "td_%s(", td__ops[op].name);
    if (td__ops[op].flags & TD_OPF_CREATE) fprintf(f, "cx"), sep = ", ";
    for (int i = 0; i < s->n_in; i++, sep = ", ")
        fprintf(f, i < required && (i || !first_default(op)) ? "%s%s" : "%s[%s]", sep,
                s->in[i].name);
    if (td__gen_is_list(s)) fprintf(f, "%sout, cap", sep);
    for (int i = 1; i < s->n_out; i++, sep = ", ")
        fprintf(f, "%s&%s", sep, s->out[i].name);
    fprintf(f, ")");
}

/* The macros of an op: one that counts its arguments, and one for each count that is
 * allowed. */
static void write_sugar(FILE *f, td_op op) {
    const td_schema *s = &td__gen_schemas[op];
    const char      *name = td__ops[op].name;
    int              extra = td__ops[op].flags & TD_OPF_CREATE ? 1 : 0, required = 0;
    char             macro[80];
    int              outs = results_given(s);
    while (required < s->n_in && !s->in[required].has_default) required++;
    if (required == s->n_in && !first_default(op)) {
        bool plain = true;
        for (int i = 0; i < s->n_in; i++) plain &= !takes_number(&s->in[i]);
        snprintf(macro, sizeof macro, "td_%s", name);
        if (!plain) write_macro(f, op, macro, 0, s->n_in);
        else
            fprintf(f, "#define %s(...) TD__CALL(td_op_%s, __VA_ARGS__)\n", macro,
                    name);
        return;
    }
    int least = required - (first_default(op) != NULL), fixed = extra + outs;
    if (least + fixed == 0) least = 1 - fixed;
    fprintf(f, "#define td_%s(...) TD__PICK_%d_%d(TD__%s_, __VA_ARGS__)(__VA_ARGS__)\n",
            name, least + fixed, s->n_in + fixed, name);
    fprintf(f, "#define TD__%s_N(...) TD__WRONG(\"", name);
    write_usage(f, op, required);
    fprintf(f, "\")\n");
    for (int n = least; n <= s->n_in; n++) {
        snprintf(macro, sizeof macro, "TD__%s_%d", name, n + fixed);
        write_macro(f, op, macro, n < required, n);
    }
}

/* TD__PICK_2_3(name, ...): name##2 or name##3 by the number of arguments, else
 * name##N. */
static void write_picks(FILE *f) {
    for (int most = 1; most <= 16; most++)
        for (int least = 1; least <= most; least++) {
            fprintf(f, "#define TD__PICK_%d_%d(name, ...) \\\n    TD__NTH(__VA_ARGS__",
                    least, most);
            for (int n = 16; n > 0; n--)
                if (n < least || n > most) fprintf(f, ", name##N");
                else fprintf(f, ", name##%d", n);
            fprintf(f, ", 0)\n");
        }
}

static const char opening[] =
    "/* tandem/ops.h -- every op, as a flat function and as sugar; generated by make "
    "gen,\n"
    " * do not edit. td_op_NAME takes all arguments and is what bindings call. The "
    "macro\n"
    " * td_NAME fills in trailing defaults, takes plain numbers where the schema says\n"
    " * Operand or Scalar, and notes the source line. Further results come back "
    "through\n"
    " * pointers, which may be NULL; an op with a list of results fills out[0..cap) "
    "and\n"
    " * returns how many there are, -1 on failure. Define TD_NO_SUGAR to see only the\n"
    " * functions. */\n"
    "#ifndef TANDEM_OPS_H\n#define TANDEM_OPS_H\n\n#include \"tandem/tensor.h\"\n\n"
    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";

static const char middle[] =
    "\n#ifdef __cplusplus\n}\n#endif\n\n"
    "#ifndef TD_NO_SUGAR\n\n"
    "#define TD__NTH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, N, ...) N\n"
    "/* A call with a number of arguments that the op does not have. */\n"
    "#ifdef __cplusplus\n"
    "#define TD__WRONG(usage) \\\n"
    "    ([]() -> td_tensor * { \\\n"
    "        static_assert(sizeof(int) == 0, \"wrong number of arguments: \" usage); "
    "\\\n"
    "        return nullptr; \\\n"
    "    }())\n"
    "#else\n"
    "#define TD__WRONG(usage) \\\n"
    "    ((td_tensor *)sizeof(struct { \\\n"
    "        _Static_assert(0, \"wrong number of arguments: \" usage); \\\n"
    "        int end; \\\n"
    "    }))\n"
    "#endif\n";

bool td__gen_header(const char *dir) {
    FILE *f = td__gen_open(dir, "include/tandem/ops.h");
    if (!f) return false;
    fputs(opening, f);
    for (int op = 0; op < TD_OP_COUNT; op++) {
        if (td__ops[op].flags & TD_OPF_NESTS) continue;
        if (td__ops[op].doc) fprintf(f, "\n/* %s */", td__ops[op].doc);
        fprintf(f, "\nTD_API ");
        td__gen_prototype(f, (td_op)op);
        fprintf(f, ";\n");
    }
    fputs(middle, f);
    write_picks(f);
    fprintf(f, "\n");
    for (int op = 0; op < TD_OP_COUNT; op++)
        if (!(td__ops[op].flags & TD_OPF_INTERNAL)) write_sugar(f, (td_op)op);
    fprintf(f, "\n#endif\n\n#endif\n");
    return td__gen_close(f, "include/tandem/ops.h");
}

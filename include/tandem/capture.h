/* tandem/capture.h -- functions Tandem can take apart. A body is an ordinary C
 * function of tensors; captured, it runs once on tensors without bytes and becomes a
 * program: its op calls in order, with views, writes, grad-mode regions and random
 * draws all still there. The program does to its arguments what the body would.
 *
 *     static bool scaled(td_call *c) {
 *         td_tensor *x = td_arg(c, 0);
 *         return td_return(c, td_mul(x, td_arg_number(c, 1)));
 *     }
 *     td_program *p = td_capture(cx, scaled, NULL, TD_ARGS(x, 2.0));
 *
 * A body must not do what cannot be recorded; it is an error with the source line: read
 * a value (td_item, td_read, td_data), write one directly (td_write, td_bump), set the
 * random generator, or register hooks on tensors from outside. td_cond and td_while
 * branch and loop on values. td_on_grad on a tensor of the body becomes part of it.
 * td_grad and td_backward are allowed: the ops that compute gradients become part of
 * the program, and so do the gradients stored in arguments. Custom functions are
 * allowed: their forward and backward run once, during the capture. td_checkpoint
 * marks its ops for the compiler. */
#ifndef TANDEM_CAPTURE_H
#define TANDEM_CAPTURE_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tensors, numbers and absent values. */
typedef struct td_values {
    const td_value *v;
    int             n;
} td_values;

typedef struct td_call    td_call;    /* one call of a body */
typedef struct td_program td_program; /* a captured body */

/* A function of tensors: reads its arguments with td_arg and ends with td_return.
 * False after a failure. */
typedef bool td_body(td_call *c);

/* ---- inside a body ------------------------------------------------------ */

TD_API td_ctx    *td_call_ctx(const td_call *c);
TD_API void      *td_call_env(const td_call *c);
TD_API int        td_arg_count(const td_call *c);
/* Argument i; NULL if it is absent, nil and an error if it is not a tensor. */
TD_API td_tensor *td_arg(td_call *c, int i);
/* A number among the arguments. It becomes a constant of the program: another number
 * needs another program. */
TD_API double     td_arg_number(td_call *c, int i);
TD_API int64_t    td_arg_int(td_call *c, int i);
/* The same without that: in a compiled function, a number that changed between calls
 * becomes an input of the code, and further values do not compile again
 * (docs/symbolic-shapes.md). td_sym_arg gives an int as a handle, as td_sym_size does.
 * td_arg_value gives an argument of any kind, as it was passed, for ops that take a
 * tensor or a number: pass it on, do not look inside.
 *
 *     td_mul(td_arg(c, 0), td_arg_value(c, 1));
 *     td_narrow(td_arg(c, 0), 0, 0, td_sym_arg(c, 2)); */
TD_API int64_t    td_sym_arg(td_call *c, int i);
TD_API td_value   td_arg_value(td_call *c, int i);
TD_API bool       td_arg_absent(const td_call *c, int i);
/* Makes the n bytes at `bytes`, for example a number in the body's env, part of the
 * key of a compiled function: each call compares them, and other bytes are another
 * specialization. Without td_watch the number would be a constant in the code. Watch
 * single fields, because padding is compared too. Run eagerly, and in td_capture, it
 * does nothing.
 *
 *     static bool scaled(td_call *c) {
 *         const settings *s = td_call_env(c);
 *         td_watch(c, &s->rate, sizeof s->rate);
 *         return td_return(c, td_mul(td_arg(c, 0), s->rate));
 *     }
 *
 *   returns  false after a failure
 *   owns     the caller: the bytes must be readable whenever the function is called
 *   fails    TD_E_ARG  NULL, or more than 1 MiB in one specialization */
TD_API bool       td_watch(td_call *c, const void *bytes, size_t n);
/* Sets the results, once: tensors (also an argument, also one twice), numbers, absent
 * values (TD_NONE, NULL, nil). A body that does not call it returns nothing. */
TD_API bool       td_return_values(td_call *c, td_values results);

/* ---- running eagerly ------------------------------------------------------- */

/* Runs the body eagerly, without capturing: the reference for every program made of
 * it. out[0..n_out) gets the first results. Returns the number of results, -1 after a
 * failure. */
TD_API int td_call_body(td_ctx *cx, td_body *body, void *env, td_values args,
                        td_value *out, int n_out);

/* ---- branches and loops ------------------------------------------------- */

/* In a captured body the value of a condition is unknown: both branches, or the body of
 * the loop, are captured and become part of the program. Run eagerly, td_cond and
 * td_while behave like if and while.
 *
 * Bodies may close over tensors; captured, they may not write those. Results never
 * alias: a result that is an argument, or shares storage with an argument or another
 * result, is returned as a copy.
 *
 * A compiled function is the same whichever branch runs. So a result, or an argument
 * that is written, requires grad if it does after one of the branches or after any
 * number of iterations, and an operand that only the other branch reads gets zeros as
 * gradient where eager leaves none. */
typedef struct td_branches {
    td_body *yes TD_0, *no TD_0;
    void *env TD_0; /* of both */
} td_branches;

/* Calls `yes` on the arguments if pred, one element, is not zero, else `no`; each
 * returns n_out tensors. Captured, both must return the same dtypes, sizes and
 * strides, and neither may fail. The version counter of an argument that one of them
 * writes moves by the number of its writes, or by 1 if that differs between branches.
 *
 *     td_cond(flag, (td_branches){.yes = grow, .no = keep}, TD_ARGS(x), &y, 1); */
TD_API bool td_cond(td_tensor *pred, td_branches of, td_values args, td_tensor **out,
                    int n_out);

typedef struct td_loop {
    td_body *test TD_0; /* from the state to one element; nonzero continues */
    td_body *body TD_0; /* from the state to the next, of the same types */
    void *env     TD_0;
} td_loop;

/* Runs the body as long as the test is nonzero; out[0..state.n) is the last state.
 * The state is the loop's own: the body may write it, and the tensors given stay as
 * they are. Captured, the test must not write, nor the body return or write a tensor
 * from outside; a body that fails is TD_E_TRACE, also where the loop would not call
 * it. Backward runs the loop again and saves its states. Unsupported: third
 * derivatives, and a backward that reads the result of an op with an effect. */
TD_API bool td_while(td_ctx *cx, td_loop of, td_tensors state, td_tensor **out);

/* ---- regions ------------------------------------------------------------ */

/* A part of a program that is called many times, such as a block of a transformer. */
typedef struct td_region_body {
    td_body *body    TD_0;
    void *env        TD_0;
    const char *name TD_0; /* in texts; NULL: "region" */
    /* The body does the same whenever env and the kinds, types and numbers of its
     * arguments are the same: during a capture it is called once for these. False: it
     * is called each time, which is always right, and equal programs are shared. */
    bool once        TD_0;
} td_region_body;

/* Calls the body on the arguments; it returns n_out tensors. Eagerly that is all.
 * Captured, the body becomes a program of its own, a region, and tensors it closes over
 * become operands of the call, so that blocks with other parameters are the same
 * program. A compiled function contains it once: it is differentiated, partitioned
 * and compiled once for all calls on operands of the same types (docs/regions.md).
 *
 * A body that writes arguments or closed-over tensors, or returns views, arguments or
 * tensors it has written, behaves as in eager, but its ops become part of the program
 * around it; the log topic capture says so. Unsupported: td_backward and td_grad with
 * respect to arguments, inside of the body.
 *
 *     td_region_body of = {.body = block, .env = &layer[i]};
 *     td_call_region(cx, of, TD_ARGS(x), &x, 1);
 *
 *   returns  false after a failure, with nil in out[]
 *   fails    TD_E_ARG  the body returns another number of results, or not tensors */
TD_API bool td_call_region(td_ctx *cx, td_region_body of, td_values args,
                           td_tensor **out, int n_out);

/* ---- programs ----------------------------------------------------------- */

/* Captures the body for arguments like these, which are only inspected. Returns nil
 * after a failure. td_close drops the program if td_program_drop did not.
 *   fails  TD_E_TRACE  the body did something that cannot be part of a program
 *          any other   as the body itself */
TD_API td_program *td_capture(td_ctx *cx, td_body *body, void *env, td_values args);

/* Which sizes of the arguments may differ in later calls of the program. */
typedef enum td_dynamic {
    TD_DYNAMIC_OFF,    /* none: the program is valid for these sizes only */
    TD_DYNAMIC_MARKED, /* those marked with td_mark_dynamic */
    TD_DYNAMIC_ALL     /* all that are not 0 or 1; equal ones stay equal */
} td_dynamic;

/* Options carry their size: write {TD_CAPTURE_OPTS, .dynamic = TD_DYNAMIC_ALL}. */
typedef struct td_capture_opts {
    TD_SIZE(td_capture_opts);
    td_dynamic dynamic TD_0;
    bool no_duck TD_0; /* TD_DYNAMIC_ALL: sizes that are equal now need not stay so */
} td_capture_opts;
#define TD_CAPTURE_OPTS .td_capture_opts_size = sizeof(td_capture_opts)

/* td_capture with options; opts may be NULL. With dynamic sizes the program is valid
 * for all arguments that pass its guards (docs/symbolic-shapes.md). A body that reads
 * a size as a number (td_size) fixes that size. */
TD_API td_program *td_capture_with(td_ctx *cx, td_body *body, void *env, td_values args,
                                   const td_capture_opts *opts);
/* Asserts, inside a body, a relation of a size that depends on values, and checks it
 * when the program runs: rel is "==", "!=", "<", "<=", ">" or ">=". For other sizes,
 * and outside of captures, it is a plain check. False after a failure: TD_E_SHAPE. */
TD_API bool        td_expect(td_tensor *t, int64_t dim, const char *rel, int64_t than);
/* Does what the body does, to tensors of the same dtypes, sizes and strides with the
 * same aliasing, and the same numbers. out[0..n_out) gets the first results. False
 * after a failure: TD_E_GUARD names the guard that fails. */
TD_API bool   td_program_run(td_program *p, td_values args, td_value *out, int n_out);
TD_API int    td_program_results(const td_program *p);
/* The program as text (docs/text-format.md). Writes at most cap bytes including the
 * final NUL; returns the length of the text. */
TD_API size_t td_program_text(const td_program *p, char *out, size_t cap);
/* The conditions on sizes of arguments: "s0 == x0.size(0), s0 >= 2"; empty without
 * dynamic sizes. Writes at most cap bytes including the final NUL; returns the length
 * of the text. */
TD_API size_t td_program_guards(const td_program *p, char *out, size_t cap);
TD_API void   td_program_drop(td_program *p); /* NULL is allowed */

#ifdef __cplusplus
} /* extern "C" */

template <std::size_t N>
td__list<td_values, td_value, (int)N> td__values(const td__any (&&v)[N]) {
    td__list<td_values, td_value, (int)N> list = {};
    for (std::size_t i = 0; i < N; i++) list.v[i] = v[i].value;
    return list;
}
inline td__list<td_values, td_value, 0> td__values(td__no_entries) { return {}; }
#define TD_ARGS(...) td__values({__VA_ARGS__})
#define TD_ARGS_OF(p, n) (td_values{(p), (int)(n)})

/* td_return(c, y, z). The first three are td__any, which knows NULL from a number. */
static inline bool td_return(td_call *c) {
    return td_return_values(c, td_values{nullptr, 0});
}
static inline bool td_return(td_call *c, td__any x0) {
    return td_return_values(c, td__values({x0}));
}
static inline bool td_return(td_call *c, td__any x0, td__any x1) {
    return td_return_values(c, td__values({x0, x1}));
}
template <class... T>
bool td_return(td_call *c, td__any x0, td__any x1, td__any x2, T... x) {
    return td_return_values(c, td__values({x0, x1, x2, td__any(x)...}));
}
#else

/* Values in place, up to 64; more from an array: TD_ARGS_OF(values, n). */
#define TD__VALUES_1(x) TD_V(x)
#define TD__VALUES_2(x, ...) TD_V(x), TD__VALUES_1(__VA_ARGS__)
#define TD__VALUES_3(x, ...) TD_V(x), TD__VALUES_2(__VA_ARGS__)
#define TD__VALUES_4(x, ...) TD_V(x), TD__VALUES_3(__VA_ARGS__)
#define TD__VALUES_5(x, ...) TD_V(x), TD__VALUES_4(__VA_ARGS__)
#define TD__VALUES_6(x, ...) TD_V(x), TD__VALUES_5(__VA_ARGS__)
#define TD__VALUES_7(x, ...) TD_V(x), TD__VALUES_6(__VA_ARGS__)
#define TD__VALUES_8(x, ...) TD_V(x), TD__VALUES_7(__VA_ARGS__)
#define TD__VALUES_9(x, ...) TD_V(x), TD__VALUES_8(__VA_ARGS__)
#define TD__VALUES_10(x, ...) TD_V(x), TD__VALUES_9(__VA_ARGS__)
#define TD__VALUES_11(x, ...) TD_V(x), TD__VALUES_10(__VA_ARGS__)
#define TD__VALUES_12(x, ...) TD_V(x), TD__VALUES_11(__VA_ARGS__)
#define TD__VALUES_13(x, ...) TD_V(x), TD__VALUES_12(__VA_ARGS__)
#define TD__VALUES_14(x, ...) TD_V(x), TD__VALUES_13(__VA_ARGS__)
#define TD__VALUES_15(x, ...) TD_V(x), TD__VALUES_14(__VA_ARGS__)
#define TD__VALUES_16(x, ...) TD_V(x), TD__VALUES_15(__VA_ARGS__)
#define TD__VALUES_17(x, ...) TD_V(x), TD__VALUES_16(__VA_ARGS__)
#define TD__VALUES_18(x, ...) TD_V(x), TD__VALUES_17(__VA_ARGS__)
#define TD__VALUES_19(x, ...) TD_V(x), TD__VALUES_18(__VA_ARGS__)
#define TD__VALUES_20(x, ...) TD_V(x), TD__VALUES_19(__VA_ARGS__)
#define TD__VALUES_21(x, ...) TD_V(x), TD__VALUES_20(__VA_ARGS__)
#define TD__VALUES_22(x, ...) TD_V(x), TD__VALUES_21(__VA_ARGS__)
#define TD__VALUES_23(x, ...) TD_V(x), TD__VALUES_22(__VA_ARGS__)
#define TD__VALUES_24(x, ...) TD_V(x), TD__VALUES_23(__VA_ARGS__)
#define TD__VALUES_25(x, ...) TD_V(x), TD__VALUES_24(__VA_ARGS__)
#define TD__VALUES_26(x, ...) TD_V(x), TD__VALUES_25(__VA_ARGS__)
#define TD__VALUES_27(x, ...) TD_V(x), TD__VALUES_26(__VA_ARGS__)
#define TD__VALUES_28(x, ...) TD_V(x), TD__VALUES_27(__VA_ARGS__)
#define TD__VALUES_29(x, ...) TD_V(x), TD__VALUES_28(__VA_ARGS__)
#define TD__VALUES_30(x, ...) TD_V(x), TD__VALUES_29(__VA_ARGS__)
#define TD__VALUES_31(x, ...) TD_V(x), TD__VALUES_30(__VA_ARGS__)
#define TD__VALUES_32(x, ...) TD_V(x), TD__VALUES_31(__VA_ARGS__)
#define TD__VALUES_33(x, ...) TD_V(x), TD__VALUES_32(__VA_ARGS__)
#define TD__VALUES_34(x, ...) TD_V(x), TD__VALUES_33(__VA_ARGS__)
#define TD__VALUES_35(x, ...) TD_V(x), TD__VALUES_34(__VA_ARGS__)
#define TD__VALUES_36(x, ...) TD_V(x), TD__VALUES_35(__VA_ARGS__)
#define TD__VALUES_37(x, ...) TD_V(x), TD__VALUES_36(__VA_ARGS__)
#define TD__VALUES_38(x, ...) TD_V(x), TD__VALUES_37(__VA_ARGS__)
#define TD__VALUES_39(x, ...) TD_V(x), TD__VALUES_38(__VA_ARGS__)
#define TD__VALUES_40(x, ...) TD_V(x), TD__VALUES_39(__VA_ARGS__)
#define TD__VALUES_41(x, ...) TD_V(x), TD__VALUES_40(__VA_ARGS__)
#define TD__VALUES_42(x, ...) TD_V(x), TD__VALUES_41(__VA_ARGS__)
#define TD__VALUES_43(x, ...) TD_V(x), TD__VALUES_42(__VA_ARGS__)
#define TD__VALUES_44(x, ...) TD_V(x), TD__VALUES_43(__VA_ARGS__)
#define TD__VALUES_45(x, ...) TD_V(x), TD__VALUES_44(__VA_ARGS__)
#define TD__VALUES_46(x, ...) TD_V(x), TD__VALUES_45(__VA_ARGS__)
#define TD__VALUES_47(x, ...) TD_V(x), TD__VALUES_46(__VA_ARGS__)
#define TD__VALUES_48(x, ...) TD_V(x), TD__VALUES_47(__VA_ARGS__)
#define TD__VALUES_49(x, ...) TD_V(x), TD__VALUES_48(__VA_ARGS__)
#define TD__VALUES_50(x, ...) TD_V(x), TD__VALUES_49(__VA_ARGS__)
#define TD__VALUES_51(x, ...) TD_V(x), TD__VALUES_50(__VA_ARGS__)
#define TD__VALUES_52(x, ...) TD_V(x), TD__VALUES_51(__VA_ARGS__)
#define TD__VALUES_53(x, ...) TD_V(x), TD__VALUES_52(__VA_ARGS__)
#define TD__VALUES_54(x, ...) TD_V(x), TD__VALUES_53(__VA_ARGS__)
#define TD__VALUES_55(x, ...) TD_V(x), TD__VALUES_54(__VA_ARGS__)
#define TD__VALUES_56(x, ...) TD_V(x), TD__VALUES_55(__VA_ARGS__)
#define TD__VALUES_57(x, ...) TD_V(x), TD__VALUES_56(__VA_ARGS__)
#define TD__VALUES_58(x, ...) TD_V(x), TD__VALUES_57(__VA_ARGS__)
#define TD__VALUES_59(x, ...) TD_V(x), TD__VALUES_58(__VA_ARGS__)
#define TD__VALUES_60(x, ...) TD_V(x), TD__VALUES_59(__VA_ARGS__)
#define TD__VALUES_61(x, ...) TD_V(x), TD__VALUES_60(__VA_ARGS__)
#define TD__VALUES_62(x, ...) TD_V(x), TD__VALUES_61(__VA_ARGS__)
#define TD__VALUES_63(x, ...) TD_V(x), TD__VALUES_62(__VA_ARGS__)
#define TD__VALUES_64(x, ...) TD_V(x), TD__VALUES_63(__VA_ARGS__)
/* clang-format off */
#define TD__NTH65(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, \
    a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, \
    a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, \
    a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, \
    a64, a65, r, ...) r
#define TD__COUNT65(...) TD__NTH65(__VA_ARGS__, 65, 64, 63, 62, 61, 60, 59, 58, 57, \
    56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, \
    36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, \
    16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
/* 1 for one argument, also an empty one; M for more. */
#define TD__ONE_OR_M(...) TD__NTH65(__VA_ARGS__, \
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, \
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, \
    M, M, M, M, M, M, M, M, M, M, M, M, \
    1, 0)
/* clang-format on */
#define TD__JOIN(a, b) a##b
#define TD__CALL_COUNTED(name, n) TD__JOIN(name, n)
#define TD__VALUES(...) \
    TD__CALL_COUNTED(TD__VALUES_, TD__COUNT65(__VA_ARGS__))(__VA_ARGS__)
/* To C11's preprocessor TD_ARGS() has one argument, of no tokens. That argument alone
 * turns `TD__COMMA x ()` into a comma where neither `TD__COMMA x` (x in parentheses)
 * nor `x ()` (x the name of a macro) is one. */
#define TD__COMMA(...) ,
#define TD__THIRD(a, b, r, ...) r
#define TD__TWO(...) TD__THIRD(__VA_ARGS__, 1, 0, 0)
#define TD__JOIN4(a, b, c, d) a##b##c##d
#define TD__CALL_FORMS(name, a, b, c) TD__JOIN4(name, a, b, c)
#define TD__EMPTY_001 ,
#ifdef __cppcheck__ /* cannot paste the result of a macro */
#define TD__IS_EMPTY(x) 0
#else
#define TD__IS_EMPTY(x)                                                    \
    TD__TWO(TD__CALL_FORMS(TD__EMPTY_, TD__TWO(TD__COMMA x), TD__TWO(x()), \
                           TD__TWO(TD__COMMA x())))
#endif
#define TD__ARGS_M(...) \
    ((td_values){(const td_value[]){TD__VALUES(__VA_ARGS__)}, TD__COUNT65(__VA_ARGS__)})
#define TD__ARGS_1(x) TD__CALL_COUNTED(TD__ARGS_1_, TD__IS_EMPTY(x))(x)
#define TD__ARGS_1_0(x) ((td_values){(const td_value[]){TD_V(x)}, 1})
#define TD__ARGS_1_1(x) ((td_values){NULL, 0})
#define TD_ARGS(...) TD__CALL_COUNTED(TD__ARGS_, TD__ONE_OR_M(__VA_ARGS__))(__VA_ARGS__)
#define TD_ARGS_OF(p, n) ((td_values){(p), (int)(n)})

/* td_return(c, y, z): results of any kind; td_return(c): none. */
#define TD__RESULTS_1(c) (c), ((td_values){NULL, 0})
#define TD__RESULTS_2(c, ...) (c), TD_ARGS(__VA_ARGS__)
#define TD__RESULTS_3 TD__RESULTS_2
#define TD__RESULTS_4 TD__RESULTS_2
#define TD__RESULTS_5 TD__RESULTS_2
#define TD__RESULTS_6 TD__RESULTS_2
#define TD__RESULTS_7 TD__RESULTS_2
#define TD__RESULTS_8 TD__RESULTS_2
#define TD__RESULTS_9 TD__RESULTS_2
#define TD__RESULTS_10 TD__RESULTS_2
#define TD__RESULTS_11 TD__RESULTS_2
#define TD__RESULTS_12 TD__RESULTS_2
#define TD__RESULTS_13 TD__RESULTS_2
#define TD__RESULTS_14 TD__RESULTS_2
#define TD__RESULTS_15 TD__RESULTS_2
#define TD__RESULTS_16 TD__RESULTS_2
#define TD__RESULTS_17 TD__RESULTS_2
#define TD__RESULTS_18 TD__RESULTS_2
#define TD__RESULTS_19 TD__RESULTS_2
#define TD__RESULTS_20 TD__RESULTS_2
#define TD__RESULTS_21 TD__RESULTS_2
#define TD__RESULTS_22 TD__RESULTS_2
#define TD__RESULTS_23 TD__RESULTS_2
#define TD__RESULTS_24 TD__RESULTS_2
#define TD__RESULTS_25 TD__RESULTS_2
#define TD__RESULTS_26 TD__RESULTS_2
#define TD__RESULTS_27 TD__RESULTS_2
#define TD__RESULTS_28 TD__RESULTS_2
#define TD__RESULTS_29 TD__RESULTS_2
#define TD__RESULTS_30 TD__RESULTS_2
#define TD__RESULTS_31 TD__RESULTS_2
#define TD__RESULTS_32 TD__RESULTS_2
#define TD__RESULTS_33 TD__RESULTS_2
#define TD__RESULTS_34 TD__RESULTS_2
#define TD__RESULTS_35 TD__RESULTS_2
#define TD__RESULTS_36 TD__RESULTS_2
#define TD__RESULTS_37 TD__RESULTS_2
#define TD__RESULTS_38 TD__RESULTS_2
#define TD__RESULTS_39 TD__RESULTS_2
#define TD__RESULTS_40 TD__RESULTS_2
#define TD__RESULTS_41 TD__RESULTS_2
#define TD__RESULTS_42 TD__RESULTS_2
#define TD__RESULTS_43 TD__RESULTS_2
#define TD__RESULTS_44 TD__RESULTS_2
#define TD__RESULTS_45 TD__RESULTS_2
#define TD__RESULTS_46 TD__RESULTS_2
#define TD__RESULTS_47 TD__RESULTS_2
#define TD__RESULTS_48 TD__RESULTS_2
#define TD__RESULTS_49 TD__RESULTS_2
#define TD__RESULTS_50 TD__RESULTS_2
#define TD__RESULTS_51 TD__RESULTS_2
#define TD__RESULTS_52 TD__RESULTS_2
#define TD__RESULTS_53 TD__RESULTS_2
#define TD__RESULTS_54 TD__RESULTS_2
#define TD__RESULTS_55 TD__RESULTS_2
#define TD__RESULTS_56 TD__RESULTS_2
#define TD__RESULTS_57 TD__RESULTS_2
#define TD__RESULTS_58 TD__RESULTS_2
#define TD__RESULTS_59 TD__RESULTS_2
#define TD__RESULTS_60 TD__RESULTS_2
#define TD__RESULTS_61 TD__RESULTS_2
#define TD__RESULTS_62 TD__RESULTS_2
#define TD__RESULTS_63 TD__RESULTS_2
#define TD__RESULTS_64 TD__RESULTS_2
#define TD__RESULTS_65 TD__RESULTS_2
#define td_return(...) \
    td_return_values(  \
        TD__CALL_COUNTED(TD__RESULTS_, TD__COUNT65(__VA_ARGS__))(__VA_ARGS__))
#endif

#endif

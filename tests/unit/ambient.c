/* ambient.c -- the ambient state of a context: every field of td_ctx is classified, a
 * trace sees none of it, and it is the same behind every trace. */
#include "aot_help.h"
#include "core/core.h"
#include "tandem/mode.h"

#include <ctype.h>
#include <stdlib.h>

/* ---- classification ----------------------------------------------------- */

/* Fields of td_ctx and td_eager that are not ambient, each with the reason. Fields of
 * td_ambient need no row: td__ambient_clear handles them as a whole. */
typedef struct field_row {
    const char *name, *why_not_ambient;
} field_row;

static const field_row ctx_rows[] = {
    {"code", "the outcome of calls; a failed trace must show it"},
    {"stale", "goes with code"},
    {"gone", "goes with code"},
    {"other_size", "goes with code"},
    {"recompute", "goes with code"},
    {"saver", "set while one node saves its values"},
    {"sizes_seen", "a measuring run's own, which restores the one before it"},
    {"message", "goes with code"},
    {"unread", "goes with code"},
    {"failed_at", "goes with code"},
    {"failed_file", "goes with code"},
    {"on_error", "the user's ear for failures, of traces too"},
    {"on_error_env", "goes with on_error"},
    {"settings", "a specialization has its own copy, td_spec.set"},
    {"log", "where messages go; log.c clears the state around the user's sink"},
    {"spans", "timing"},
    {"nil", "a constant"},
    {"nil_storage", "a constant"},
    {"all", "memory: every living tensor"},
    {"TD_HANDLE_FIELDS", "a constant: what kind of object a context is"},
    {"nils", "constants"},
    {"no_gradient", "a constant"},
    {"no_gradient_leaf", "goes with no_gradient_at"},
    {"making", "for messages: the op that runs, further up the stack"},
    {"composite", "for messages: goes with making"},
    {"layout_copy", "of the op that runs: set by its parts, read at its end"},
    {"callback", "the user's code that runs, further up the stack"},
    {"devices", "memory: whether tensors may be on devices"},
    {"complex", "memory: whether tensors may be complex"},
    {"n_typed", "memory: how many living tensors are of a type"},
    {"handling", "functions of types that run, further up the stack"},
    {"no_gradient_at", "for the message about a gradient that does not exist"},
    {"owned_objects", "memory: what td_close frees if the user does not"},
    {"freed", "memory: structs of freed tensors"},
    {"freed_newest", "goes with freed"},
    {"n_freed", "goes with freed"},
    {"ended", "for messages about tensors of scopes that ended"},
    {"n_ended", "numbers scopes that ended, upwards"},
    {"owned", "memory: of scopes; td_outside.scopes has their number"},
    {"scopes", "td_outside.scopes has their number; labels make paths in messages"},
    {"dying", "memory: td__unref's work list"},
    {"unwinding", "memory: goes with dying"},
    {"ambient", "it is the ambient state"},
    {"tape", "a constant; td_outside.below has what is below it"},
    {"hooks", "a constant"},
    {"eager", "td_eager, see below"},
    {"last_hook", "numbers hooks, upwards"},
    {"remote", "where compiled code is shared changes no result"},
    {"drop_remote", "frees it"},
    {"print_precision", "read by td_print only"},
    {"print_edge", "read by td_print only"},
    {"print_width", "read by td_print only"},
    {"print_threshold", "read by td_print only"},
    {"scratch", "memory: of one op call"},
};

static const field_row eager_rows[] = {
    {"mode", "the tape"},
    {"cx", "a constant"},
    {"seq", "numbers nodes, upwards"},
    {"pool", "memory: free nodes"},
    {"states", "memory: free states"},
    {"dying", "memory: td__node_drop's work list"},
    {"burying", "memory: goes with dying"},
    {"hooks", "belong to tensors and nodes, not to the context"},
    {"hooks_running", "hooks further up the stack; removals wait for their end"},
    {"hooks_removed", "goes with hooks_running"},
    {"stashers", "belong to nodes of traces; numbers say of which trace"},
    {"walks", "memory: of backward walks further up the stack"},
    {"idle", "memory: for the next walk"},
    {"resize", "a constant"},
    {"traced", "of a walk further up the stack; it knows its own values alone"},
};

static char *read_text(const char *path) {
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 18);
    CHECK(f && text);
    CHECK(fread(text, 1, (1 << 18) - 1, f) > 0);
    fclose(f);
    return text;
}

/* Blanks comments. */
static void strip(char *s) {
    for (char *p; (p = strstr(s, "/*"));) {
        char *end = strstr(p, "*/");
        CHECK(end != NULL);
        memset(p, ' ', (size_t)(end + 2 - p));
    }
}

static void check_row(const field_row *rows, int n, const char *name, bool *seen) {
    int at = 0;
    while (at < n && strcmp(rows[at].name, name)) at++;
    if (at == n) {
        fprintf(stderr, "field \"%s\" is not classified: ambient or not?\n", name);
        CHECK(at < n);
    }
    seen[at] = true;
}

/* The names a declaration declares; calls check_row for each. "TD_VEC(x) name" and
 * "void (*name)(...)" included. */
static void declared(char *text, const field_row *rows, int n, bool *seen) {
    char name[64] = "";
    int  depth = 0, len = 0;
    bool done = false, pointer = false;
    for (char *p = text;; p++) {
        bool ends = !*p || (*p == ',' && depth == 0);
        if (*p == '(' && p[1] == '*') pointer = true;
        bool inside = depth > 0 && !pointer;
        if (!inside && !done && (isalnum((unsigned char)*p) || *p == '_')) {
            if (p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_')) len = 0;
            name[len++] = *p;
            name[len] = 0;
        }
        if (*p == '[' || (*p == ')' && pointer)) done = true;
        depth += (*p == '(') - (*p == ')');
        if (!ends) continue;
        check_row(rows, n, name, seen);
        if (!*p) return;
        len = 0;
        done = pointer = false;
    }
}

/* Every field of the struct in the file has a row, and every row its field. */
static void check_struct(const char *path, const char *opens, const char *closes,
                         const field_row *rows, int n) {
    bool  seen[64] = {false};
    char *text = read_text(path), *from = strstr(text, opens);
    CHECK(from != NULL);
    char *to = strstr(from, closes);
    CHECK(to != NULL);
    *to = 0;
    from += strlen(opens);
    strip(from);
    char *all = strstr(from, "union {"),
         *behind = all ? strstr(all, "};\n    };") : NULL;
    if (all) { /* the ambient fields, one by one and as a whole */
        CHECK(behind != NULL);
        memset(all, ' ', (size_t)(behind + strlen("};\n    };") - all));
        check_row(rows, n, "ambient", seen);
    }
    for (char *field = strtok(from, ";"); field; field = strtok(NULL, ";")) {
        while (isspace((unsigned char)*field)) field++;
        if (*field) declared(field, rows, n, seen);
    }
    for (int i = 0; i < n; i++) {
        if (!seen[i]) fprintf(stderr, "no field \"%s\" any more\n", rows[i].name);
        CHECK(seen[i] && *rows[i].why_not_ambient);
    }
    free(text);
}

TEST(every_field_of_a_context_is_ambient_or_has_a_reason_not_to_be) {
    check_struct("src/core/core.h", "struct td_ctx {", "\n};", ctx_rows,
                 TD_COUNT(ctx_rows));
    check_struct("src/eager/eager_int.h", "typedef struct td_eager {", "\n} td_eager;",
                 eager_rows, TD_COUNT(eager_rows));
}

/* ---- clearing and putting back ------------------------------------------ */

/* Garbage in each byte of the ambient state: whatever fields there are, all of them are
 * at their defaults inside, and are the same garbage again behind. */
TEST(clearing_the_ambient_state_clears_and_restores_every_byte) {
    static td_ambient before, fresh;
    td_ctx           *cx = td_open();
    td_outside        o;
    memcpy(&fresh, &cx->ambient, sizeof fresh);
    memset((void *)&before, 0xa5, sizeof before);
    memcpy((void *)&cx->ambient, &before, sizeof before);
    td_where was = td_here;
    CHECK(td__ambient_clear(cx, &o));
    CHECK(cx->last_serial == td__handle_last()); /* what it makes is its own */
    cx->last_serial = fresh.last_serial;
    CHECK(!memcmp(&cx->ambient, &fresh, sizeof fresh));
    CHECK(td_here.file == NULL);
    td__ambient_restore(cx, &o, true);
    CHECK(!memcmp(&cx->ambient, &before, sizeof before));
    CHECK(td_here.file == was.file && td_here.line == was.line);
    memcpy((void *)&cx->ambient, &fresh, sizeof fresh);
    td_close(cx);
}

/* ---- what bodies see ---------------------------------------------------- */

static void *pack(void *env, td_tensor *t) {
    (void)env;
    return td_keep(td_mul(t, 1.0));
}
static td_tensor *unpack(void *env, void *p, td_ctx *cx) {
    (void)env, (void)cx;
    return p;
}
static void drop(void *env, void *p) {
    (void)env;
    td_drop(p);
}
static const td_saved_hooks copying = {pack, unpack, drop, NULL};

static int  n_ran, n_unclean;
static bool fails;

/* Counts what of the state around its caller a trace can see. */
static void type(td_ctx *cx) {
    n_ran++;
    n_unclean += cx->packers.n != 0 || cx->anomaly || cx->wish || cx->regions ||
                 cx->missed || TD_TAG_WISH(cx->tags) || !cx->fake ||
                 cx->autocast.cache.n;
}

static bool fn_forward(td_fcall *f, td_tensor *const *in, int n, td_tensor **out,
                       int m) {
    (void)n, (void)m;
    type(td_ctx_of(in[0]));
    out[0] = td_mul(in[0], in[0]);
    return td_fcall_save(f, TD_LIST(in[0]));
}
static bool fn_backward(td_fcall *f, td_tensor *const *g, int m, td_tensor **grad,
                        int n) {
    (void)n, (void)m;
    type(td_ctx_of(g[0]));
    grad[0] = td_mul(td_mul(g[0], td_fcall_saved(f, 0)), 2.0);
    return true;
}
static bool yes(td_call *c) {
    type(td_call_ctx(c));
    return td_return(c, td_mul(td_arg(c, 0), 2.0));
}
static bool no(td_call *c) {
    type(td_call_ctx(c));
    return td_return(c, td_mul(td_arg(c, 0), 3.0));
}
static bool goes_on(td_call *c) {
    type(td_call_ctx(c));
    return td_return(c, td_lt(td_arg(c, 1), 2.0));
}
static bool turn(td_call *c) {
    type(td_call_ctx(c));
    return td_return(c, td_mul(td_arg(c, 0), 1.5), td_add(td_arg(c, 1), 1.0));
}

/* A custom function, a branch, a loop and a gradient, all captured. */
static bool everything(td_call *c) {
    static const td_function fn = {.name = "squared",
                                   .forward = fn_forward,
                                   .backward = fn_backward};
    td_ctx                  *cx = td_call_ctx(c);
    td_tensor               *x = td_arg(c, 0), *y, *z, *s[2];
    type(cx);
    if (fails) return td_fail(cx, TD_E_ARG, "on purpose"), false;
    td_loop loop = {goes_on, turn, NULL};
    td_function_call(cx, &fn, NULL, TD_LIST(td_tanh(x)), &y, 1);
    td_cond(td_gt(td_sum(x), 0.0), (td_branches){yes, no, NULL}, TD_ARGS(y), &z, 1);
    td_while(cx, loop, TD_LIST(z, td_zeros(cx, TD_SHAPE())), s);
    return td_return(c, td_sum(td_mul(s[0], td_exp(x))));
}

static bool twice(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    type(td_call_ctx(c));
    return td_return(c, td_mul(td_exp(x), td_detach(td_tanh(x))));
}

/* Everything around a call that its trace must not see. */
static void surround(td_ctx *cx, td_autocast_mode *cast) {
    td_saved_hooks_push(cx, &copying);
    td_set_anomaly(cx, true);
    td_rng_set(cx, 77, 5);
    *cast = td_autocast_begin(cx, TD_BF16);
    td_mul(td_matmul(td_ones(cx, TD_SHAPE(2, 2)), td_ones(cx, TD_SHAPE(2, 2))), 1.0);
}
static void unsurround(td_ctx *cx, td_autocast_mode cast) {
    td_autocast_end(cx, cast);
    td_set_anomaly(cx, false);
    td_saved_hooks_pop(cx);
}

/* Every public way to trace a body. */
typedef enum stage { A_CALL, A_STEP, A_PROGRAM, A_STAGE, AN_EXPORT, STAGES } stage;

static void run_stage(td_ctx *cx, stage which, td_tensor *x) {
    td_tensor *y;
    td_fn     *f = NULL;
    switch (which) {
    case A_CALL: f = td_aot_function(cx, everything, NULL, NULL); break;
    case A_STEP: f = td_aot_step(cx, everything, NULL, NULL); break;
    case A_PROGRAM:
        td_program_drop(td_capture(cx, everything, NULL, TD_ARGS(x)));
        return;
    case A_STAGE:
        td_stage_drop(td_stage_capture(cx, everything, NULL, TD_ARGS(x), NULL));
        return;
    default:
        td_exported_drop(td_export_joint(cx, everything, NULL, TD_ARGS(x), NULL));
        return;
    }
    if (f) td_invoke(f, TD_ARGS(x), &y, 1);
    td_fn_drop(f);
}

static td_tensor *ready(td_ctx *cx) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    n_ran = n_unclean = 0;
    return td_requires_grad_(td_mul(td_ones(cx, TD_SHAPE(2, 2)), 0.5));
}

/* Same but for what a call itself may leave: the generator's position. */
static bool same_ambient(const td_ambient *a, const td_ambient *b) {
    static td_ambient x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return !memcmp(&x, &y, sizeof x);
}

TEST(no_trace_sees_the_ambient_state_and_all_of_it_is_restored) {
    for (int which = 0; which < STAGES; which++)
        for (int wrong = 0; wrong < 2; wrong++) {
            static td_ambient before;
            td_autocast_mode  cast;
            td_ctx           *cx = td_open();
            td_tensor        *x = ready(cx);
            surround(cx, &cast);
            memcpy(&before, &cx->ambient, sizeof before);
            fails = wrong;
            run_stage(cx, (stage)which, x);
            fails = false;
            CHECK(td_ok(cx) == !wrong);
            td_clear(cx);
            CHECK(n_ran > (wrong ? 0 : 6));
            CHECK(n_unclean == 0);
            CHECK(same_ambient(&before, &cx->ambient));
            unsurround(cx, cast);
            td_close(cx);
        }
}

/* ---- inside an eager checkpoint ----------------------------------------- */

typedef struct region_env {
    td_ctx *cx;
    stage   which;
} region_env;

static bool region(void *env, td_tensor *const *in, int n, td_tensor **out, int m) {
    region_env *e = env;
    (void)n, (void)m;
    run_stage(e->cx, e->which, in[0]);
    out[0] = td_tanh(in[0]);
    return td_ok(e->cx);
}

TEST(no_trace_sees_the_checkpoint_around_it) {
    for (int which = 0; which < STAGES; which++) {
        td_ctx    *cx = td_open();
        td_tensor *x = ready(cx), *y;
        region_env e = {cx, (stage)which};
        CHECK(td_checkpoint(cx, region, &e, TD_LIST(x), &y, 1));
        CHECK(n_unclean == 0);
        CHECK(td_backward(td_sum(y)));
        CHECK(n_ran > 12 && n_unclean == 0);
        CHECK_OK(cx);
        td_close(cx);
    }
}

/* ---- later stages ------------------------------------------------------- */

/* The backward, the second gradient's program and its backward are compiled when they
 * are first asked for, under whatever state there is then. */
TEST(gradients_compiled_later_do_not_see_the_state_around_them) {
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    double       got[2];
    for (int hooked = 0; hooked < 2; hooked++) {
        td_autocast_mode cast;
        td_ctx          *cx = td_open();
        td_tensor       *x = ready(cx), *y, *g, *gg;
        td_fn           *f = td_aot_function(cx, twice, NULL, NULL);
        for (int call = 0; call < 2; call++) {
            td_ambient before;
            CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
            if (hooked && !call) surround(cx, &cast);
            memcpy(&before, &cx->ambient, sizeof before);
            CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, &make));
            CHECK(td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &gg, NULL));
            CHECK(same_ambient(&before, &cx->ambient));
            if (hooked && !call) unsurround(cx, cast);
        }
        got[hooked] = td_item(td_sum(gg));
        CHECK(n_unclean == 0);
        CHECK_OK(cx);
        td_fn_drop(f);
        td_close(cx);
    }
    CHECK(got[0] == got[1]);
}

/* ---- no memory ---------------------------------------------------------- */

TEST(the_state_is_put_back_whichever_allocation_fails) {
    int64_t last = 1;
    for (int64_t n = 0; n < last; n += 1 + n / 12) {
        static td_ambient before;
        td_autocast_mode  cast;
        td_ctx           *cx = td_open();
        td_tensor        *x = ready(cx);
        surround(cx, &cast);
        memcpy(&before, &cx->ambient, sizeof before);
        td__fault_arm(n ? n : INT64_MAX, false);
        run_stage(cx, A_CALL, x);
        if (!n) last = td__fault_count();
        td__fault_arm(INT64_MAX, false);
        td_clear(cx);
        CHECK(n_unclean == 0);
        CHECK(same_ambient(&before, &cx->ambient));
        unsurround(cx, cast);
        td_close(cx);
    }
    CHECK(last > 200);
}

/* ---- what a body leaves ------------------------------------------------- */

static bool leaves_hooks(td_call *c) {
    td_saved_hooks_push(td_call_ctx(c), NULL);
    return td_return(c, td_mul(td_arg(c, 0), 2.0));
}
static bool wants_anomaly(td_call *c) {
    td_set_anomaly(td_call_ctx(c), true);
    return td_return(c, td_mul(td_arg(c, 0), 2.0));
}
static bool seeds_as_if_fresh(td_call *c) {
    td_seed(td_call_ctx(c), 0);
    return td_return(c, td_rand(td_call_ctx(c), TD_SHAPE(2)));
}
static bool reads_generator(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), (double)td_rng_offset(td_call_ctx(c))));
}

TEST(state_that_a_body_leaves_or_reads_is_an_error) {
    static const struct {
        td_body    *body;
        const char *text;
    } rows[] = {{leaves_hooks, "pushed saved-tensor hooks"},
                {wants_anomaly, "td_set_anomaly: a captured body cannot"},
                {seeds_as_if_fresh, "td_seed: a captured body cannot change"},
                {reads_generator, "td_rng_offset: a captured body cannot read"}};
    for (int i = 0; i < TD_COUNT(rows); i++) {
        td_ctx    *cx = td_open();
        td_tensor *x = ready(cx), *y;
        td_fn     *f = td_aot_function(cx, rows[i].body, NULL, NULL);
        td_ambient before = cx->ambient;
        CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK(td_error(cx) == TD_E_TRACE);
        CHECK(strstr(td_message(cx), rows[i].text));
        CHECK(same_ambient(&before, &cx->ambient));
        td_clear(cx);
        td_fn_drop(f);
        td_close(cx);
    }
}

/* ---- the user's log sink ------------------------------------------------ */

typedef struct ear {
    td_tensor *t;
    double     sum;
    int        n;
} ear;

static void read_in_log(void *env, const char *topic, const char *text) {
    ear *e = env;
    (void)topic, (void)text;
    e->sum += td_item(td_mul(e->t, 2.0));
    e->n++;
}

/* Says something while it is traced. */
static bool warns(td_call *c) {
    td__warn(td_call_ctx(c), "inside");
    return td_return(c, td_tanh(td_arg(c, 0)));
}

TEST(a_log_sink_may_read_tensors_during_a_trace) {
    td_ctx    *cx = td_open();
    td_tensor *x = ready(cx), *y;
    ear        e = {td_full(cx, TD_SHAPE(), 3.0), 0, 0};
    td_log_to(cx, read_in_log, &e);
    td_config_set(cx, "log", "all");
    td_fn *f = td_aot_function(cx, warns, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_backward(td_sum(y)));
    CHECK_OK(cx);
    CHECK(e.n > 5 && e.sum == 6.0 * e.n);
    td_fn_drop(f);
    td_close(cx);
}

/* entries.c -- every public function is called with NULL, nil, a freed object and an
 * empty list in every position, the others being fine; and with all of them at once.
 * None may crash, none may replace an error that was recorded before, and none but
 * those that say so may return NULL. The calls are generated from the headers
 * (tools/gen-entries.sh). A crash ends a child process; the next one goes on. */
#define TD_NO_SUGAR
#include "../unit/child.h"
#include "core/handle.h"
#include "tandem/tandem.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGS = 16, ROOM = 1 << 16 };

/* What arguments are taken from, made anew for each call and on demand. */
typedef struct world {
    td_ctx     *cx, *closed;
    td_tensor  *t, *freed, *list[2];
    td_value    values[2];
    td_module  *modules[1];
    const char *names[3];
    const void *result; /* of the call, where it is a pointer */
} world;

typedef struct entry {
    const char *name, *result;
    void (*call)(world *w, const int *k);
    int n, choices[MOST_ARGS];
} entry;

/* Large enough for whatever a function may write to or read from. */
static union {
    size_t     size;
    td_tensor *slots[16];
    td_value   values[16];
    char       bytes[ROOM];
} room, zeros;

/* ---- objects ------------------------------------------------------------- */

static bool body(td_call *c) { return td_return_values(c, (td_values){NULL, 0}); }
static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env;
    for (int i = 0; i < n_out; i++) out[i] = n_in ? in[0] : NULL;
    return true;
}
static bool forward(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)f;
    return region(NULL, in, n_in, out, n_out);
}
static bool backward(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                     int n_in) {
    (void)f, (void)g, (void)n_out, (void)grad, (void)n_in;
    return true;
}
static void      *pack(void *env, td_tensor *t) { return (void)env, td_keep(t); }
static td_tensor *unpack(void *env, void *p, td_ctx *cx) {
    return (void)env, (void)cx, p;
}
static bool go_on(void *env, td_mode_call *h) { return (void)env, td_mode_call_go(h); }
static bool visit(void *env, const td_member *m) { return (void)env, m != NULL; }
static bool apply(void *env, td_module *m, const char *name) {
    return (void)env, m && name;
}
static td_tensor *on_grad(void *env, td_tensor *g) { return (void)env, g; }
static bool       on_leaf(void *env, td_tensor *t) { return (void)env, t != NULL; }
static bool       on_pre(void *env, td_tensor **g, int n) {
          return (void)env, (void)g, n >= 0;
}
static bool on_post(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                    int n) {
    return (void)env, (void)made, (void)g, n_made >= 0 && n >= 0;
}
static void on_log(void *env, const char *topic, const char *text) {
    (void)env, (void)topic, (void)text;
}

static const td_module_type type = {.name = "T", .bytes = 8};
static const td_function    function = {"f", forward, backward, NULL};
static const td_saved_hooks hooks = {pack, unpack, NULL, NULL};
static td_mode_hook         mode = {.name = "m", .call = go_on};

static td_tensor *ones(td_ctx *cx) {
    static const int64_t two[2] = {2, 2};
    return td_op_ones(cx, (td_ints){two, 2}, TD_F32);
}

static td_module *module_of(world *w) { return td_nn_linear(w->cx, 2, 2, NULL); }

static td_staged *staged_of(world *w) {
    w->values[0] = td_value_tensor(w->t);
    return td_stage_capture(w->cx, body, NULL, (td_values){w->values, 1}, NULL);
}

static td_tree *tree_of(world *w) {
    td_tree *t = td_tree_make(w->cx);
    td_tree_put(t, NULL, td_value_int(1));
    return t;
}

static const char graph_text[] = "func @f(%x: f32[2,2]) {\n  return (%x)\n}\n";

static td_gfile *gfile_of(world *w) {
    return td_graphs_parse(w->cx, graph_text, sizeof graph_text - 1, "g");
}

static td_program *program_of(world *w) {
    w->values[0] = td_value_tensor(w->t);
    return td_capture(w->cx, body, NULL, (td_values){w->values, 1});
}

static td_exported *exported_of(world *w) {
    w->values[0] = td_value_tensor(w->t);
    return td_export_joint(w->cx, body, NULL, (td_values){w->values, 1}, NULL);
}

static td_loader *loader_of(world *w) {
    td_loader_opts o = {TD_LOADER_OPTS, .type = TD_TOKENS_U8, .batch = 1, .window = 4,
                        .ahead = -1};
    return td_loader_over(w->cx, zeros.bytes, 64, &o);
}

static td_optim *optim_of(world *w) {
    return td_optim_module(module_of(w), td_sgd(0.1));
}

/* ---- arguments by number: 0 is fine -------------------------------------- */

enum { N_HANDLE = 4 };
static void *freed_of(void *object, td_handle_kind kind) {
    td_owned *o = object;
    if (td_is_nil(o)) return object;
    if (o->end) {
        void (*end)(void *) = o->end;
        td__handle_disown(o);
        end(o);
    }
    (void)kind;
    return object;
}

/* Fine, NULL, nil, freed. */
#define HANDLE(T, KIND, make)                              \
    static T *A_##T##_p(world *w, int k) {                 \
        return k == 1   ? NULL                             \
               : k == 2 ? td__nil_of(w->cx, TD_H_##KIND)   \
               : k == 3 ? freed_of((make)(w), TD_H_##KIND) \
                        : (make)(w);                       \
    }                                                      \
    enum { N_##T##_p = N_HANDLE };

static td_store *store_of(world *w) { return td_store_memory(w->cx, "rows"); }
static td_fn    *fn_of(world *w) { return td_aot_function(w->cx, body, NULL, NULL); }
static td_backward_fn *backward_of(world *w) { return td_aot_backward(w->cx, NULL); }
static td_safetensors *safetensors_of(world *w) {
    return td_safetensors_open(w->cx, "no-such-directory/file");
}
HANDLE(td_module, MODULE, module_of)
HANDLE(td_fn, FN, fn_of)
HANDLE(td_optim, OPTIM, optim_of)
HANDLE(td_loader, LOADER, loader_of)
HANDLE(td_store, STORE, store_of)
HANDLE(td_exported, EXPORTED, exported_of)
HANDLE(td_staged, STAGED, staged_of)
HANDLE(td_backward_fn, BACKWARD, backward_of)
HANDLE(td_safetensors, SAFETENSORS, safetensors_of)
HANDLE(td_tree, TREE, tree_of)
HANDLE(td_gfile, GFILE, gfile_of)
HANDLE(td_program, PROGRAM, program_of)

static td_graph *graph_of(world *w) { return td_graphs_at(gfile_of(w), 0); }
static td_graph *A_td_graph_p(world *w, int k) {
    td_gfile *f = k == 3 ? gfile_of(w) : NULL;
    td_graph *g = f ? td_graphs_at(f, 0) : NULL;
    td_graphs_drop(f);
    return k == 1 ? NULL : k == 2 ? td__nil_of(w->cx, TD_H_GRAPH) : g ? g : graph_of(w);
}
enum { N_td_graph_p = N_HANDLE };

static td_tensor *no_loss(void *env) { return (void)env, NULL; }
static td_tensor *no_distance(void *env, td_tensor *a, td_tensor *b) {
    return (void)env, (void)b, a;
}

static td_flat *A_td_flat_p(world *w, int k) {
    td_flat *f = k == 1 ? NULL : td_module_flat(k == 2 ? NULL : module_of(w));
    if (k == 3) td_flat_drop(f);
    return f;
}
enum { N_td_flat_p = N_HANDLE };

/* Alive only inside a callback: NULL and nil. */
#define INNER(T, KIND)                                    \
    static T *A_##T##_p(world *w, int k) {                \
        return k ? td__nil_of(w->cx, TD_H_##KIND) : NULL; \
    }                                                     \
    enum { N_##T##_p = 2 };
INNER(td_node, NODE)
INNER(td_call, CALL)
INNER(td_mode_call, MODE_CALL)
INNER(td_split, SPLIT)
INNER(td_fcall, FCALL)

static td_ctx *A_td_ctx_p(world *w, int k) {
    return k == 1 ? NULL : k == 2 ? w->closed : w->cx;
}
static td_tensor *A_td_tensor_p(world *w, int k) {
    return k == 1   ? NULL
           : k == 2 ? td_nil(w->cx)
           : k == 3 ? w->freed
           : k == 4 ? td_grad_of(w->t)
           : k == 5 ? td_nil(NULL)
                    : w->t;
}
enum { N_td_ctx_p = 3, N_td_tensor_p = 6 };

/* Two tensors, none, one that is bad, a length without a list. */
static td_tensors A_td_tensors(world *w, int k) {
    w->list[0] = A_td_tensor_p(w, k < 2 ? 0 : k - 1);
    w->list[1] = w->t;
    if (k == 1 || k == 7) return (td_tensors){NULL, k == 7 ? 2 : 0};
    return (td_tensors){w->list, 2};
}
static td_value A_td_value(world *w, int k) {
    if (k >= 6) return k == 6 ? td_value_none() : td_value_int(1);
    return td_value_tensor(A_td_tensor_p(w, k));
}
static td_values A_td_values(world *w, int k) {
    w->values[0] = A_td_value(w, k < 2 ? 0 : k - 1);
    if (k == 1 || k == 9) return (td_values){NULL, k == 9 ? 2 : 0};
    return (td_values){w->values, 1};
}
static td_modules A_td_modules(world *w, int k) {
    w->modules[0] = A_td_module_p(w, k < 2 ? 0 : k - 1);
    if (k == 1 || k == 5) return (td_modules){NULL, k == 5 ? 2 : 0};
    return (td_modules){w->modules, 1};
}
static td_ints A_td_ints(world *w, int k) {
    static const int64_t v[2] = {1, 0};
    (void)w;
    return k == 1 ? (td_ints){NULL, 0} : (td_ints){k == 2 ? NULL : v, 2};
}
enum { N_td_tensors = 8, N_td_value = 8, N_td_values = 10, N_td_modules = 6 };
enum { N_td_ints = 3 };

static char *A_char_p(world *w, int k) {
    static char path[] = "no-such-directory/file";
    (void)w;
    memcpy(room.bytes, path, sizeof path);
    return k ? NULL : room.bytes;
}
static const char **A_char_p_p(world *w, int k) {
    w->names[0] = w->names[1] = "name";
    return k ? NULL : w->names;
}
enum { N_char_p = 2, N_char_p_p = 2 };

#define POINTER(T, mangled, good)                                                 \
    static T *A_##mangled(world *w, int k) { return (void)w, k ? NULL : (good); } \
    enum { N_##mangled = 2 };
POINTER(td_tensor *, td_tensor_p_p, room.slots)
POINTER(td_module *, td_module_p_p, (td_module **)(void *)room.slots)
POINTER(td_value, td_value_p, room.values)
POINTER(td_body, td_body_p, body)
POINTER(td_region, td_region_p, region)
POINTER(const td_function, td_function_p, &function)
POINTER(const td_saved_hooks, td_saved_hooks_p, &hooks)
POINTER(td_mode_hook, td_mode_hook_p, &mode)
POINTER(const td_module_type, td_module_type_p, &type)
POINTER(td_member_fn, td_member_fn_p, visit)
POINTER(td_module_fn, td_module_fn_p, apply)
POINTER(td_grad_hook, td_grad_hook_p, on_grad)
POINTER(td_leaf_hook, td_leaf_hook_p, on_leaf)
POINTER(td_pre_hook, td_pre_hook_p, on_pre)
POINTER(td_post_hook, td_post_hook_p, on_post)
POINTER(td_log_fn, td_log_fn_p, on_log)
POINTER(td_param_filter, td_param_filter_p, td_param_is_matrix)
POINTER(td_loss_fn, td_loss_fn_p, no_loss)
POINTER(td_distance_fn, td_distance_fn_p, no_distance)

static td_rule A_td_rule(world *w, int k) {
    return (void)w, k ? (td_rule){0} : td_sgd(0.1);
}
static td_branches A_td_branches(world *w, int k) {
    return (void)w, k ? (td_branches){0} : (td_branches){body, body, NULL};
}
static td_loop A_td_loop(world *w, int k) {
    return (void)w, k ? (td_loop){0} : (td_loop){body, body, NULL};
}
static size_t A_size_t(world *w, int k) { return (void)w, k ? 0 : 16; }
enum { N_td_rule = 2, N_td_branches = 2, N_td_loop = 2, N_size_t = 2 };

/* Nothing, options of no size, options of their size. */
static void *options(int k, size_t size) {
    memset(&room, 0, 512);
    room.size = k == 1 ? 0 : size;
    return k ? room.bytes : NULL;
}
#define A_opts(T, w, k) ((T *)options((k), sizeof(T)))
#define A_pointer(w, k) ((k) ? NULL : (void *)zeros.bytes)
#define A_number(T, w, k) ((T)((k) == 0 ? 1 : (k) == 1 ? 0 : -1))

#include "entries.inc"

/* ---- calling ------------------------------------------------------------- */

/* Shared with the parent, which says what was called when a child crashed. */
typedef struct progress {
    int  at, calls, wrong;
    char what[256];
} progress;

static progress *shared;

static void begin(world *w) {
    memset(w, 0, sizeof *w);
    memset(&zeros, 0, 512);
    memset(&room, 0, 512);
    w->closed = td_open();
    td_close(w->closed);
    w->cx = td_open();
    td_config_set(w->cx, "backend", "interp");
    td_scope_begin(w->cx, "entries");
    w->t = ones(w->cx);
    td_scope_begin(w->cx, "inner");
    w->freed = ones(w->cx);
    td_scope_end(w->cx, "inner", NULL);
    mode.link = NULL;
}

/* These return NULL for "there is none", which is no failure. */
static bool may_be_null(const entry *e) {
    static const char *const names[] = {"td_arg",          "td_module_get",
                                        "td_module_call",  "td_module_child_at",
                                        "td_graphs_at",    "td_graphs_find",
                                        "td_module_param", "td_module_buffer"};
    static const char *const results[] = {"td_tensor *",      "td_module *",
                                          "td_fn *",          "td_optim *",
                                          "td_tree *",        "td_loader *",
                                          "td_store *",       "td_exported *",
                                          "td_staged *",      "td_program *",
                                          "td_safetensors *", "td_gfile *",
                                          "td_flat *",        "td_ctx *"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], e->name)) return true;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (!strcmp(results[i], e->result)) return false;
    return true;
}

static FILE *report; /* standard output, which td_print writes to as well */

static void complain(const entry *e, const char *what) {
    fprintf(report, "FAIL %s: %s: %s\n", e->name, shared->what, what);
    fflush(report);
    shared->wrong++;
}

static void call(const entry *e, const int *k, bool after_error) {
    world w;
    int   n = snprintf(shared->what, sizeof shared->what, "choices");
    for (int i = 0; i < e->n; i++)
        n += snprintf(shared->what + n, sizeof shared->what - (size_t)n, " %d", k[i]);
    begin(&w);
    if (after_error) td_fail(w.cx, TD_E_ARG, "the first error");
    w.result = &w;
    e->call(&w, k);
    shared->calls++;
    if (!w.result && !may_be_null(e)) complain(e, "returns NULL");
    bool closes = !strcmp(e->name, "td_close") && k[0] == 0;
    bool clears = !strcmp(e->name, "td_clear") && k[0] == 0;
    if (after_error && !closes && !clears &&
        !strstr(td_message(w.cx), "the first error"))
        complain(e, "replaces the first error");
    td_close(w.cx);
    td_clear(NULL);
}

static void call_all(const entry *e) {
    int k[MOST_ARGS] = {0};
    call(e, k, false);
    for (int i = 0; i < e->n; i++) {
        for (k[i] = 1; k[i] < e->choices[i]; k[i]++) {
            call(e, k, false);
            call(e, k, true);
        }
        k[i] = 0;
    }
    for (int c = 1; c < 4; c++) { /* all of them at once */
        for (int i = 0; i < e->n; i++) k[i] = c < e->choices[i] ? c : e->choices[i] - 1;
        call(e, k, false);
    }
}

static void run_child(int from, int n, const char *only) {
    report = fdopen(dup(STDOUT_FILENO), "w");
    if (!report || !freopen("/dev/null", "w", stderr) ||
        !freopen("/dev/null", "w", stdout))
        _exit(1);
    for (shared->at = from; shared->at < n; shared->at++) {
        const entry *e = &entries[shared->at];
        if (only && strcmp(only, e->name)) continue;
        alarm(60);
        call_all(e);
    }
    child_counts();
    _exit(0);
}

int main(int argc, char **argv) {
    int n = (int)(sizeof entries / sizeof *entries), from = 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    while (from < n) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) run_child(from, n, argc > 1 ? argv[1] : NULL);
        if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        printf("FAIL %s: %s: %s\n", entries[shared->at].name, shared->what,
               WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ends the process");
        shared->wrong++;
        from = shared->at + 1;
    }
    printf("%d functions, %d calls, %d wrong\n", n, shared->calls, shared->wrong);
    return shared->wrong != 0 || shared->calls < n;
}

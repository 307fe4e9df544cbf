/* headers.c -- the public headers in the hands of compilers: what users write compiles
 * in C and C++ without a warning, and what cannot mean anything does not compile and
 * gets a message that says why. Programs in C++ are compiled and run. Compilers that
 * are not installed are passed over. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define C "-Wpedantic -x c"
static const char *const compilers[] = {
    "gcc -std=c11 " C,       "clang -std=c11 " C,         "g++ -std=c++17 -x c++",
    "g++ -std=c++20 -x c++", "clang++ -std=c++17 -x c++", "clang++ -std=c++20 -x c++",
};

/* Statements with a context cx and a tensor x. `language`: "c", "c++", the beginning of
 * a compiler's name, or "" for all. */
typedef struct row {
    const char *language, *text, *message;
} row;

static const row fine[] = {
    {"", "td_print(td_arange(cx, 5)); td_print(td_arange(cx, 0, 5, 2, TD_F32));", NULL},
    {"", "td_print(td_softmax(x, -1)); td_print(td_randint(cx, 9, TD_SHAPE(3)));",
     NULL},
    {"", "td_tensor *at[2] = {x, x}; td_stack(TD_LIST_OF(at, 2), 1);", NULL},
    {"", "td_tensor *at[2] = {x, x}; td_stack(TD_LIST_OF(at, 2));", NULL},
    {"c", "td_tensor *at[2] = {x, x}; td_stack(((td_tensors){at, 2}));", NULL},
    {"c", "td_tensor *at[2] = {x, x}; td_einsum(\"i,i\", ((td_tensors){at, 2}));",
     NULL},
    {"", "int64_t n[2] = {2, 3}; td_zeros(cx, TD_SHAPE_OF(n, 2), TD_F64);", NULL},
    {"c", "int64_t n[2] = {2, 3}; td_zeros(cx, ((td_ints){n, 2}));", NULL},
    {"c++", "int64_t n[2] = {2, 3}; td_zeros(cx, (td_ints{n, 2}));", NULL},
    {"", "td_tensor *at[2]; td_chunk(x, 2, at, 2); td_chunk(x, 2, 0, at, 2);", NULL},
    {"", "td_tensor *i; td_max_dim(x, 0, &i); td_max_dim(x, 0, true, &i);", NULL},
    {"", "td_mul(x, 0.5L); td_mul(x, 1u); td_mul(x, 'a'); td_mul(x, true);", NULL},
    {"", "td_mul(x, 0); td_clamp(x, 0, 1); td_mul(x, (short)0); td_mul(x, 0.0f);",
     NULL},
    {"", "int64_t zero = 0; td_mul(x, zero); td_mul(x, TD_F32);", NULL},
    {"c",
     "td_ints s = TD_SHAPE(2, 3); td_tensors l = TD_LIST(x, x);"
     "td_reshape(td_cat(l), s);",
     NULL},
    {"c++",
     "auto s = TD_SHAPE(2, 3); auto l = TD_LIST(x, x); td_reshape(td_cat(l), s);",
     NULL},
    {"",
     "td_call_body(cx, NULL, NULL, TD_ARGS(x, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,"
     "13, 14, 15, 16, 17, 18, 19, 20), NULL, 0);",
     NULL},
    {"c",
     "td_clamp(x, NULL, 1); td_call_body(cx, NULL, NULL, TD_ARGS(x, NULL), NULL, 0);",
     NULL},
    {"c++",
     "td_clamp(x, nullptr, 1);"
     "td_call_body(cx, nullptr, nullptr, TD_ARGS(x, nullptr), nullptr, 0);",
     NULL},
    {"", "td_index(x, TD_LIST(NULL, x)); td_linear(x, x, NULL);", NULL},
    {"",
     "td_nn_linear_opts o = {TD_NN_LINEAR_OPTS, .no_bias = true};"
     "td_nn_linear(cx, 1, 1, &o);",
     NULL},
    {"",
     "td_aot_opts o = {TD_AOT_OPTS, .name = \"f\"};"
     "td_aot_function(cx, NULL, NULL, &o);",
     NULL},
    {"",
     "td_nn_conv2d(cx, 1, 1, TD_SHAPE(3, 3),"
     "TD_OPTS(td_nn_conv_opts, .stride = TD_SHAPE(2, 2), .no_bias = true));",
     NULL},
    {"",
     "td_grad_opts o = {TD_GRAD_OPTS, .allow_unused = true};"
     "td_tensor *g; td_grad(TD_LIST(x), TD_LIST(x), &g, &o);",
     NULL},
    {"", "td_mode_hook m = {.name = \"m\"}; td_mode_push(cx, &m);", NULL},
    {"c++", "td_nn_linear_opts o; o.no_bias = true; td_nn_linear(cx, 1, 1, &o);", NULL},
    {"c++", "td_grad_opts o = {.allow_unused = true}; (void)o;", NULL},
    {"", "if (td_is_nil(td_nn_relu(cx)) || td_is_nil(x)) td_close(cx);", NULL},
    {"",
     "const td_tensor *k = x; void *p = cx; td_fn *f = NULL; td_flat *l = NULL;"
     "td_is_nil(k); td_is_nil(p); td_is_nil(f); td_is_nil(NULL); td_flat_drop(l);",
     NULL},
    {"",
     "td_value v[2], *p = v; td_fn *f = NULL; td_tensor *out[2];"
     "td_call_body(cx, NULL, NULL, TD_ARGS(x), v, 2);"
     "td_call_body(cx, NULL, NULL, TD_ARGS_OF(p, 2), p, 2);"
     "td_invoke(f, TD_ARGS(x), &x, 1); td_invoke(f, TD_ARGS(x), out, 2);"
     "td_invoke(f, TD_ARGS(x), NULL, 0);",
     NULL},
    {"", "td_tensor1(cx, 1, 2.5, 3.0f);", NULL},
    {"c++", "::td_clear(cx); ::td_add(x, ::td_mul(x, 2)); ::td_tensor1(cx, 1);", NULL},
};

/* Errors also where warnings are off: `message` is part of what the compiler says. */
static const row wrong[] = {
    {"", "td_softmax(x);", "wrong number of arguments: td_softmax(self, dim, [dtype])"},
    {"", "td_softmax(x, 1, TD_F32, 4);", "wrong number of arguments: td_softmax("},
    {"", "td_arange(cx);", "wrong number of arguments: td_arange(cx, [start], end,"},
    {"c", "td_mul(x, &x);", "td_tensor **"},
    {"c", "td_mul(x, cx);", "td_ctx *"},
    {"c++", "td_mul(x, &x);", "a td_tensor *, a td_value or a number is expected"},
    {"c++", "td_mul(x, \"2\");", "a td_tensor *, a td_value or a number is expected"},
    {"c++", "td_zeros(cx, TD_SHAPE(x));", "a list of numbers is expected"},
    {"", "td_cat(x, x);", "td_tensors"},
    {"", "td_index(x, x);", "td_tensors"},
    {"", "td_zeros(cx, 3);", "td_ints"},
    {"", "td_fn *f = NULL; td_is_nil(&f);", "td_is_nil"},
    {"c", "td_call_body(cx, NULL, NULL, TD_ARGS(x), &x, 1);", "td__room_for_values"},
    {"c", "td_value v; td_invoke(NULL, TD_ARGS(x), &v, 1);", "td__room_for_tensors"},
    {"c++", "td_call_body(cx, NULL, NULL, TD_ARGS(x), &x, 1);", "td_value"},
    {"", "td_grad_opts o = {TD_AOT_OPTS}; (void)o;", "td_aot_opts_size"},
    {"", "td_nn_conv_opts o = {TD_NN_LINEAR_OPTS}; (void)o;", "td_nn_linear_opts_size"},
    {"", "td_aot_opts o = {TD_CONFIG}; (void)o;", "td_config_size"},
};

/* Warnings, of compilers that have them. */
static const row doubtful[] = {
    {"c++", "td_mul(x, NULL);", "NULL"},
    {"c++", "td_clamp(x, NULL, 0.5);", "NULL"},
    {"c++", "td_call_body(cx, nullptr, nullptr, TD_ARGS(x, NULL), nullptr, 0);",
     "NULL"},
    {"c++", "td_return((td_call *)nullptr, x, NULL);", "NULL"},
    {"clang++", "td_ints s = TD_SHAPE(2, 3); td_zeros(cx, s);", "-Wdangling"},
    {"clang++", "td_tensors s = TD_LIST(x, x); td_cat(s);", "-Wdangling"},
};

#define N(rows) (sizeof(rows) / sizeof *(rows))
static char path[600]; /* of the text that is compiled: below the build directory */

static const char strict[] = "-Wall -Wextra -Wshadow -Werror";

static char said[1 << 16]; /* what the last command printed */
static int  failed, tried;

static bool run(const char *command) {
    FILE *p = popen(command, "r");
    if (!p) perror("popen"), exit(1);
    size_t n = fread(said, 1, sizeof said - 1, p);
    said[n] = 0;
    while (fgetc(p) != EOF) {
    }
    return pclose(p) == 0;
}

static void check(bool ok, const char *compiler, const char *text) {
    tried++;
    if (ok) return;
    printf("FAIL %s: %s\n%.3000s\n", compiler, text, said);
    failed++;
}

static bool is_for(const row *r, const char *compiler) {
    bool cpp = strstr(compiler, "++") != NULL;
    if (!*r->language || !strcmp(r->language, cpp ? "c++" : "c")) return true;
    return strlen(r->language) > 3 &&
           !strncmp(compiler, r->language, strlen(r->language));
}

/* Compiles a program with one function for each row; an error names the row's text by
 * its number. */
static bool compile(const char *compiler, const char *flags, const row *rows,
                    size_t n) {
    char  command[1200];
    FILE *f = fopen(path, "w");
    if (!f) perror(path), exit(1);
    fprintf(f, "#include <tandem/tandem.h>\n");
    for (size_t i = 0; i < n; i++)
        if (is_for(&rows[i], compiler))
            fprintf(f,
                    "void f%zu(td_ctx *cx, td_tensor *x);\n"
                    "void f%zu(td_ctx *cx, td_tensor *x) {\n(void)cx, (void)x;\n"
                    "#line 1 \"row %zu\"\n%s\n}\n",
                    i, i, i, rows[i].text);
    if (fclose(f)) perror(path), exit(1);
    snprintf(command, sizeof command,
             "LC_ALL=C timeout 60 %s %s -Iinclude -fsyntax-only %s 2>&1", compiler,
             flags, path);
    return run(command);
}

/* Calls in calls cost their length, not two to the power of their depth. */
static void test_depth(const char *compiler) {
    static const char *const calls[][2] = {
        {"td_add(x, ", ")"},
        {"td_cat(TD_LIST(x, ", "))"},
        {"td_module_call(NULL, TD_ARGS(x, ", "))"},
    };
    static char text[N(calls)][2048];
    row         deep[N(calls)];
    for (size_t i = 0; i < N(calls); i++) {
        *text[i] = 0;
        for (int k = 0; k < 20; k++) strcat(text[i], calls[i][0]);
        strcat(text[i], "x");
        for (int k = 0; k < 20; k++) strcat(text[i], calls[i][1]);
        strcat(text[i], ";");
        deep[i] = (row){"", text[i], NULL};
    }
    check(compile(compiler, strict, deep, N(deep)), compiler, "calls in calls");
}

static void test_rows(const char *compiler) {
    check(compile(compiler, strict, fine, N(fine)), compiler, "what users write");
    test_depth(compiler);
    if (strstr(compiler, "c++20")) return; /* the errors are those of C++17 */
    for (size_t i = 0; i < N(wrong); i++)
        if (is_for(&wrong[i], compiler))
            check(!compile(compiler, "-w", &wrong[i], 1) &&
                      strstr(said, wrong[i].message),
                  compiler, wrong[i].text);
    for (size_t i = 0; i < N(doubtful); i++)
        if (is_for(&doubtful[i], compiler))
            check(!compile(compiler, "-Werror", &doubtful[i], 1) &&
                      strstr(said, doubtful[i].message),
                  compiler, doubtful[i].text);
}

/* Compiles a C++ file with the library of `build` and runs it. The library's sanitizers
 * are gcc's. */
static void test_program(const char *compiler, const char *build, const char *file) {
    char command[3000];
    if (!strstr(compiler, "++") || (*TD_SAN && strncmp(compiler, "g++", 3))) return;
    snprintf(command, sizeof command,
             "LC_ALL=C %s -O1 -Wall -Wextra -Wpedantic -Wshadow -Werror -Iinclude %s "
             "-x none %s/libtandem.a %s %s -o %s 2>&1 && timeout 60 %s 2>&1",
             compiler, file, build, TD_SAN, TD_LIBS, path, path);
    check(run(command), compiler, file);
}

static bool is_installed(const char *compiler) {
    char command[128];
    snprintf(command, sizeof command, "command -v %.*s >/dev/null",
             (int)strcspn(compiler, " "), compiler);
    return system(command) == 0;
}

int main(int argc, char **argv) {
    char build[512] = ".";
    for (int cut = 0; argc && cut < 2; cut++) { /* build/programs/headers */
        if (!cut) snprintf(build, sizeof build, "%s", argv[0]);
        char *end = strrchr(build, '/');
        if (end) *end = 0;
    }
    snprintf(path, sizeof path, "%s/headers-%d.test", build, (int)getpid());
    for (size_t c = 0; c < N(compilers); c++) {
        if (!is_installed(compilers[c])) continue;
        test_rows(compilers[c]);
        test_program(compilers[c], build, "tests/programs/cpp.cpp");
        if (strstr(compilers[c], "c++17"))
            test_program(compilers[c], build, "examples/regression.cpp");
    }
    remove(path);
    printf("%d texts, %d wrong\n", tried, failed);
    return failed != 0 || tried == 0;
}

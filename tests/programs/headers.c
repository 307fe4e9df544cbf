/* headers.c -- the public headers in the hands of compilers: what users write compiles
 * in C and C++ without a warning, and what cannot mean anything does not compile and
 * gets a message that says why. Compilers that are not installed are passed over. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const compilers[][2] = {
    {"gcc -std=c11 -x c", "c"},           {"clang -std=c11 -x c", "c"},
    {"g++ -std=c++17 -x c++", "c++"},     {"g++ -std=c++20 -x c++", "c++"},
    {"clang++ -std=c++17 -x c++", "c++"},
};

/* Statements with a context cx and a tensor x. `language`: "c", "c++" or "" for both.
 * `message`: what the compiler says of it; NULL: it compiles. */
static const struct {
    const char *language, *text, *message;
} rows[] = {
    {"", "td_print(td_arange(cx, 5)); td_print(td_arange(cx, 0, 5, 2, TD_F32));", NULL},
    {"", "td_print(td_softmax(x, -1)); td_print(td_randint(cx, 9, TD_SHAPE(3)));",
     NULL},
    {"", "td_tensor *at[2] = {x, x}; td_stack(TD_LIST_OF(at, 2), 1);", NULL},
    {"", "td_tensor *at[2] = {x, x}; td_stack(TD_LIST_OF(at, 2));", NULL},
    {"c", "td_tensor *at[2] = {x, x}; td_stack((td_tensors){at, 2});", NULL},
    {"c", "td_tensor *at[2] = {x, x}; td_cat((td_tensors){at, 2}, 0);", NULL},
    {"c", "td_tensor *at[2] = {x, x}; td_einsum(\"i,i\", (td_tensors){at, 2});", NULL},
    {"", "td_tensor *at[2]; td_chunk(x, 2, at, 2); td_chunk(x, 2, 0, at, 2);", NULL},
    {"", "td_tensor *i; td_max_dim(x, 0, &i); td_max_dim(x, 0, true, &i);", NULL},
    {"", "td_mul(x, 0.5L); td_mul(x, 1u); td_mul(x, 'a'); td_mul(x, true);", NULL},
    {"",
     "td_ints s = TD_SHAPE(2, 3); td_tensors l = TD_LIST(x, x);"
     "td_reshape(td_cat(l), s);",
     NULL},
    {"",
     "td_call_body(cx, NULL, NULL, TD_ARGS(x, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,"
     "13, 14, 15, 16, 17, 18, 19, 20), NULL, 0);",
     NULL},
    {"",
     "td_nn_linear_opts o = {TD_NN_LINEAR_OPTS, .no_bias = true};"
     "td_nn_linear(cx, 1, 1, &o);",
     NULL},
    {"",
     "td_aot_opts o = {TD_AOT_OPTS, .name = \"f\"};"
     "td_aot_function(cx, NULL, NULL, &o);",
     NULL},
    {"",
     "td_grad_opts o = {TD_GRAD_OPTS, .allow_unused = true};"
     "td_tensor *g; td_grad(TD_LIST(x), TD_LIST(x), &g, &o);",
     NULL},
    {"", "td_mode_hook m = {.name = \"m\"}; td_mode_push(cx, &m);", NULL},
    {"c++", "td_nn_linear_opts o; o.no_bias = true; td_nn_linear(cx, 1, 1, &o);", NULL},
    {"", "if (td_is_nil(td_nn_relu(cx)) || td_is_nil(x)) td_close(cx);", NULL},
    {"", "td_softmax(x);", "wrong number of arguments: td_softmax(self, dim, [dtype])"},
    {"", "td_softmax(x, 1, TD_F32, 4);", "wrong number of arguments: td_softmax("},
    {"", "td_arange(cx);", "wrong number of arguments: td_arange(cx, [start], end,"},
    {"c", "td_mul(x, &x);", "td_tensor **"},
    {"c", "td_mul(x, cx);", "td_ctx *"},
    {"c++", "td_mul(x, &x);", "a td_tensor *, a td_value or a number is expected"},
    {"c++", "td_mul(x, \"2\");", "a td_tensor *, a td_value or a number is expected"},
};

static const char path[] = "build/headers.test";

/* The compiler's messages for a program around the text; false: it did not compile. */
static bool compile(const char *compiler, const char *text, char *said, size_t cap) {
    char  command[512];
    FILE *f = fopen(path, "w");
    if (!f) exit(1);
    fprintf(f,
            "#include <tandem/tandem.h>\nvoid f(td_ctx *cx, td_tensor *x);\n"
            "void f(td_ctx *cx, td_tensor *x) {\n(void)cx, (void)x;\n%s\n}\n",
            text);
    if (fclose(f)) exit(1);
    snprintf(command, sizeof command,
             "LC_ALL=C %s -Wall -Wextra -Werror -Iinclude -fsyntax-only %s 2>&1",
             compiler, path);
    FILE *p = popen(command, "r");
    if (!p) exit(1);
    size_t n = fread(said, 1, cap - 1, p);
    said[n] = 0;
    return pclose(p) == 0;
}

static bool is_installed(const char *compiler) {
    char command[128];
    snprintf(command, sizeof command, "command -v %.*s >/dev/null",
             (int)strcspn(compiler, " "), compiler);
    return system(command) == 0;
}

int main(void) {
    static char said[1 << 16];
    int         wrong = 0, tried = 0;
    for (size_t c = 0; c < sizeof compilers / sizeof *compilers; c++) {
        if (!is_installed(compilers[c][0])) continue;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            if (*rows[r].language && strcmp(rows[r].language, compilers[c][1]))
                continue;
            bool ok = compile(compilers[c][0], rows[r].text, said, sizeof said);
            tried++;
            if (rows[r].message ? !ok && strstr(said, rows[r].message) : ok) continue;
            printf("FAIL %s: %s\n%.2000s\n", compilers[c][0], rows[r].text, said);
            wrong++;
        }
    }
    remove(path);
    printf("%d texts, %d wrong\n", tried, wrong);
    return wrong != 0 || tried == 0;
}

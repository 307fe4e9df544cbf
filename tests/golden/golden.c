/* golden.c -- runs the golden files: tests/golden/STAGE/NAME.td holds a text, a rule
 * `---` and what must come of it. A line `# run: WORD...` near its top says what is
 * done, one word after the other, to every function:
 *
 *   infer dce cse fold views order    the passes of src/graph
 *   gather                            the native backend's sums of products
 *   program functional joint half     verify as that stage
 *   functionalize                     the function without writes
 *   dynamic                           the same with symbols for sizes, and its guards
 *   to_joint to_forward to_backward   what compiling makes of it
 *   to_plan to_prologue               what a call does after the forward code
 *   json dot                          print that instead of text
 *   default mincut mincut=0.5         print both halves and the report
 *   explain                           print what compiling decided
 *   NAME=VALUE                        a setting, for the words behind it
 *
 * A file with several such lines is run for each, and each result has its line as a
 * heading. A file without such a line is for others to read. A failure prints as
 * `error: message`. `golden WORD` runs the files whose path
 * contains WORD; `golden --bless` rewrites what is below the rule. */
#include "aot/aot.h"
#include "backend/native.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool bless;
static int  passed, failed;

/* ---- what can be done --------------------------------------------------- */

typedef bool pass_fn(td_graph *g);
static bool  as_program(td_graph *g) { return td__graph_verify(g, TD_STAGE_PROGRAM); }
static bool  as_functional(td_graph *g) {
     return td__graph_verify(g, TD_STAGE_FUNCTIONAL);
}
static bool as_joint(td_graph *g) { return td__graph_verify(g, TD_STAGE_JOINT); }
static bool as_half(td_graph *g) { return td__graph_verify(g, TD_STAGE_HALF); }

static const struct {
    const char *word;
    pass_fn    *run;
} passes[] = {{"infer", td__graph_infer},
              {"dce", td__graph_dce},
              {"cse", td__graph_cse},
              {"fold", td__graph_fold},
              {"views", td__graph_views},
              {"order", td__graph_order},
              {"program", as_program},
              {"functional", as_functional},
              {"joint", as_joint},
              {"half", as_half},
              {"gather", td__combine_products},
              {"again", td__compute_again},
              {"strips", td__pack_products},
              {"pieces", td__place_pieces}};

/* Graph i gives way to its functional one; guards go to b. */
static bool functionalize(td_gfile *f, int i, td_buf *b, bool dynamic) {
    td_graph *g = f->graphs.v[i];
    td_value *in = calloc((size_t)g->inputs.n + 1, sizeof *in);
    bool      ok = in && td__inputs_like(g, in);
    td_buf    guards = {0};
    td_joint *to = ok ? td__functional_form(g, in, dynamic ? &guards : NULL) : NULL;
    free(in);
    if (to) {
        if (dynamic) td__buf_printf(b, "# @%s: %s\n", g->name, td__buf_str(&guards));
        f->graphs.v[i] = to->g;
        to->g = NULL;
        td__graph_drop(g);
    }
    td__joint_drop(to);
    td__buf_free(&guards);
    return to != NULL;
}

/* Compiled for inputs of its types; NULL after a failure. */
static td_fn *compile(const td_graph *g) {
    td_value *in = calloc((size_t)g->inputs.n + 1, sizeof *in);
    td_fn    *f = in && td__inputs_like(g, in) ? td_aot_graph(g, NULL) : NULL;
    bool      ok = f && td__fn_prepare(f, (td_values){in, g->inputs.n});
    free(in);
    if (ok) return f;
    td_fn_drop(f);
    return NULL;
}

/* Graph i gives way to that of a stage. */
static bool compile_to(td_gfile *f, int i, const char *stage) {
    td_graph *g = f->graphs.v[i], *to = NULL;
    td_fn    *fn = compile(g);
    if (td_is_nil(fn)) return false;
    const td_plan *p = fn->specs->plan;
    if (!strcmp(stage, "to_joint")) to = td__graph_clone(p->j->g);
    else if (!strcmp(stage, "to_plan")) to = td__graph_clone(p->j->epilogue);
    else if (!strcmp(stage, "to_prologue") && p->prologue)
        to = td__graph_clone(p->prologue);
    else if (p->h)
        to = td__graph_clone(!strcmp(stage, "to_forward") ? td__plan_forward_code(p)
                                                          : td__plan_backward_code(p));
    else td__fail(f->cx, TD_E_ARG, "@%s: nothing to differentiate", g->name);
    td_fn_drop(fn);
    if (!to) return false;
    f->graphs.v[i] = to;
    td__graph_drop(g);
    return true;
}

static bool explain(td_buf *b, const td_graph *g) {
    td_fn *f = compile(g);
    bool   ok = f && td__explain(b, f, 0);
    td_fn_drop(f);
    return ok;
}

static pass_fn *find_pass(const char *word) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (!strcmp(passes[i].word, word)) return passes[i].run;
    return NULL;
}

static bool is_cut(const char *word) {
    return !strcmp(word, "default") || !strncmp(word, "mincut", 6);
}

/* A setting; a word that is none fails as such. */
static bool set(td_ctx *cx, char *word) {
    char *is = strchr(word, '=');
    *is = 0;
    return td_config_set(cx, word, is + 1);
}

static bool is_form(const char *word) {
    return !strcmp(word, "json") || !strcmp(word, "dot") || is_cut(word) ||
           !strcmp(word, "explain");
}

/* Both halves of a joint graph, and what became of its values. */
static bool print_halves(td_buf *b, td_graph *g, const char *how) {
    td_part_opts o = td__part_defaults();
    td_joint     j;
    if (!td__joint_over(g, &j)) return false;
    if (how[0] == 'm' && how[6] == '=') o.budget = atof(how + 7);
    td_halves *h = how[0] == 'd' ? td__part_default(&j, &o) : td__part_mincut(&j, &o);
    bool       ok = h && td__graph_print(b, h->fwd, TD_PRINT_TYPES);
    if (ok && h->bwd) ok = td__graph_print(b, h->bwd, TD_PRINT_TYPES);
    ok = ok && td__halves_report(b, h);
    td__halves_drop(h);
    return ok;
}

static void print_form(td_buf *b, td_graph *g, const char *form) {
    if (!strcmp(form, "json")) {
        td__graph_json(b, g);
        td__buf_add(b, "\n");
    } else if (is_cut(form)) print_halves(b, g, form);
    else if (!strcmp(form, "explain")) explain(b, g);
    else td__graph_dot(b, g);
}

/* Every word on every function; what comes out goes to b. */
static void run_words(td_ctx *cx, td_gfile *f, char *words, td_buf *b) {
    const char *form = "";
    bool        ok = true;
    for (char *word; ok && (word = strsep(&words, " "));) {
        pass_fn *pass = find_pass(word);
        bool     dynamic = !strcmp(word, "dynamic"), to = !strncmp(word, "to_", 3);
        bool     func = dynamic || !strcmp(word, "functionalize");
        if (is_form(word)) form = word;
        else if (strchr(word, '=')) ok = set(cx, word);
        else if (!pass && !func && !to && *word)
            ok = td__fail(cx, TD_E_ARG, "no word \"%s\" in the run line", word);
        for (int i = 0; ok && pass && i < f->graphs.n; i++) ok = pass(f->graphs.v[i]);
        for (int i = 0; ok && func && i < f->graphs.n; i++)
            ok = functionalize(f, i, b, dynamic);
        for (int i = 0; ok && to && i < f->graphs.n; i++) ok = compile_to(f, i, word);
        for (int i = 0; ok && i < f->graphs.n; i++) ok = as_program(f->graphs.v[i]);
    }
    if (!ok) return;
    if (!*form) td__gfile_print(b, f, TD_PRINT_TYPES);
    for (int i = 0; *form && i < f->graphs.n; i++) print_form(b, f->graphs.v[i], form);
}

/* ---- files -------------------------------------------------------------- */

static char *read_all(const char *path) {
    FILE  *file = fopen(path, "rb");
    char  *text = malloc(1 << 20);
    size_t n = file && text ? fread(text, 1, (1 << 20) - 1, file) : 0;
    if (file) fclose(file);
    if (text) text[n] = 0;
    return text;
}

static void rewrite(const char *path, const char *input, const char *got) {
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fprintf(file, "%s---\n%s", input, got);
    fclose(file);
}

/* Cuts the text at its rule; what is expected, "" without a rule. */
static const char *cut(char *text) {
    char *rule = strstr(text, "\n---\n");
    if (!rule) return "";
    rule[1] = 0;
    return rule + 5;
}

static void report(const char *path, const char *input, const char *want,
                   const char *got) {
    if (!strcmp(want, got)) {
        passed++;
        return;
    }
    if (bless) {
        rewrite(path, input, got);
        printf("blessed %s\n", path);
        return;
    }
    failed++;
    printf("FAIL %s\n--- expected\n%s--- got\n%s", path, want, got);
}

/* The functions of a text, by the words of one of its lines. */
static void run_line(const char *path, const char *text, char *words, td_buf *b) {
    const char *slash = strrchr(path, '/');
    td_ctx     *cx = td_open();
    td_gfile   *f = td__gfile_parse(cx, text, strlen(text), slash ? slash + 1 : path);
    if (f) run_words(cx, f, words, b);
    if (!td_ok(cx)) td__buf_printf(b, "error: %s\n", td_message(cx));
    td__gfile_drop(f);
    td_close(cx);
}

#define RUN "# run: "

static void run_file(const char *path) {
    char       *text = read_all(path), *first = text ? strstr(text, RUN) : NULL;
    td_buf      b = {0};
    const char *want = first ? cut(text) : "";
    for (char *line = first; line; line = strstr(line + 1, RUN)) {
        char words[256] = "";
        sscanf(line + strlen(RUN), "%255[^\n]", words);
        if (strstr(first + 1, RUN))
            td__buf_printf(&b, "%s# %s\n", line == first ? "" : "\n", words);
        run_line(path, text, words, &b);
    }
    if (first) report(path, text, want, td__buf_str(&b));
    td__buf_free(&b);
    free(text);
}

int main(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "";
    glob_t      found;
    if ((bless = !strcmp(word, "--bless"))) word = argc > 2 ? argv[2] : "";
    setenv("TD_BACKEND", "interp", 0); /* files pin what no machine changes */
    if (glob("tests/golden/*/*.td", 0, NULL, &found) != 0) {
        fprintf(stderr, "golden: no tests/golden/*/*.td here\n");
        return 1;
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (strstr(found.gl_pathv[i], word)) run_file(found.gl_pathv[i]);
    globfree(&found);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

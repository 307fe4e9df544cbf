/* report.c -- the pages of `tandem demo` and td_report: tags are balanced, nothing is
 * fetched from elsewhere, and all that is promised is in them, kernels with their C
 * included. The command is looked for beside this program. */
#include <tandem/tandem.h>

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int  passed, failed;
static char page[] = "/tmp/tandem-report-XXXXXX";

static void check(bool ok, const char *what) {
    if (!ok) printf("FAIL %s\n", what);
    ok ? passed++ : failed++;
}

/* ---- tags --------------------------------------------------------------- */

enum { DEEP = 64, NAME = 24 };

typedef struct tags {
    char open[DEEP][NAME];
    int  n;
} tags;

/* Where the tag at `p` ends; quoted text may hold any character. NULL: it does not. */
static const char *tag_end(const char *p) {
    for (bool quoted = false; *p; p++) {
        if (*p == '"') quoted = !quoted;
        else if (*p == '<' && !quoted) return NULL;
        else if (*p == '>' && !quoted) return p;
    }
    return NULL;
}

static bool is_void(const char *name, const char *end) {
    return !strcmp(name, "meta") || end[-1] == '/';
}

/* Takes note of the tag behind `<`; what it is about when it is wrong, or NULL. */
static const char *take_tag(tags *t, const char *p, const char *end) {
    char name[NAME] = "";
    bool closes = *p == '/';
    p += closes;
    for (int i = 0; i < NAME - 1 && isalnum((unsigned char)p[i]); i++) name[i] = p[i];
    if (!*name) return "a < that begins no tag";
    if (closes && (t->n == 0 || strcmp(t->open[t->n - 1], name)))
        return "a tag that closes another than the last";
    if (closes) t->n--;
    else if (!is_void(name, end)) {
        if (t->n == DEEP) return "tags that are too deep";
        strcpy(t->open[t->n++], name);
    }
    return NULL;
}

/* NULL, or what is wrong with the text of the page. */
static const char *fault_of(const char *text) {
    tags t = {.n = 0};
    for (const char *p = text; (p = strchr(p, '<'));) {
        if (!strncmp(p, "<!doctype html>", 15)) {
            p += 15;
            continue;
        }
        const char *end = tag_end(p + 1), *bad;
        if (!end) return "a tag without an end";
        if ((bad = take_tag(&t, p + 1, end))) return bad;
        p = end + 1;
        if (t.n && !strcmp(t.open[t.n - 1], "script")) p = strstr(p, "</script>");
        if (!p) return "a script without an end";
    }
    return t.n ? "a tag that is not closed" : NULL;
}

static void test_faults(void) {
    check(!fault_of("<!doctype html><p a=\"<>\">1<br/></p>"), "a good page");
    check(fault_of("<p><b></p></b>") != NULL, "crossed tags are seen");
    check(fault_of("<p>") != NULL, "open tags are seen");
    check(fault_of("1 < 2") != NULL, "plain < is seen");
}

/* ---- the page ----------------------------------------------------------- */

static char *read_page(void) {
    FILE  *f = fopen(page, "r");
    char  *text = malloc(1 << 23);
    size_t n = f && text ? fread(text, 1, (1 << 23) - 1, f) : 0;
    if (text) text[n] = 0;
    if (f) fclose(f);
    return text;
}

static void test_whole(const char *text) {
    static const char *const outside[] = {"http:", "https:", " src=",   "@import",
                                          "url(",  "<link",  "href=\"/"};
    const char              *bad = fault_of(text);
    if (bad) printf("the page has %s\n", bad);
    check(!bad, "the page is well-formed");
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        check(!strstr(text, outside[i]), outside[i]);
}

static void test_page(const char *text) {
    static const char *const inside[] = {"id=\"loss\"",
                                         "id=\"gradients\"",
                                         "id=\"joint\"",
                                         "id=\"kept\"",
                                         "id=\"memory\"",
                                         "id=\"kernels\"",
                                         "recomputed",
                                         "class=\"edge k\"",
                                         "class=\"edge r\"",
                                         "class=\"area\"",
                                         "class=\"kernel\"",
                                         "void KERNEL(const td_nest_run *r",
                                         "prefers-color-scheme:dark"};
    test_whole(text);
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        check(strstr(text, inside[i]) != NULL, inside[i]);
}

/* ---- a function of one's own -------------------------------------------- */

static bool layer(td_call *c) {
    td_tensor *h = td_gelu(td_matmul(td_arg(c, 0), td_arg(c, 1)));
    return td_return(c, td_mean(td_mul(h, h)));
}

static void test_function(void) {
    static const char *const inside[] = {"<h1>a &lt;layer&gt;</h1>",
                                         "Tandem " TD_VERSION_STRING " on ",
                                         "initial-scale=1",
                                         "id=\"joint\"",
                                         "id=\"kept\"",
                                         "id=\"memory\"",
                                         "Forward code",
                                         "Backward code",
                                         "void KERNEL(",
                                         "matmul("};
    td_ctx                  *cx = td_open();
    td_tensor               *x = td_randn(cx, TD_SHAPE(8, 4)), *y;
    td_tensor               *w = td_requires_grad_(td_randn(cx, TD_SHAPE(4, 4)));
    td_aot_opts              o = {TD_AOT_OPTS, .name = "a <layer>"};
    td_config_set(cx, "backend", "native");
    td_fn *f = td_aot_function(cx, layer, NULL, &o);
    check(!td_report(f, page) && strstr(td_message(cx), "call td_invoke first"),
          "a function that was never called has no page");
    td_clear(cx);
    td_invoke(f, TD_ARGS(x, w), &y, 1);
    td_backward(y);
    check(td_report(f, page) && td_ok(cx), "td_report writes a page");
    char *text = read_page();
    if (text) test_whole(text);
    for (size_t i = 0; text && i < sizeof inside / sizeof *inside; i++)
        check(strstr(text, inside[i]) != NULL, inside[i]);
    free(text);
    check(!td_report(f, "/no/such/folder/page.html") && td_error(cx) == TD_E_IO,
          "a page that cannot be written is an error");
    td_fn_drop(f);
    td_close(cx);
}

int main(int argc, char **argv) {
    (void)argc;
    char  line[2048];
    char *end = strrchr(argv[0], '/');
    int   f = mkstemp(page);
    snprintf(line, sizeof line,
             "TD_BACKEND=native %.*s/../tandem demo --quick --steps=5 --report=%s 2>&1",
             end ? (int)(end - argv[0]) : 1, end ? argv[0] : ".", page);
    check(f >= 0 && system(line) == 0, "the demo ends well");
    test_faults();
    char *text = read_page();
    if (text) test_page(text);
    free(text);
    test_function();
    if (f >= 0) close(f);
    unlink(page);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

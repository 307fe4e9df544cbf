/* names.c -- names from outside are any bytes: graphs with them print and parse back,
 * exports with them load, and JSON stays JSON. */
#include "core/utf8.h"
#include "graph/graph_int.h"
#include "graph_help.h"
#include "tandem/aot.h"
#include "tandem/export.h"
#include "tandem/io.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const names[] = {
    "f",
    "resnet-18",
    "My Net",
    "Net::Block",
    "gpt2/small",
    "2layer",
    "",
    "a.",
    "@f",
    "quote\" and \\ slash",
    "two\nlines",
    "Gr\xc3\xb6\xc3\x9f\x65",
    "\xe2\x82\xac",
    "not \xff utf-8",
    "\xc3",
    "\x01\x7f",
    "f(%x0: f32[5]) {\n  %y = add(%x0, 1000.0)\n  return %y\n}\n#"};

static bool twice(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 2.0)); }

static bool is_utf8(const char *s) {
    for (int n; *s; s += n)
        if (!(n = td__utf8_step(s))) return false;
    return true;
}

/* Saves and loads an export of that name, and runs it. */
static void round_trip(td_ctx *cx, const char *name) {
    char           path[] = "/tmp/td-name-XXXXXX";
    td_export_opts o = {TD_EXPORT_OPTS, .name = name, .what = TD_EXPORT_FORWARD};
    td_tensor     *x = td_ones(cx, TD_SHAPE(5));
    td_value       out[1];
    int            fd = mkstemp(path);
    td_exported   *e = td_export_joint(cx, twice, NULL, TD_ARGS(x), &o);
    CHECK_OK(cx);
    CHECK(fd >= 0 && td_exported_save(e, path));
    td_exported *r = td_exported_load(cx, path);
    TD_CHECK_THAT(r != NULL, "\"%s\": %s", name, td_message(cx));
    CHECK(td_exported_run(r, TD_ARGS(x), out, 1) && td_item(td_sum(out[0].u.t)) == 10);
    CHECK_STR(td_exported_graph(r)->name, name);
    td_exported_drop(r);
    td_exported_drop(e);
    close(fd);
    unlink(path);
}

TEST(an_export_of_any_name_loads) {
    td_ctx *cx = td_open();
    for (int i = 0; i < TD_COUNT(names); i++)
        if (*names[i]) round_trip(cx, names[i]);
    td_close(cx);
}

/* A file with a function of that name and a case that calls it. */
static void print_file(td_buf *b, const char *name) {
    td__buf_add(b, "func ");
    td__text_name(b, name);
    td__buf_add(b, "(%x: f32[2]) {\n  %y = neg(%x)\n  return %y\n}\n\n"
                   "case \"c\" {\n  %x = ones([2])\n  %y = call ");
    td__text_name(b, name);
    td__buf_add(b, "(%x)\n}\n");
}

TEST(a_function_of_any_name_prints_and_parses_back) {
    td_ctx *cx = td_open();
    for (int i = 0; i < TD_COUNT(names); i++) {
        td_buf one = {0}, two = {0};
        print_file(&one, names[i]);
        td_gfile *f = td__gfile_parse(cx, one.s, one.n, "names.td");
        TD_CHECK_THAT(f != NULL, "\"%s\": %s", names[i], td_message(cx));
        CHECK_STR(f->graphs.v[0]->name, names[i]);
        CHECK(td__gfile_print(&two, f, 0) && is_utf8(two.s));
        td_gfile *again = td__gfile_parse(cx, two.s, two.n, "again.td");
        CHECK_OK(cx);
        CHECK_STR(again->graphs.v[0]->name, names[i]);
        td__gfile_drop(f);
        td__gfile_drop(again);
        td__buf_free(&one);
        td__buf_free(&two);
    }
    td_close(cx);
}

TEST(a_bare_at_is_no_name) {
    static const char *const wrong[] = {"func @(%x: f32[2]) {", "func @3(%x: f32[2]) {",
                                        "func f(%x: f32[2]) {", "func @\"f(%x) {",
                                        "case \"c\" {\n  call @ (%x)\n}"};
    td_ctx                  *cx = td_open();
    for (int i = 0; i < TD_COUNT(wrong); i++) {
        CHECK(!td__gfile_parse(cx, wrong[i], strlen(wrong[i]), "x.td"));
        CHECK(td_error(cx) == TD_E_ARG);
        td_clear(cx);
    }
    td_close(cx);
}

TEST(json_of_any_name_is_utf8_and_json) {
    td_ctx *cx = td_open();
    for (int i = 0; i < TD_COUNT(names); i++) {
        td_buf text = {0}, b = {0};
        print_file(&text, names[i]);
        td_gfile *f = td__gfile_parse(cx, text.s, text.n, "names.td");
        CHECK(f && td__graph_json(&b, f->graphs.v[0]) && is_utf8(b.s));
        cJSON      *j = cJSON_Parse(b.s);
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(j, "name"));
        if (is_utf8(names[i])) CHECK_STR(name, names[i]);
        else CHECK(name && strstr(name, "\\x"));
        cJSON_Delete(j);
        td__gfile_drop(f);
        td__buf_free(&text);
        td__buf_free(&b);
    }
    td_close(cx);
}

/* ---- no memory inside a reader of JSON ---------------------------------- */

static int left;

static void *few(size_t n) {
    if (left-- > 0) return malloc(n);
    errno = ENOMEM;
    return NULL;
}

TEST(out_of_memory_in_a_header_is_not_called_bad_json) {
    char        path[] = "/tmp/td-name-XXXXXX";
    td_ctx     *cx = td_open();
    int         fd = mkstemp(path);
    cJSON_Hooks hooks = {few, free};
    td_tensor  *t[] = {td_ones(cx, TD_SHAPE(2)), td_ones(cx, TD_SHAPE(3))};
    const char *names_of[] = {"a", "b"};
    CHECK(td_safetensors_save(cx, path, names_of, (td_tensors){t, 2}, NULL));
    cJSON_InitHooks(&hooks);
    bool done = false;
    for (int n = 0; !done && n < 100; n++) {
        left = n;
        td_safetensors *f = td_safetensors_open(cx, path);
        done = f != NULL;
        TD_CHECK_THAT(done || td_error(cx) == TD_E_MEMORY, "%s", td_message(cx));
        td_safetensors_close(f);
        td_clear(cx);
    }
    cJSON_InitHooks(NULL);
    CHECK(done);
    close(fd);
    unlink(path);
    td_close(cx);
}

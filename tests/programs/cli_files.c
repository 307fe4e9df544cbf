/* cli_files.c -- `tandem run` and `tandem show` on files good and bad: output, exit
 * status, one line on stderr. The command is looked for beside this program. */
#include "tandem/tandem.h"

#include <cjson/cJSON.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char command[1024], file[256];
static char text[1 << 23];
static int  passed, failed;

/* Runs the command on the file; output, stderr too, in text. */
static int run(const char *args) {
    char line[2048];
    snprintf(line, sizeof line, "%s %s %s 2>&1", command, args, file);
    FILE *f = popen(line, "r");
    if (!f) return -1;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    int end = pclose(f);
    return WIFEXITED(end) ? WEXITSTATUS(end) : -1;
}

static void put(const char *content) {
    FILE *f = fopen(file, "w");
    if (!f) exit(1);
    fputs(content, f);
    fclose(f);
}

static void check(const char *args, int status, const char *says) {
    int got = run(args);
    if (got == status && strstr(text, says)) {
        passed++;
        return;
    }
    failed++;
    printf("FAIL tandem %s: status %d, wanted %d and \"%s\"; output:\n%s\n", args, got,
           status, says, text);
}

static void check_that(bool ok, const char *what) {
    passed += ok;
    failed += !ok;
    if (!ok) printf("FAIL %s; output:\n%.4000s\n", what, text);
}

static const cJSON *at(const cJSON *j, const char *key) {
    return cJSON_IsArray(j) ? cJSON_GetArrayItem(j, atoi(key))
                            : cJSON_GetObjectItem(j, key);
}

/* One path through objects and arrays: "cases.0.steps". */
static const cJSON *find(const cJSON *j, const char *path) {
    char copy[256], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key; j && (key = strsep(&rest, "."));) j = at(j, key);
    return j;
}

static const char good[] = "func @f(%x: f32[2], %s: f32[2]) {\n"
                           "  add_(%s, 1.0)\n"
                           "  %y = mul(%x, 4.0)\n"
                           "  %v = select(%y, dim=0, index=0)\n"
                           "  return %y, %v\n}\n"
                           "case \"fine\" {\n"
                           "  %x = tensor([1, 2], f32, requires_grad=true)\n"
                           "  %s = full([2], 10.0)\n"
                           "  call @f(%x, %s)\n"
                           "  backward %out.0\n}\n"
                           "case \"fails\" {\n"
                           "  %x = ones([2])\n"
                           "  call @f(%x, %x)\n"
                           "  backward\n}\n";

static void test_json(void) {
    put(good);
    check("run --json", 1, "\"cases\"");
    cJSON       *j = cJSON_Parse(text);
    const cJSON *y = find(j, "cases.0.steps.0.outputs.0");
    const cJSON *e = find(y, "elements.1"),
                *s = find(j, "cases.0.steps.0.inputs_after.1");
    check_that(e && e->valuedouble == 8, "the output is 2 * 4");
    check_that(cJSON_IsTrue(find(y, "requires_grad")), "the output requires grad");
    check_that(s && find(s, "elements.0")->valuedouble == 11 &&
                   find(s, "version")->valueint == 1,
               "the second input was written once");
    const cJSON *g = find(j, "cases.0.steps.1.gradients.0.elements.1");
    check_that(g && g->valuedouble == 4, "the gradient is 4");
    const cJSON *a = find(j, "cases.0.steps.0.aliases.0.values.1");
    check_that(a && !strcmp(a->valuestring, "out.1"),
               "the view aliases the first output");
    check_that(cJSON_IsFalse(find(j, "cases.1.ok")), "the second case fails");
    cJSON_Delete(j);
}

/* Draws of the case without a seed, then those of the call; the values they had. */
static void test_draws(void) {
    put("func @f(%x: f32[2]) {\n"
        "  %r = rand([3])\n"
        "  zero_(%r)\n"
        "  %d = dropout(%x)\n"
        "  return %r, %d\n}\n"
        "case \"draws\" {\n"
        "  %s = randn([2], seed=1)\n"
        "  %x = rand([2])\n"
        "  call @f(%x)\n"
        "  call @f(%x)\n}\n");
    check("run --json", 0, "\"draws\"");
    cJSON       *j = cJSON_Parse(text);
    const cJSON *d = find(j, "cases.0.steps.0.draws"), *op = find(d, "2.op");
    check_that(cJSON_GetArraySize(d) == 3, "rand, and rand and dropout of the call");
    check_that(op && !strcmp(op->valuestring, "dropout"), "a composite is one draw");
    check_that(find(d, "1.elements.2") && find(d, "1.elements.2")->valuedouble > 0,
               "values as they were drawn");
    check_that(cJSON_GetArraySize(find(j, "cases.0.steps.1.draws")) == 2,
               "the second call has its own");
    cJSON_Delete(j);
}

/* Options of calls read and print alike; a wrong word or place is an error. */
static void test_options(void) {
    static const char f[] = "func @f(%x: f32[2], %w: f32[2] <const>) {\n"
                            "  %y = mul(%x, %w)\n  return %y\n}\n"
                            "case \"c\" {\n  %x = ones([2], requires_grad=true)\n";
    static const struct {
        const char *line, *shows; /* an error where it begins with ! */
    } rows[] = {
        {"call @f(%x, %x) checkpoint=true hooks=bf16 rehearse=true",
         "  call @f(%x, %x) hooks=bf16 checkpoint=true rehearse=true\n"},
        {"%a, %b, %c = call @f(%x, %x) grads=true module=eval autocast=f16",
         "  %a, %b, %c = call @f(%x, %x) autocast=f16 module=eval grads=true\n"},
        {"call @f(%x, %x) dynamic=maybe body=true",
         "  %out.0 = call @f(%x, %x) body=true dynamic=maybe\n"},
        {"call @f(%x, %x) dynamic=last",
         "!unknown value of option dynamic; known are: first all maybe"},
        {"call @f(%x, %x)\nbackward hooks=clone seed=3",
         "  backward seed=3 hooks=clone\n"},
        {"call @f(%x, %x) hooks=half",
         "!unknown value of option hooks; known are: clone bf16 twice"},
        {"call @f(%x, %x) hooks=\"clone bf16\"",
         "!unknown value of option hooks; known are: clone bf16 twice"},
        {"call @f(%x, %x) create_graph=true", "!expected the end of the line"},
        {"%a = call @f(%x, %x) grads=true", "!@f has 3 results, but 1 names are given"},
        {"%a = call @f(%x, %x) rehearse=true",
         "!@f has 0 results, but 1 names are given"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char whole[1024];
        bool bad = rows[i].shows[0] == '!';
        snprintf(whole, sizeof whole, "%s  %s\n}\n", f, rows[i].line);
        put(whole);
        check("show", bad ? 2 : 0, rows[i].shows + bad);
    }
}

static void test_good(void) {
    put(good);
    check("run --case=fine", 0, "%out.0: f32[2]");
    check("show", 0, "  %v = select(%y, 0, 0)\n");
    check("show --types", 0, "  %v = select(%y, 0, 0) : f32[]");
    check("show --json", 0, "\"op\":\"select\"");
    check("show --dot", 0, "digraph \"f\"");
    check("show --after=capture", 0, "  add_(%s, 1.0)");
    check("show --after=functional", 0, " <update 1>, ");
    check("show --after=joint", 0, " <update 1>, ");
    check("show --after=plan", 0, "  _assign(%s, %f0, 1)");
    check("show --after=backward", 2, "has no backward");
    check("show --after=lunch", 2, "the stages are: capture, functional");
    check("explain --case=fine", 0, "written without history, version +1\n");
    check("explain --case=fine", 0, "\n    _assign(%s, %f0, 1)\n");
    check("explain --case=fine --graphs", 0, "\n  forward\n    func @f");
    check("explain --case=fine --graphs", 0, "\n  plan\n    func @f");
    check("explain --json", 1, "\"explained\":[\n{\"case\":\"fine\"");
    check("explain --case=nothing", 2, "has \"nothing\" in its name");
    check("run", 1, "backward: no output of the last call requires grad");
    check("run --case=nothing", 2, "has \"nothing\" in its name");
    check("show --function=g", 2, "has no function @g");
}

static void test_bad(void) {
    put("func @f(%x: f32[2]) {\n  %y = nge(%x)\n  return %y\n}\n");
    check("run", 2, ":2:8: no op \"nge\"; did you mean neg?\n");
    check("show", 2, ":2:8: no op \"nge\"; did you mean neg?\n");
    put("func @f(%x: f32[2]) {\n  %y = relu(neg(%x))\n  return %y\n}\n");
    check("show", 2,
          ":2:13: neg(...) is a call, and a call cannot be an argument; give its "
          "result a name first: %t = neg(...)\n");
    put("func @f(%x: f32[2,3]) {\n  %y = matmul(%x, %x)\n  return %y\n}\n");
    check("show --types", 2, ".td:2)\n");
    put("func @f(%x: f32[2]) {\n  return %x\n}\n");
    check("run", 2, "has no cases");
    put("");
    check("run", 2, "is empty");
    check("show --json --dot", 2, "--json and --dot exclude each other");
    put("func @f(%x: f32[2]) {\n  %y = select(%x, 0, 5)\n  return %y\n}\n"
        "case \"c\" {\n  %x = ones([2])\n  call @f(%x)\n}\n"
        "case \"d\" {\n  %x = ones([3])\n  call @f(%x)\n}\n");
    check("run", 1, ".td:2)");
    check("run", 1, "argument 0 must be f32[2], got f32[3]");
}

/* What native code says of itself; the numbers are those of unit/native_explain.c. */
static void test_native(void) {
    setenv("TD_BACKEND", "native", 1);
    setenv("TD_CC_FLAGS", "-O0", 1);
    put("func @f(%x: f32[16,32], %w: f32[32,32]) {\n  %h = mm(%x, %w)\n"
        "  %y = exp(%h)\n  return %y\n}\n"
        "case \"c\" {\n  %x = ones([16,32])\n  %w = ones([32,32])\n"
        "  call @f(%x, %w)\n}\n");
    check("explain", 0, "\n  its code: 1 kernel\n");
    check("explain", 0, " 1 x 512, reads 2048 B, writes 2048 B, 512 flops, ");
    check("explain", 0, " called 1 time, reads 6144 B, writes 2048 B, 32768 flops, ");
    check("explain", 0, " us\n    peak memory of a run: ");
    check("explain", 0, "\n  read from the disk cache, f_"); /* by now */
    check("explain --no-times", 0, " flops\n    peak memory of a run: ");
    check_that(!strstr(text, "read from the disk cache"), "nothing of this run");
    setenv("TD_BACKEND", "interp", 1);
    unsetenv("TD_CC_FLAGS");
}

/* Whether a gradient was added to, and where it lies, is the engine's affair; merged
 * nodes add up its terms in another order, which its last digits show. */
static void strip_gradients(cJSON *list) {
    for (cJSON *g = list->child; g; g = g->next) {
        cJSON *list_of = cJSON_GetObjectItem(g, "elements");
        for (cJSON *x = list_of ? list_of->child : NULL; x; x = x->next)
            if (cJSON_IsNumber(x)) cJSON_SetNumberValue(x, rint(x->valuedouble * 1e4));
        cJSON_DeleteItemFromObject(g, "storage");
        cJSON_DeleteItemFromObject(g, "version");
        cJSON_DeleteItemFromObject(g, "is_view");
    }
}

/* Names of grad functions and lines may differ, nothing else. */
static void strip(cJSON *j) {
    if (j->string && !strcmp(j->string, "gradients")) strip_gradients(j);
    cJSON_DeleteItemFromObject(j, "grad_fn");
    cJSON_DeleteItemFromObject(j, "line");
    for (cJSON *c = j->child; c; c = c->next)
        if (c->child) strip(c);
}

static cJSON *result(const char *args) {
    run(args);
    cJSON *j = cJSON_Parse(text);
    if (j) strip(j);
    return j;
}

/* The clean-up passes keep the meaning of every case there is. */
static void test_clean(void) {
    glob_t found;
    if (glob("tests/cases/*/*.td", 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        snprintf(file, sizeof file, "%s", found.gl_pathv[i]);
        cJSON *plain = result("run --json"), *clean = result("run --json --clean");
        check_that(plain && cJSON_Compare(plain, clean, true), file);
        cJSON_Delete(plain);
        cJSON_Delete(clean);
    }
    globfree(&found);
}

/* build/programs/cli_files: the command is build/tandem. */
int main(int argc, char **argv) {
    (void)argc;
    char *end = strrchr(argv[0], '/');
    snprintf(file, sizeof file, "/tmp/tandem-cli-%d.td", (int)getpid());
    snprintf(command, sizeof command, "%.*s/../tandem", end ? (int)(end - argv[0]) : 1,
             end ? argv[0] : ".");
    test_good();
    test_json();
    test_draws();
    test_options();
    test_bad();
    test_native();
    remove(file);
    test_clean();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

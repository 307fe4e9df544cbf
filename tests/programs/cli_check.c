/* cli_check.c -- `tandem check`: all cases there are, files good and bad, exit status
 * and JSON. The command is looked for beside this program. */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED "tests/corpus/shared-bytes/windows_written_with_gradients.td"

static char command[1024], folder[256], file[512];
static char text[1 << 22];
static int  passed, failed;

static int run(const char *args) {
    char line[2048];
    snprintf(line, sizeof line, "%s check %s 2>&1", command, args);
    FILE *f = popen(line, "r");
    if (!f) return -1;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    int end = pclose(f);
    return WIFEXITED(end) ? WEXITSTATUS(end) : -1;
}

static void check_that(bool ok, const char *what) {
    passed += ok;
    failed += !ok;
    if (!ok) printf("FAIL %s; output:\n%.4000s\n", what, text);
}

static void check(const char *args, int status, const char *says) {
    bool ok = run(args) == status && strstr(text, says);
    check_that(ok, args);
}

/* The file among the arguments. */
static void check_file(const char *args, int status, const char *says) {
    char line[1024];
    snprintf(line, sizeof line, "%s %s", args, file);
    check(line, status, says);
}

static void put(const char *content) {
    FILE *f = fopen(file, "w");
    if (!f) exit(1);
    fputs(content, f);
    fclose(f);
}

static int lines(void) {
    int n = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++) n++;
    return n;
}

/* ---- all there is ------------------------------------------------------- */

static void test_cases(void) {
    check("--allow-refused --quiet tests/cases", 0, " 0 differ\n");
    check("--allow-refused --quiet --clean tests/cases", 0, " 0 differ\n");
    check("tests/cases/func/errors.td", 0, "5 fail both ways");
    check("--way=differences --quiet tests/cases tests/corpus", 0,
          " skipped, 0 differ");
    check(REFUSED, 1, "refused windows_written_with_gradients: ");
    check("--allow-refused " REFUSED, 0, "1 refused");
}

/* --fd judges besides the ways; a case without backward is skipped. */
static void test_differences(void) {
    static const char args[] = "--fd tests/cases/func/errors.td";
    check(args, 0, "finite differences: 0 agree, ");
    check("--fd --json tests/cases/func/errors.td", 0, "\"way\":\"differences\"");
    check("--way=differentials x.td", 2, "backward, differences");
}

/* ---- files -------------------------------------------------------------- */

static const char good[] = "func @f(%x: f32[2], %s: f32[2]) {\n"
                           "  add_(%s, 1.0)\n"
                           "  %y = mul(%x, 4.0)\n"
                           "  %v = select(%y, dim=0, index=0)\n"
                           "  %z = div(%s, 0.0)\n"
                           "  return %y, %v, %z\n}\n"
                           "case \"fine\" {\n"
                           "  %x = tensor([1, 2], f32, requires_grad=true)\n"
                           "  %s = full([2], 10.0)\n"
                           "  call @f(%x, %s)\n"
                           "  backward %out.0\n"
                           "  call @f(%x, %s)\n"
                           "  backward %out.1\n}\n"
                           "case \"quiet\" {\n"
                           "  %x = ones([2])\n"
                           "  call @f(%x, %x)\n}\n";

static void test_files(void) {
    put(good);
    check_file("", 0, "ok      fine\nok      quiet\n1 file, 2 cases: 2 equal");
    check_file("--quiet --case=fi", 0, "1 file, 1 case: 1 equal");
    check_file("--case=nothing", 2, "no case has \"nothing\" in its name");
    check_file("--way=compiled-all", 0, "2 equal");
    check_file("--way=magic", 2, "no way \"magic\"; the ways are: compiled, ");
    check_file(file, 0, "2 files, 4 cases: 4 equal");
    check(folder, 0, "1 file, 2 cases");
    check("--case=fine", 2, "FILE is missing");
    check("/no/such/file.td", 2, "/no/such/file.td");
    put("func @f(%x: f32[2]) {\n  %y = nge(%x)\n  return %y\n}\n");
    check_file("", 2, ":2:8: no op \"nge\"; did you mean neg?\n");
    check_that(lines() == 1, "a wrong file gets one line");
    put("func @f(%x: f32[2]) {\n  return %x\n}\n");
    check_file("", 2, "no cases");
}

/* ---- JSON --------------------------------------------------------------- */

static const cJSON *find(const cJSON *j, const char *path) {
    char copy[256], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key; j && (key = strsep(&rest, "."));)
        j = cJSON_IsArray(j) ? cJSON_GetArrayItem(j, atoi(key))
                             : cJSON_GetObjectItem(j, key);
    return j;
}

static bool is(const cJSON *j, const char *path, const char *want) {
    const cJSON *got = find(j, path);
    return cJSON_IsString(got) && !strcmp(got->valuestring, want);
}

static double number(const cJSON *j, const char *path) {
    const cJSON *got = find(j, path);
    return cJSON_IsNumber(got) ? got->valuedouble : -1;
}

static void test_json(void) {
    put(good);
    check_file("--json", 0, "\"verdicts\"");
    cJSON       *j = cJSON_Parse(text);
    const cJSON *c = find(j, "files.0.cases.0"), *run0 = find(c, "runs.1");
    check_that(is(c, "verdicts.0.result", "equal"), "the verdict");
    check_that(is(c, "runs.0.way", "eager") && is(run0, "way", "compiled"), "ways");
    check_that(number(run0, "steps.0.inputs_after.1.elements.0") == 11, "inputs after");
    check_that(number(run0, "steps.2.inputs_after.1.version") == 2, "versions");
    check_that(is(run0, "steps.0.outputs.2.elements.0", "inf"), "inf is a string");
    check_that(number(run0, "steps.3.gradients.0.elements.0") == 8, "gradients");
    check_that(is(run0, "steps.0.aliases.0.values.1", "out.1"), "aliases");
    check_that(number(run0, "steps.0.generator.offset") == 0, "the generator");
    check_that(number(j, "counts.equal") == 2, "counts");
    cJSON_Delete(j);
}

/* build/programs/cli_check: the command is build/tandem. */
int main(int argc, char **argv) {
    (void)argc;
    char *end = strrchr(argv[0], '/');
    snprintf(folder, sizeof folder, "/tmp/tandem-check-%d", (int)getpid());
    snprintf(file, sizeof file, "%s/f.td", folder);
    snprintf(command, sizeof command, "%.*s/../tandem", end ? (int)(end - argv[0]) : 1,
             end ? argv[0] : ".");
    if (mkdir(folder, 0700)) return 1;
    test_cases();
    test_differences();
    test_files();
    test_json();
    remove(file);
    rmdir(folder);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

/* cmd_check.c -- `tandem check FILE...`: runs every case eagerly and in every other
 * way, and compares everything observable. */
#include "cli/case_differences.h"
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool        json, clean, allow_refused, quiet, fd;
static const char *only, *only_way, *device;
/* The name of finite differences among the ways. */
#define DIFFERENCES "differences"

static const cli_option options[] = {
    {"json", NULL, "Print all results of every way of execution as one JSON object.",
     CLI_FLAG, &json, 0, 0, NULL},
    {"way", "NAME", "Check only this way of execution (see above).", CLI_WORD,
     &only_way, 0, 0, NULL},
    {"case", "WORD", "Only the cases whose name contains WORD.", CLI_WORD, &only, 0, 0,
     NULL},
    {"clean", NULL, "Clean up every function first: views, constants, dead code...",
     CLI_FLAG, &clean, 0, 0, NULL},
    {"allow-refused", NULL, "Do not fail for functions that a way does not support.",
     CLI_FLAG, &allow_refused, 0, 0, NULL},
    {"fd", NULL, "Also judge gradients by finite differences, in f64.", CLI_FLAG, &fd,
     0, 0, NULL},
    {"device", "NAME", "Make all tensors on this device: cuda:0.", CLI_WORD, &device, 0,
     0, NULL},
    {"quiet", NULL, "Print only cases that are not equal, and the totals.", CLI_FLAG,
     &quiet, 0, 0, NULL},
    {0}};

/* Cases by result. */
typedef struct counts {
    int equal, both_fail, goes_on, refused, differ, skipped;
} counts;

/* Totals, and the JSON of the current case. */
typedef struct report {
    int       files, cases;
    counts    n;              /* cases, each counted by its worst way */
    counts    fd;             /* of finite differences, with --fd */
    td_gfile *twin;           /* the current file in f64, with --fd; NULL: none */
    td_buf    verdicts, runs; /* JSON of the current case */
} report;

/* ---- one case ----------------------------------------------------------- */

static void count(counts *n, const case_verdict *v) {
    n->equal += v->result == CASE_EQUAL;
    n->both_fail += v->result == CASE_BOTH_FAIL;
    n->goes_on += v->result == CASE_GOES_ON;
    n->refused += v->result == CASE_REFUSED;
    n->differ += v->result == CASE_DIFFERS;
    n->skipped += v->result == CASE_SKIPPED;
}

/* Prints the line of a case. */
static void print_verdict(const td_gfile *f, const td_gcase *c, const case_verdict *v) {
    const char *why = td__buf_str(&v->why);
    switch (v->result) {
    case CASE_EQUAL:
        if (!quiet) printf("ok      %s\n", c->name);
        break;
    case CASE_BOTH_FAIL:
        if (!quiet) printf("ok      %s (both fail: %s)\n", c->name, why);
        break;
    case CASE_GOES_ON:
        if (!quiet) printf("ok      %s (only eager fails: %s)\n", c->name, why);
        break;
    case CASE_REFUSED: printf("refused %s: %s\n", c->name, why); break;
    case CASE_SKIPPED:
        if (!quiet) printf("skipped %s: %s\n", c->name, why);
        break;
    case CASE_DIFFERS:
        printf("FAIL    %s: %s", c->name, why);
        if (v->differences > 3) printf("; and %d more", v->differences - 3);
        printf(" (%s:%d)\n", f->name, c->line);
    }
}

static const char *const results[] = {
    [CASE_EQUAL] = "equal",     [CASE_DIFFERS] = "differs",
    [CASE_REFUSED] = "refused", [CASE_BOTH_FAIL] = "both fail",
    [CASE_GOES_ON] = "goes on", [CASE_SKIPPED] = "skipped"};

/* Runs the case once more in this way, for its JSON report. */
static void add_run(td_buf *b, const td_gfile *f, const td_gcase *c,
                    const case_way *way) {
    td_ctx  *cx = f->cx;
    case_run run = {.file = f, .c = c, .way = way, .out = b, .json = true};
    bool     grad = cx->grad_enabled, inference = cx->inference;
    case_run_all(&run);
    cx->grad_enabled = grad;
    cx->inference = inference;
    td_clear(cx);
}

static void add_verdict(td_buf *b, const char *way, const case_verdict *v) {
    if (b->n) td__buf_add(b, ",");
    td__buf_add(b, "{\"way\":");
    td__json_string(b, way);
    td__buf_printf(b, ",\"result\":\"%s\",\"differences\":%d", results[v->result],
                   v->differences);
    td__buf_add(b, ",\"why\":");
    td__json_string(b, td__buf_str(&v->why));
    td__buf_add(b, "}");
}

/* How bad a result is; a case counts once, by its worst. */
static int badness(const case_verdict *v) {
    static const int bad[] = {
        [CASE_EQUAL] = 0,   [CASE_BOTH_FAIL] = 1, [CASE_GOES_ON] = 2,
        [CASE_REFUSED] = 3, [CASE_DIFFERS] = 4,   [CASE_SKIPPED] = 0};
    return bad[v->result];
}

static void check_way(const td_gfile *f, const td_gcase *c, const case_way *way,
                      report *r, case_verdict *v) {
    case_check(f, c, way, v);
    if (!json) return;
    add_verdict(&r->verdicts, way->name, v);
    td__buf_add(&r->runs, ",\n");
    add_run(&r->runs, f, c, way);
}

/* Prints one line if no way differs or refuses; else one line for each way that
 * does. */
static void print_verdicts(const td_gfile *f, const td_gcase *c,
                           const case_way *const *ways, const case_verdict *v, int n) {
    int worst = 0;
    for (int i = 1; i < n; i++)
        if (badness(&v[i]) > badness(&v[worst])) worst = i;
    bool loud = v[worst].result == CASE_REFUSED || v[worst].result == CASE_DIFFERS;
    if (!loud) {
        print_verdict(f, c, &v[worst]);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (v[i].result != CASE_REFUSED && v[i].result != CASE_DIFFERS) continue;
        printf("%-26s", ways[i]->name);
        print_verdict(f, c, &v[i]);
    }
}

/* Checks gradients of the case in f64 by finite differences, which are counted
 * separately. A case for which they decide nothing is one line unless --quiet. */
static void check_differences(const td_gfile *f, int nr, report *r) {
    const td_gcase *c = f->cases.v[nr];
    case_verdict    v;
    if (!r->twin) return;
    case_differences(r->twin, r->twin->cases.v[nr], &v);
    count(&r->fd, &v);
    if (json) add_verdict(&r->verdicts, DIFFERENCES, &v);
    else if (v.result == CASE_DIFFERS || !quiet) {
        printf("%-26s", DIFFERENCES);
        print_verdict(f, c, &v);
    }
    td__buf_free(&v.why);
}

static void print_json(const td_gcase *c, report *r) {
    td_buf name = {0};
    td__json_string(&name, c->name);
    printf("{\"case\":%s,\"line\":%d,\n \"verdicts\":[%s],\n \"runs\":[\n%s]}",
           td__buf_str(&name), c->line, td__buf_str(&r->verdicts),
           td__buf_str(&r->runs));
    td__buf_free(&name);
    td__buf_free(&r->verdicts);
    td__buf_free(&r->runs);
    r->verdicts = r->runs = (td_buf){0};
}

enum { MOST_WAYS = 32 };

/* A case is counted once, by its worst way. */
static void check_case(const td_gfile *f, int nr, report *r) {
    const td_gcase *c = f->cases.v[nr];
    case_verdict    v[MOST_WAYS];
    const case_way *ways[MOST_WAYS];
    int             n = 0, worst = 0;
    if (json) add_run(&r->runs, f, c, &case_eager);
    for (int i = 0; case_ways[i] && n < MOST_WAYS; i++) {
        const case_way *way = case_ways[i];
        if (only_way && strcmp(only_way, way->name) != 0) continue;
        ways[n] = way;
        check_way(f, c, way, r, &v[n++]);
    }
    for (int i = 1; i < n; i++)
        if (badness(&v[i]) > badness(&v[worst])) worst = i;
    if (n) count(&r->n, &v[worst]);
    if (n && !json) print_verdicts(f, c, ways, v, n);
    check_differences(f, nr, r);
    if (json) print_json(c, r);
    for (int i = 0; i < n; i++) td__buf_free(&v[i].why);
}

/* ---- files -------------------------------------------------------------- */

/* Prints the error of a file that cannot be read or parsed. */
static int report_bad_file(td_ctx *cx) {
    fprintf(stderr, "tandem check: %s\n", td_message(cx));
    td_clear(cx);
    return CLI_MISUSED;
}

static void begin_file(const td_gfile *f, const report *r) {
    td_buf name = {0};
    if (!json) return;
    td__json_string(&name, f->name);
    printf("%s{\"file\":%s,\"cases\":[", r->files ? ",\n" : "", td__buf_str(&name));
    td__buf_free(&name);
}

static void drop_twin(report *r) {
    td__gfile_drop(r->twin);
    r->twin = NULL;
}

/* With --fd: the file once more, in f64. False: the context has the error. */
static bool read_twin(td_ctx *cx, const char *path, report *r) {
    td_dtype was = cx->default_dtype;
    if (!fd) return true;
    cx->default_dtype = TD_F64;
    r->twin = td__gfile_read(cx, path);
    bool ok = !td_is_nil(r->twin) && case_to_f64(r->twin);
    cx->default_dtype = was;
    return ok;
}

/* Cases whose name does not contain the word of --case are skipped. */
static int check_file(td_ctx *cx, const char *path, report *r) {
    int       n = 0;
    td_gfile *f = td__gfile_read(cx, path);
    if (td_is_nil(f) || (clean && !case_clean(f)) || !read_twin(cx, path, r)) {
        td__gfile_drop(f);
        drop_twin(r);
        return report_bad_file(cx);
    }
    begin_file(f, r);
    for (int i = 0; i < f->cases.n; i++) {
        const td_gcase *c = f->cases.v[i];
        if (only && !strstr(c->name, only)) continue;
        if (json) fputs(n ? ",\n" : "\n", stdout);
        check_case(f, i, r);
        n++;
    }
    if (json) fputs("]}", stdout);
    r->files++;
    r->cases += n;
    td__gfile_drop(f);
    drop_twin(r);
    return CLI_OK;
}

static int check_path(td_ctx *cx, const char *path, report *r);

static int is_wanted(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    if (e->d_name[0] == '.') return false;
    return e->d_type == DT_DIR || e->d_type == DT_UNKNOWN ||
           (n > 3 && !strcmp(e->d_name + n - 3, ".td"));
}

/* Checks all .td files below a directory, in order of their names. */
static int check_folder(td_ctx *cx, const char *path, report *r) {
    struct dirent **list;
    int             n = scandir(path, &list, is_wanted, alphasort), status = CLI_OK;
    if (n < 0) return cli_misuse("check", "%s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char below[4096];
        snprintf(below, sizeof below, "%s/%s", path, list[i]->d_name);
        int got = check_path(cx, below, r);
        status = got > status ? got : status;
        free(list[i]);
    }
    free(list);
    return status;
}

static int check_path(td_ctx *cx, const char *path, report *r) {
    struct stat st;
    if (!stat(path, &st) && S_ISDIR(st.st_mode)) return check_folder(cx, path, r);
    return check_file(cx, path, r);
}

/* ---- the command -------------------------------------------------------- */

static void print_totals(const report *r) {
    const counts *n = &r->n;
    if (json)
        printf("],\n\"counts\":{\"files\":%d,\"cases\":%d,\"equal\":%d,"
               "\"both_fail\":%d,\"goes_on\":%d,\"refused\":%d,"
               "\"differ\":%d,\"fd\":{\"agree\":%d,\"skipped\":%d,\"differ\":%d}}}\n",
               r->files, r->cases, n->equal, n->both_fail, n->goes_on, n->refused,
               n->differ, r->fd.equal, r->fd.skipped, r->fd.differ);
    else
        printf("%d file%s, %d case%s: %d equal, %d fail both ways, "
               "%d eagerly only, %d refused, %d differ\n",
               r->files, cli_plural(r->files), r->cases, cli_plural(r->cases), n->equal,
               n->both_fail, n->goes_on, n->refused, n->differ);
    if (fd && !json)
        printf("finite differences: %d agree, %d skipped, %d differ\n", r->fd.equal,
               r->fd.skipped, r->fd.differ);
}

/* Does --way name a way? Else prints the names. */
static int check_way_name(void) {
    td_buf names = {0};
    if (only_way && !strcmp(only_way, DIFFERENCES)) {
        fd = true;
        return CLI_OK;
    }
    for (int i = 0; case_ways[i]; i++) {
        if (!only_way || !strcmp(only_way, case_ways[i]->name)) {
            td__buf_free(&names);
            return CLI_OK;
        }
        td__buf_printf(&names, "%s, ", case_ways[i]->name);
    }
    td__buf_add(&names, DIFFERENCES);
    int status = cli_misuse("check", "no way \"%s\"; the ways are: %s", only_way,
                            td__buf_str(&names));
    td__buf_free(&names);
    return status;
}

/* The exit status is the worst of all files; a difference or a refusal fails unless
 * --allow-refused. */
static int run(int argc, char **argv) {
    report r = {0};
    int    status;
    json = clean = allow_refused = quiet = fd = false, only = only_way = device = NULL;
    int n = cli_parse_all(&cli_check, argc, argv, &status);
    if (n < 0) return status;
    if (n == 0) return cli_misuse("check", "FILE is missing");
    if ((status = check_way_name()) != CLI_OK) return status;
    td_ctx *cx = td_open();
    if (!cx) return CLI_FAILED;
    if (device && (status = cli_use_device("check", cx, device)) != CLI_OK) {
        td_close(cx);
        return status;
    }
    if (json) fputs("{\"files\":[\n", stdout);
    for (int i = 1; i <= n; i++) {
        int got = check_path(cx, argv[i], &r);
        status = got > status ? got : status;
    }
    td_close(cx);
    if (r.files || json) print_totals(&r);
    if (status != CLI_OK) return status;
    if (r.cases == 0)
        return cli_misuse("check",
                          only ? "no case has \"%s\" in its name"
                               : "the files have no cases",
                          only);
    return r.n.differ || r.fd.differ || (r.n.refused && !allow_refused) ? CLI_FAILED
                                                                        : CLI_OK;
}

const cli_command cli_check = {
    .name = "check",
    .operand = "FILE...",
    .summary = "check that compiled functions behave exactly like eager ones",
    .about =
        "Runs each case of each FILE (a .td file, or a directory of .td files) "
        "eagerly\n"
        "and in every other way of execution, each time with new inputs. After each\n"
        "call and each backward these must be equal:\n"
        "\n"
        "  - outputs and all tensors of the case: elements (to the bit, all NaNs\n"
        "    alike), dtype, sizes, strides, offset, version;\n"
        "  - which values are the same tensor, and which share storage;\n"
        "  - requires_grad, is_leaf, is_inference and .grad;\n"
        "  - the state of the random generator and the grad mode;\n"
        "  - failures: at the same step, with the same error code.\n"
        "\n"
        "Then each output of the last call is written in place, in a run of its own,\n"
        "and everything is compared again; that reveals shared storage.\n"
        "\n"
        "The ways of execution are:\n"
        "  compiled    the function compiled ahead of time. Variants: -all saves\n"
        "              everything that backward reads instead of using min-cut, -keep\n"
        "              leaves writes to inputs in the graph (keep_mutations), "
        "-dynamic\n"
        "              compiles with symbolic sizes.\n"
        "  functional  the graph without writes, as traced, run by the interpreter\n"
        "              without optional passes; every write is a step after it.\n"
        "  differences with --fd, or as --way: gradients against finite differences "
        "of\n"
        "              eager runs in f64. Skips, with a reason, what they cannot "
        "tell.\n"
        "\n"
        "Prints one line per case: ok, FAIL where a way differs from eager, or "
        "refused\n"
        "where a way does not support the function; the last two per way, with the\n"
        "reason. A case counts once, by its worst way. docs/check.md describes "
        "--json.\n"
        "\n"
        "The exit status is 0 if all are equal, 1 if one differs or is refused, 2 if "
        "a\n"
        "FILE cannot be read.\n",
    .examples = "tandem check tests/cases\n"
                "tandem check --case=batch f.td g.td\n"
                "tandem check --fd f.td\n"
                "tandem check --json f.td | jq '.files[].cases[].verdicts[].result'\n",
    .options = options,
    .run = run,
};

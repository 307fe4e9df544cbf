/* cmd_cache.c -- `tandem cache`: lists, verifies and clears the cache on disk, and
 * explains hits and misses. */
#include "build/remote.h"
#include "build/unit.h"
#include "cli/case_run.h"
#include "cli/cli.h"
#include "tandem/tandem.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <time.h>

static bool             json;
static const cli_option options[] = {{.name = "json",
                                      .doc = "For list: print a JSON object.",
                                      .kind = CLI_FLAG,
                                      .to = &json},
                                     {0}};

/* The cache and its list of files, for all actions. */
typedef struct cache {
    td_ctx       *cx;
    td_disk       d;
    td_disk_files files;
    cli_term      t;
} cache;

/* ---- list ----------------------------------------------------------------------- */

/* The number of names, from i on, of one file. */
static int count_names(const cache *c, int i) {
    const td_disk_file *f = &c->files.v[i];
    int                 n = 1;
    while (i + n < c->files.n && f[n].inode == f->inode && f[n].device == f->device)
        n++;
    return n;
}

static int count_files(const cache *c) {
    int files = 0;
    for (int i = 0; i < c->files.n; i += count_names(c, i)) files++;
    return files;
}

static void print_age(char *out, size_t cap, int64_t used) {
    static const struct {
        int64_t     seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    int64_t age = (int64_t)time(NULL) - used;
    int     u = 0;
    if (age < 1) age = 1;
    while (age < units[u].seconds) u++;
    int64_t n = age / units[u].seconds;
    snprintf(out, cap, "%lld %s%s ago", (long long)n, units[u].name, n == 1 ? "" : "s");
}

/* Prints the last line of the file's footer, which describes it. Kernels have none. */
static void print_note(const cache *c, const td_disk_file *f) {
    td_buf text = {0};
    char   why[8];
    bool   whole = f->name[0] != 'k' && !f->temp &&
                 td__disk_check(&c->d, f->name, &text, why, sizeof why) && text.n > 1;
    if (whole) {
        text.s[text.n - 1] = 0;
        const char *at = strrchr(text.s, '\n');
        printf(" %s%s%s", cli_ink_on(&c->t, CLI_DIM), at ? at + 1 : text.s,
               cli_ink_on(&c->t, CLI_PLAIN));
    }
    td__buf_free(&text);
}

/* The number of names with this first letter. */
static int count_kind(const cache *c, char kind) {
    int n = 0;
    for (int i = 0; i < c->files.n; i++) n += c->files.v[i].name[0] == kind;
    return n;
}

/* The remote cache, if there is one: whether it is reached, and with which key. */
static void print_remote(const cache *c) {
    td_remote_state s;
    char            line[600];
    td__remote_state(c->cx, &s);
    if (!s.on) return;
    td__remote_text(&s, line, sizeof line);
    printf("remote: %s\n", line);
}

/* One line per file; names that are hard links to one library share it. */
static int list_text(cache *c) {
    char age[40];
    printf("%s%s%s\n", cli_ink_on(&c->t, CLI_BOLD), c->d.dir,
           cli_ink_on(&c->t, CLI_PLAIN));
    for (int i = 0; i < c->files.n; i += count_names(c, i)) {
        const td_disk_file *f = &c->files.v[i];
        int                 n = count_names(c, i);
        print_age(age, sizeof age, f->used);
        printf("%8.1f KiB  used %-15s %s%s", (double)f->bytes / 1024, age, f->name,
               f->temp ? " (unfinished)" : "");
        if (n > 1)
            printf(" %sand %d more%s", cli_ink_on(&c->t, CLI_DIM), n - 1,
                   cli_ink_on(&c->t, CLI_PLAIN));
        print_note(c, f);
        putchar('\n');
    }
    int k = count_kind(c, 'k'), f = count_kind(c, 'f');
    int g = count_kind(c, 'n') + count_kind(c, 'u'); /* native, and by users */
    printf("%d file%s, %d kernel%s, %d graph%s, %d function%s, %.1f of %lld MiB\n",
           count_files(c), cli_plural(count_files(c)), k, cli_plural(k), g,
           cli_plural(g), f, cli_plural(f), (double)td__disk_bytes(&c->files) / 0x1p20,
           (long long)td__config(c->cx)->cache_disk_mb);
    print_remote(c);
    return CLI_OK;
}

/* The lines "word rest" of a footer as JSON fields; kernels as a list. */
static bool add_parts(cJSON *row, char *text) {
    for (char *line; (line = strsep(&text, "\n")) && *line;) {
        char *rest = strchr(line, ' ');
        if (!rest) continue;
        *rest++ = 0;
        if (strcmp(line, "kernels")) {
            if (!cli_json_text(row, line, rest)) return false;
            continue;
        }
        cJSON *list = cJSON_AddArrayToObject(row, line);
        for (char *name; list && (name = strsep(&rest, " "));) {
            cJSON *s = cJSON_CreateString(name);
            if (!s || !cJSON_AddItemToArray(list, s)) return cJSON_Delete(s), false;
        }
    }
    return true;
}

static bool add_file(cache *c, cJSON *files, const td_disk_file *f) {
    td_buf text = {0};
    char   why[200];
    cJSON *row = cJSON_CreateObject();
    if (!row || !cJSON_AddItemToArray(files, row)) return cJSON_Delete(row), false;
    bool whole = td__disk_check(&c->d, f->name, &text, why, sizeof why);
    bool ok = cJSON_AddStringToObject(row, "name", f->name) &&
              cJSON_AddNumberToObject(row, "bytes", (double)f->bytes) &&
              cJSON_AddNumberToObject(row, "used", (double)f->used) &&
              cJSON_AddBoolToObject(row, "whole", whole) &&
              (!whole || !text.n || add_parts(row, text.s));
    td__buf_free(&text);
    return ok;
}

/* Adds the object "remote"; without a remote cache nothing. */
static bool add_remote(cache *c, cJSON *all) {
    td_remote_state s;
    td__remote_state(c->cx, &s);
    cJSON *r = s.on ? cJSON_AddObjectToObject(all, "remote") : NULL;
    if (!s.on) return true;
    return r && cli_json_text(r, "store", s.name) &&
           cJSON_AddBoolToObject(r, "reached", s.reached) &&
           cJSON_AddNumberToObject(r, "ms", s.ms) &&
           cli_json_text(r, "key", s.keyed ? s.id : "") &&
           cli_json_text(r, "reason", s.reached ? "" : s.why);
}

static int list_json(cache *c) {
    cJSON *all = cJSON_CreateObject();
    double most = (double)td__config(c->cx)->cache_disk_mb * 0x1p20;
    bool   ok =
        all && cli_json_text(all, "directory", c->d.dir) &&
        cJSON_AddNumberToObject(all, "bytes", (double)td__disk_bytes(&c->files)) &&
        cJSON_AddNumberToObject(all, "most_bytes", most) && add_remote(c, all);
    cJSON *files = ok ? cJSON_AddArrayToObject(all, "files") : NULL;
    ok = files != NULL;
    for (int i = 0; i < c->files.n && ok; i += count_names(c, i))
        ok = add_file(c, files, &c->files.v[i]);
    char *text = ok ? cJSON_Print(all) : NULL;
    cJSON_Delete(all);
    if (!text) {
        fprintf(stderr, "tandem cache: memory is exhausted\n");
        return CLI_FAILED;
    }
    puts(text);
    cJSON_free(text);
    return CLI_OK;
}

static int list(cache *c, const char *file) {
    (void)file;
    return json ? list_json(c) : list_text(c);
}

/* ---- the other actions -------------------------------------------------- */

/* Files under a temporary name are unfinished writes, not damaged entries. */
static int verify(cache *c, const char *file) {
    int bad = 0, n = 0;
    (void)file;
    for (int i = 0; i < c->files.n; i += count_names(c, i)) {
        const td_disk_file *f = &c->files.v[i];
        td_buf              text = {0};
        char                why[200];
        if (f->temp) continue;
        n++;
        if (!td__disk_check(&c->d, f->name, &text, why, sizeof why)) {
            printf("%s/%s %s\n", c->d.dir, f->name, why);
            bad++;
        }
        td__buf_free(&text);
    }
    if (bad)
        printf("%d of %d files will not be used and are replaced when needed\n", bad,
               n);
    else printf("%d file%s, all whole\n", n, cli_plural(n));
    return bad ? CLI_FAILED : CLI_OK;
}

static int clear(cache *c, const char *file) {
    int64_t bytes = td__disk_bytes(&c->files);
    int     n = count_files(c);
    (void)file;
    td__disk_clear(&c->d);
    printf("%d file%s, %.1f MiB removed from %s\n", n, cli_plural(n),
           (double)bytes / 0x1p20, c->d.dir);
    return CLI_OK;
}

/* ---- why ----------------------------------------------------------------- */

static void print_line(const cli_term *t, const char *what, const char *rest, int n) {
    printf("%s%-9s%s %.*s\n", cli_ink_on(t, CLI_BOLD), what, cli_ink_on(t, CLI_PLAIN),
           n, rest);
}

/* Prints what the names of all kernels depend on. */
static bool print_parts(const cache *c) {
    td_cc  cc;
    td_buf key = {0};
    bool   ok =
        td__cc_open(&cc, c->cx) && (td__unit_key(&key, &cc) || td__fail_memory(c->cx));
    for (const char *p = td__buf_str(&key); ok && *p;) {
        char what[16];
        int  n = (int)strcspn(p, "\n"), word = (int)strcspn(p, " ");
        snprintf(what, sizeof what, "%.*s", word, p);
        print_line(&c->t, what, p + word + 1, n - word - 1);
        p += n + 1;
    }
    td__buf_free(&key);
    td__cc_close(&cc);
    if (!ok) fprintf(stderr, "tandem cache: %s\n", td_message(c->cx));
    return ok;
}

/* Counts of a run. */
typedef struct lookups {
    int hits, misses;
} lookups;

/* The log callback: prints hits and misses of kernels (k_), graphs (n_) and functions
 * (f_), and functions that are not cached. */
static void on_log(void *env, const char *topic, const char *text) {
    lookups *h = env;
    bool     hit = !strncmp(text, "hit: ", 5), miss = !strncmp(text, "miss: ", 6);
    if (!strcmp(topic, "warning")) fprintf(stderr, "tandem cache: %s\n", text);
    if (!strncmp(text, "bypass: ", 8)) printf("  not cached: %s\n", text + 8);
    else if (strstr(text, " is f_") || !strncmp(text, "remote: ", 8))
        printf("  %s\n", text);
    if (!hit && !miss) return;
    printf("  %s %s\n", hit ? "hit " : "miss", strchr(text, ' ') + 1);
    h->hits += hit;
    h->misses += miss;
}

/* Runs each case with native code and prints every lookup. */
static int why_file(const td_gfile *f) {
    lookups h = {0};
    int     bad = 0;
    td_config_set(f->cx, "backend", "native");
    td_config_set(f->cx, "log", "cache");
    td_log_to(f->cx, on_log, &h);
    for (int i = 0; i < f->cases.n; i++) {
        case_run run = {.file = f, .c = f->cases.v[i], .way = &case_as_set};
        printf("\n# case %s\n", run.c->name);
        if (!case_run_all(&run)) printf("  error: %s\n", td_message(f->cx)), bad++;
        td_clear(f->cx);
    }
    printf("\n%d found, %d not\n", h.hits, h.misses);
    return bad ? CLI_FAILED : CLI_OK;
}

static int why(cache *c, const char *file) {
    if (!print_parts(c)) return CLI_FAILED;
    print_line(&c->t, "directory", *c->d.dir ? c->d.dir : "none", sizeof c->d.dir);
    return file ? case_file("cache", file, why_file) : CLI_OK;
}

/* ---- the command -------------------------------------------------------- */

typedef struct action {
    const char *name;
    int (*run)(cache *c, const char *file);
} action;

static const action actions[] = {{"list", list},
                                 {"verify", verify},
                                 {"clear", clear},
                                 {"why", why}};

static int perform(const action *a, const char *file) {
    cache c = {.cx = td_open(), .t = cli_term_open(stdout, "auto")};
    int   status = CLI_OK;
    if (!c.cx) {
        fprintf(stderr, "tandem cache: memory is exhausted\n");
        return CLI_FAILED;
    }
    td__disk_open(&c.d, c.cx, false);
    if (c.d.fd >= 0 && !td__disk_list(&c.d, &c.files)) {
        fprintf(stderr, "tandem cache: cannot read %s\n", c.d.dir);
        status = CLI_FAILED;
    } else status = a->run(&c, file);
    td__vec_free(&c.files);
    td__disk_close(&c.d);
    td_close(c.cx);
    return status;
}

static int run(int argc, char **argv) {
    int status;
    json = false;
    int n = cli_parse_all(&cli_cache, argc, argv, &status);
    if (n < 0) return status;
    if (n == 0)
        return cli_misuse("cache", "an action is missing: list, verify, clear or why");
    bool takes_file = !strcmp(argv[1], "why");
    if (n > 1 + takes_file)
        return cli_misuse("cache", "unexpected argument \"%s\"", argv[2 + takes_file]);
    for (int i = 0; i < TD_COUNT(actions); i++)
        if (!strcmp(argv[1], actions[i].name))
            return perform(&actions[i], n > 1 ? argv[2] : NULL);
    return cli_misuse("cache",
                      "no action \"%s\"; the actions are list, verify, clear, why",
                      argv[1]);
}

const cli_command cli_cache = {
    .name = "cache",
    .operand = "list|verify|clear|why [FILE]",
    .summary = "list, verify, clear or explain the cache of compiled code",
    .about =
        "Compiled code is cached on disk, so that the next process need not compile\n"
        "again: kernels (k_), native code of graphs (n_), and functions as traced,\n"
        "differentiated and partitioned (f_).\n"
        "\n"
        "list    Prints each file with its size, time of last use and contents.\n"
        "verify  Reads each file and checks its checksum. The exit status is 1 if one\n"
        "        is damaged. Damaged files are never used.\n"
        "clear   Removes all files. Running processes are not affected.\n"
        "why     Prints what the names of cached kernels depend on: version, "
        "compiler,\n"
        "        flags. With FILE, a .td file, also runs its cases with native code "
        "and\n"
        "        prints for each function, graph and kernel whether it was found, or\n"
        "        why not; for a function also hashes of program, call, settings and\n"
        "        options, of which its name is made. What was not found is compiled "
        "and\n"
        "        stored.\n"
        "\n"
        "The directory is $TD_CACHE_DIR, else $XDG_CACHE_HOME/tandem, else\n"
        "~/.cache/tandem. TD_CACHE_DISK_MB bounds its size. TD_LOG=cache logs every\n"
        "lookup and every file stored. TD_CACHE_REMOTE=redis://host:port/db shares\n"
        "entries with other machines; list prints whether that server is reached.\n",
    .examples = "tandem cache list\n"
                "tandem cache why f.td\n"
                "tandem cache list --json | jq '[.files[].bytes] | add'\n"
                "TD_CACHE_DIR=/var/tmp/mine tandem cache verify\n",
    .options = options,
    .run = run,
};

/* rows.c -- holds the pages that name tests against the files. Every file and unit test
 * that tests/README.md, docs/behaviours.md and docs/beyond.md name is there. In the
 * first, every golden file speaks of its row, every case of tests/cases/sem has a row,
 * and the table of groups has the right counts; in the second, states are known and
 * counted. */
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IDS = 512 };

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static char *ids[MOST_IDS];
static int   n_ids, passed, failed;

static char *read_file(const char *path) {
    FILE  *f = fopen(path, "rb");
    char  *text = calloc(1, 1 << 20);
    size_t n = f && text ? fread(text, 1, (1 << 20) - 1, f) : 0;
    if (f) fclose(f);
    if (!text || n == 0) printf("%s cannot be read\n", path);
    if (!text) exit(1);
    return text;
}

static void check(bool ok, const char *row, const char *what) {
    passed += ok;
    failed += !ok;
    if (!ok) printf("FAIL %s: %s\n", row, what);
}

/* Does the text say `before` id, and then no more of a name? */
static bool says(const char *text, const char *before, const char *id) {
    size_t n = strlen(before), m = strlen(id);
    for (; (text = strstr(text, before)); text++)
        if (!strncmp(text + n, id, m) && strchr("\" ,:)", text[n + m])) return true;
    return false;
}

/* The next `word` of a cell, cut out; *at moves behind it. */
static char *quoted(char **at) {
    char *a = strchr(*at, '`'), *b = a ? strchr(a + 1, '`') : NULL;
    if (!b) return NULL;
    *b = 0;
    *at = b + 1;
    return a + 1;
}

static void check_golden(const char *id, const char *file) {
    char        path[256];
    const char *room = strchr(file, '/') ? "" : "func/";
    snprintf(path, sizeof path, "tests/golden/%s%.100s", room, file);
    char *text = read_file(path);
    check(strstr(text, id) != NULL, id, path);
    free(text);
}

/* `FILE.td`: `case`, golden `FILE.td`; without a case it is the row's own name. */
static void check_case(char *row, char *cell) {
    char  path[256], *golden = strstr(cell, "golden `"), *file = quoted(&cell);
    char *other = *cell == ':' ? quoted(&cell) : NULL;
    snprintf(path, sizeof path, "tests/cases/sem/%.100s", file);
    char *text = read_file(path);
    for (char *id; (id = quoted(&row)) && n_ids < MOST_IDS;) {
        if (*id == '_') continue; /* a variant of the name before it */
        check(says(text, "case \"", id), id, path);
        ids[n_ids++] = strdup(id);
        if (golden) check_golden(id, quoted((char *[]){golden}));
    }
    if (other) check(says(text, "case \"", other), other, path);
    free(text);
}

/* golden `ROOM/FILE.td` `name`; without a name the row's own are there. */
static void check_golden_row(char *row, char *cell) {
    char *file = quoted(&cell), *name = quoted(&cell);
    check_golden(name ? name : "", file);
    for (char *id; (id = quoted(&row));)
        if (*id != '_') check_golden(id, file);
}

/* ---- names on any page -------------------------------------------------- */

/* Does a file of tests/ have this name, as pages shorten them? */
static bool is_file(const char *name, size_t n) {
    static const char *const folders[] = {"", "cases/", "cases/sem/"};
    char                     path[256];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "tests/%s%.*s", folders[i], (int)n, name);
        FILE *f = fopen(path, "rb");
        if (f) return fclose(f) == 0;
    }
    return false;
}

/* Behind `unit/FILE.c`: one test and, after commas, more of them. */
static void check_tests(const char *file, size_t n, const char *at) {
    char path[256];
    snprintf(path, sizeof path, "tests/%.*s", (int)n, file);
    char *text = read_file(path);
    do {
        char name[128];
        at += 2; /* the colon or comma and a space */
        snprintf(name, sizeof name, "%.*s", (int)strspn(at, WORD), at);
        if (!strchr(name, '_')) break; /* the sentence goes on */
        check(says(text, "TEST(", name), path, name);
        at += strlen(name);
    } while (at[0] == ',' && at[1] == ' ');
    free(text);
}

static bool ends(const char *name, size_t n, const char *with) {
    size_t m = strlen(with);
    return n > m && !strncmp(name + n - m, with, m);
}

/* Is this a file of tests/, in one of the folders that pages write before it? */
static bool names_file(const char *name, size_t n) {
    static const char *const folders[] = {"unit/",   "programs/", "fuzz/", "cases/",
                                          "nested/", "corpus/",   "aot/",  "func/"};
    bool                     in_one = false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        in_one |= !strncmp(name, folders[i], strlen(folders[i]));
    return in_one && !memchr(name, ' ', n) &&
           (ends(name, n, ".c") || ends(name, n, ".td"));
}

/* Files and tests that a line names in backquotes, but for golden ones. */
static void check_names(const char *line) {
    static const char golden[] = "golden `";
    for (const char *a = line, *end; (a = strchr(a, '`')); a = end + 1) {
        const char *name = a + 1;
        if (!(end = strchr(name, '`'))) return;
        size_t n = (size_t)(end - name), m = strlen(golden);
        bool   of_golden = (size_t)(name - line) >= m && !strncmp(name - m, golden, m);
        if (of_golden || !names_file(name, n)) continue;
        check(is_file(name, n), "no such file", name);
        if (is_file(name, n) && !strncmp(name, "unit/", 5) && end[1] == ':')
            check_tests(name, n, end + 1);
    }
}

/* ---- counts ------------------------------------------------------------- */

enum { ROWS, CASES, TESTS, NOT_YET, LEFT_OUT, N_COUNTS, MOST_GROUPS = 40 };

static int counts[MOST_GROUPS][N_COUNTS]; /* of each group; of all: 0 */

static int kind_of(const char *cell) {
    if (!strncmp(cell, "left out", 8)) return LEFT_OUT;
    if (!strncmp(cell, "not yet", 7)) return NOT_YET;
    return *cell == '`' && strstr(cell, ".td`") ? CASES : TESTS;
}

/* A line below "## GROUP ..." counts in that group if it is a row. */
static void count_line(const char *line) {
    static int  group;
    const char *cell = strstr(line, " | ");
    if (!strncmp(line, "## ", 3)) group = atoi(line + 3);
    if (group <= 0 || group >= MOST_GROUPS || strncmp(line, "| ", 2) != 0 || !cell)
        return;
    if (!strncmp(line, "| row ", 6) || !strncmp(line, "| --- ", 6)) return;
    for (int i = 0; i <= group; i += group) {
        counts[i][ROWS]++;
        counts[i][kind_of(cell + 3)]++;
    }
}

static void check_counts(const char *page) {
    for (int i = 0; i < MOST_GROUPS; i++) {
        const int *c = counts[i];
        char       group[16] = "all", line[128];
        if (c[ROWS] == 0) continue;
        if (i) snprintf(group, sizeof group, "%d", i);
        snprintf(line, sizeof line, "\n| %s | %d | %d | %d | %d | %d |\n", group,
                 c[ROWS], c[CASES], c[TESTS], c[NOT_YET], c[LEFT_OUT]);
        bool there = strstr(page, line) != NULL;
        line[strlen(line) - 1] = 0;
        check(there, "tests/README.md lacks", line + 1);
    }
}

/* ---- rows of the catalogue ------------------------------------------------ */

static void check_line(char *line) {
    char *row = line + 2, *end = strstr(row, " | ");
    if (strncmp(line, "| ", 2) != 0 || !end) return;
    *end = 0;
    char *cell = end + 3;
    if ((end = strstr(cell, " |"))) *end = 0;
    if (!strncmp(cell, "golden ", 7)) check_golden_row(row, cell);
    else if (*cell == '`' && strspn(cell + 1, "0123456789") == 2) check_case(row, cell);
}

static bool has_row(const char *name) {
    for (int i = 0; i < n_ids; i++) {
        size_t n = strlen(ids[i]);
        if (!strncmp(name, ids[i], n) && strchr(" ,\"", name[n])) return true;
    }
    return false;
}

static void check_file(const char *path) {
    char *text = read_file(path);
    for (char *at = text; (at = strstr(at, "\ncase \"")); at++) {
        char name[200];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 7, "\n"), at + 7);
        check(has_row(name), name, "stands in no row of tests/README.md");
    }
    free(text);
}

/* ---- docs/behaviours.md ------------------------------------------------- */

static const char *const states[] = {"works", "differs", "none"};
enum { N_STATES = sizeof states / sizeof *states, ALL_BEHAVIOURS = 134 };

/* A row of three cells: a known state, and a test unless it is "none". */
static void check_behaviour(const char *line, int n[N_STATES]) {
    const char *state = strstr(line, " | "),
               *test = state ? strstr(state + 3, " | ") : 0;
    int i = 0;
    if (strncmp(line, "| ", 2) != 0 || !test || !strncmp(line, "| behaviour ", 12) ||
        !strncmp(line, "| --- ", 6))
        return;
    while (i < N_STATES && strncmp(state + 3, states[i], strlen(states[i])) != 0) i++;
    check(i < N_STATES, line, "unknown state");
    if (i == N_STATES) return;
    n[i]++;
    check((test[3] == '`') == (i < N_STATES - 1), line,
          "a test, unless it is \"none\"");
}

static void check_behaviours(void) {
    char *page = read_file("docs/behaviours.md"), *rest = strstr(page, "\n## "),
         want[64];
    int   n[N_STATES] = {0}, all = 0;
    char *table = rest ? strndup(page, (size_t)(rest - page)) : NULL;
    for (char *line; rest && (line = strsep(&rest, "\n"));) check_behaviour(line, n);
    for (int i = 0; table && i < N_STATES; i++) {
        const char *row = table;
        snprintf(want, sizeof want, "| %d |", n[i]);
        while ((row = strstr(row, "\n| ")) && strncmp(row + 3, states[i], 4) != 0)
            row++;
        check(row && strstr(row, want) && strstr(row, want) < strchr(row + 1, '\n'),
              "docs/behaviours.md: wrong number of", states[i]);
        all += n[i];
    }
    check(all == ALL_BEHAVIOURS, "docs/behaviours.md", "has another number of rows");
    free(table);
    free(page);
}

/* The table of what is unsupported: at most these rows, each with a test. */
enum { MOST_REASONS = 14 };

static bool names_test(const char *row) {
    return strstr(row, "`unit/") || strstr(row, "`corpus/") || strstr(row, "`nested/");
}

static void check_reasons(void) {
    char *page = read_file("docs/beyond.md"), *at = strstr(page, "\n## Unsupported\n");
    char *rest = at ? at + 2 : NULL;
    int   n = -2; /* the head of the table */
    check(at != NULL, "docs/beyond.md", "has no table of what is unsupported");
    for (char *line;
         rest && (line = strsep(&rest, "\n")) && strncmp(line, "## B", 4);) {
        if (strncmp(line, "| ", 2) != 0) continue;
        check(++n <= 0 || names_test(line), line, "names no test");
    }
    check(n > 0 && n <= MOST_REASONS, "docs/beyond.md",
          "has another number of reasons");
    free(page);
}

static void check_page(const char *path) {
    char *page = read_file(path), *rest = page;
    for (char *line; (line = strsep(&rest, "\n"));) check_names(line);
    free(page);
}

static void check_catalogue(void) {
    char *page = read_file("tests/README.md"), *copy = strdup(page), *rest = copy;
    for (char *line; copy && (line = strsep(&rest, "\n"));) {
        check_names(line);
        count_line(line);
        check_line(line);
    }
    check_counts(page);
    free(copy);
    free(page);
}

int main(void) {
    glob_t found;
    check_catalogue();
    check_page("docs/beyond.md");
    check_reasons();
    check_page("docs/behaviours.md");
    check_behaviours();
    if (glob("tests/cases/sem/*.td", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) check_file(found.gl_pathv[i]);
    globfree(&found);
    for (int i = 0; i < n_ids; i++) free(ids[i]);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

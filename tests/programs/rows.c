/* rows.c -- holds tests/README.md against the files: every case and unit test it names
 * exists, every golden file it names speaks of the row, and every case of
 * tests/cases/sem stands in a row. */
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IDS = 512 };

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

/* `unit/FILE.c`: test */
static void check_unit(const char *row, char *cell) {
    char path[256], *file = quoted(&cell);
    if (strncmp(file, "unit/", 5) != 0) return;
    snprintf(path, sizeof path, "tests/%.100s", file);
    char *text = read_file(path), *test = cell + 2;
    test[strcspn(test, " ")] = 0;
    check(says(text, "TEST(", test), row, test);
    free(text);
}

static void check_line(char *line) {
    char *row = line + 2, *end = strstr(row, " | ");
    if (strncmp(line, "| ", 2) != 0 || !end) return;
    *end = 0;
    char *cell = end + 3;
    if ((end = strstr(cell, " |"))) *end = 0;
    if (!strncmp(cell, "golden ", 7)) check_golden_row(row, cell);
    else if (strstr(cell, ".td`")) check_case(row, cell);
    else if (!strncmp(cell, "`unit/", 6)) check_unit(row, cell);
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

int main(void) {
    char  *page = read_file("tests/README.md"), *rest = page;
    glob_t found;
    for (char *line; (line = strsep(&rest, "\n"));) check_line(line);
    if (glob("tests/cases/sem/*.td", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) check_file(found.gl_pathv[i]);
    globfree(&found);
    for (int i = 0; i < n_ids; i++) free(ids[i]);
    free(page);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

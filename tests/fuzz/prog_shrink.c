/* prog_shrink.c -- makes a program small: line by line and number by number, as long
 * as the same kind of difference stays. Works on text alone, so any file will do. */
#include "prog.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LINES = 400, LINE = 1024, TRIES = 3000 };
enum { CALM = 60 }; /* seconds a try may take */

typedef struct lines {
    char s[MOST_LINES][LINE];
    int  n;
} lines;

typedef struct shrinker {
    lines      *now, *next;
    const char *kind;
    int         tries;
} shrinker;

static bool split(const char *text, lines *l) {
    for (l->n = 0; *text && l->n < MOST_LINES;) {
        const char *end = strchr(text, '\n');
        size_t      n = end ? (size_t)(end - text) : strlen(text);
        if (n >= LINE) return false;
        memcpy(l->s[l->n], text, n);
        l->s[l->n++][n] = '\0';
        text += n + (end != NULL);
    }
    return *text == '\0';
}

static void join(const lines *l, td_buf *b) {
    b->n = 0;
    for (int i = 0; i < l->n; i++) td__buf_printf(b, "%s\n", l->s[i]);
}

/* Takes `next` over when the difference is still there. */
static bool keep(shrinker *s) {
    td_buf      b = {0};
    prog_result r = {.verdict = PROG_BROKEN};
    if (s->tries++ < TRIES) {
        join(s->next, &b);
        alarm(CALM);
        prog_check(td__buf_str(&b), b.n, &r);
        td__buf_free(&b);
    }
    bool ok = r.verdict == PROG_DIFFER && !strcmp(r.kind, s->kind);
    if (ok) *s->now = *s->next;
    return ok;
}

static void begin(shrinker *s) { *s->next = *s->now; }

static void drop_some(lines *l, int i, int n) {
    memmove(l->s[i], l->s[i + n], sizeof l->s[0] * (size_t)(l->n - i - n));
    l->n -= n;
}

static void drop_line(lines *l, int i) { drop_some(l, i, 1); }

/* How many lines the statement at line i has: more than one if it has nested functions,
 * which end with a line that begins with }. */
static int statement_lines(const lines *l, int i) {
    if (!strstr(l->s[i], " = ") || !strstr(l->s[i], "func @")) return 1;
    for (int k = i, depth = 0; k < l->n; k++) {
        const char *line = l->s[k] + strspn(l->s[k], " ");
        size_t      n = strlen(line);
        depth += (n && line[n - 1] == '{') - (line[0] == '}');
        if (depth == 0) return k - i + 1;
    }
    return 1;
}

/* ---- words -------------------------------------------------------------- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* Replaces a whole word, or a name and the entries of its list. */
static void replace_word(char *line, const char *from, const char *to) {
    char   out[LINE];
    size_t n = 0, len = strlen(from);
    for (const char *p = line; *p && n + strlen(to) + 2 < LINE;) {
        bool start = p == line || (!is_word(p[-1]) && p[-1] != '%');
        bool here = start && !strncmp(p, from, len);
        if (here && from[0] == '%' && p[len] == '.') { /* %v3.1 */
            const char *end = p + len + 1;
            while (isdigit((unsigned char)*end)) end++;
            here = end > p + len + 1;
            if (here) n += (size_t)snprintf(out + n, LINE - n, "%s", to), p = end;
        } else if ((here = here && !is_word(p[len]))) {
            n += (size_t)snprintf(out + n, LINE - n, "%s", to);
            p += len;
        }
        if (!here) out[n++] = *p++;
    }
    out[n] = '\0';
    memcpy(line, out, n + 1);
}

/* The next %name at or behind p; false: none. */
static bool next_name(const char **p, char *name) {
    const char *at = strchr(*p, '%');
    size_t      n = 1;
    if (!at) return false;
    while (is_word(at[n]) && n + 1 < PROG_NAME) n++;
    memcpy(name, at, n);
    name[n] = '\0';
    *p = at + n;
    return true;
}

/* ---- lines -------------------------------------------------------------- */

/* Names that line i makes. */
static int made(const char *line, char names[][PROG_NAME], int most) {
    const char *eq = strstr(line, " = "), *p = line;
    int         n = 0;
    while (eq && n < most && next_name(&p, names[n]) && p <= eq) n++;
    return eq ? n : 0;
}

/* The line goes; what it made becomes `instead`. */
static bool try_without(shrinker *s, int i, const char *instead) {
    char names[8][PROG_NAME];
    int  n = made(s->now->s[i], names, 8);
    if (strstr(s->now->s[i], "%m = add(%n, 1)")) return false; /* counts a loop */
    begin(s);
    drop_some(s->next, i, statement_lines(s->now, i));
    for (int k = 0; k < n && instead; k++)
        for (int j = i; j < s->next->n; j++)
            replace_word(s->next->s[j], names[k], instead);
    return keep(s);
}

static bool drop_lines(shrinker *s) {
    bool any = false;
    for (int i = s->now->n - 1; i >= 0; i--) {
        char        name[PROG_NAME];
        int         n = statement_lines(s->now, i);
        const char *p = n > 1 ? s->now->s[i + n - 1] : strstr(s->now->s[i], " = ");
        bool        gone = try_without(s, i, NULL);
        while (!gone && p && next_name(&p, name)) gone = try_without(s, i, name);
        any |= gone;
        if (i > s->now->n) i = s->now->n;
    }
    return any;
}

/* A region's edges go, its statements stay. */
static bool drop_regions(shrinker *s) {
    bool any = false;
    for (int i = s->now->n - 1; i > 0; i--) {
        const char *line = s->now->s[i];
        size_t      n = strlen(line);
        int         depth = 0, k = i;
        if (n == 0 || line[n - 1] != '{' || line[0] != ' ') continue;
        for (; k < s->now->n; k++) {
            size_t m = strlen(s->now->s[k]);
            if (m && s->now->s[k][m - 1] == '{') depth++;
            if (m && s->now->s[k][m - 1] == '}' && --depth == 0) break;
        }
        if (k == s->now->n) continue;
        begin(s);
        drop_line(s->next, k);
        drop_line(s->next, i);
        any |= keep(s);
    }
    return any;
}

/* ---- entries of lists --------------------------------------------------- */

/* Where the entry of number nr of a list begins and ends; false: there is none. */
static bool find_entry(const char *list, int nr, const char **from, const char **to) {
    int depth = 0;
    *from = list;
    for (const char *p = list;; p++) {
        bool end = *p == '\0' || (depth == 0 && (*p == ')' || *p == '{'));
        if (strchr("([{", *p) && *p && !end) depth++;
        if (strchr(")]}", *p) && *p && !end) depth--;
        if (!end && !(*p == ',' && depth == 0)) continue;
        *to = p;
        if (nr-- == 0) return p > *from;
        if (end) return false;
        *from = p + 1;
    }
}

static bool cut_entry(char *line, const char *lead, int nr) {
    char       *list = strstr(line, lead);
    const char *from, *to;
    if (!list || !find_entry(list + strlen(lead), nr, &from, &to)) return false;
    bool first = nr == 0;
    if (first && *to == ',') to++;
    if (!first) from--;
    memmove(line + (from - line), to, strlen(to) + 1);
    return true;
}

static bool drop_outputs(shrinker *s) {
    bool any = false;
    for (int i = 0; i < s->now->n; i++)
        for (int nr = 5; nr >= 0; nr--) {
            begin(s);
            if (cut_entry(s->next->s[i], "  return ", nr)) any |= keep(s);
        }
    return any;
}

/* Parameter nr of the function and of its calls; the body reads another instead. */
static bool drop_inputs(shrinker *s) {
    bool any = false;
    for (int nr = 6; nr >= 0; nr--)
        for (int other = -1; other < 3; other++) {
            char from[PROG_NAME], to[PROG_NAME];
            snprintf(from, sizeof from, "%%p%d", nr);
            snprintf(to, sizeof to, "%%p%d", other);
            begin(s);
            if (other == nr || !cut_entry(s->next->s[0], "func @f(", nr)) continue;
            for (int i = 1; i < s->next->n; i++) {
                cut_entry(s->next->s[i], "call @f(", nr);
                if (other >= 0) replace_word(s->next->s[i], from, to);
            }
            if (!keep(s)) continue;
            any = true;
            break;
        }
    return any;
}

/* ---- words and numbers -------------------------------------------------- */

static bool drop_words(shrinker *s) {
    static const char *const words[] = {", requires_grad=true",
                                        " retain_graph=true",
                                        " seed=",
                                        " grad",
                                        " <const>",
                                        " hooks=clone",
                                        " autocast=bf16",
                                        " autocast=f16",
                                        " module=train",
                                        " module=eval",
                                        " checkpoint=true",
                                        " grads=true",
                                        " control=true"};
    bool                     any = false;
    for (int i = 0; i < s->now->n; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
            begin(s);
            char *at = strstr(s->next->s[i], words[k]);
            if (!at || strstr(at, "seed=") == at + 2) continue;
            char *end = at + strlen(words[k]);
            while (isdigit((unsigned char)*end)) end++;
            memmove(at, end, strlen(end) + 1);
            any |= keep(s);
        }
    return any;
}

/* A size everywhere, then a number in one line alone. */
static bool lower_numbers(shrinker *s) {
    static const char *const to[][2] = {{"4", "2"},     {"3", "2"},     {"2", "1"},
                                        {"f16", "f32"}, {"f64", "f32"}, {"bf16", "f32"},
                                        {"i32", "i64"}, {"u8", "i64"}};
    bool                     any = false;
    for (size_t k = 0; k < sizeof to / sizeof *to; k++) {
        begin(s);
        for (int i = 0; i < s->next->n; i++)
            replace_word(s->next->s[i], to[k][0], to[k][1]);
        if (memcmp(s->now, s->next, sizeof *s->now)) any |= keep(s);
    }
    return any;
}

void prog_shrink(td_buf *text, const char *kind) {
    shrinker s = {calloc(1, sizeof(lines)), calloc(1, sizeof(lines)), kind, 0};
    if (s.now && s.next && split(td__buf_str(text), s.now)) {
        bool any = true;
        while (any && s.tries < TRIES) {
            any = drop_lines(&s);
            any |= drop_outputs(&s);
            any |= drop_inputs(&s);
            any |= drop_regions(&s);
            any |= drop_words(&s);
            any |= lower_numbers(&s);
        }
        join(s.now, text);
    }
    free(s.now);
    free(s.next);
}

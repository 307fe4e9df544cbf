/* sample_text.c -- reads samples_*.def: sets, tags, and {a|b} expansion. Gives a
 * flat list of call texts without spaces; sample_parse.c reads those. */
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SETS 64
#define MAX_GROUPS 9

typedef struct set {
    char name[24];
    char value[MAX_TEXT];
} set;

typedef struct reader {
    sample_list *list;
    const char  *path;
    int          line, n_sets;
    uint32_t     tags; /* default of the lines that follow */
    set          sets[MAX_SETS];
} reader;

static bool complain(const reader *r, const char *what) {
    fprintf(stderr, "%s:%d: %s\n", r->path, r->line, what);
    return false;
}

static uint32_t tag_of(const char *word, size_t n) {
    static const char *const names[] = {"error",    "any",    "random",  "nograd",
                                        "exact",    "writes", "loose",   "nocheck",
                                        "nocheck2", "values", "owngrad", "signs"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && !memcmp(names[i], word, n)) return 1u << i;
    return 0;
}

/* Reads words up to `end` (or the end of text); false: an unknown tag. */
static bool read_tags(const reader *r, const char *p, char end, uint32_t *tags) {
    while (*p && *p != end) {
        size_t n = strcspn(p, " ]");
        if (n) {
            uint32_t t = tag_of(p, n);
            if (!t) return complain(r, "unknown tag");
            *tags |= t;
        }
        p += n + (p[n] == ' ');
    }
    return true;
}

/* Copies text without blanks, with $name replaced. */
static bool substitute(const reader *r, const char *p, char *out) {
    size_t n = 0;
    for (; *p; p++) {
        if (*p == ' ' || *p == '\t') continue;
        if (*p != '$') {
            if (n + 1 >= MAX_TEXT) return complain(r, "line too long");
            out[n++] = *p;
            continue;
        }
        size_t      k = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz0123456789_");
        const char *v = NULL;
        for (int i = 0; i < r->n_sets; i++)
            if (strlen(r->sets[i].name) == k && !memcmp(r->sets[i].name, p + 1, k))
                v = r->sets[i].value;
        if (!v) return complain(r, "unknown set");
        if (n + strlen(v) >= MAX_TEXT) return complain(r, "line too long");
        memcpy(out + n, v, strlen(v));
        n += strlen(v);
        p += k;
    }
    out[n] = 0;
    return true;
}

/* The first {..|..} of text; NULL: none. */
static const char *find_group(const char *text, const char **end) {
    for (const char *p = strchr(text, '{'); p; p = strchr(p + 1, '{')) {
        const char *q = strpbrk(p + 1, "{}");
        if (!q || *q != '}' || !memchr(p, '|', (size_t)(q - p))) continue;
        *end = q;
        return p;
    }
    return NULL;
}

static bool add_text(reader *r, const char *text, char picked[][MAX_TEXT],
                     uint32_t tags) {
    char   out[MAX_TEXT];
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        const char *piece = p;
        size_t      k = 1;
        if (*p == '@' && p[1] >= '1' && p[1] <= '9') {
            piece = picked[p[1] - '1'];
            k = strlen(piece);
            p++;
        }
        if (n + k >= MAX_TEXT) return complain(r, "line too long");
        memcpy(out + n, piece, k);
        n += k;
    }
    out[n] = 0;
    char *copy = td__arena_alloc(&r->list->arena, n + 1);
    if (!copy) return complain(r, "out of memory");
    memcpy(copy, out, n + 1);
    sample_text t = {copy, r->path, r->line, tags};
    return td__vec_push(&r->list->items, t) || complain(r, "out of memory");
}

/* Depth is the number of groups of one line, at most MAX_GROUPS. */
static bool expand(reader *r, const char *text, int depth, char picked[][MAX_TEXT],
                   uint32_t tags) {
    const char *end, *at = find_group(text, &end);
    if (!at) return add_text(r, text, picked, tags);
    if (depth == MAX_GROUPS) return complain(r, "too many groups");
    for (const char *p = at + 1; p <= end;) {
        size_t k = strcspn(p, "|}");
        char   next[MAX_TEXT];
        memcpy(picked[depth], p, k);
        picked[depth][k] = 0;
        snprintf(next, sizeof next, "%.*s%.*s%s", (int)(at - text), text, (int)k, p,
                 end + 1);
        if (!expand(r, next, depth + 1, picked, tags)) return false;
        p += k + 1;
    }
    return true;
}

static bool read_set(reader *r, const char *p) {
    const char *eq = strchr(p, '=');
    if (!eq || r->n_sets == MAX_SETS) return complain(r, "let name = a|b expected");
    set *s = &r->sets[r->n_sets];
    int  n = (int)strcspn(p, " =");
    snprintf(s->name, sizeof s->name, "%.*s", n, p);
    if (!substitute(r, eq + 1, s->value)) return false;
    r->n_sets++;
    return true;
}

static bool read_line(reader *r, char *line) {
    static char picked[MAX_GROUPS][MAX_TEXT];
    char        text[MAX_TEXT];
    line[strcspn(line, "#\r\n")] = 0;
    while (*line == ' ') line++;
    if (!*line) return true;
    if (!strncmp(line, "let ", 4)) return read_set(r, line + 4);
    if (!strncmp(line, "tags", 4)) {
        r->tags = 0;
        return read_tags(r, line + 4, 0, &r->tags);
    }
    uint32_t tags = r->tags;
    if (*line == '[') {
        if (!read_tags(r, line + 1, ']', &tags)) return false;
        line = strchr(line, ']');
        if (!line) return complain(r, "] expected");
        line++;
    }
    return substitute(r, line, text) && expand(r, text, 0, picked, tags);
}

bool sample_read(sample_list *l, const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) {
        fprintf(stderr, "%s: cannot open\n", path);
        return false;
    }
    reader *r = calloc(1, sizeof *r);
    char    line[2048];
    bool    ok = r != NULL;
    if (ok) *r = (reader){.list = l, .path = path};
    while (ok && fgets(line, sizeof line, f)) {
        r->line++;
        ok = read_line(r, line);
    }
    free(r);
    fclose(f);
    return ok;
}

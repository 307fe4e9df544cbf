/* gen_helpers.c -- writes src/build/helpers_text.c: the functions, types and defines
 * of the math headers as text, one item each, with the items it uses. Emitted code
 * takes from there what it needs. Reads the headers below the current folder.
 *
 * An item begins at the left margin with TD_M, TD_M_RUN or TD_KERNEL, static, extern,
 * typedef, #define or #ifdef, and ends with a brace or semicolon at depth 0, the end of
 * the line, or #endif. Include guards, comments between items and #include are left
 * out.
 * Items of fold.h and the headers after it for f32 get twins for other types. */
#include "ops/gen/gen.h"

#include <ctype.h>
#include <string.h>

enum { ITEMS = 900 };

/* From fold.h on, items for f32 get twins. */
static const char *const headers[] = {"src/kernels/math_bits.h",
                                      "src/kernels/math_f64.h",
                                      "src/kernels/math_f32.h",
                                      "src/kernels/math_int.h",
                                      "src/kernels/math_bessel.h",
                                      "src/kernels/math_waves.h",
                                      "src/kernels/math_error.h",
                                      "src/kernels/math_gamma.h",
                                      "src/kernels/math_poly.h",
                                      "src/kernels/math_special_f32.h",
                                      "src/kernels/philox.h",
                                      "src/kernels/draw.h",
                                      "src/device/text/walk.h",
                                      "src/device/text/copy.h",
                                      "src/device/text/index.h",
                                      "src/device/text/draw.h",
                                      "src/device/text/rows.h",
                                      "src/device/text/image.h",
                                      "src/kernels/loops/draw_runs.h",
                                      "src/kernels/fold.h",
                                      "src/kernels/fold_plain.h",
                                      "src/kernels/portable.h",
                                      "src/kernels/portable_index.h",
                                      "src/kernels/portable_conv.h",
                                      "src/kernels/portable_scatter.h"};
enum { FOLD = 19 };

/* One function, type or define of the headers, as text. */
typedef struct item {
    char   names[64]; /* what it defines; two words in the case of an #ifdef */
    td_buf text;
} item;

static item items[ITEMS];
static int  n_items;

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool starts(const char *line, const char *with) {
    return !strncmp(line, with, strlen(with));
}

/* ---- reading ------------------------------------------------------------- */

/* Does the text have one of the words of `names`? */
static bool has_word(const char *text, const char *names) {
    for (const char *w = names; *w;) {
        size_t n = strcspn(w, " ");
        for (const char *p = text; (p = strchr(p, *w)); p++)
            if ((p == text || !is_word(p[-1])) && !strncmp(p, w, n) && !is_word(p[n]))
                return true;
        w += n + (w[n] == ' ');
    }
    return false;
}

/* A name that the item defines already is not added twice. */
static void add_name(item *it, const char *s, size_t n) {
    char   word[48];
    size_t at = strlen(it->names);
    snprintf(word, sizeof word, "%.*s", (int)n, s);
    if (has_word(it->names, word)) return;
    snprintf(it->names + at, sizeof it->names - at, "%s%s", at ? " " : "", word);
}

static void name_define(item *it, const char *line) {
    const char *s = line + strlen("#define ");
    size_t      n = 0;
    while (is_word(s[n])) n++;
    add_name(it, s, n);
}

/* The last word before the parenthesis of a function, or the last of a typedef. */
static void name_item(item *it) {
    const char *s = td__buf_str(&it->text), *end;
    if (starts(s, "typedef")) {
        const char *mark = strstr(s, " __attribute__");
        end = mark ? mark : strrchr(s, ';');
    } else end = strchr(s, '(');
    const char *p = end;
    while (p > s && is_word(p[-1])) p--;
    add_name(it, p, (size_t)(end - p));
}

/* All braces are closed, and the text ends with a brace or a semicolon. */
static bool is_complete(const char *text) {
    int depth = 0;
    for (const char *p = text; *p; p++) depth += (*p == '{') - (*p == '}');
    size_t n = strlen(text);
    return depth == 0 && n > 1 && (text[n - 2] == '}' || text[n - 2] == ';');
}

/* An item that begins with `line`, to its end. */
static void read_item(FILE *f, char *line, int cap) {
    item *it = &items[n_items++];
    bool  block = starts(line, "#ifdef"), define = starts(line, "#define");
    td__buf_add(&it->text, line);
    if (define) name_define(it, line);
    while (block ? !starts(line, "#endif")
                 : !define && !is_complete(td__buf_str(&it->text))) {
        if (!fgets(line, cap, f)) return;
        td__buf_add(&it->text, line);
        if (block && starts(line, "#define")) name_define(it, line);
    }
    if (!block && !define) name_item(it);
}

/* False when the file cannot be read or there are too many items. */
static bool read_header(const char *path) {
    char  line[512];
    FILE *f = fopen(path, "r");
    if (!f) return perror(path), false;
    while (fgets(line, sizeof line, f) && n_items < ITEMS) {
        bool guard = strstr(line, "_H\n") != NULL;
        if (!guard && (starts(line, "TD_M") || starts(line, "TD_KERNEL") ||
                       starts(line, "static ") || starts(line, "extern ") ||
                       starts(line, "typedef ") || starts(line, "#define ") ||
                       starts(line, "#ifdef ")))
            read_item(f, line, sizeof line);
    }
    return fclose(f), n_items < ITEMS;
}

/* ---- twins --------------------------------------------------------------- */

/* A word of an item for f32 as another type has it. */
static void add_word(td_buf *b, const char *w, size_t n, const char *kind,
                     const char *type) {
    if (n == 5 && !strncmp(w, "float", n)) td__buf_add(b, type);
    else if (n == 7 && !strncmp(w, "int32_t", n)) td__buf_add(b, "int64_t");
    else if (n > 4 && !strncmp(w + n - 4, "_f32", 4))
        td__buf_printf(b, "%.*s%s", (int)n - 3, w, kind);
    else td__buf_addn(b, w, n);
}

static bool is_known(const char *name) {
    for (int i = 0; i < n_items; i++)
        if (!strcmp(items[i].names, name)) return true;
    return false;
}

/* The item with float replaced by another type, unless the headers define it
 * themselves. */
static void add_twin(const item *of, const char *kind, const char *type) {
    td_buf name = {0}, text = {0};
    add_word(&name, of->names, strlen(of->names), kind, type);
    for (const char *p = td__buf_str(&of->text); *p;) {
        size_t n = 0;
        while (is_word(p[n])) n++;
        add_word(&text, p, n ? n : 1, kind, type);
        p += n ? n : 1;
    }
    if (is_known(td__buf_str(&name))) td__buf_free(&text);
    else {
        item *it = &items[n_items++];
        it->text = text;
        add_name(it, name.s, name.n);
    }
    td__buf_free(&name);
}

/* What the items from `first` on have for f32 the others get, unless they have it. */
static bool add_twins(int first) {
    static const char *const kinds[2][2] = {{"f64", "double"}, {"i64", "int64_t"}};
    int                      last = n_items;
    for (int k = 0; k < 2; k++)
        for (int i = first; i < last && n_items < ITEMS; i++)
            if (strstr(items[i].names, "_f32"))
                add_twin(&items[i], kinds[k][0], kinds[k][1]);
    return n_items < ITEMS;
}

/* ---- writing ------------------------------------------------------------- */

/* The names an item defines, the indices of earlier items that it uses, and its text as
 * a C string. */
static void write_item(td_buf *b, int k) {
    const char *text = td__buf_str(&items[k].text);
    td__buf_printf(b, "    {\"%s\",\n     \"", items[k].names);
    for (int i = 0, n = 0; i < k; i++)
        if (has_word(text, items[i].names))
            td__buf_printf(b, "%s%d", n++ ? " " : "", i);
    td__buf_add(b, "\",\n     \"");
    for (const char *p = text; *p; p++) {
        if (*p == '\n') td__buf_add(b, p[1] ? "\\n\"\n     \"" : "\\n");
        else if (*p == '"' || *p == '\\') td__buf_printf(b, "\\%c", *p);
        else td__buf_addn(b, p, 1);
    }
    td__buf_add(b, "\"},\n");
}

bool td__gen_helpers(const char *dir) {
    const char *path = "src/build/helpers_text.c";
    td_buf      b = {0};
    int         last = 0; /* where the items of fold.h begin */
    for (int i = 0; i < TD_COUNT(headers); i++) {
        if (i == FOLD) last = n_items;
        if (!read_header(headers[i])) return false;
    }
    if (!add_twins(last)) return false;
    td__buf_add(&b, "/* helpers_text.c -- the math headers as text, item by item in "
                    "their order;\n * generated by gen_helpers.c. */\n"
                    "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n#include "
                    "\"build/helpers.h\"\n\n"
                    "const td_helper td__helpers[] = {\n");
    for (int i = 0; i < n_items; i++) {
        write_item(&b, i);
        td__buf_free(&items[i].text);
    }
    td__buf_printf(&b, "};\nconst int td__n_helpers = %d;\n", n_items);
    FILE *f = td__gen_open(dir, path);
    bool  ok = f && !b.failed && fputs(td__buf_str(&b), f) >= 0;
    td__buf_free(&b);
    return f && td__gen_close(f, path) && ok;
}

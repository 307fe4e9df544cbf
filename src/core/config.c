/* config.c -- settings: the table, values as text and back, the environment.
 * One check covers every value, whether it comes from a default, a variable or
 * a call. */
#include "base/words.h"
#include "core/core.h"
#include "core/cpu.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---------------------------------------------------------- */

#define TYPE_BOOL bool
#define TYPE_INT int64_t
#define TYPE_REAL double
#define TYPE_WORD int /* an enum */
#define TYPE_TEXT const char *

/* td_config again, generated from the rows; static asserts compare the two layouts. */
typedef struct mirror {
    size_t size;
#define TD_KNOB(kind, id, ...) TYPE_##kind id;
#define TD_KNOB_FIXED(...)
#include "core/config.def"
#undef TD_KNOB
#undef TD_KNOB_FIXED
} mirror;
_Static_assert(sizeof(mirror) == sizeof(td_config), "config.def: rows and fields");
#define TD_KNOB(kind, id, ...)                                      \
    _Static_assert(offsetof(mirror, id) == offsetof(td_config, id), \
                   "config.def: " #id " is out of order");
#define TD_KNOB_FIXED(...)
#include "core/config.def"
#undef TD_KNOB
#undef TD_KNOB_FIXED

const td_knob td__knobs[TD_KNOB_COUNT] = {
#define TD_KNOB(kind, id, var, normal, least, most, words, doc)               \
    [TD_KNOB_NR_##                                                            \
        id] = {#id,    var,   TD_KNOB_##kind, false, offsetof(td_config, id), \
               normal, least, most,           words, doc},
#define TD_KNOB_FIXED(kind, id, var, normal, least, most, words, doc) \
    [TD_KNOB_NR_##                                                    \
        id] = {#id, var, TD_KNOB_##kind, true, 0, normal, least, most, words, doc},
#include "core/config.def"
#undef TD_KNOB
#undef TD_KNOB_FIXED
};

/* A value; the field of its kind is set. */
typedef struct value {
    bool        b;
    int         word;
    int64_t     i;
    double      f;
    const char *s;
} value;

/* A setting's field of the struct by its offset, without aliasing violations. */
static value field_get(const td_knob *k, const td_config *c) {
    const char *p = (const char *)c + k->at;
    value       v = {0};
    switch (k->kind) {
    case TD_KNOB_BOOL: memcpy(&v.b, p, sizeof v.b); break;
    case TD_KNOB_INT: memcpy(&v.i, p, sizeof v.i); break;
    case TD_KNOB_REAL: memcpy(&v.f, p, sizeof v.f); break;
    case TD_KNOB_WORD: memcpy(&v.word, p, sizeof v.word); break;
    case TD_KNOB_TEXT: memcpy(&v.s, p, sizeof v.s); break;
    }
    return v;
}

static size_t field_bytes(const td_knob *k) {
    static const size_t bytes[] = {sizeof(bool), sizeof(int64_t), sizeof(double),
                                   sizeof(int), sizeof(char *)};
    return bytes[k->kind];
}

static void field_set(const td_knob *k, td_config *c, value v) {
    const void *from[] = {&v.b, &v.i, &v.f, &v.word, &v.s};
    memcpy((char *)c + k->at, from[k->kind], field_bytes(k));
}

static int find(const char *name) {
    for (int i = 0; i < TD_KNOB_COUNT; i++)
        if (!strcmp(td__knobs[i].name, name)) return i;
    return -1;
}

/* Unknown setting; suggests one within a small edit distance. */
static bool fail_name(td_ctx *cx, const char *who, const char *name) {
    const char *near = NULL;
    int         least = 99;
    for (int i = 0; i < TD_KNOB_COUNT; i++) {
        int d = td__edit_distance(name, td__knobs[i].name);
        if (d < least && td__is_typo(name, td__knobs[i].name))
            least = d, near = td__knobs[i].name;
    }
    return td__fail(cx, TD_E_ARG, "%s: no setting is called \"%.40s\"%s%s%s", who, name,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* ---- text to value ------------------------------------------------------ */

static bool is_word(const char *list, const char *word, int *nr) {
    *nr = td__word_index(list, word, strlen(word));
    return *nr >= 0;
}

/* Parses in the "C" locale, whatever the program's is. */
static bool read_real(const char *text, double *out) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char    *end = NULL;
    *out = plain ? strtod_l(text, &end, plain) : strtod(text, &end);
    if (plain) freelocale(plain);
    return *text && !*end;
}

static bool read_bool(const char *text, bool *out) {
    int nr;
    *out = is_word("on 1 true yes", text, &nr);
    return *out || is_word("off 0 false no", text, &nr);
}

static bool read_value(const td_knob *k, const char *text, value *v) {
    char *end;
    *v = (value){.s = text};
    switch (k->kind) {
    case TD_KNOB_BOOL: return read_bool(text, &v->b);
    case TD_KNOB_WORD: return is_word(k->words, text, &v->word);
    case TD_KNOB_REAL: return read_real(text, &v->f);
    case TD_KNOB_TEXT: return true;
    case TD_KNOB_INT: break;
    }
    errno = 0;
    v->i = strtoll(text, &end, 10);
    return *text && !*end && !errno;
}

static int count_words(const char *words) {
    int n = 1;
    for (; *words; words++) n += *words == ' ';
    return n;
}

static bool in_range(const td_knob *k, value v) {
    switch (k->kind) {
    case TD_KNOB_INT: return (double)v.i >= k->least && (double)v.i <= k->most;
    case TD_KNOB_REAL: return v.f >= k->least && v.f <= k->most;
    case TD_KNOB_WORD: return v.word >= 0 && v.word < count_words(k->words);
    default: return true;
    }
}

const char *td__knob_takes(const td_knob *k, char *out, size_t cap) {
    switch (k->kind) {
    case TD_KNOB_BOOL: snprintf(out, cap, "on or off"); break;
    case TD_KNOB_INT:
        snprintf(out, cap, "a whole number from %.0f to %.0f", k->least, k->most);
        break;
    case TD_KNOB_REAL:
        snprintf(out, cap, "a number from %.0f to %.0f", k->least, k->most);
        break;
    case TD_KNOB_WORD: {
        size_t n = (size_t)snprintf(out, cap, "one of ");
        for (const char *p = k->words; *p && n + 3 < cap; p++) {
            out[n++] = *p == ' ' ? ',' : *p;
            if (*p == ' ') out[n++] = ' ';
            out[n] = 0;
        }
        break;
    }
    case TD_KNOB_TEXT: snprintf(out, cap, "text"); break;
    }
    return out;
}

/* ---- value to text ------------------------------------------------------ */

/* The text that td_config_set reads back to the same value; independent of the
 * locale. */
static size_t value_text(const td_knob *k, value v, char *out, size_t cap) {
    const char *p = k->words;
    char        text[40];
    switch (k->kind) {
    case TD_KNOB_BOOL: return (size_t)snprintf(out, cap, "%s", v.b ? "on" : "off");
    case TD_KNOB_INT: return (size_t)snprintf(out, cap, "%lld", (long long)v.i);
    case TD_KNOB_TEXT: return (size_t)snprintf(out, cap, "%s", v.s ? v.s : "");
    case TD_KNOB_WORD:
        for (int i = 0; i < v.word; i++) p += strcspn(p, " ") + 1;
        return (size_t)snprintf(out, cap, "%.*s", (int)strcspn(p, " "), p);
    case TD_KNOB_REAL: break;
    }
    double back = NAN;
    for (int digits = 6; digits <= 17 && back != v.f; digits += 11) {
        snprintf(text, sizeof text, "%.*g", digits, v.f);
        for (char *c = text; *c; c++) *c = *c == ',' ? '.' : *c;
        if (!read_real(text, &back)) break;
    }
    return (size_t)snprintf(out, cap, "%s", text);
}

/* The value of a setting of the process: its variable if that is valid, else
 * the default. Returns whether the variable was used. */
static bool fixed_value(const td_knob *k, value *v) {
    const char *said = secure_getenv(k->env);
    bool        ok = said && *said && read_value(k, said, v) && in_range(k, *v);
    if (!ok) (void)read_value(k, k->normal, v);
    return ok;
}

size_t td__knob_text(td_ctx *cx, int nr, char *out, size_t cap) {
    const td_knob *k = &td__knobs[nr];
    value          v;
    if (!k->fixed) v = field_get(k, &cx->settings.now);
    else fixed_value(k, &v);
    if (nr == TD_KNOB_NR_threads) v.i = td__pool_size();
    if (nr == TD_KNOB_NR_isa) v.word = (int)td__cpu_level();
    return value_text(k, v, out, cap);
}

td_knob_from td__knob_from(const td_ctx *cx, int nr) {
    value v;
    if (nr < TD_KNOB_FIELDS) return (td_knob_from)cx->settings.from[nr];
    return fixed_value(&td__knobs[nr], &v) ? TD_FROM_ENV : TD_FROM_DEFAULT;
}

size_t td_config_text(td_ctx *cx, const char *name, char *out, size_t cap) {
    static const char who[] = "td_config_text";
    if (!TD_ENTER_CTX(cx) || !td__may_read(cx, who, "settings") ||
        !td__has(cx, who, "the name", name))
        return td__text_out("", 0, out, cap);
    int nr = find(name);
    if (nr >= 0) return td__knob_text(cx, nr, out, out ? cap : 0);
    fail_name(cx, who, name);
    return td__text_out("", 0, out, cap);
}

/* ---- taking effect ------------------------------------------------------ */

/* Applies settings that have consequences beyond their field. */
static void take_effect(td_ctx *cx, int nr) {
    char             bad[40];
    const char      *near;
    const td_config *c = &cx->settings.now;
    if (nr == TD_KNOB_NR_log)
        cx->log.topics = td__log_parse(c->log, bad, sizeof bad, &near);
    if (nr == TD_KNOB_NR_trace_file) td__spans_to(cx, c->trace_file);
}

/* Stores a checked value. own: the copy of a text, taken over; NULL: "". */
static void store(td_ctx *cx, int nr, value v, char *own, td_knob_from from) {
    td_settings   *s = &cx->settings;
    const td_knob *k = &td__knobs[nr];
    s->from[nr] = (uint8_t)from;
    if (k->kind == TD_KNOB_TEXT) {
        td__free(s->text[nr]);
        s->text[nr] = own;
        v.s = own ? own : "";
    }
    field_set(k, &s->now, v);
    take_effect(cx, nr);
}

/* Copies a text value; *own is NULL for "". False: out of memory. */
static bool copy_text(const td_knob *k, value v, char **own) {
    *own = NULL;
    if (k->kind != TD_KNOB_TEXT || !v.s || !*v.s) return true;
    return (*own = td__strdup(v.s)) != NULL;
}

/* ---- the environment ---------------------------------------------------- */

/* Is this the first warning about the value? Contexts are opened often; one
 * warning per value suffices. */
static bool is_news(int nr, const char *said) {
    return td__is_news(td__hash(said, strlen(said), (uint64_t)nr + 1));
}

static void warn_value(td_ctx *cx, int nr, const char *said) {
    const td_knob *k = &td__knobs[nr];
    char           takes[200];
    if (!is_news(nr, said)) return;
    td__warn(cx, "%s=\"%.80s\" is not %s; the default is used: %s", k->env, said,
             td__knob_takes(k, takes, sizeof takes), k->normal);
}

static void warn_topic(td_ctx *cx, const char *said) {
    char        bad[40];
    const char *near;
    td__log_parse(said, bad, sizeof bad, &near);
    if (!*bad || !is_news(TD_KNOB_NR_log, said)) return;
    if (near) td__warn(cx, "TD_LOG: no topic \"%s\"; did you mean %s?", bad, near);
    else td__warn(cx, "TD_LOG: no topic \"%s\"; `tandem config` lists them", bad);
}

/* TD_ISA names a level that the CPU does not have. */
static void warn_level(td_ctx *cx, const char *said) {
    char why[200];
    td__level_wanted(said, td__cpu_best(), why, sizeof why);
    if (*why && is_news(TD_KNOB_NR_isa, said)) td__warn(cx, "%s", why);
}

/* Sets one setting from the environment, or its default after a warning. */
static bool load_one(td_ctx *cx, int nr, td_lookup *type) {
    const td_knob *k = &td__knobs[nr];
    const char    *said = type(k->env);
    value          v, normal;
    char          *own = NULL;
    bool           given = said && *said;
    bool           ok = given && read_value(k, said, &v) && in_range(k, v);
    if (given && !ok) warn_value(cx, nr, said);
    if (given && nr == TD_KNOB_NR_log) warn_topic(cx, said);
    if (given && nr == TD_KNOB_NR_isa) warn_level(cx, said);
    if (k->fixed) return true;
    (void)read_value(k, k->normal, &normal);
    if (!copy_text(k, ok ? v : normal, &own)) return false;
    store(cx, nr, ok ? v : normal, own, ok ? TD_FROM_ENV : TD_FROM_DEFAULT);
    return true;
}

bool td__config_load(td_ctx *cx, td_lookup *type) {
    cx->settings.now.size = sizeof(td_config);
    for (int nr = 0; nr < TD_KNOB_COUNT; nr++)
        if (!load_one(cx, nr, type)) return false;
    return true;
}

void td__config_free(td_ctx *cx) {
    for (int nr = 0; nr < TD_KNOB_FIELDS; nr++) td__free(cx->settings.text[nr]);
}

/* ---- calls -------------------------------------------------------------- */

static bool fail_value(td_ctx *cx, const char *who, const td_knob *k,
                       const char *text) {
    char takes[200];
    return td__fail(cx, TD_E_ARG, "%s: %s: \"%.80s\" is not %s", who, k->name, text,
                    td__knob_takes(k, takes, sizeof takes));
}

static bool check_topics(td_ctx *cx, const char *who, const char *list) {
    char        bad[40];
    const char *near;
    td__log_parse(list ? list : "", bad, sizeof bad, &near);
    if (!*bad) return true;
    return td__fail(cx, TD_E_ARG, "%s: log: no topic \"%s\"%s%s%s", who, bad,
                    near ? "; did you mean " : "; `tandem config` lists them",
                    near ? near : "", near ? "?" : "");
}

bool td_config_set(td_ctx *cx, const char *name, const char *text) {
    static const char who[] = "td_config_set";
    if (!TD_ENTER_CTX(cx) || !td__may_change(cx, who, "settings")) return false;
    int   nr = name ? find(name) : -1;
    value v;
    char *own;
    if (!name) return td__has(cx, who, "the name", name);
    if (nr < 0) return fail_name(cx, who, name);
    const td_knob *k = &td__knobs[nr];
    if (k->fixed)
        return td__fail(
            cx, TD_E_ARG,
            "%s: %s is a setting of the process; set the variable %s before "
            "it starts%s",
            who, name, k->env,
            nr == TD_KNOB_NR_threads ? ", or call td_set_threads" : "");
    if (!text || !read_value(k, text, &v) || !in_range(k, v))
        return fail_value(cx, who, k, text ? text : "NULL");
    if (nr == TD_KNOB_NR_log && !check_topics(cx, who, text)) return false;
    if (!copy_text(k, v, &own)) return td__fail_memory(cx);
    store(cx, nr, v, own, TD_FROM_CALL);
    return true;
}

bool td_config_get(td_ctx *cx, td_config *c) {
    static const char who[] = "td_config_get";
    if (!TD_ENTER_CTX(cx) || !td__may_read(cx, who, "settings") ||
        !td__has(cx, who, "the config", c))
        return false;
    size_t size = c->size;
    if (size < sizeof c->size || size > sizeof *c)
        return td__fail(cx, TD_E_ARG,
                        "td_config_get: size is %zu, of a td_config of %zu bytes; "
                        "start with {TD_CONFIG}",
                        size, sizeof *c);
    memcpy(c, &cx->settings.now, size);
    c->size = size;
    return true;
}

/* Is field nr part of the caller's (possibly older) td_config, with another
 * value than now? */
static bool differs(td_ctx *cx, const td_config *c, int nr) {
    const td_knob *k = &td__knobs[nr];
    if (k->at + field_bytes(k) > c->size) return false;
    value a = field_get(k, c), b = field_get(k, &cx->settings.now);
    if (k->kind == TD_KNOB_TEXT) return strcmp(a.s ? a.s : "", b.s) != 0;
    return a.b != b.b || a.i != b.i || a.word != b.word || a.f != b.f;
}

/* Checks only fields that differ from the present settings, so that a program with an
 * older, shorter struct is not refused for values it does not know. */
bool td__config_check(td_ctx *cx, const char *who, const td_config *c) {
    char text[80];
    if (c->size < sizeof c->size || c->size > sizeof *c)
        return td__fail(cx, TD_E_ARG,
                        "%s: size is %zu, of a td_config of %zu bytes; start with "
                        "{TD_CONFIG}",
                        who, c->size, sizeof *c);
    for (int nr = 0; nr < TD_KNOB_FIELDS; nr++) {
        const td_knob *k = &td__knobs[nr];
        if (!differs(cx, c, nr) || in_range(k, field_get(k, c))) continue;
        value v = field_get(k, c);
        if (k->kind == TD_KNOB_WORD) snprintf(text, sizeof text, "%d", v.word);
        else value_text(k, v, text, sizeof text);
        return fail_value(cx, who, k, text);
    }
    bool log = differs(cx, c, TD_KNOB_NR_log);
    return !log || check_topics(cx, who, c->log);
}

bool td_config_put(td_ctx *cx, const td_config *c) {
    static const char who[] = "td_config_put";
    if (!TD_ENTER_CTX(cx) || !td__may_change(cx, who, "settings")) return false;
    char *own[TD_KNOB_FIELDS] = {0};
    bool  ok = true;
    if (!td__has(cx, who, "the config", c) || !td__config_check(cx, who, c))
        return false;
    for (int nr = 0; ok && nr < TD_KNOB_FIELDS; nr++)
        if (differs(cx, c, nr))
            ok = copy_text(&td__knobs[nr], field_get(&td__knobs[nr], c), &own[nr]);
    if (!ok) {
        for (int nr = 0; nr < TD_KNOB_FIELDS; nr++) td__free(own[nr]);
        return td__fail_memory(cx);
    }
    for (int nr = 0; nr < TD_KNOB_FIELDS; nr++)
        if (differs(cx, c, nr))
            store(cx, nr, field_get(&td__knobs[nr], c), own[nr], TD_FROM_CALL);
    return true;
}

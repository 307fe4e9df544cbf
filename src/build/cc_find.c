/* cc_find.c -- finds the C compiler: the setting `cc` as words, the search in PATH,
 * the identity that is part of the names of compiled code, and the fallback without a
 * compiler. */
#include "build/disk.h"
#include "build/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char cc_remedy[] =
    "set TD_CC to a C compiler that works, or backend=interp";

/* ---- words -------------------------------------------------------------- */

/* Reads a word at *p as a shell does: both kinds of quotes, and backslash outside of
 * single quotes. False: a quote is not closed. */
static bool read_word(const char **p, td_buf *out) {
    char quote = 0;
    for (; **p && (quote || !strchr(" \t\n", **p)); ++*p) {
        char c = **p;
        bool escapes = c == '\\' && quote != '\'' && (*p)[1];
        if (escapes) c = *++*p;
        else if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
            continue;
        }
        td__buf_addn(out, &c, 1);
    }
    return !quote;
}

bool td__cc_words(td_cc *cc, const char *text) {
    td_buf word = {0};
    bool   ok = true, closed = true;
    for (const char *p = text; ok && *(p += strspn(p, " \t\n"));) {
        word.n = 0;
        closed = closed && read_word(&p, &word);
        char *copy =
            td__arena_printf(&cc->arena, "%.*s", (int)word.n, td__buf_str(&word));
        ok = !word.failed && copy && td__vec_push(&cc->words, copy);
    }
    td__buf_free(&word);
    if (!ok) return td__fail_memory(cc->cx);
    if (closed) return true;
    return td__fail(cc->cx, TD_E_ARG,
                    "native code: a quote is not closed in \"%.200s\"; TD_CC and "
                    "TD_CC_FLAGS are lists of words as in a shell",
                    text);
}

/* ---- programs ----------------------------------------------------------- */

static bool is_program(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool td__find_program(const char *name, char *out, size_t cap) {
    const char *path = secure_getenv("PATH");
    if (strchr(name, '/'))
        return snprintf(out, cap, "%s", name) < (int)cap && is_program(out);
    if (!path || !*path) path = "/usr/local/bin:/usr/bin:/bin";
    for (const char *p = path;; p++) {
        int  n = (int)strcspn(p, ":");
        bool fits = n > 0 && snprintf(out, cap, "%.*s/%s", n, p, name) < (int)cap;
        if (fits && is_program(out)) return true;
        p += n;
        if (!*p) return false;
    }
}

/* Another version of a compiler is another file. */
static const char *identify(td_cc *cc, const char *program) {
    struct stat st;
    struct tm   when;
    char        date[40];
    char       *real = realpath(program, NULL);
    const char *path = real ? real : program;
    if (stat(path, &st) != 0) memset(&st, 0, sizeof st);
    if (!gmtime_r(&st.st_mtim.tv_sec, &when) ||
        !strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &when))
        snprintf(date, sizeof date, "%lld", (long long)st.st_mtim.tv_sec);
    const char *text =
        td__arena_printf(&cc->arena, "%s, %lld bytes, changed %s.%09ld UTC", path,
                         (long long)st.st_size, date, st.st_mtim.tv_nsec);
    free(real);
    return text;
}

/* ---- without a compiler ---------------------------------------------------- */

static const char entry_key[] = "setting cc\n";

/* The cache entry of this value of the setting `cc`. */
static void entry_name(const td_cc *cc, char *out, size_t cap) {
    const char *setting = td__config(cc->cx)->cc;
    snprintf(out, cap, "c_%016llx",
             (unsigned long long)td__hash(setting, strlen(setting), 0));
}

void td__cc_remember(const td_cc *cc, td_disk *d) {
    char          name[64];
    td_disk_entry e;
    td_buf        b = {0}, note = {0};
    size_t        n = strlen(cc->identity);
    entry_name(cc, name, sizeof name);
    bool known = !td__disk_read(d, name, entry_key, &e) && e.payload == n &&
                 !memcmp(e.bytes, cc->identity, n);
    td__disk_entry_free(&e);
    if (known) return;
    td__buf_addn(&b, cc->identity, n);
    td__buf_printf(&note, "compiler %s", cc->identity);
    if (!b.failed && !note.failed) td__disk_store_entry(d, name, entry_key, note.s, &b);
    td__buf_free(&b);
    td__buf_free(&note);
}

/* Without a compiler, code that the last compiler of this setting compiled is still
 * usable: takes over its identity. False: it is unknown. */
static bool use_cached_identity(td_cc *cc) {
    char          name[64];
    td_disk_entry e;
    td_disk       d;
    entry_name(cc, name, sizeof name);
    td__disk_open(&d, cc->cx, false);
    if (!td__disk_read(&d, name, entry_key, &e))
        cc->identity = td__arena_printf(&cc->arena, "%.*s", (int)e.payload, e.bytes);
    td__disk_entry_free(&e);
    td__disk_close(&d);
    return cc->identity != NULL;
}

bool td__cc_missing(const td_cc *cc) {
    const char *setting = td__config(cc->cx)->cc;
    if (*setting)
        return td__fail(
            cc->cx, TD_E_UNSUPPORTED,
            "native code: compiler \"%.200s\" not found (setting cc; a path "
            "with blanks needs quotes); %s",
            setting, cc_remedy);
    return td__fail(cc->cx, TD_E_UNSUPPORTED,
                    "native code: no C compiler found: none of cc, gcc, clang is in "
                    "PATH; install one, %s",
                    cc_remedy);
}

/* ---- search ---------------------------------------------------------------- */

bool td__cc_find(td_cc *cc) {
    static const char *const usual[] = {"cc", "gcc", "clang"};
    const char              *setting = td__config(cc->cx)->cc;
    char                     at[4096];
    bool                     found = false;
    if (!td__cc_words(cc, *setting ? setting : usual[0])) return false;
    if (*setting)
        found = cc->words.n && td__find_program(cc->words.v[0], at, sizeof at);
    for (int i = 0; i < TD_COUNT(usual) && !*setting && !found; i++)
        found = td__find_program(usual[i], at, sizeof at);
    if (!found) return (cc->words.n && use_cached_identity(cc)) || td__cc_missing(cc);
    cc->words.v[0] = cc->path = td__arena_strdup(&cc->arena, at);
    cc->identity = identify(cc, at);
    return (cc->path && cc->identity) || td__fail_memory(cc->cx);
}

/* disk_remote.c -- entries between the directory and the remote store. A library of
 * kernels is stored once, as l_ and a hash of its bytes, and each of its kernels as a
 * link: an entry whose payload is the library's name. */
#include "build/remote.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 40 }; /* k_ or l_, 32 digits, NUL */

/* ---- storing -------------------------------------------------------------- */

static void share_library(td_disk *d, const td_disk_item *item, const char *key) {
    char            name[NAME_BYTES];
    td_hash128      h = td__hash128(item->bytes, item->size);
    td_remote_item *all = td__zalloc(sizeof *all * ((size_t)item->n + 1));
    if (!all) return;
    snprintf(name, sizeof name, "l_%016llx%016llx", (unsigned long long)h.hi,
             (unsigned long long)h.lo);
    all[0] = (td_remote_item){name, item->note, item->bytes, item->size};
    for (int i = 0; i < item->n; i++)
        all[i + 1] = (td_remote_item){item->name[i], "link", name, strlen(name)};
    td__remote_put(d, key, all, item->n + 1);
    td__free(all);
}

void td__disk_share(td_disk *d, const td_disk_item *item, const char *key) {
    td_remote_item one = {item->name[0], item->note, item->bytes, item->size};
    if (item->name[0][0] == 'k') share_library(d, item, key);
    else td__remote_put(d, key, &one, 1);
}

/* ---- fetching ------------------------------------------------------------- */

/* Is it the letter, _ and 32 hexadecimal digits? */
static bool is_name(const char *s, size_t n, char letter) {
    if (n != 34 || s[0] != letter || s[1] != '_') return false;
    for (size_t i = 2; i < n; i++)
        if (!isdigit((unsigned char)s[i]) && !(s[i] >= 'a' && s[i] <= 'f'))
            return false;
    return true;
}

/* Splits "kernels k_... k_..." into names. Returns their number; 0: it is not that.
 * *text is a copy of the note that the names point into. */
static int take_names(const td_sealed *v, td_buf *text, const char ***names) {
    static const char first[] = "kernels ";
    size_t            skip = strlen(first);
    int               n = 0, most = (int)(v->n_note / 35) + 1;
    td__buf_addn(text, v->note, v->n_note);
    *names = td__zalloc(sizeof **names * (size_t)most);
    if (text->failed || !*names || text->n < skip || memcmp(text->s, first, skip))
        return 0;
    for (char *rest = text->s + skip, *one; n < most && (one = strsep(&rest, " "));) {
        if (!is_name(one, strlen(one), 'k')) return 0;
        (*names)[n++] = one;
    }
    return n;
}

static bool fetch_library(td_disk *d, const char *name, const char *key) {
    td_buf       link = {0}, bytes = {0}, text = {0}, note = {0};
    td_sealed    v = {0};
    char         library[NAME_BYTES] = "";
    const char **names = NULL;
    if (td__remote_get(d, name, key, &link, &v) && is_name(v.payload, v.n, 'l'))
        snprintf(library, sizeof library, "%.34s", v.payload);
    bool ok = *library && td__remote_get(d, library, key, &bytes, &v);
    int  n = ok ? take_names(&v, &text, &names) : 0;
    td__buf_addn(&note, v.note, n ? v.n_note : 0);
    ok = ok && n > 0 && !note.failed;
    if (ok) {
        td_disk_item item = {names, n, td__buf_str(&note), v.payload, v.n};
        td__disk_store_local(d, &item, key);
    }
    td__free(names);
    td__buf_free(&link);
    td__buf_free(&bytes);
    td__buf_free(&text);
    td__buf_free(&note);
    return ok;
}

/* The note as one line of printable characters: without a key anyone may have written
 * it, and lists print it. */
static void plain_note(const td_sealed *v, char *to, size_t cap) {
    size_t n = v->n_note < cap - 1 ? v->n_note : cap - 1;
    for (size_t i = 0; i < n; i++)
        to[i] = isprint((unsigned char)v->note[i]) ? v->note[i] : '.';
    to[n] = 0;
}

static bool fetch_entry(td_disk *d, const char *name, const char *key) {
    td_buf    bytes = {0};
    td_sealed v = {0};
    char      note[160];
    bool      ok = td__remote_get(d, name, key, &bytes, &v) && v.n > 0;
    if (ok) {
        plain_note(&v, note, sizeof note);
        td_disk_item item = {&name, 1, note, v.payload, v.n};
        td__disk_store_local(d, &item, key);
    }
    td__buf_free(&bytes);
    return ok;
}

bool td__disk_fetch(td_disk *d, const char *name, const char *key) {
    if (name[0] == 'c' || !d->signs) return false;
    return name[0] == 'k' ? fetch_library(d, name, key) : fetch_entry(d, name, key);
}

/* vocab.c -- reads GPT-2's vocabulary, a JSON object from tokens to numbers, and its
 * merges, a line for each. In both a byte is written as a character that can be seen:
 * those of Latin-1 that can be are themselves, the others are U+0100, U+0101, ... */
#include "vocab.h"
#include "pieces.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t MOST_BYTES = (size_t)1 << 28; /* of a file */
static const int    MOST_TOKENS = 1 << 24;

static bool no_memory(td_ctx *cx) {
    td_fail(cx, TD_E_MEMORY, "tokenizer: out of memory");
    return false;
}

/* ---- files --------------------------------------------------------------- */

/* The whole file, NUL-terminated; the caller frees it. NULL after a failure. */
static char *read_open(td_ctx *cx, FILE *f, const char *path, size_t *n) {
    char  *text = NULL;
    size_t cap = 0, got;
    *n = 0;
    do {
        if (cap - *n < 2) {
            char *more = realloc(text, cap = cap ? 2 * cap : 1 << 16);
            if (!more) return free(text), no_memory(cx), NULL;
            text = more;
        }
        *n += got = fread(text + *n, 1, cap - *n - 1, f);
    } while (got > 0 && *n < MOST_BYTES);
    text[*n] = 0;
    const char *why = ferror(f)            ? strerror(errno)
                      : *n >= MOST_BYTES   ? "it is too large"
                      : strlen(text) != *n ? "it holds a byte 0"
                                           : NULL;
    if (!why) return text;
    td_fail(cx, TD_E_IO, "%s: cannot read it: %s", path, why);
    free(text);
    return NULL;
}

typedef struct file {
    char   path[4096];
    char  *text;
    size_t n;
} file;

/* The first of two names that is there. */
static bool read_either(td_ctx *cx, const char *dir, const char *name,
                        const char *other, file *to) {
    snprintf(to->path, sizeof to->path, "%s/%s", dir, name);
    FILE *f = fopen(to->path, "rb");
    if (!f) {
        char first[sizeof to->path];
        memcpy(first, to->path, sizeof first);
        snprintf(to->path, sizeof to->path, "%s/%s", dir, other);
        f = fopen(to->path, "rb");
        if (!f) {
            td_fail(cx, TD_E_IO, "tokenizer: cannot open %s or %s: %s", first, other,
                    strerror(errno));
            return false;
        }
    }
    to->text = read_open(cx, f, to->path, &to->n);
    fclose(f);
    return to->text != NULL;
}

/* ---- bytes in disguise --------------------------------------------------- */

static bool is_seen(uint32_t byte) {
    return (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
}

/* Which byte a character stands for, or -1. */
static int byte_of(uint32_t code) {
    if (code < 256) return is_seen(code) ? (int)code : -1;
    uint32_t hidden = code - 256;
    for (int b = 0; b < 256; b++)
        if (!is_seen((uint32_t)b) && hidden-- == 0) return b;
    return -1;
}

/* Puts the bytes that n bytes of text stand for into `to`, which may be the text; how
 * many, or -1. */
static int64_t undisguise(const char *p, size_t n, char *to) {
    int64_t m = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        i += gpt2_char(p + i, n - i, &code);
        int byte = byte_of(code);
        if (byte < 0) return -1;
        to[m++] = (char)byte;
    }
    return m;
}

/* ---- tokens -------------------------------------------------------------- */

static uint32_t hash_bytes(const char *p, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 32);
}

static bool same(const gpt2_vocab *v, int64_t token, const char *p, size_t n) {
    return v->at[token + 1] - v->at[token] == n &&
           !memcmp(v->bytes + v->at[token], p, n);
}

/* Where these bytes are in the table, or belong. */
static uint32_t place(const gpt2_vocab *v, const char *p, size_t n) {
    uint32_t i = hash_bytes(p, n) & v->table_mask;
    while (v->table[i] != GPT2_NONE && !same(v, v->table[i], p, n))
        i = (i + 1) & v->table_mask;
    return i;
}

int64_t gpt2_vocab_find(const gpt2_vocab *v, const char *p, size_t n) {
    return v->table[place(v, p, n)];
}

/* A mask for tables of twice as many places, a power of two. */
static uint32_t mask_for(size_t n) {
    uint32_t size = 16;
    while (size < 2 * n) size *= 2;
    return size - 1;
}

static bool make_tables(gpt2_vocab *v, size_t bytes) {
    v->table_mask = mask_for(v->n);
    v->bytes = malloc(bytes + 1);
    v->at = calloc((size_t)v->n + 1, sizeof *v->at);
    v->table = malloc(((size_t)v->table_mask + 1) * sizeof *v->table);
    if (!v->bytes || !v->at || !v->table) return no_memory(v->cx);
    for (size_t i = 0; i <= v->table_mask; i++) v->table[i] = GPT2_NONE;
    return true;
}

/* The entries by number, each number once. */
static bool sort_entries(gpt2_vocab *v, const file *f, const cJSON *all,
                         const cJSON **by) {
    for (const cJSON *e = all->child; e; e = e->next) {
        double id = e->valuedouble;
        if (!cJSON_IsNumber(e) || !(id >= 0) || id >= v->n || id != (uint32_t)id) {
            td_fail(v->cx, TD_E_IO, "%s: \"%.60s\" has no number from 0 to %u", f->path,
                    e->string, v->n - 1);
            return false;
        }
        const cJSON **to = &by[(uint32_t)id];
        if (*to) {
            td_fail(v->cx, TD_E_IO, "%s: \"%.60s\" and \"%.60s\" have the number %u",
                    f->path, (*to)->string, e->string, (uint32_t)id);
            return false;
        }
        *to = e;
    }
    return true;
}

static bool add_token(gpt2_vocab *v, const file *f, uint32_t token, const char *name) {
    char   *to = v->bytes + v->at[token];
    int64_t n = undisguise(name, strlen(name), to);
    if (n < 1) {
        td_fail(v->cx, TD_E_IO, "%s: \"%.60s\" is %s", f->path, name,
                n ? "not made of characters that stand for bytes" : "empty");
        return false;
    }
    v->at[token + 1] = v->at[token] + (uint32_t)n;
    uint32_t i = place(v, to, (size_t)n);
    if (v->table[i] != GPT2_NONE) {
        td_fail(v->cx, TD_E_IO, "%s: \"%.60s\" is there twice", f->path, name);
        return false;
    }
    v->table[i] = token;
    return true;
}

static bool add_tokens(gpt2_vocab *v, const file *f, const cJSON *all) {
    int n = cJSON_GetArraySize(all);
    if (!cJSON_IsObject(all) || n < 1 || n > MOST_TOKENS) {
        td_fail(v->cx, TD_E_IO, "%s: %s", f->path,
                all ? "no object with a number for each token" : "malformed JSON");
        return false;
    }
    v->n = (uint32_t)n;
    const cJSON **by = calloc((size_t)n, sizeof *by);
    bool          ok = by ? make_tables(v, f->n) : no_memory(v->cx);
    ok = ok && sort_entries(v, f, all, by);
    for (uint32_t i = 0; ok && i < v->n; i++) ok = add_token(v, f, i, by[i]->string);
    free(by);
    return ok;
}

static bool find_bytes(gpt2_vocab *v, const file *f) {
    for (int i = 0; i < 256; i++) {
        char    c = (char)i;
        int64_t token = gpt2_vocab_find(v, &c, 1);
        if (token < 0) {
            td_fail(v->cx, TD_E_IO, "%s: no token for the byte 0x%02x", f->path,
                    (unsigned)i);
            return false;
        }
        v->byte[i] = (uint32_t)token;
    }
    v->end_of_text = gpt2_vocab_find(v, "<|endoftext|>", 13);
    return true;
}

static bool read_tokens(gpt2_vocab *v, const char *dir) {
    file f = {.n = 0};
    bool ok = read_either(v->cx, dir, "vocab.json", "encoder.json", &f);
    if (ok) {
        cJSON *all = cJSON_ParseWithOpts(f.text, NULL, true);
        ok = add_tokens(v, &f, all) && find_bytes(v, &f);
        cJSON_Delete(all);
    }
    free(f.text);
    return ok;
}

/* ---- pairs --------------------------------------------------------------- */

static gpt2_pair *pair_place(const gpt2_vocab *v, uint64_t both) {
    uint64_t i = both * 0x9e3779b97f4a7c15u >> 32;
    for (;; i++) {
        gpt2_pair *p = &v->pairs[i & v->pairs_mask];
        if (p->rank == UINT32_MAX || p->both == both) return p;
    }
}

const gpt2_pair *gpt2_vocab_pair(const gpt2_vocab *v, uint32_t left, uint32_t right) {
    gpt2_pair *p = pair_place(v, (uint64_t)left << 32 | right);
    return p->rank == UINT32_MAX ? NULL : p;
}

/* One line, "left right", whose bytes are put in place of it. Why not, or NULL. */
static const char *add_pair(gpt2_vocab *v, char *line, size_t n, uint32_t rank) {
    char *gap = memchr(line, ' ', n);
    if (!gap || gap == line || gap + 1 == line + n) return "not two tokens";
    int64_t a = undisguise(line, (size_t)(gap - line), line);
    int64_t b =
        a < 0 ? -1 : undisguise(gap + 1, n - (size_t)(gap + 1 - line), line + a);
    if (b < 0) return "not made of characters that stand for bytes";
    int64_t left = gpt2_vocab_find(v, line, (size_t)a);
    int64_t right = gpt2_vocab_find(v, line + a, (size_t)b);
    int64_t token = gpt2_vocab_find(v, line, (size_t)(a + b));
    if (left < 0 || right < 0 || token < 0)
        return "one of the tokens, or what they become, is not in the vocabulary";
    gpt2_pair *p = pair_place(v, (uint64_t)left << 32 | (uint64_t)right);
    if (p->rank != UINT32_MAX) return "there already";
    *p = (gpt2_pair){(uint64_t)left << 32 | (uint64_t)right, rank, (uint32_t)token};
    return NULL;
}

static size_t count_lines(const char *p) {
    size_t n = 1;
    for (; (p = strchr(p, '\n')); p++) n++;
    return n;
}

static bool add_pairs(gpt2_vocab *v, file *f) {
    size_t lines = count_lines(f->text);
    v->pairs_mask = mask_for(lines);
    v->pairs = malloc(((size_t)v->pairs_mask + 1) * sizeof *v->pairs);
    if (!v->pairs) return no_memory(v->cx);
    for (size_t i = 0; i <= v->pairs_mask; i++) v->pairs[i].rank = UINT32_MAX;
    uint32_t rank = 0;
    char    *p = f->text;
    for (size_t line = 1; line <= lines; line++) {
        size_t n = strcspn(p, "\n"), whole = n;
        if (n && p[n - 1] == '\r') n--;
        bool        words = n > 0 && !(line == 1 && !strncmp(p, "#version", 8));
        const char *why = words ? add_pair(v, p, n, rank++) : NULL;
        if (why) {
            td_fail(v->cx, TD_E_IO, "%s:%zu: %s", f->path, line, why);
            return false;
        }
        p += whole + 1;
    }
    return true;
}

static bool read_pairs(gpt2_vocab *v, const char *dir) {
    file f = {.n = 0};
    bool ok =
        read_either(v->cx, dir, "merges.txt", "vocab.bpe", &f) && add_pairs(v, &f);
    free(f.text);
    return ok;
}

/* ---- both ---------------------------------------------------------------- */

bool gpt2_vocab_read(gpt2_vocab *v, td_ctx *cx, const char *dir) {
    *v = (gpt2_vocab){.cx = cx};
    return read_tokens(v, dir) && read_pairs(v, dir);
}

void gpt2_vocab_free(gpt2_vocab *v) {
    free(v->bytes);
    free(v->at);
    free(v->table);
    free(v->pairs);
}

/* safetensors.c -- reads .safetensors files: the length of a header, the header (JSON,
 * parsed by cJSON), then the bytes of all tensors, without gaps. A file is checked as a
 * whole when it is opened; a tensor of it then needs no further check. Writing is in
 * safetensors_save.c. */
#include "core/safetensors.h"
#include "tandem/io.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER 100000000u /* the format's own bound */

const td_st_type td__st_types[TD_ST_TYPES] = {
#define TD_DTYPE(id, text, bytes, klass, c, loop, npy, dlpack, st, ...) \
    {st, bytes, TD_##id},
#include "core/dtype.def"
#undef TD_DTYPE
    {"F8_E8M0", 1, TD_DTYPE_NONE},
};

typedef struct entry {
    const char       *name; /* the JSON tree's */
    const td_st_type *type;
    int               rank;
    int64_t           size[TD_MAX_RANK];
    uint64_t          begin, end; /* in the buffer after the header */
} entry;

struct td_safetensors {
    TD_OWNED_FIELDS;
    td_mapping  *map;
    char        *path;
    const char  *who;  /* the user's call that opened it */
    size_t       data; /* where the buffer starts */
    cJSON       *root;
    const cJSON *notes; /* __metadata__, NULL: none */
    td_map       by_name;
    TD_VEC(entry) all; /* by offset in the buffer */
};

static void close_file(void *object);

/* ---- rules -------------------------------------------------------------- */

static bool wrong(const td_safetensors *f, const char *name, const char *what) {
    if (!name) return td__fail(f->cx, TD_E_IO, "%s: %s: %s", f->who, f->path, what);
    return td__fail(f->cx, TD_E_IO, "%s: %s: tensor \"%.80s\": %s", f->who, f->path,
                    name, what);
}

/* Checks the text before the JSON parser gets it: UTF-8, no NUL in any form (C strings
 * would end early), and not much more structure than tensors need, because each comma
 * or bracket costs the parser about 64 bytes. */
static bool check_text(const td_safetensors *f, const uint8_t *p, size_t n) {
    const uint8_t *end = p + n;
    size_t         marks = 0;
    if (n == 0 || *p != '{') return wrong(f, NULL, "the header does not start with {");
    for (int step; p < end; p += step) {
        step = td__utf8_length(p, end);
        if (step == 0 || *p == 0) return wrong(f, NULL, "the header is not UTF-8 text");
        if (*p == '\\' && end - p >= 6 && !memcmp(p + 1, "u0000", 5))
            return wrong(f, NULL, "a NUL in a string of the header");
        marks += *p == ',' || *p == '[' || *p == '{' || *p == ':';
    }
    return marks <= 64 + n / 2 || wrong(f, NULL, "the header is no list of tensors");
}

/* Is j a whole number from 0 to 2^53? */
static bool whole(const cJSON *j, uint64_t *out) {
    if (!cJSON_IsNumber(j) || !(j->valuedouble >= 0 && j->valuedouble <= 0x1p53))
        return false;
    *out = (uint64_t)j->valuedouble;
    return (double)*out == j->valuedouble;
}

/* The member called key; NULL: none, or two. */
static const cJSON *member(const cJSON *object, const char *key) {
    const cJSON *found = NULL, *j;
    cJSON_ArrayForEach(j, object) {
        if (strcmp(j->string, key) != 0) continue;
        if (found) return NULL;
        found = j;
    }
    return found;
}

static bool read_type(const td_safetensors *f, const cJSON *j, entry *e) {
    const cJSON *dtype = member(j, "dtype");
    if (!cJSON_IsString(dtype))
        return wrong(f, e->name, "dtype is missing or no string");
    for (int i = 0; i < TD_ST_TYPES; i++)
        if (td__st_types[i].name && !strcmp(td__st_types[i].name, dtype->valuestring))
            e->type = &td__st_types[i];
    return e->type || wrong(f, e->name, "an unknown dtype");
}

static bool read_shape(const td_safetensors *f, const cJSON *j, entry *e) {
    const cJSON *shape = member(j, "shape"), *d;
    uint64_t     size;
    if (!cJSON_IsArray(shape)) return wrong(f, e->name, "shape is missing or no list");
    cJSON_ArrayForEach(d, shape) {
        if (e->rank == TD_MAX_RANK) return wrong(f, e->name, "more than 32 dims");
        if (!whole(d, &size))
            return wrong(f, e->name, "shape has an entry that is no size");
        e->size[e->rank++] = (int64_t)size;
    }
    return true;
}

static bool read_offsets(const td_safetensors *f, const cJSON *j, entry *e) {
    const cJSON *offsets = member(j, "data_offsets");
    int64_t      bytes;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !whole(offsets->child, &e->begin) || !whole(offsets->child->next, &e->end))
        return wrong(f, e->name, "data_offsets is not a pair of positions");
    bytes = td__dim_mul(td__numel(e->rank, e->size), e->type->bytes);
    if (e->end < e->begin || e->end > f->map->n - f->data)
        return wrong(f, e->name, "data_offsets lie outside the file");
    return (uint64_t)bytes == e->end - e->begin ||
           wrong(f, e->name, "shape and dtype do not give the bytes of data_offsets");
}

static bool read_notes(td_safetensors *f, const cJSON *j) {
    const cJSON *note;
    td_map       seen = {0};
    const char  *why = NULL;
    bool         ok = true;
    if (f->notes) return wrong(f, NULL, "__metadata__ comes twice");
    if (!cJSON_IsObject(j)) return wrong(f, NULL, "__metadata__ is no object");
    cJSON_ArrayForEach(note, j) {
        if (!cJSON_IsString(note)) why = "__metadata__ has a value that is no string";
        if (td__map_get(&seen, note->string)) why = "__metadata__ has a key twice";
        if (why || !(ok = td__map_put(&seen, note->string, f))) break;
    }
    td__map_free(&seen);
    f->notes = j;
    if (!ok) return td__fail_memory(f->cx);
    return !why || wrong(f, NULL, why);
}

static bool read_entry(td_safetensors *f, const cJSON *j) {
    entry e = {.name = j->string};
    if (!strcmp(j->string, "__metadata__")) return read_notes(f, j);
    if (!cJSON_IsObject(j)) return wrong(f, e.name, "is no object");
    if (!read_type(f, j, &e) || !read_shape(f, j, &e) || !read_offsets(f, j, &e))
        return false;
    return td__vec_push(&f->all, e) || td__fail_memory(f->cx);
}

static int by_place(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Checks that tensors leave no gaps, do not overlap, fill the buffer, and have distinct
 * names. */
static bool check_layout(td_safetensors *f) {
    uint64_t at = 0;
    if (f->all.n) qsort(f->all.v, (size_t)f->all.n, sizeof(entry), by_place);
    for (int i = 0; i < f->all.n; i++) {
        entry *e = &f->all.v[i];
        if (e->begin != at)
            return wrong(f, e->name,
                         e->begin < at ? "its bytes overlap another's"
                                       : "a hole in the file before its bytes");
        at = e->end;
        if (td__map_get(&f->by_name, e->name)) return wrong(f, e->name, "comes twice");
        if (!td__map_put(&f->by_name, e->name, e)) return td__fail_memory(f->cx);
    }
    return at == f->map->n - f->data || wrong(f, NULL, "bytes behind the last tensor");
}

/* ---- opening ------------------------------------------------------------ */

static bool read_header(td_safetensors *f) {
    const uint8_t *b = f->map->bytes;
    uint64_t       n = 0;
    if (f->map->n < 8) return wrong(f, NULL, "too short for a header's length");
    for (int i = 7; i >= 0; i--) n = n << 8 | b[i];
    if (n > MAX_HEADER || n > f->map->n - 8)
        return wrong(f, NULL,
                     n > MAX_HEADER ? "this is no .safetensors file: by its first 8 "
                                      "bytes the header is over 100 MB long"
                                    : "this is no .safetensors file, or it is cut: the "
                                      "header is longer than the file");
    f->data = 8 + (size_t)n;
    if (!check_text(f, b + 8, (size_t)n)) return false;
    const char *text = (const char *)b + 8, *end = NULL;
    errno = 0;
    f->root = cJSON_ParseWithLengthOpts(text, (size_t)n, &end, 0);
    if (!f->root && errno == ENOMEM) return td__fail_memory(f->cx); /* malloc failed */
    if (!f->root || !cJSON_IsObject(f->root))
        return wrong(f, NULL, "the header is no JSON");
    for (; end < text + n; end++)
        if (*end != ' ') return wrong(f, NULL, "text after the header's }");
    const cJSON *j;
    cJSON_ArrayForEach(j, f->root) if (!read_entry(f, j)) return false;
    return check_layout(f);
}

static td_safetensors *read_for(td_ctx *cx, const char *who, td_mapping *m,
                                const char *path) {
    td_safetensors *f = td__handle_make(cx, TD_H_SAFETENSORS, sizeof *f);
    if (!f) return NULL;
    if (!(f->path = td__strdup(path))) {
        td__handle_free(f, TD_H_SAFETENSORS);
        td__fail_memory(cx);
        return NULL;
    }
    f->who = who;
    f->map = m;
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    if (read_header(f)) return f;
    close_file(f);
    return NULL;
}

td_safetensors *td__safetensors_read(td_ctx *cx, td_mapping *m, const char *path) {
    return read_for(cx, "td_safetensors_open", m, path);
}

td_safetensors *td__safetensors_open(td_ctx *cx, const char *who, const char *path) {
    td_mapping *m = td__mapping_open(cx, who, path);
    if (!m) return TD_NIL(cx, SAFETENSORS);
    td_safetensors *f = read_for(cx, who, m, path);
    td__mapping_drop(m);
    return f ? td__handle_own(f, close_file) : TD_NIL(cx, SAFETENSORS);
}

td_safetensors *td_safetensors_open(td_ctx *cx, const char *path) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, SAFETENSORS);
    return td__safetensors_open(cx, "td_safetensors_open", path);
}

void td_safetensors_close(td_safetensors *f) {
    if (!TD_MAY_FREE(f, SAFETENSORS)) return;
    td__handle_disown(f);
    close_file(f);
}

static void close_file(void *object) {
    td_safetensors *f = object;
    td__map_free(&f->by_name);
    td__vec_free(&f->all);
    cJSON_Delete(f->root);
    td__mapping_drop(f->map);
    td__free(f->path);
    td__handle_free(f, TD_H_SAFETENSORS);
}

/* ---- access ------------------------------------------------------------- */

int td_safetensors_count(const td_safetensors *f) {
    if (!TD_ENTER(f, SAFETENSORS)) return 0;
    return f->all.n;
}

const char *td_safetensors_name(const td_safetensors *f, int i) {
    if (!TD_ENTER(f, SAFETENSORS)) return NULL;
    return i >= 0 && i < f->all.n ? f->all.v[i].name : NULL;
}

const char *td_safetensors_note(const td_safetensors *f, const char *key) {
    if (!TD_ENTER(f, SAFETENSORS)) return NULL;
    const cJSON *note =
        key && f->notes ? cJSON_GetObjectItemCaseSensitive(f->notes, key) : NULL;
    return cJSON_GetStringValue(note);
}

td_tensor *td_safetensors_get(td_safetensors *f, const char *name) {
    if (!TD_ENTER(f, SAFETENSORS)) return TD_NIL_BY(f, TENSOR);
    td_ctx *cx = f->cx;
    if (!td__has(cx, "td_safetensors_get", "the name", name) ||
        !td__may_read_file(cx, "td_safetensors_get"))
        return &cx->nil;
    const entry *e = td__map_get(&f->by_name, name);
    if (!e)
        return td_fail(cx, TD_E_ARG, "td_safetensors_get: %s has no tensor \"%.80s\"",
                       f->path, name);
    if (e->type->dt == TD_DTYPE_NONE)
        return td_fail(
            cx, TD_E_UNSUPPORTED,
            "td_safetensors_get: %s: tensor \"%.80s\" is of type %s, which has no "
            "counterpart",
            f->path, name, e->type->name);
    td_meta m = {.dtype = e->type->dt, .rank = e->rank};
    size_t  at = f->data + (size_t)e->begin;
    memcpy(m.size, e->size, sizeof(int64_t) * (size_t)e->rank);
    int64_t bad = m.dtype == TD_BOOL
                      ? td__mapping_bad_bool(f->map, at, (int64_t)(e->end - e->begin))
                      : -1;
    if (bad >= 0)
        return td_fail(
            cx, TD_E_IO,
            "td_safetensors_get: %s: tensor \"%.80s\": a bool that is neither 0 nor "
            "1, at byte %zu",
            f->path, name, at + (size_t)bad);
    td_tensor *t = td__mapping_tensor(cx, f->map, at, &m);
    return t ? t : &cx->nil;
}

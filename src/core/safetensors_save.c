/* safetensors_save.c -- writing .safetensors files. Tensors are laid down by
 * falling element size, then by name, and the header is padded to 8 bytes, so
 * that every element of the file is aligned. */
#include "core/safetensors.h"
#include "tandem/io.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    const char      *name;
    const td_tensor *t;
} item;

static int by_type(const void *a, const void *b) {
    const item *x = a, *y = b;
    int         dx = td__dtype_bytes[x->t->dtype], dy = td__dtype_bytes[y->t->dtype];
    return dx != dy ? dy - dx : strcmp(x->name, y->name);
}

static bool wrong(td_ctx *cx, const char *who, const char *path, const char *name,
                  const char *what) {
    return td__fail(cx, TD_E_ARG, "%s: %s: tensor \"%.80s\": %s", who, path, name,
                    what);
}

static bool is_text(const char *s) {
    const uint8_t *p = (const uint8_t *)s, *end = p + strlen(s);
    while (p < end) {
        int n = td__utf8_length(p, end);
        if (n == 0) return false;
        p += n;
    }
    return true;
}

/* Keys and values come in pairs, all of them text, no key twice. */
static bool check_notes(td_ctx *cx, const char *who, const char *path,
                        const char *const *notes) {
    td_map      seen = {0};
    const char *why = NULL;
    bool        ok = true;
    for (int i = 0; notes && !why && ok && notes[i]; i += 2) {
        if (!notes[i + 1]) why = "has no value";
        else if (!is_text(notes[i]) || !is_text(notes[i + 1])) why = "is not UTF-8";
        else if (td__map_get(&seen, notes[i])) why = "comes twice";
        else ok = td__map_put(&seen, notes[i], &seen);
        if (why)
            td__fail(cx, TD_E_ARG, "%s: %s: note \"%.80s\" %s", who, path, notes[i],
                     why);
    }
    td__map_free(&seen);
    if (!ok) td__fail_memory(cx);
    return ok && !why;
}

static bool check_item(td_ctx *cx, const char *who, const char *path, const item *it) {
    if (!it->name) return wrong(cx, who, path, "", "has no name");
    if (!strcmp(it->name, "__metadata__"))
        return wrong(cx, who, path, it->name, "a reserved name");
    if (!is_text(it->name))
        return wrong(cx, who, path, it->name, "its name is not UTF-8");
    if (!it->t) return wrong(cx, who, path, it->name, "is NULL");
    if (td_is_nil(it->t)) return wrong(cx, who, path, it->name, "is nil");
    if (it->t->dtype == TD_C128)
        return wrong(cx, who, path, it->name,
                     "is c128, which the format does not have; save its "
                     "td_view_as_real, or convert it to c64");
    if (it->t->st->fake) return wrong(cx, who, path, it->name, "has no bytes");
    return true;
}

/* Sorted and checked copies of what is to be written; NULL after td__fail. */
static item *sort_items(td_ctx *cx, const char *who, const char *path,
                        const char *const *names, td_tensors l) {
    item *v = td__alloc(sizeof *v * (size_t)(l.n + 1));
    bool  ok = v || td__fail_memory(cx);
    for (int i = 0; i < l.n && ok; i++) {
        v[i] = (item){names[i], l.v[i]};
        ok = check_item(cx, who, path, &v[i]);
    }
    td_map seen = {0};
    for (int i = 0; i < l.n && ok; i++) {
        if (td__map_get(&seen, v[i].name))
            ok = wrong(cx, who, path, v[i].name, "comes twice");
        else ok = td__map_put(&seen, v[i].name, &v[i]) || td__fail_memory(cx);
    }
    td__map_free(&seen);
    if (ok && l.n) qsort(v, (size_t)l.n, sizeof *v, by_type);
    if (ok) return v;
    td__free(v);
    return NULL;
}

static void add_string(td_buf *b, const char *s) {
    td__buf_add(b, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') td__buf_printf(b, "\\%c", *s);
        else if ((unsigned char)*s < ' ') td__buf_printf(b, "\\u%04x", (unsigned)*s);
        else td__buf_addn(b, s, 1);
    }
    td__buf_add(b, "\"");
}

static void add_notes(td_buf *b, const char *const *notes) {
    if (!notes || !notes[0]) return;
    td__buf_add(b, "\"__metadata__\":{");
    for (int i = 0; notes[i] && notes[i + 1]; i += 2) {
        if (i) td__buf_add(b, ",");
        add_string(b, notes[i]);
        td__buf_add(b, ":");
        add_string(b, notes[i + 1]);
    }
    td__buf_add(b, "},");
}

static const char *type_name(td_dtype dt) {
    int i = 0;
    while (td__st_types[i].dt != dt) i++;
    return td__st_types[i].name;
}

static void add_entry(td_buf *b, const item *it, int64_t *at) {
    const td_tensor *t = it->t;
    int64_t          end = *at + t->numel * td__dtype_bytes[t->dtype];
    add_string(b, it->name);
    td__buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", type_name((td_dtype)t->dtype));
    for (int i = 0; i < t->rank; i++)
        td__buf_printf(b, i ? ",%lld" : "%lld", (long long)t->size[i]);
    td__buf_printf(b, "],\"data_offsets\":[%lld,%lld]},", (long long)*at,
                   (long long)end);
    *at = end;
}

/* The length and the text, padded with spaces. */
static void make_header(td_buf *b, const item *v, int n, const char *const *notes) {
    int64_t at = 0;
    td__buf_addn(b, "\0\0\0\0\0\0\0\0{", 9);
    add_notes(b, notes);
    for (int i = 0; i < n; i++) add_entry(b, &v[i], &at);
    if (b->failed) return;
    if (b->s[b->n - 1] == ',') b->s[--b->n] = 0;
    td__buf_add(b, "}");
    while (b->n % 8 && !b->failed) td__buf_add(b, " ");
    for (int i = 0; i < 8 && !b->failed; i++)
        b->s[i] = (char)((uint64_t)(b->n - 8) >> (8 * i) & 0xff);
}

static bool write_all(td_out *o, const td_buf *header, const item *v, int n) {
    bool ok = td__out_write(o, header->s, header->n);
    for (int i = 0; i < n && ok; i++) ok = td__out_tensor(o, v[i].t);
    return ok && td__out_finish(o);
}

bool td__safetensors_save(td_ctx *cx, const char *who, const char *path,
                          const char *const *names, td_tensors tensors,
                          const char *const *notes) {
    if (!td__may_change(cx, who, "a file")) return false;
    td_buf header = {0};
    td_out o;
    bool   ok = false;
    item  *v = NULL;
    if (!td__has(cx, who, "the path", path) ||
        !td__has_list(cx, who, tensors.v, tensors.n) ||
        !td__has_list(cx, who, names, tensors.n) || !check_notes(cx, who, path, notes))
        return false;
    if (!(v = sort_items(cx, who, path, names, tensors))) return false;
    make_header(&header, v, tensors.n, notes);
    if (header.failed) td__fail_memory(cx);
    else ok = td__out_open(&o, cx, who, path) && write_all(&o, &header, v, tensors.n);
    td__buf_free(&header);
    td__free(v);
    return ok;
}

bool td_safetensors_save(td_ctx *cx, const char *path, const char *const *names,
                         td_tensors tensors, const char *const *notes) {
    return TD_ENTER_CTX(cx) &&
           td__safetensors_save(cx, __func__, path, names, tensors, notes);
}

/* tensor_print.c -- tensors as text in PyTorch's layout: aligned columns, scientific
 * form if magnitudes differ much, summaries of large tensors, and a suffix for dtype,
 * sizes and history. */
#include "core/device.h"
#include "core/typed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "tensor("
#define ITEM_CAP 256

/* The state of one printing. The form of the items is chosen before the first one is
 * written, from all items that will be printed. */
typedef struct printer {
    const td_tensor *t;
    const td_tensor *host; /* t, or a copy of it on the host */
    td_buf           text;
    bool             summary;
    int              edge, precision, line;
    bool             whole, sci; /* floats: all integers; scientific */
    int              width;      /* of the widest item */
    double           low, high;  /* of the nonzero finite magnitudes */
    bool             any;        /* there is such a magnitude */
} printer;

/* ---- items -------------------------------------------------------------- */

static void float_text(const printer *pr, double v, char *s) {
    if (!isfinite(v)) snprintf(s, ITEM_CAP, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    else if (pr->sci) snprintf(s, ITEM_CAP, "%.*e", pr->precision, v);
    else if (pr->whole) snprintf(s, ITEM_CAP, "%.0f.", v);
    else snprintf(s, ITEM_CAP, "%.*f", pr->precision, v);
}

/* 1.+2.j */
static void complex_text(const printer *pr, const char *p, char *s) {
    char   part[ITEM_CAP];
    double im = td__load_imag((td_dtype)pr->t->dtype, p);
    float_text(pr, td__load_f((td_dtype)pr->t->dtype, p), part);
    size_t n = (size_t)snprintf(s, ITEM_CAP, "%.120s%s", part, signbit(im) ? "-" : "+");
    float_text(pr, fabs(im), part);
    snprintf(s + n, ITEM_CAP - n, "%.120sj", part);
}

static void item_text(const printer *pr, const char *p, char *s) {
    td_dtype dt = (td_dtype)pr->t->dtype;
    if (dt == TD_BOOL) snprintf(s, ITEM_CAP, *p ? "True" : "False");
    else if (td__is_complex(dt)) complex_text(pr, p, s);
    else if (dt == TD_U64)
        snprintf(s, ITEM_CAP, "%llu", (unsigned long long)td__load_i(dt, p));
    else if (!td__is_float(dt))
        snprintf(s, ITEM_CAP, "%lld", (long long)td__load_i(dt, p));
    else float_text(pr, td__load_f(dt, p), s);
}

static void look_at_number(printer *pr, double v) {
    v = fabs(v);
    if (!isfinite(v) || v == 0) return;
    if (!pr->any || v < pr->low) pr->low = v;
    if (!pr->any || v > pr->high) pr->high = v;
    if (v != ceil(v)) pr->whole = false;
    pr->any = true;
}

static void look_at(printer *pr, const char *p) {
    td_dtype dt = (td_dtype)pr->t->dtype;
    look_at_number(pr, td__load_f(dt, p));
    if (td__is_complex(dt)) look_at_number(pr, td__load_imag(dt, p));
}

/* Zeros, infinities and NaN do not count for the choice of the form. */
static void measure(printer *pr, const char *p) {
    char   s[ITEM_CAP];
    double v = td__load_f((td_dtype)pr->t->dtype, p);
    if (td__is_float((td_dtype)pr->t->dtype) && (v == 0 || !isfinite(v))) return;
    item_text(pr, p, s);
    if ((int)strlen(s) > pr->width) pr->width = (int)strlen(s);
}

/* Calls visit for every item that will be printed, from dim d on. */
static void each_shown(printer *pr, int d, const char *p,
                       void (*visit)(printer *, const char *)) {
    const td_tensor *t = pr->t;
    if (d == t->rank) {
        visit(pr, p);
        return;
    }
    int64_t n = t->size[d], step = t->stride[d] * td__dtype_bytes[t->dtype];
    bool    cut = pr->summary && n > 2 * (int64_t)pr->edge;
    for (int64_t i = 0; i < n; i++) {
        if (cut && i == pr->edge) i = n - pr->edge;
        if (i < n) each_shown(pr, d + 1, p + i * step, visit);
    }
}

static void settle_form(printer *pr) {
    pr->whole = true;
    pr->width = 1;
    if (td__is_differentiable((td_dtype)pr->t->dtype)) {
        each_shown(pr, 0, td__ptr(pr->host), look_at);
        pr->sci =
            pr->any && (pr->high / pr->low > 1000 || pr->high > 1e8 || pr->low < 1e-4);
    }
    each_shown(pr, 0, td__ptr(pr->host), measure);
}

static void add_item(printer *pr, const char *p) {
    char s[ITEM_CAP];
    item_text(pr, p, s);
    td__buf_printf(&pr->text, "%*s", pr->width, s);
}

/* ---- layout ------------------------------------------------------------- */

static void add_spaces(printer *pr, int n) { td__buf_printf(&pr->text, "%*s", n, ""); }

/* Before entry k of a vector: a comma, and a new line after every `per`. */
static void add_gap(printer *pr, int64_t k, int64_t per, int indent) {
    if (k == 0) return;
    if (k % per) {
        td__buf_add(&pr->text, ", ");
        return;
    }
    td__buf_add(&pr->text, ",\n");
    add_spaces(pr, indent + 1);
}

static void add_vector(printer *pr, const char *p, int indent) {
    const td_tensor *t = pr->t;
    int64_t n = t->size[t->rank - 1], per = (pr->line - indent) / (pr->width + 2);
    int64_t step = t->stride[t->rank - 1] * td__dtype_bytes[t->dtype];
    bool    cut = pr->summary && n > 2 * (int64_t)pr->edge;
    int64_t k = 0;
    if (per < 1) per = 1;
    td__buf_add(&pr->text, "[");
    for (int64_t i = 0; i < n && !pr->text.failed; i++) {
        if (cut && i == pr->edge) {
            add_gap(pr, k++, per, indent);
            td__buf_add(&pr->text, pr->edge ? " ..." : "...");
            i = n - pr->edge;
            if (i >= n) break;
        }
        add_gap(pr, k++, per, indent);
        add_item(pr, p + i * step);
    }
    td__buf_add(&pr->text, "]");
}

/* Between slices of dim d: one line end for each dim inside it. */
static void add_break(printer *pr, int d, int indent) {
    td__buf_add(&pr->text, ",");
    for (int k = d + 1; k < pr->t->rank; k++) td__buf_add(&pr->text, "\n");
    add_spaces(pr, indent + 1);
}

static void add_slices(printer *pr, int d, const char *p, int indent) {
    const td_tensor *t = pr->t;
    if (d == t->rank - 1) {
        add_vector(pr, p, indent);
        return;
    }
    int64_t n = t->size[d], step = t->stride[d] * td__dtype_bytes[t->dtype];
    bool    cut = pr->summary && n > 2 * (int64_t)pr->edge;
    td__buf_add(&pr->text, "[");
    for (int64_t i = 0; i < n && !pr->text.failed; i++) {
        if (cut && i == pr->edge) {
            if (i) add_break(pr, d, indent);
            td__buf_add(&pr->text, "...");
            i = n - pr->edge;
            if (i >= n) break;
        }
        if (i) add_break(pr, d, indent);
        add_slices(pr, d + 1, p + i * step, indent + 1);
    }
    td__buf_add(&pr->text, "]");
}

static void add_body(printer *pr) {
    const td_tensor *t = pr->host;
    if (t->st->fake) {
        td__buf_add(&pr->text, "...");
        return;
    }
    if (t->numel == 0) {
        td__buf_add(&pr->text, "[]");
        return;
    }
    pr->summary = t->numel > t->cx->print_threshold;
    settle_form(pr);
    if (t->rank == 0) add_item(pr, td__ptr(t));
    else add_slices(pr, 0, td__ptr(t), (int)strlen(PREFIX));
}

/* ---- suffixes ----------------------------------------------------------- */

/* `used` is how much of the last line is taken; a suffix that does not fit goes
 * to a line of its own. */
static void add_suffix(printer *pr, const char *s, int *used) {
    int n = (int)strlen(s);
    if (*used + n + 2 > pr->line) {
        td__buf_add(&pr->text, ",\n");
        add_spaces(pr, (int)strlen(PREFIX));
        *used = (int)strlen(PREFIX) + n;
    } else {
        td__buf_add(&pr->text, ", ");
        *used += n + 2;
    }
    td__buf_add(&pr->text, s);
}

/* As in PyTorch: a leaf has the suffix requires_grad, other tensors the name of their
 * grad_fn. */
static void add_history(printer *pr, int *used) {
    td_tensor  *t = (td_tensor *)(uintptr_t)pr->t;
    char        text[64];
    const char *op = t->cx->hooks ? t->cx->hooks->made_by(t) : "";
    snprintf(text, sizeof text, op[0] ? "grad_fn=<%s>" : "requires_grad=True", op);
    add_suffix(pr, text, used);
}

/* "size=(2, 3)", with a comma after a single size. */
static void size_text(const td_tensor *t, char *s, size_t cap) {
    size_t n = (size_t)snprintf(s, cap, "size=(");
    for (int i = 0; i < t->rank && n < cap; i++)
        n += (size_t)snprintf(s + n, cap - n, i ? ", %lld" : "%lld",
                              (long long)t->size[i]);
    if (n < cap) snprintf(s + n, cap - n, t->rank == 1 ? ",)" : ")");
}

static void add_suffixes(printer *pr) {
    const td_tensor *t = pr->t;
    const char      *text = td__buf_str(&pr->text), *last = strrchr(text, '\n');
    int              used = (int)strlen(last ? last : text) + (last ? 1 : 2);
    bool             bare = t->numel == 0 || t->st->fake ||
                t->typed; /* no item from which the dtype follows */
    bool plain = t->dtype == t->cx->default_dtype ||
                 (!bare && (t->dtype == TD_I64 || t->dtype == TD_BOOL ||
                            t->dtype == td__complex_of(t->cx->default_dtype)));
    char s[24 * TD_MAX_RANK];
    if (!t->typed && (t->st->fake || (t->numel == 0 ? t->rank != 1 : pr->edge == 0))) {
        size_text(t, s, sizeof s);
        add_suffix(pr, s, &used);
    }
    if (!plain) {
        snprintf(s, sizeof s, "dtype=%s", td_dtype_name((td_dtype)t->dtype));
        add_suffix(pr, s, &used);
    }
    if (TD_UNLIKELY(t->st->device)) {
        snprintf(s, sizeof s, "device='%s'", td__device_str(t->st->device));
        add_suffix(pr, s, &used);
    }
    if (t->flags & TD_TF_NEEDS_GRAD) add_history(pr, &used);
    td__buf_add(&pr->text, ")");
}

static const char *make_text(const td_tensor *t, printer *pr);

/* "name=tensor(...)", whose further lines begin below the first one. */
static bool add_part(printer *pr, const td_tensor *part, const char *name) {
    int         indent = (int)(strlen(PREFIX) + strlen(name) + 1);
    printer     inner;
    const char *s = make_text(part, &inner), *end;
    if (s) td__buf_printf(&pr->text, "%s=", name);
    for (; s && (end = strchr(s, '\n')); s = end + 1) {
        td__buf_printf(&pr->text, "%.*s\n", (int)(end - s), s);
        add_spaces(pr, indent);
    }
    if (s) td__buf_printf(&pr->text, "%s,\n", s);
    td__buf_free(&inner.text);
    if (s) add_spaces(pr, (int)strlen(PREFIX));
    return s != NULL;
}

/* A tensor of a type: its inner tensors, sizes, type and metadata. */
static bool add_inner(printer *pr) {
    const td_tensor *t = pr->t;
    const td_typed  *d = t->typed;
    char             size[24 * TD_MAX_RANK];
    for (int i = 0; i < d->n; i++)
        if (!add_part(pr, d->inner[i], d->type->opts.inner[i])) return false;
    size_text(t, size, sizeof size);
    td__buf_printf(&pr->text, "%s, type=%s", size, d->type->opts.name);
    if (d->metadata[0]) td__buf_printf(&pr->text, "(\"%.60s\")", d->metadata);
    return true;
}

/* The elements, of a tensor on another device by a copy. False after td__fail. */
static bool add_elements(printer *pr) {
    td_tensor *t = (td_tensor *)(uintptr_t)pr->t;
    pr->host = t;
    if (TD_UNLIKELY(t->typed)) return add_inner(pr);
    if (TD_LIKELY(!t->st->device || t->st->fake)) return add_body(pr), true;
    if (!td__scope_push(t->cx)) return false;
    pr->host = td__on_host(t);
    bool ok = pr->host != NULL;
    if (ok) add_body(pr);
    td__scope_pop(t->cx, NULL, 0);
    return ok;
}

/* The text of t, for td__buf_free; NULL after td__fail_memory. */
static const char *make_text(const td_tensor *t, printer *pr) {
    memset(pr, 0, sizeof *pr);
    if (!td__is_usable(t, TD_H_TENSOR)) {
        td__buf_add(&pr->text, "nil");
        return td__buf_str(&pr->text);
    }
    pr->t = t;
    pr->edge = t->cx->print_edge;
    pr->precision = t->cx->print_precision;
    pr->line = t->cx->print_width;
    td__buf_add(&pr->text, PREFIX);
    if (!add_elements(pr)) return NULL;
    if (!pr->text.failed) add_suffixes(pr);
    if (!pr->text.failed) return td__buf_str(&pr->text);
    td__fail_memory(t->cx);
    return NULL;
}

/* Checks the argument and returns the tensor to print. The text of nil is "nil"; NULL,
 * a freed tensor and a tensor kept from a captured body are errors as well. */
static const td_tensor *check_print(const td_tensor *t, const char *who) {
    if (t && t->tag == (TD_TAG_NIL | TD_H_TENSOR)) return t;
    if (!td__enter(t, TD_H_TENSOR, who) || !TD_IS_KEPT(t) || !td__is_traced(t))
        return t; /* a fake tensor prints as its type */
    td__fail_kept(t->cx, who, t);
    return &t->cx->nil;
}

size_t td_format(const td_tensor *t, char *out, size_t cap) {
    printer     pr;
    const char *s = make_text(check_print(t, "td_format"), &pr);
    size_t      want = s ? strlen(s) : 0;
    td__text_out(s ? s : "", want, out, cap);
    td__buf_free(&pr.text);
    return want;
}

void td_print(const td_tensor *t) {
    printer     pr;
    const char *s = make_text(check_print(t, "td_print"), &pr);
    if (s) puts(s);
    td__buf_free(&pr.text);
}

void td_print_options(td_ctx *cx, int precision, int edge, int64_t threshold,
                      int width) {
    if (!TD_ENTER_CTX(cx)) return;
    if (!td__may_change(cx, "td_print_options", "how tensors are printed")) return;
    if (precision >= 0) cx->print_precision = precision < 60 ? precision : 60;
    if (edge >= 0) cx->print_edge = edge;
    if (threshold >= 0) cx->print_threshold = threshold;
    if (width >= 0) cx->print_width = width;
}

/* weights.c -- reads and writes what Hugging Face's GPT-2 does. */
#include "weights.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/io.h>

/* ---- weights ------------------------------------------------------------- */

typedef struct source {
    td_ctx         *cx;
    td_safetensors *f;
    const char     *path, *prefix;
    const char     *wanted; /* a name that is looked for among the members */
} source;

static bool has(const source *s, const char *name) {
    for (int i = 0; i < td_safetensors_count(s->f); i++)
        if (!strcmp(td_safetensors_name(s->f, i), name)) return true;
    return false;
}

static bool ends(const char *s, const char *end) {
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static td_tensor *fetch(const source *s, const td_member *m) {
    char name[256];
    snprintf(name, sizeof name, "%s%s", s->prefix, m->name);
    if (!has(s, name))
        return td_fail(s->cx, TD_E_IO, "%s: there is no %s", s->path, name);
    return td_safetensors_get(s->f, name);
}

static bool fits(void *env, const td_member *m) {
    source    *s = env;
    td_tensor *t = fetch(s, m);
    if (td_is_nil(t)) return false;
    bool same = td_rank(t) == td_rank(m->t);
    for (int i = 0; same && i < td_rank(t); i++)
        same = td_size(t, i) == td_size(m->t, i);
    if (!same)
        td_fail(s->cx, TD_E_SHAPE, "%s: %s has other sizes than the model's", s->path,
                m->name);
    else if (td_dtype_of(t) > TD_BF16)
        td_fail(s->cx, TD_E_DTYPE, "%s: %s is not of floats", s->path, m->name);
    return td_ok(s->cx);
}

static bool copy(void *env, const td_member *m) {
    td_copy_(m->t, fetch(env, m));
    return td_ok(((source *)env)->cx);
}

static bool is_other(void *env, const td_member *m) {
    return strcmp(m->name, ((source *)env)->wanted) != 0;
}

/* Masks are computed here, and the last layer is the table of tokens. */
static bool is_known(source *s, td_module *net, const char *name) {
    if (ends(name, ".attn.bias") || ends(name, ".attn.masked_bias")) return true;
    if (!strcmp(name, "lm_head.weight")) return true;
    size_t n = strlen(s->prefix);
    if (strncmp(name, s->prefix, n)) return false;
    s->wanted = name + n;
    return !td_module_visit(net, TD_VISIT_ALL, is_other, s);
}

static bool is_tied(source *s, td_module *net) {
    if (!has(s, "lm_head.weight")) return true;
    td_member  table = {.name = "wte.weight", .t = td_module_get(net, "wte.weight")};
    td_tensor *w = fetch(s, &table), *last = td_safetensors_get(s->f, "lm_head.weight");
    bool       same = td_rank(last) == 2 && td_size(last, 0) == td_size(w, 0) &&
                td_size(last, 1) == td_size(w, 1) &&
                td_item(td_all(td_eq(last, w))) != 0;
    if (!same && td_ok(s->cx))
        td_fail(s->cx, TD_E_UNSUPPORTED,
                "%s: lm_head.weight is not the table of tokens, which GPT-2 uses",
                s->path);
    return same;
}

static bool load(source *s, td_module *net) {
    if (has(s, "transformer.wte.weight")) s->prefix = "transformer.";
    if (!td_module_visit(net, TD_VISIT_ALL, fits, s) || !is_tied(s, net)) return false;
    for (int i = 0; i < td_safetensors_count(s->f); i++) {
        const char *name = td_safetensors_name(s->f, i);
        if (is_known(s, net, name)) continue;
        td_fail(s->cx, TD_E_IO, "%s: the model has no %s", s->path, name);
        return false;
    }
    return td_module_visit(net, TD_VISIT_ALL, copy, s);
}

bool gpt2_load(td_module *net, const char *path) {
    td_ctx *cx = td_module_ctx(net);
    source  s = {cx, td_safetensors_open(cx, path), path, "", NULL};
    if (!s.f) return false;
    td_grad_mode was = td_no_grad_begin(cx);
    td_scope_begin(cx, "load");
    bool ok = load(&s, net);
    td_scope_end(cx, "load", NULL);
    td_no_grad_end(cx, was);
    td_safetensors_close(s.f);
    return ok;
}

/* ---- sizes --------------------------------------------------------------- */

static bool read_size(td_ctx *cx, const char *path, const cJSON *all, const char *name,
                      int64_t *to) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(all, name);
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 1 && v->valuedouble < 1e9)) {
        td_fail(cx, TD_E_IO, "%s: %s is no number from 1 to 1e9", path, name);
        return false;
    }
    *to = (int64_t)v->valuedouble;
    return true;
}

/* What else a model of that type may do, and this one does not. */
static const char *unusual(const cJSON *all) {
    const cJSON *act = cJSON_GetObjectItemCaseSensitive(all, "activation_function");
    const cJSON *eps = cJSON_GetObjectItemCaseSensitive(all, "layer_norm_epsilon");
    const cJSON *inner = cJSON_GetObjectItemCaseSensitive(all, "n_inner");
    if (cJSON_IsString(act) && strcmp(act->valuestring, "gelu_new") &&
        strcmp(act->valuestring, "gelu_pytorch_tanh"))
        return "activation_function";
    if (cJSON_IsNumber(eps) && eps->valuedouble != 1e-5) return "layer_norm_epsilon";
    if (cJSON_IsNumber(inner)) return "n_inner";
    static const char *const flags[] = {"scale_attn_by_inverse_layer_idx",
                                        "add_cross_attention"};
    for (int i = 0; i < 2; i++)
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(all, flags[i])))
            return flags[i];
    const cJSON *scale = cJSON_GetObjectItemCaseSensitive(all, "scale_attn_weights");
    return cJSON_IsFalse(scale) ? "scale_attn_weights" : NULL;
}

static bool understand(td_ctx *cx, const char *path, const cJSON *all, gpt2_sizes *to) {
    if (!cJSON_IsObject(all)) {
        td_fail(cx, TD_E_IO, "%s: malformed JSON", path);
        return false;
    }
    gpt2_sizes s;
    if (!read_size(cx, path, all, "vocab_size", &s.vocab) ||
        !read_size(cx, path, all, "n_positions", &s.context) ||
        !read_size(cx, path, all, "n_layer", &s.layers) ||
        !read_size(cx, path, all, "n_head", &s.heads) ||
        !read_size(cx, path, all, "n_embd", &s.width))
        return false;
    const char *other = s.width % s.heads ? "n_head" : unusual(all);
    if (other) {
        td_fail(cx, TD_E_UNSUPPORTED, "%s: %s is not as GPT-2 has it", path, other);
        return false;
    }
    *to = s;
    return true;
}

bool gpt2_read_config(td_ctx *cx, const char *path, gpt2_sizes *to) {
    char  text[1 << 16];
    FILE *f = fopen(path, "rb");
    if (!f) {
        td_fail(cx, TD_E_IO, "cannot open %s: %s", path, strerror(errno));
        return false;
    }
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    cJSON *all = cJSON_Parse(text);
    bool   ok = understand(cx, path, all, to);
    cJSON_Delete(all);
    return ok;
}

bool gpt2_write_config(td_ctx *cx, const char *path, gpt2_sizes s) {
    FILE *f = fopen(path, "wb");
    bool  ok =
        f && fprintf(f,
                     "{\n  \"model_type\": \"gpt2\",\n"
                     "  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                     "  \"activation_function\": \"gelu_new\",\n"
                     "  \"vocab_size\": %lld,\n  \"n_positions\": %lld,\n"
                     "  \"n_layer\": %lld,\n  \"n_head\": %lld,\n"
                     "  \"n_embd\": %lld,\n  \"resid_pdrop\": 0.0,\n"
                     "  \"embd_pdrop\": 0.0,\n  \"attn_pdrop\": 0.0\n}\n",
                     (long long)s.vocab, (long long)s.context, (long long)s.layers,
                     (long long)s.heads, (long long)s.width) > 0;
    if (f && fclose(f)) ok = false;
    if (!ok) td_fail(cx, TD_E_IO, "cannot write %s: %s", path, strerror(errno));
    return ok;
}

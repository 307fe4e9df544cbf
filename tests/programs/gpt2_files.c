/* gpt2_files.c -- the files the GPT-2 example reads: tokens of texts are those of
 * Hugging Face's tokenizer, logits those of its model, whichever of its ways the
 * weights were written; files that are wrong are refused with a reason. The numbers
 * below tests/gpt2 were written by tools/oracle/gpt2.py. */
#include "../../examples/gpt2/checkpoint.h"
#include "../../examples/gpt2/pieces.h"
#include "../../examples/gpt2/tokenizer.h"
#include "../../examples/gpt2/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/io.h>
#include <unistd.h>

#define FILES "tests/gpt2/"

static int  passed, failed;
static char dir[] = "/tmp/tandem-gpt2-files-XXXXXX";

static void check(bool ok, const char *what) {
    if (!ok) printf("FAIL %s\n", what);
    ok ? passed++ : failed++;
}

/* ---- tokens -------------------------------------------------------------- */

static size_t from_hex(const char *line, char *to) {
    size_t   n = 0;
    unsigned byte;
    for (; sscanf(line, "%2x", &byte) == 1; line += 2) to[n++] = (char)byte;
    return n;
}

static bool same_tokens(const gpt2_tokens *got, char *line) {
    size_t i = 0;
    for (char *p = strtok(line, " \n"); p; p = strtok(NULL, " \n"), i++)
        if (i >= got->n || got->v[i] != strtoul(p, NULL, 10)) return false;
    return i == got->n;
}

static bool decodes(const gpt2_tokenizer *t, const gpt2_tokens *tokens,
                    const char *text, size_t n) {
    size_t at = 0, k;
    for (size_t i = 0; i < tokens->n; i++, at += k) {
        const char *p = gpt2_decode(t, tokens->v[i], &k);
        if (k > n - at || memcmp(p, text + at, k)) return false;
    }
    return at == n;
}

static void check_texts(gpt2_tokenizer *t) {
    static char hex[8192], ids[8192], text[4096];
    FILE       *f = fopen(FILES "texts.txt", "r");
    int         texts = 0;
    while (f && fgets(hex, sizeof hex, f) && fgets(ids, sizeof ids, f)) {
        gpt2_tokens got = {NULL, 0, 0};
        size_t      n = from_hex(hex, text);
        bool        ok = gpt2_encode(t, text, n, &got) && decodes(t, &got, text, n);
        check(ok && same_tokens(&got, ids), hex);
        free(got.v);
        texts++;
    }
    if (f) fclose(f);
    check(texts > 100, "texts");
}

/* Bytes of any kind come back. */
static void check_any_bytes(gpt2_tokenizer *t) {
    uint64_t seed = 1;
    bool     ok = true;
    for (int i = 0; i < 500; i++) {
        char        text[64];
        gpt2_tokens got = {NULL, 0, 0};
        size_t      n = (size_t)i % sizeof text;
        for (size_t k = 0; k < n; k++)
            text[k] = (char)((seed = seed * 6364136223846793005u + 1) >> 56);
        ok = ok && gpt2_encode(t, text, n, &got) && decodes(t, &got, text, n);
        free(got.v);
    }
    check(ok, "bytes that are no UTF-8");
}

/* A piece without end takes n log n: at n * n this would take minutes. */
static void check_long(gpt2_tokenizer *t) {
    size_t      n = 1 << 20;
    char       *text = malloc(n);
    gpt2_tokens got = {NULL, 0, 0};
    if (text) memset(text, 'e', n);
    check(text && gpt2_encode(t, text, n, &got) && decodes(t, &got, text, n),
          "a long piece");
    free(got.v);
    free(text);
}

static void check_pieces(void) {
    static const struct {
        const char *text;
        size_t      n;
    } cases[] = {{"abc1", 3},          {" abc", 4},        {"  abc", 1},
                 {" \nabc", 1},        {"\n\n", 2},        {"\n abc", 1},
                 {"'sx", 2},           {"'Sx", 1},         {" 's", 2},
                 {"12,", 2},           {"!?a", 2},         {"\xc3\xa9z ", 3},
                 {"\xc3", 1},          {"\xff\xfe!", 3},   {"a\xff", 1},
                 {"\xe2\x80\x83x", 3}, {"\xed\xa0\x80", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(gpt2_piece(cases[i].text, strlen(cases[i].text)) == cases[i].n,
              cases[i].text);
}

/* ---- files that are wrong ------------------------------------------------ */

static void put_file(const char *name, const char *text, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (f) fwrite(text, 1, n, f);
    if (f) fclose(f);
}

static char *get_file(const char *path) {
    static char text[2][1 << 16];
    static int  which;
    char       *to = text[which++ % 2];
    FILE       *f = fopen(path, "rb");
    to[f ? fread(to, 1, sizeof text[0] - 1, f) : 0] = 0;
    if (f) fclose(f);
    return to;
}

/* One of our files with its first `old` as `new`. */
static void put_changed(const char *name, const char *old, const char *new) {
    char        path[64];
    static char out[1 << 17];
    snprintf(path, sizeof path, FILES "%s", name);
    char *text = get_file(path), *at = strstr(text, old);
    check(at != NULL, old);
    if (!at) return;
    int n = snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, new,
                     at + strlen(old));
    put_file(name, out, (size_t)n);
}

static void check_refused(td_ctx *cx, const char *why) {
    gpt2_tokenizer *t = gpt2_tokenizer_open(cx, dir);
    bool            ok = !t && strstr(td_message(cx), why);
    if (!ok) printf("message: %s\n", td_message(cx));
    check(ok, why);
    gpt2_tokenizer_close(t);
    td_clear(cx);
    put_changed("vocab.json", "{", "{");
    put_changed("merges.txt", "#", "#");
}

static void check_wrong_files(td_ctx *cx) {
    static const struct {
        const char *file, *old, *new, *why;
    } cases[] = {{"vocab.json", "\"!\":1", "\"!\":2", "have the number 2"},
                 {"vocab.json", "\"!\":1", "\"!\":1e9", "no number from 0 to"},
                 {"vocab.json", "\"!\":1", "\"!\":-1", "no number from 0 to"},
                 {"vocab.json", "\"!\":1", "\"!\":1.5", "no number from 0 to"},
                 {"vocab.json", "\"!\":1", "\"!\":[[]]", "no number from 0 to"},
                 {"vocab.json", "\"!\":1", "\"\":1", "is empty"},
                 {"vocab.json", "\"!\":1", "\"zqzq\":1", "no token for the byte 0x21"},
                 {"vocab.json", "\"!\":1", "\"%\":1", "there twice"},
                 {"vocab.json", "\"!\":1", "\"\xe6\xbc\xa2\":1", "stand for bytes"},
                 {"vocab.json", "\"!\":1", "\"\\u0000\":1", ""},
                 {"vocab.json", "{", "[{", "malformed"},
                 {"vocab.json", ":699}", ":699}x", "malformed"},
                 {"merges.txt", "\n", "\nx\n", "merges.txt:2: not two tokens"},
                 {"merges.txt", "\n", "\nzq zq\n", "merges.txt:2: one of the tokens"},
                 {"merges.txt", "\n", "\n\xe6\xbc\xa2 a\n",
                  "merges.txt:2: not made of"},
                 {"merges.txt", "\n", "\n\xc4\xa0 |\n", "merges.txt:3: there already"}};
    put_changed("vocab.json", "{", "{");
    check_refused(cx, "cannot open");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_changed(cases[i].file, cases[i].old, cases[i].new);
        check_refused(cx, cases[i].why);
    }
    put_file("merges.txt", "a\0b", 3);
    check_refused(cx, "a byte 0");
    put_file("vocab.json", "[]", 2);
    check_refused(cx, "no object");
    put_file("vocab.json", "", 0);
    check_refused(cx, "malformed");
}

/* The names of the first release. */
static void check_other_names(td_ctx *cx) {
    const char *vocab = get_file(FILES "vocab.json"),
               *merges = get_file(FILES "merges.txt");
    char path[128];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i ? "vocab.json" : "merges.txt");
        unlink(path);
    }
    put_file("encoder.json", vocab, strlen(vocab));
    put_file("vocab.bpe", merges, strlen(merges));
    gpt2_tokenizer *t = gpt2_tokenizer_open(cx, dir);
    check(t && gpt2_tokenizer_count(t) == 700, "encoder.json and vocab.bpe");
    gpt2_tokenizer_close(t);
}

/* ---- weights ------------------------------------------------------------- */

static bool close_to(td_tensor *a, td_tensor *b) {
    const float *x = td_data(a), *y = td_data(b);
    bool         ok = td_numel(a) == td_numel(b);
    for (int64_t i = 0; ok && i < td_numel(a); i++)
        ok = fabsf(x[i] - y[i]) <= 1e-5f + 1e-5f * fabsf(y[i]);
    return ok;
}

static void check_weights(td_ctx *cx, const char *path) {
    gpt2_sizes      s;
    td_safetensors *f = td_safetensors_open(cx, FILES "results.safetensors");
    bool            ok = gpt2_read_config(cx, FILES "hf/config.json", &s);
    td_module      *net = ok ? gpt2_make(cx, s) : NULL;
    td_tensor      *y = NULL;
    if (f && net && gpt2_load(net, path))
        y = td_module_call(net, TD_ARGS(td_safetensors_get(f, "tokens")));
    check(y && td_ok(cx) && close_to(y, td_safetensors_get(f, "logits")), path);
    if (!td_ok(cx)) printf("%s\n", td_message(cx));
    td_module_free(net);
    td_safetensors_close(f);
}

/* Weights for other sizes, or of another model, are refused and nothing is written. */
static void check_wrong_weights(td_ctx *cx, gpt2_sizes s, const char *path,
                                const char *why) {
    td_module *net = gpt2_make(cx, s);
    double     before = td_item(td_sum(td_module_get(net, "wte.weight")));
    bool       ok = !gpt2_load(net, path) && strstr(td_message(cx), why);
    if (!ok) printf("message: %s\n", td_message(cx));
    td_clear(cx);
    check(ok && td_item(td_sum(td_module_get(net, "wte.weight"))) == before, why);
    td_module_free(net);
}

/* The same names and one tensor that is another, or more. */
static void write_other(td_ctx *cx, const char *name, td_tensor *t, const char *to) {
    const char     *names[64];
    td_tensor      *all[64];
    int             n = 0;
    td_safetensors *f = td_safetensors_open(cx, FILES "old.safetensors");
    for (; f && n < td_safetensors_count(f); n++) {
        names[n] = td_safetensors_name(f, n);
        all[n] = strcmp(names[n], name) ? td_safetensors_get(f, names[n]) : t;
        if (all[n] == t) name = "";
    }
    if (*name) names[n] = name, all[n++] = t;
    td_safetensors_save(cx, to, names, (td_tensors){all, n}, NULL);
    td_safetensors_close(f);
}

static void check_all_wrong_weights(td_ctx *cx) {
    gpt2_sizes s = {23, 8, 2, 2, 8};
    char       path[128];
    snprintf(path, sizeof path, "%s/other.safetensors", dir);
    td_tensor *table = td_zeros(cx, TD_SHAPE(23, 8));
    write_other(cx, "lm_head.weight", table, path);
    check_wrong_weights(cx, s, path, "lm_head.weight is not the table");
    write_other(cx, "transformer.h.0.extra", table, path);
    check_wrong_weights(cx, s, path, "the model has no transformer.h.0.extra");
    write_other(cx, "transformer.wpe.weight",
                td_to(td_zeros(cx, TD_SHAPE(8, 8)), TD_I64), path);
    check_wrong_weights(cx, s, path, "wpe.weight is not of floats");
    gpt2_sizes more = s, wide = s;
    more.layers = 3;
    check_wrong_weights(cx, more, FILES "old.safetensors",
                        "there is no transformer.h.2");
    wide.width = 16;
    check_wrong_weights(cx, wide, FILES "bare.safetensors", "has other sizes");
}

static void check_config(td_ctx *cx) {
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "malformed"},
        {"[1]", "malformed"},
        {"{\"vocab_size\": -1}", "vocab_size is no number"},
        {"{\"vocab_size\": 5, \"n_positions\": 4, \"n_layer\": 1, \"n_head\": 3, "
         "\"n_embd\": 4}",
         "n_head is not as"},
        {"{\"vocab_size\": 5, \"n_positions\": 4, \"n_layer\": 1, \"n_head\": 2, "
         "\"n_embd\": 4, \"activation_function\": \"relu\"}",
         "activation_function is not as"}};
    char       path[128];
    gpt2_sizes s, wrote = {7, 6, 5, 2, 4};
    snprintf(path, sizeof path, "%s/config.json", dir);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file("config.json", cases[i].text, strlen(cases[i].text));
        bool ok =
            !gpt2_read_config(cx, path, &s) && strstr(td_message(cx), cases[i].why);
        check(ok, cases[i].why);
        td_clear(cx);
    }
    check(gpt2_write_config(cx, path, wrote) && gpt2_read_config(cx, path, &s) &&
              !memcmp(&s, &wrote, sizeof s),
          "sizes come back");
}

int main(void) {
    td_ctx *cx = td_open();
    if (!mkdtemp(dir)) return 1;
    gpt2_tokenizer *t = gpt2_tokenizer_open(cx, "tests/gpt2");
    check(t != NULL, "the tokenizer");
    if (t) check_texts(t), check_any_bytes(t), check_long(t);
    gpt2_tokenizer_close(t);
    check_pieces();
    check_wrong_files(cx);
    check_other_names(cx);
    check_weights(cx, FILES "hf/model.safetensors");
    check_weights(cx, FILES "old.safetensors");
    check_weights(cx, FILES "bare.safetensors");
    check_all_wrong_weights(cx);
    check_config(cx);
    td_close(cx);
    char line[96];
    snprintf(line, sizeof line, "rm -rf %s", dir);
    if (system(line)) printf("could not remove %s\n", dir);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

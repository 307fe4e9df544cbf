/* fuzz_tokenizer.c -- any bytes as GPT-2's vocabulary and merges: an error, or a
 * tokenizer that gives back the bytes of every text. The first two bytes say where the
 * second file begins. */
#include "core/core.h"
#include "examples/gpt2/tokenizer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64];

static void clean_up(void) {
    char path[100];
    snprintf(path, sizeof path, "%s/vocab.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/merges.txt", dir);
    unlink(path);
    rmdir(dir);
}

static void start(void) {
    bool shm = access("/dev/shm", W_OK) == 0;
    snprintf(dir, sizeof dir, "%s/td-fuzz-XXXXXX", shm ? "/dev/shm" : "/tmp");
    if (!mkdtemp(dir)) abort();
    atexit(clean_up);
}

static void write_file(const char *name, const uint8_t *bytes, size_t n) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n) abort();
    fclose(f);
}

static void check(td_ctx *cx, gpt2_tokenizer *t, const char *text) {
    gpt2_tokens k = {0};
    size_t      n = 0, at = 0;
    if (gpt2_encode(t, text, strlen(text), &k))
        for (size_t i = 0; i < k.n; i++) {
            const char *s = gpt2_decode(t, k.v[i], &n);
            if (at + n > strlen(text) || memcmp(s, text + at, n)) abort();
            at += n;
        }
    if (td_ok(cx) && at != strlen(text)) abort();
    td_clear(cx);
    free(k.v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static td_ctx *cx;
    if (!cx) {
        cx = td_open();
        start();
    }
    if (size < 2) return 0;
    size_t cut = (size_t)data[0] << 8 | data[1];
    data += 2, size -= 2;
    if (cut > size) cut = size;
    write_file("vocab.json", data, cut);
    write_file("merges.txt", data + cut, size - cut);
    gpt2_tokenizer *t = gpt2_tokenizer_open(cx, dir);
    if ((t == NULL) == td_ok(cx)) abort();
    td_clear(cx);
    if (t) {
        check(cx, t, "hello world, abba");
        check(cx, t, "hello \xff w\xc3\xb6rld\n\t 12 <|endoftext|>");
        gpt2_tokenizer_close(t);
    }
    td_clear(cx);
    return 0;
}

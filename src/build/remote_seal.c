/* remote_seal.c -- signs and verifies values of the remote cache: HMAC-SHA256 by
 * nettle under a key that machines share, or without a key a checksum, which detects
 * accidents only. */
#include "build/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef TD_HAVE_NETTLE
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/version.h>
#endif

/* ---- the key -------------------------------------------------------------- */

/* Only root and this user may know or change the key. */
static const char *key_danger(const struct stat *st) {
    if (!S_ISREG(st->st_mode)) return "is not a regular file";
    if (st->st_uid != geteuid() && st->st_uid != 0) return "belongs to another user";
    if (st->st_mode & 077) return "can be read or written by others (chmod 600)";
    if (st->st_size > TD_SEAL_MOST) return "has more than 4096 bytes";
    return NULL;
}

static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static const char *read_key(td_seal *s, const char *path) {
    struct stat st;
    int fd = td__io_fault() ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return strerror(errno);
    const char *bad = fstat(fd, &st) != 0 ? strerror(errno) : key_danger(&st);
    s->n = bad ? 0 : (size_t)st.st_size;
    if (!bad && !td__read_all(fd, s->key, s->n)) bad = strerror(errno);
    close(fd);
    if (bad) return bad;
    while (s->n && is_space(s->key[s->n - 1])) s->n--;
    return s->n < TD_SEAL_LEAST ? "has fewer than 32 bytes" : NULL;
}

/* ---- signatures ----------------------------------------------------------- */

typedef struct mac {
    uint8_t bytes[TD_SEAL_MAC];
} mac;

#ifdef TD_HAVE_NETTLE
static mac sign_keyed(const td_seal *s, const char *bytes, size_t n) {
    struct hmac_sha256_ctx h;
    mac                    m;
    hmac_sha256_set_key(&h, s->n, s->key);
    hmac_sha256_update(&h, n, (const uint8_t *)bytes);
#if NETTLE_VERSION_MAJOR >= 4
    hmac_sha256_digest(&h, m.bytes);
#else
    hmac_sha256_digest(&h, sizeof m.bytes, m.bytes);
#endif
    return m;
}

/* In a time that does not depend on where they differ. */
static bool is_same(const mac *a, const mac *b) {
    return memeql_sec(a->bytes, b->bytes, sizeof a->bytes);
}
#else
static bool is_same(const mac *a, const mac *b) { return !memcmp(a, b, sizeof *a); }
#endif

static mac sign(const td_seal *s, const char *bytes, size_t n) {
#ifdef TD_HAVE_NETTLE
    if (s->keyed) return sign_keyed(s, bytes, n);
#else
    (void)s;
#endif
    mac        m = {0};
    td_hash128 h = td__hash128(bytes, n);
    memcpy(m.bytes, &h, sizeof h);
    return m;
}

const char *td__seal_open(td_seal *s, const char *path) {
    *s = (td_seal){.id = "plain"};
    if (!*path) return NULL;
#ifndef TD_HAVE_NETTLE
    (void)read_key;
    return "this build has no HMAC (nettle)";
#else
    static const char label[] = "tandem: fingerprint of a key";
    const char       *bad = read_key(s, path);
    if (bad) return bad;
    mac m = sign_keyed(s, label, sizeof label);
    s->keyed = true;
    for (int i = 0; i < 6; i++)
        snprintf(s->id + 2 * i, sizeof s->id - (size_t)(2 * i), "%02x", m.bytes[i]);
    return NULL;
#endif
}

void td__seal_mac(const td_seal *s, const char *bytes, size_t n,
                  uint8_t out[TD_SEAL_MAC]) {
    mac m = sign(s, bytes, n);
    memcpy(out, m.bytes, sizeof m.bytes);
}

/* ---- values --------------------------------------------------------------- */

/* The end of a value. Another layout gets another magic. */
typedef struct tail {
    char     magic[8];
    uint64_t payload, text; /* bytes */
    mac      m;             /* of everything before it */
} tail;

static const char magic[8] = "TDshare";

bool td__seal_add(const td_seal *s, td_buf *b, const char *name, const char *key,
                  const char *note) {
    tail t = {.payload = b->n};
    memcpy(t.magic, magic, sizeof magic);
    td__buf_printf(b, "%sentry %s\n%s", key, name, note);
    t.text = b->n - t.payload;
    td__buf_addn(b, (const char *)&t, sizeof t);
    if (b->failed) return false;
    t.m = sign(s, b->s, b->n - sizeof t.m);
    memcpy(b->s + b->n - sizeof t.m, &t.m, sizeof t.m);
    return true;
}

/* If the text begins with `line`, moves past it. */
static bool skip_text(td_sealed *v, const char *line) {
    size_t n = strlen(line);
    if (v->n_note < n || memcmp(v->note, line, n)) return false;
    v->note += n;
    v->n_note -= n;
    return true;
}

const char *td__seal_check(const td_seal *s, const char *bytes, size_t n,
                           const char *name, const char *key, td_sealed *to) {
    tail t;
    char line[160];
    if (n < sizeof t) return "is truncated";
    memcpy(&t, bytes + n - sizeof t, sizeof t);
    if (memcmp(t.magic, magic, sizeof magic)) return "is no value of this version";
    if (t.payload > n || t.text > n || t.payload + t.text + sizeof t != n)
        return "has another size than its tail says";
    mac m = sign(s, bytes, n - sizeof m);
    if (!is_same(&m, &t.m))
        return s->keyed ? "is damaged, or was not signed with this key" : "is damaged";
    *to = (td_sealed){bytes, bytes + t.payload, t.payload, t.text};
    snprintf(line, sizeof line, "entry %.120s\n", name);
    if (!skip_text(to, key)) return "was made by another compiler or version";
    return skip_text(to, line) ? NULL : "has another name";
}

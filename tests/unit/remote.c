/* remote.c -- the remote cache with a store in memory: what is stored and verified,
 * stores that misbehave, URLs and keys. tests/programs/remote.c has a real server. */
#include "build/redis_int.h"
#include "build/remote.h"
#include "cache_help.h"

#include <sys/stat.h>

/* ---- a store in memory ---------------------------------------------------- */

enum { MOST = 16 };
enum { HONEST, TAKES_NOTHING, GIVES_TWICE, GIVES_MUCH, ANSWERS_99, FAILS, FULL };

typedef struct memory {
    char   name[MOST][128];
    td_buf value[MOST];
    int    n, gets, puts, closed;
    int    how; /* it misbehaves */
} memory;

static td_cache_answer get(void *env, const char *name, int64_t ms, td_cache_take *take,
                           void *to) {
    memory *m = env;
    m->gets++;
    CHECK(ms > 0 && strlen(name) <= 120);
    if (m->how == FAILS) return TD_CACHE_FAILED;
    for (int i = 0; i < m->n; i++) {
        if (strcmp(m->name[i], name)) continue;
        if (m->how == TAKES_NOTHING) return TD_CACHE_OK;
        if (m->how == GIVES_MUCH)
            return take(to, "", TD_CACHE_MOST_BYTES + 1) ? TD_CACHE_OK : TD_CACHE_NONE;
        if (m->how == GIVES_TWICE) take(to, "other bytes", 11);
        take(to, m->value[i].s, m->value[i].n);
        return m->how == ANSWERS_99 ? (td_cache_answer)99 : TD_CACHE_OK;
    }
    return TD_CACHE_NONE;
}

static td_cache_answer put(void *env, const td_cache_item *item, int n, int64_t ms) {
    memory *m = env;
    m->puts++;
    CHECK(ms > 0 && n > 0);
    if (m->how == FAILS || m->how == FULL)
        return m->how == FULL ? TD_CACHE_REFUSED : TD_CACHE_FAILED;
    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < m->n && strcmp(m->name[at], item[i].name)) at++;
        CHECK(at < MOST);
        m->n += at == m->n;
        snprintf(m->name[at], sizeof m->name[at], "%s", item[i].name);
        m->value[at].n = 0;
        td__buf_addn(&m->value[at], item[i].bytes, item[i].n);
    }
    return TD_CACHE_OK;
}

static void close_memory(void *env) { ((memory *)env)->closed++; }

static void empty(memory *m) {
    for (int i = 0; i < MOST; i++) td__buf_free(&m->value[i]);
    *m = (memory){0};
}

/* Pauses after failures are by name, so each test has a store of its own name. */
static td_cache_store store_of(memory *m, const char *name) {
    return (td_cache_store){name, m, get, put, close_memory};
}

/* ---- machines ------------------------------------------------------------- */

static int runs;

static bool counted(td_call *c) {
    runs++;
    return layer(c);
}

/* A machine without files calls a function of a version. */
static void call_anew(memory *m, const char *store, const char *version) {
    td_ctx        *cx = enter("cache");
    td_cache_store s = store_of(m, store);
    CHECK(td_cache_remote(cx, &s));
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *seen = td_zeros(cx, TD_SHAPE(1));
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 2), 0.25)), *out[2];
    td_fn     *f = td_aot_function(cx, counted, NULL,
                                   &(td_aot_opts){TD_AOT_OPTS, .version = version});
    CHECK(td_invoke(f, TD_ARGS(x, w, seen), out, 2));
    CHECK(td_backward(td_sum(out[1])) && td_item(seen) == 1);
    double sum = td_item(td_sum(td_grad_of(w)));
    CHECK(fabs(sum - 12 * (1 - tanh(.75) * tanh(.75))) < 1e-5);
    td_fn_drop(f);
    leave(cx);
}

TEST(another_machine_runs_no_body) {
    memory m = {0};
    runs = 0;
    call_anew(&m, "one", "1");
    CHECK(runs == 1 && m.n == 1 && m.puts == 1 && m.closed == 1);
    call_anew(&m, "one", "1");
    CHECK(runs == 1 && m.puts == 1 && count("was read") == 1 && count("hit: f_") == 1);
    call_anew(&m, "one", "2");
    CHECK(runs == 2 && m.n == 2);
    empty(&m);
}

TEST(a_value_with_any_byte_changed_is_a_miss_and_is_replaced) {
    memory m = {0};
    call_anew(&m, "bytes", "1");
    td_buf *v = &m.value[0];
    size_t  n = v->n, step = n / 60 + 1;
    for (size_t i = 0; i < n; i += step) {
        runs = 0;
        v->s[i] ^= (char)(1 << i % 8);
        call_anew(&m, "bytes", "1");
        TD_CHECK_THAT(runs == 1 && m.n == 1 && v->n == n, "byte %zu", i);
        CHECK(count("is damaged") + count("is no value") + count("another size") == 1);
    }
    for (size_t cut = 0; cut < n; cut += step * 4) {
        runs = 0;
        v->n = cut;
        call_anew(&m, "bytes", "1");
        TD_CHECK_THAT(runs == 1 && v->n == n, "%zu bytes", cut);
    }
    empty(&m);
}

TEST(another_entry_under_the_name_is_a_miss) {
    memory m = {0};
    call_anew(&m, "exchanged", "1");
    call_anew(&m, "exchanged", "2");
    td_buf first = m.value[0];
    m.value[0] = m.value[1];
    m.value[1] = first;
    runs = 0;
    call_anew(&m, "exchanged", "1");
    CHECK(runs == 1 && count("has another name") == 1);
    empty(&m);
}

TEST(a_store_that_misbehaves_breaks_nothing) {
    static const char *const names[] = {"",   "nothing", "twice", "much",
                                        "99", "fails",   "full"};
    for (int how = TAKES_NOTHING; how <= FULL; how++) {
        memory m = {0};
        call_anew(&m, names[how], "1");
        m.how = how;
        m.gets = m.puts = runs = 0;
        call_anew(&m, names[how], "1");
        bool reads = how == GIVES_TWICE || how == FULL; /* the last value counts */
        TD_CHECK_THAT(runs == !reads, "%s", names[how]);
        call_anew(&m, names[how], "2");
        if (how == FAILS) CHECK(m.gets == 1 && m.puts == 0); /* and then paused */
        if (how == ANSWERS_99) CHECK(m.gets == 1);
        if (how == FULL) CHECK(m.gets == 2 && m.puts == 1);
        CHECK(m.closed == 3);
        empty(&m);
    }
}

TEST(a_store_is_closed_once_and_the_setting_holds_without_it) {
    memory         m = {0}, other = {0};
    td_ctx        *cx = enter("cache");
    td_cache_store a = store_of(&m, NULL), b = store_of(&other, "b");
    CHECK(td_cache_remote(cx, &a) && td_cache_remote(cx, &b));
    CHECK(m.closed == 1 && other.closed == 0);
    CHECK(td_cache_remote(cx, NULL) && other.closed == 1);
    CHECK(td_cache_remote(cx, NULL) && m.closed == 1 && other.closed == 1);
    CHECK(!td_cache_remote(cx, &(td_cache_store){.name = "x"}) && !td_ok(cx));
    CHECK(strstr(td_message(cx), "get is NULL") != NULL);
    CHECK(!td_cache_remote(NULL, &a));
    td_clear(cx);
    td_config_set(cx, "cache_remote", "http://127.0.0.1");
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, x), &y, 1));
    CHECK(count("does not begin with redis://") + count("no Redis client") == 1);
    td_fn_drop(f);
    leave(cx);
}

/* ---- stores that use their context ----------------------------------------- */

static td_ctx *mine;
static int     refusals;

static td_cache_answer get_again(void *env, const char *name, int64_t ms,
                                 td_cache_take *take, void *to) {
    (void)env, (void)name, (void)ms, (void)take, (void)to;
    td_tensor *x = td_ones(mine, TD_SHAPE(3)), *y;
    td_fn     *f = td_aot_function(mine, product, NULL, NULL);
    td_invoke(f, TD_ARGS(x, x), &y, 1);
    td_fn_drop(f);
    refusals += !td_cache_remote(mine, NULL);
    td_clear(mine);
    return TD_CACHE_NONE;
}

static td_cache_answer put_again(void *env, const td_cache_item *item, int n,
                                 int64_t ms) {
    (void)env, (void)item, (void)n, (void)ms;
    refusals += !td_cache_remote(mine, NULL);
    td_clear(mine);
    return TD_CACHE_OK;
}

static void close_again(void *env) {
    td_cache_store *s = env;
    refusals += !td_cache_remote(mine, s);
    td_clear(mine);
}

TEST(a_store_may_not_replace_itself) {
    td_cache_store s = {"again", &s, get_again, put_again, close_again};
    mine = enter("cache");
    refusals = 0;
    CHECK(td_cache_remote(mine, &s));
    td_tensor *x = td_ones(mine, TD_SHAPE(2)), *y;
    td_fn     *f = td_aot_function(mine, product, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, x), &y, 1) && refusals == 2);
    CHECK(td_cache_remote(mine, NULL) && refusals == 3);
    td_fn_drop(f);
    leave(mine);
}

/* ---- keys ----------------------------------------------------------------- */

#ifdef TD_HAVE_NETTLE

static const char *open_key(td_seal *s, const char *text, mode_t mode) {
    char  path[] = "/tmp/td-key-XXXXXX";
    int   fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, mode) == 0);
    const char *bad = td__seal_open(s, path);
    unlink(path);
    return bad;
}

static const char key_text[] = "0123456789abcdef0123456789abcdef";

TEST(a_key_is_long_enough_and_secret) {
    static td_seal a, b;
    CHECK(!open_key(&a, key_text, 0600) && a.keyed && a.n == 32);
    CHECK(!open_key(&b, "0123456789abcdef0123456789abcdef \r\n", 0400));
    CHECK(!strcmp(a.id, b.id) && strlen(a.id) == 12);
    CHECK(!open_key(&b, "0123456789abcdef0123456789abcdeF", 0600));
    CHECK(strcmp(a.id, b.id) != 0);
    CHECK(strstr(open_key(&a, key_text + 1, 0600), "fewer than 32"));
    CHECK(strstr(open_key(&a, key_text, 0640), "chmod 600"));
    CHECK(td__seal_open(&a, "/tmp") && td__seal_open(&a, "/dev/zero"));
    CHECK(td__seal_open(&a, "/nowhere/key") && !a.keyed);
    CHECK(!td__seal_open(&a, "") && !strcmp(a.id, "plain") && !a.keyed);
}

TEST(a_signature_holds_for_one_key_name_and_origin) {
    static td_seal a, b, plain;
    td_sealed      v;
    td_buf         t = {0};
    CHECK(!open_key(&a, key_text, 0600) && !td__seal_open(&plain, ""));
    CHECK(!open_key(&b, "0123456789abcdef0123456789abcdeF", 0600));
    td__buf_add(&t, "payload");
    CHECK(td__seal_add(&a, &t, "f_1", "version 1\n", "note"));
    CHECK(!td__seal_check(&a, t.s, t.n, "f_1", "version 1\n", &v));
    CHECK(v.n == 7 && !memcmp(v.payload, "payload", 7));
    CHECK(v.n_note == 4 && !memcmp(v.note, "note", 4));
    CHECK(td__seal_check(&b, t.s, t.n, "f_1", "version 1\n", &v));
    CHECK(td__seal_check(&plain, t.s, t.n, "f_1", "version 1\n", &v));
    CHECK(td__seal_check(&a, t.s, t.n, "f_2", "version 1\n", &v));
    CHECK(td__seal_check(&a, t.s, t.n, "f_1", "version 2\n", &v));
    for (size_t i = 0; i < t.n; i++) {
        t.s[i] ^= 1;
        CHECK(td__seal_check(&a, t.s, t.n, "f_1", "version 1\n", &v));
        t.s[i] ^= 1;
        CHECK(td__seal_check(&a, t.s, i, "f_1", "version 1\n", &v));
    }
    td__buf_free(&t);
}

/* RFC 4231, test case 2: what nettle computes is HMAC-SHA256. */
TEST(the_signature_is_an_hmac) {
    static const char want[] =
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    td_seal s = {.keyed = true, .n = 4};
    char    text[TD_SEAL_MAC * 2 + 1];
    uint8_t mac[TD_SEAL_MAC];
    memcpy(s.key, "Jefe", 4);
    td__seal_mac(&s, "what do ya want for nothing?", 28, mac);
    for (int i = 0; i < TD_SEAL_MAC; i++) sprintf(text + 2 * i, "%02x", mac[i]);
    CHECK(!strcmp(text, want));
}

#endif

/* ---- URLs ----------------------------------------------------------------- */

#ifdef TD_HAVE_HIREDIS

static bool is_url(const char *url, const char *host, const char *port, int db) {
    td_redis    c = {0};
    const char *bad = td__redis_url(&c, url);
    return !bad && !strcmp(c.host, host) && !strcmp(c.port, port) && c.db == db;
}

TEST(urls) {
    td_redis c = {0};
    CHECK(is_url("redis://h", "h", "6379", 0) && is_url("redis://h/", "h", "6379", 0));
    CHECK(is_url("redis://h:1/7", "h", "1", 7));
    CHECK(is_url("redis://[::1]:65535/0", "::1", "65535", 0));
    CHECK(is_url("redis://[::1]", "::1", "6379", 0));
    CHECK(is_url("redis://u:p@h:9", "h", "9", 0) &&
          is_url("redis://:p@h", "h", "6379", 0));
    CHECK(!td__redis_url(&c, "redis://me:a%40b%2f@x@h") && !strcmp(c.user, "me"));
    CHECK(!strcmp(c.password, "a@b/@x"));
    static const char *const wrong[] = {"",
                                        "redis:",
                                        "rediss://h",
                                        "redis://",
                                        "redis://:1",
                                        "redis://h:",
                                        "redis://h:0",
                                        "redis://h:x",
                                        "redis://h:65536",
                                        "redis://[::1",
                                        "redis://[::1]x",
                                        "redis://h/x",
                                        "redis://h/1/2",
                                        "redis://h?db=1",
                                        "redis://@",
                                        "redis://h:99999999999",
                                        "redis://h/-1",
                                        "redis://h%0a"};
    for (int i = 0; i < TD_COUNT(wrong); i++)
        TD_CHECK_THAT(td__redis_url(&c, wrong[i]), "%s", wrong[i]);
    char far[600] = "redis://";
    memset(far + 8, 'a', 500);
    CHECK(td__redis_url(&c, far));
}

#endif

/* tokenizer.c -- text to tokens: each piece of it begins as its bytes, and the pair of
 * neighbours with the lowest rank becomes one token until no pair is left.
 *
 * The tokens of a piece are a list through an array, the pairs that can be merged a
 * heap. A merge leaves entries of the heap behind that are no pairs any more; they are
 * known by their rank. So a piece of n bytes takes n log n, whatever it is. */
#include "tokenizer.h"
#include "pieces.h"
#include "vocab.h"

#include <stdlib.h>
#include <string.h>

/* A token of the piece, with the places of its neighbours. */
typedef struct link {
    uint32_t token, before, after; /* NOWHERE: none */
    bool     gone;
} link;
static const uint32_t NOWHERE = UINT32_MAX;

struct gpt2_tokenizer {
    gpt2_vocab vocab;
    link      *links;
    uint64_t  *heap; /* rank << 32 | place of the left one; the least is first */
    size_t     n_heap, room; /* room: the longest piece there is space for */
};

gpt2_tokenizer *gpt2_tokenizer_open(td_ctx *cx, const char *dir) {
    gpt2_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return td_fail(cx, TD_E_MEMORY, "tokenizer: out of memory"), NULL;
    if (gpt2_vocab_read(&t->vocab, cx, dir)) return t;
    gpt2_tokenizer_close(t);
    return NULL;
}

void gpt2_tokenizer_close(gpt2_tokenizer *t) {
    if (!t) return;
    gpt2_vocab_free(&t->vocab);
    free(t->links);
    free(t->heap);
    free(t);
}

int64_t gpt2_tokenizer_count(const gpt2_tokenizer *t) { return t->vocab.n; }

const char *gpt2_decode(const gpt2_tokenizer *t, int64_t token, size_t *n) {
    const gpt2_vocab *v = &t->vocab;
    *n = 0;
    if (token < 0 || token >= v->n) return "";
    *n = v->at[token + 1] - v->at[token];
    return v->bytes + v->at[token];
}

/* ---- the heap ------------------------------------------------------------ */

static void push(gpt2_tokenizer *t, uint64_t x) {
    size_t i = t->n_heap++;
    for (; i > 0 && t->heap[(i - 1) / 2] > x; i = (i - 1) / 2)
        t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = x;
}

static uint64_t pop(gpt2_tokenizer *t) {
    uint64_t *h = t->heap, least = h[0], x = h[--t->n_heap];
    size_t    i = 0, k;
    while ((k = 2 * i + 1) < t->n_heap) {
        if (k + 1 < t->n_heap && h[k + 1] < h[k]) k++;
        if (h[k] >= x) break;
        h[i] = h[k];
        i = k;
    }
    h[i] = x;
    return least;
}

/* ---- merging ------------------------------------------------------------- */

static const gpt2_pair *pair_at(const gpt2_tokenizer *t, uint32_t i) {
    const link *l = &t->links[i];
    if (i == NOWHERE || l->gone || l->after == NOWHERE) return NULL;
    return gpt2_vocab_pair(&t->vocab, l->token, t->links[l->after].token);
}

static void push_pair(gpt2_tokenizer *t, uint32_t i) {
    const gpt2_pair *p = pair_at(t, i);
    if (p) push(t, (uint64_t)p->rank << 32 | i);
}

/* A merge takes one entry and adds at most two. */
static bool make_room(gpt2_tokenizer *t, size_t n) {
    if (n <= t->room) return true;
    size_t room = n < 256 ? 256 : 2 * n;
    link  *links = realloc(t->links, room * sizeof *links);
    if (links) t->links = links;
    uint64_t *heap = links ? realloc(t->heap, 3 * room * sizeof *heap) : NULL;
    if (heap) t->heap = heap;
    if (heap) t->room = room;
    else td_fail(t->vocab.cx, TD_E_MEMORY, "tokenizer: out of memory");
    return heap != NULL;
}

static bool put(gpt2_tokenizer *t, gpt2_tokens *to, uint32_t token) {
    if (to->n == to->cap) {
        size_t    cap = to->cap ? 2 * to->cap : 256;
        uint32_t *more = realloc(to->v, cap * sizeof *more);
        if (!more) {
            td_fail(t->vocab.cx, TD_E_MEMORY, "tokenizer: out of memory");
            return false;
        }
        to->v = more;
        to->cap = cap;
    }
    to->v[to->n++] = token;
    return true;
}

static void merge(gpt2_tokenizer *t, uint32_t i, uint32_t token) {
    link *left = &t->links[i], *right = &t->links[left->after];
    right->gone = true;
    left->token = token;
    left->after = right->after;
    if (left->after != NOWHERE) t->links[left->after].before = i;
    push_pair(t, i);
    push_pair(t, left->before);
}

static bool encode_piece(gpt2_tokenizer *t, const char *p, size_t n, gpt2_tokens *to) {
    if (n >= NOWHERE)
        return td_fail(t->vocab.cx, TD_E_ARG, "tokenizer: a piece of 4 GiB"), false;
    if (!make_room(t, n)) return false;
    for (uint32_t i = 0; i < n; i++)
        t->links[i] = (link){t->vocab.byte[(unsigned char)p[i]], i ? i - 1 : NOWHERE,
                             i + 1 < n ? i + 1 : NOWHERE, false};
    t->n_heap = 0;
    for (uint32_t i = 0; i + 1 < n; i++) push_pair(t, i);
    while (t->n_heap) {
        uint64_t         least = pop(t);
        uint32_t         i = (uint32_t)least;
        const gpt2_pair *pair = pair_at(t, i);
        if (pair && pair->rank == least >> 32) merge(t, i, pair->token);
    }
    for (uint32_t i = 0; i != NOWHERE; i = t->links[i].after)
        if (!put(t, to, t->links[i].token)) return false;
    return true;
}

/* ---- texts --------------------------------------------------------------- */

static bool encode_plain(gpt2_tokenizer *t, const char *p, size_t n, gpt2_tokens *to) {
    while (n > 0) {
        size_t k = gpt2_piece(p, n);
        if (!encode_piece(t, p, k, to)) return false;
        p += k;
        n -= k;
    }
    return true;
}

bool gpt2_encode(gpt2_tokenizer *t, const char *text, size_t n, gpt2_tokens *to) {
    static const char end[] = "<|endoftext|>";
    int64_t           token = t->vocab.end_of_text;
    const char       *stop = text + n, *at;
    while (token >= 0 && (at = memmem(text, (size_t)(stop - text), end, 13))) {
        if (!encode_plain(t, text, (size_t)(at - text), to)) return false;
        if (!put(t, to, (uint32_t)token)) return false;
        text = at + 13;
    }
    return encode_plain(t, text, (size_t)(stop - text), to);
}

/* case_options.c -- options of statements in cases, key=value: the seed of random
 * numbers, what a backward retains, the circumstances of a call. One table parses and
 * prints them. */
#include "graph/parser.h"

#include "base/words.h"

#include <stddef.h>
#include <string.h>

typedef enum option_kind { FLAG, SEED, WORD } option_kind;
enum { ON_BUILD = 1, ON_CALL = 2, ON_BACKWARD = 4 };

/* The table. */
static const struct option {
    const char *name;
    uint8_t     on;    /* statements that take it: ON_... */
    uint8_t     kind;  /* option_kind */
    size_t      at;    /* offset of its field in td_gstep */
    const char *words; /* of a WORD: allowed values, separated by blanks */
} options[] = {
    {"seed", ON_BUILD | ON_BACKWARD, SEED, offsetof(td_gstep, seed), NULL},
    {"requires_grad", ON_BUILD, FLAG, offsetof(td_gstep, requires_grad), NULL},
    {"retain_graph", ON_BACKWARD, FLAG, offsetof(td_gstep, retain_graph), NULL},
    {"create_graph", ON_BACKWARD, FLAG, offsetof(td_gstep, create_graph), NULL},
    {"hooks", ON_CALL | ON_BACKWARD, WORD, offsetof(td_gstep, hooks),
     "clone bf16 twice"},
    {"autocast", ON_CALL, WORD, offsetof(td_gstep, autocast), "bf16 f16"},
    {"module", ON_CALL, WORD, offsetof(td_gstep, module), "train eval"},
    {"checkpoint", ON_CALL, FLAG, offsetof(td_gstep, checkpoint), NULL},
    {"grads", ON_CALL, FLAG, offsetof(td_gstep, grads), NULL},
    {"control", ON_CALL, FLAG, offsetof(td_gstep, control), NULL},
    {"body", ON_CALL, FLAG, offsetof(td_gstep, body), NULL},
    {"dynamic", ON_CALL, WORD, offsetof(td_gstep, dynamic), "first all maybe"},
    {"rehearse", ON_CALL, FLAG, offsetof(td_gstep, rehearse), NULL},
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static int statement_kind(const td_gstep *s) {
    if (s->kind == TD_STEP_CALL) return ON_CALL;
    return s->kind == TD_STEP_BACKWARD ? ON_BACKWARD : ON_BUILD;
}

static bool parse_word(td_parser *ps, const struct option *o, const char **to) {
    td_lexer   *lx = &ps->lx;
    const char *word = td__lex_text(lx, &ps->body->g->arena);
    if (!word) return false;
    if (td__word_index(o->words, word, strlen(word)) < 0)
        return td__lex_fail(lx, "unknown value of option %s; known are: %s", o->name,
                            o->words);
    *to = word;
    return td__lex_next(lx), true;
}

/* The option's row says where in the step its value is stored. */
static bool parse_value(td_parser *ps, const struct option *o, td_gstep *s) {
    void *to = (char *)s + o->at;
    if (o->kind == FLAG) return td__parse_bool(ps, to);
    if (o->kind == WORD) return parse_word(ps, o, to);
    s->seeded = true;
    return td__parse_integer(ps, to);
}

static bool parse_option(td_parser *ps, td_gstep *s, bool *done) {
    td_lexer *lx = &ps->lx;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (!(options[i].on & statement_kind(s)) || !td__lex_word(lx, options[i].name))
            continue;
        *done = true;
        td__lex_next(lx);
        return td__lex_need(lx, "=") && parse_value(ps, &options[i], s);
    }
    return true;
}

bool td__parse_step_option(td_parser *ps, bool *done) {
    return parse_option(ps, &ps->body->step, done);
}

bool td__parse_options(td_parser *ps, td_gstep *s) {
    for (bool done = true; done;) {
        done = false;
        if (!parse_option(ps, s, &done)) return false;
    }
    return true;
}

void td__text_options(td_buf *b, const td_gstep *s, const char *before) {
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &options[i];
        const char          *at = (const char *)s + o->at, *word = NULL;
        if (o->kind == SEED && s->seeded)
            td__buf_printf(b, "%sseed=%lld", before, (long long)s->seed);
        if (o->kind == FLAG && *(const bool *)at)
            td__buf_printf(b, "%s%s=true", before, o->name);
        if (o->kind == WORD) memcpy(&word, at, sizeof word);
        if (word) td__buf_printf(b, "%s%s=%s", before, o->name, word);
    }
}

/* graph/lexer.h -- the lexer of the text form: one token at a time, each with
 * its position. */
#ifndef TD_LEXER_H
#define TD_LEXER_H

#include "graph/graph_int.h"

typedef enum td_token_kind {
    TD_TOK_END,
    TD_TOK_LINE,  /* the end of a line, outside brackets; several are one */
    TD_TOK_VALUE, /* %name: text is the name */
    TD_TOK_AT,    /* @name or @3 or a bare @ */
    TD_TOK_WORD,
    TD_TOK_INT,    /* magnitude in i */
    TD_TOK_FLOAT,  /* magnitude in f */
    TD_TOK_STRING, /* text is between the quotes, escapes still in it */
    TD_TOK_SIGN    /* one character, or // in which case text is two long */
} td_token_kind;

typedef struct td_token {
    uint8_t     kind;       /* td_token_kind */
    bool        more;       /* %name...: denotes a list of values */
    const char *at, *text;  /* start of the token; its text, not terminated */
    size_t      n;          /* length of text */
    int         line;       /* from 1 */
    const char *line_start; /* for the column in messages */
    uint64_t    i;          /* of an INT */
    double      f;          /* of a FLOAT */
} td_token;

typedef struct td_lexer {
    td_ctx     *cx;
    const char *file; /* for messages */
    const char *p, *end, *line_start;
    int         line;
    int         nest;   /* open brackets, inside which line ends do not count */
    bool        failed; /* an error was recorded; every token is END from then on */
    td_token    tok;    /* the current token */
} td_lexer;

void td__lex_begin(td_lexer *lx, td_ctx *cx, const char *text, size_t n,
                   const char *file);
void td__lex_next(td_lexer *lx); /* advances to the next token */
/* Records "file:line:column: message" about the current token. Always false. */
bool td__lex_fail(td_lexer *lx, const char *fmt, ...) TD_PRINTF(2, 3);
bool td__lex_fail_at(td_lexer *lx, const td_token *t, const char *fmt, ...)
    TD_PRINTF(3, 4);

bool td__lex_is(const td_lexer *lx, const char *sign);   /* the current sign */
bool td__lex_word(const td_lexer *lx, const char *word); /* the current word */
bool td__lex_take(td_lexer *lx, const char *sign);       /* ...and goes past it */
bool td__lex_need(td_lexer *lx, const char *sign);       /* ...or fails */
char td__lex_peek(const td_lexer *lx); /* first character behind the current token */
/* The current token's text in an arena, escapes decoded. NULL: no memory. */
const char *td__lex_text(td_lexer *lx, td_arena *a);
/* A function's name, @f or @"any text", in an arena; goes past it. NULL: there is none,
 * or it failed. */
const char *td__lex_name(td_lexer *lx, td_arena *a);

#endif

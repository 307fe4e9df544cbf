/* ops/expr.h -- the .expr of a row, and casts between dtypes, as C text. The generator
 * of eager's loops and the emitter of fused ones both write with it, which is why they
 * give the same bits. No allocation but for the text. */
#ifndef TD_EXPR_H
#define TD_EXPR_H

#include "ops/compute.h"
#include "ops/ops.h"

/* A type loops compute in, by td_compute. */
typedef struct td_expr_type {
    const char *suffix, *c, *member; /* f32, float, where td_scalars keeps it */
    bool        is_float;
    const char *real; /* of complex types: the C type of their parts; else NULL */
} td_expr_type;
extern const td_expr_type td__expr_types[TD_COMPUTE_COUNT];

/* A dtype in memory: its name in functions, its C type and the size of that. */
typedef struct td_dtype_text {
    const char *suffix, *c;
    int         bytes;
} td_dtype_text;
extern const td_dtype_text td__dtype_text[TD_DTYPE_COUNT];

enum { TD_EXPR_MOST = 1024 };

/* The part of `text` for floats or for integers: "float: E; int: F", or all of it, at
 * most TD_EXPR_MOST characters. False: the op is not defined on this class. */
bool td__expr_pick(const char *text, bool is_float, char *out);
/* Does picked text name this argument behind `mark`, $ or %? */
bool td__expr_names(const char *picked, char mark, const char *name);

/* Which of the loop's operands, or which of its numbers, argument i of an op is; -1:
 * neither. */
int td__expr_operand(const td_schema *s, int i);
int td__expr_number(const td_schema *s, int i);

/* Appends what stands for argument i of the schema. */
typedef void td_expr_arg_fn(void *data, td_buf *b, int i);
/* Picked text in C: arguments by `fn`, functions and numbers of type t. */
void         td__expr_text(td_buf *b, const char *picked, const td_expr_type *t,
                           const td_schema *s, td_expr_arg_fn *fn, void *data);
/* Appends text that begins at `column`, broken at spaces into lines of 84 columns. */
void         td__expr_wrap(td_buf *b, const char *text, int column);

/* Value `s` of dtype `from`, both as in memory, as one of dtype `to`. */
void td__cast_text(td_dtype from, td_dtype to, const char *s, char *out, size_t cap);

#endif

/* call.h -- between call.c and exec.c, and for modes that run a call themselves. */
#ifndef TD_CALL_H
#define TD_CALL_H

#include "core/typed.h"
#include "ops/ops.h"
#include "tandem/mode.h"

/* Computes the op of complex tensors by the formula in .complex, or writes the result
 * of the twin that has one. */
bool td__call_complex_parts(td_opcall *c);
/* Runs one non-composite op below all modes: shape rule, results, kernel. */
bool td__exec(td_opcall *c);
/* May t be written in the mode that holds, if it is an inference tensor? False after
 * td__fail. Asked by the tape, and by who records a program without one. */
bool td__may_write_inference(td_opcall *c, const td_tensor *t);
/* Are there no bytes to compute with, or none wanted? */
bool td__call_is_fake(const td_opcall *c);

/* The op the user called: c's, or the composite it is a part of (cx->composite). While
 * the parts of a composite run, errors name it, and the part in brackets. */
const char *td__op_name(const td_opcall *c);

/* ---- devices (device_args.c, exec_device.c) ------------------------------ */

/* Sets c->device: that of the tensor arguments, or without any the context's. A tensor
 * of the CPU without dims beside those of another device is copied there by an op call,
 * and so is the source of a copy. False after td__fail: arguments on two devices. */
bool         td__call_device(td_opcall *c);
/* Runs the kernel of a call on a device other than the CPU. */
bool         td__exec_on_device(td_opcall *c);
/* The same for a kernel that takes no call: fn(env) reads and writes the tensors
 * t[0..n), of one device, of which those from `first` on are written. */
typedef bool td_host_fn(void *env);
bool td__run_on_host(td_ctx *cx, td_tensor **t, int n, int first, td_host_fn *fn,
                     void *env);

/* ---- typed.c ------------------------------------------------------------ */

/* Is an argument of a type, which computes the op? */
bool       td__call_is_typed(const td_opcall *c);
/* Does the type put another op in place of `op` (td_type_opts.instead)? */
bool       td__typed_replaces(const char *type, td_op op);
/* The op that the type of an argument puts in place of `op`; `op`: none does. */
td_op      td__typed_instead(td_op op, const td_value *in, int n_in);
/* Is it _inner, of a tensor whose inner tensors mode m has as values already? */
bool       td__inner_is_known(const td_mode *m, const td_opcall *c);
/* Has the type of an argument compute the op. flat: what the type gives is the result,
 * without the metadata that eager's result has (views, storages): for graphs. */
bool       td__exec_typed(td_opcall *c, bool flat);
/* exec.c: the parts of td__exec that an op on tensors of a type has in common with
 * others. Both leave inner tensors alone. */
bool       td__exec_view(td_opcall *c);
bool       td__exec_meta_write(td_opcall *c);
/* Checks of a written argument t: writable memory, no overlap inside it, none with what
 * is read. */
bool       td__may_write(td_opcall *c, const td_param *p, td_tensor *t);
void       td__count_write(td_opcall *c, td_tensor *t);
/* `value` as a tensor of the type and metadata of `like`, for a write to `like`; both
 * may be plain. Calls pack of the type. NULL after td__fail, which names the op. */
td_tensor *td__typed_for(td_ctx *cx, const char *op, td_tensor *value, td_tensor *like);
/* `value` in the strides of `like`, which is of the same type, with inner tensors in
 * the strides of those of `like`: a write keeps them. NULL after td__fail. */
td_tensor *td__typed_laid_out(td_tensor *value, td_tensor *like);
/* Memory for a copy of t, of its type, as a gradient of `like`: in the strides of
 * `like` if that has no gaps, else row-major, and so are inner tensors. nil after
 * td__fail. */
td_tensor *td__typed_empty(const td_tensor *t, const td_tensor *like);
/* What inner tensor i of t, a gradient of `like`, is laid out as: that of `like` if
 * both are of one type, or `like`; or itself, where sizes differ. */
const td_tensor *td__typed_inner_like(const td_tensor *t, const td_tensor *like, int i);
/* A tensor of the type, sizes and metadata of t with other inner tensors, in these
 * strides (NULL: row-major), or in those of t; nil after td__fail. */
td_tensor       *td__typed_wrap_as(const td_tensor *t, td_tensor **inner,
                                   const int64_t *stride);
td_tensor       *td__typed_rewrap(td_tensor *t, td_tensor **inner);
/* A tensor of the sizes and type of `like`, whose elements are all `value`, row-major.
 * nil after td__fail. */
td_tensor       *td__filled_like(const td_tensor *like, double value);
/* Copies the elements of `value`, of the same type, to those of `to`. */
bool             td__typed_copy(td_tensor *to, td_tensor *value);

/* An op call as a function of the user's sees it, a mode's or a type's; lives for the
 * length of that function (tandem/mode.h). */
struct td_mode_call {
    TD_HANDLE_FIELDS;
    td_mode       *mode; /* that received the call; NULL: a type did */
    const td_type *type; /* NULL: a mode did */
    td_opcall     *c;
    bool gone;     /* the call went on below: td_mode_call_go or td_mode_call_simpler */
    bool answered; /* td_mode_call_answer */
};

/* ---- composite.c ------------------------------------------------------------ */

/* Calls the parts of a composite; they pass the modes from cx->top on. */
bool td__call_parts(td_opcall *c);
/* x_ of a composite twin: computes, then copies into x. */
bool td__call_twin(td_opcall *c);
/* td__call_parts for any op whose row has_simpler, and for the modes from m on: results
 * look as the op's own do. */
bool td__call_simpler(td_mode *m, td_opcall *c);
/* In a captured body, real tensors among the arguments become the copies the recorder
 * below m has of them: those have the sizes, flags and versions the body has made. */
bool td__call_as_recorded(td_mode *m, td_opcall *c);

/* ---- assumed_copy.c ------------------------------------------------------------ */

/* `copy` was made of `from` for its layout: where a size is 0 or 1, none would be. */
void td__copy_by_layout(const td_tensor *from, const td_tensor *copy);
/* Behind the op the user called, if that was `ok`: is its result such a copy of its
 * argument? False after td__fail. */
bool td__copy_noted(td_opcall *c, bool ok);
/* Before a write: may what it writes be another's copy, or have one? */
bool td__copies_written(td_opcall *c);
/* Results of a body: the same of any two of them. */
bool td__copies_returned(td_ctx *cx, const td_value *out, int n);

#endif

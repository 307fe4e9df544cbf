/* core.h -- tandem._core, the C extension of the Python package: programs, compiled
 * functions, their autograd history and tensors as Python objects. It uses Tandem's
 * public headers and Python's stable ABI.
 *
 * A Program owns a td_ctx, and every object made from it shares that context. A context
 * is used by one thread at a time: context_enter takes its lock. While compiled code
 * runs, the lock is held and the GIL is not. A thread that waits for the lock releases
 * the GIL, so the two locks cannot block each other. */
#ifndef TANDEM_PYTHON_CORE_H
#define TANDEM_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#define TD_KEEP_PLACE
#include <tandem/tandem.h>

/* ---- contexts ----------------------------------------------------------- */

typedef struct context {
    td_ctx            *cx;
    PyThread_type_lock lock;
    unsigned long      owner; /* the thread in context_enter; 0: none */
    int                refs;  /* objects that share it; guarded by the GIL */
    td_tensor        **late;  /* tensors to drop when the lock is free */
    int                n_late, cap_late;
    PyObject          *late_objects; /* list: what those tensors refer to; or NULL */
} context;

extern PyObject *tandem_error; /* tandem.Error */

context  *context_open(void); /* NULL after a Python exception */
context  *context_share(context *c);
void      context_close(context *c); /* drops one reference */
/* Takes the lock and begins a scope. False after a Python exception. */
bool      context_enter(context *c);
/* Ends the scope, drops what objects left, and gives the lock back. */
void      context_leave(context *c);
/* For deallocation: drops tensors now, or when the lock is free. `keep` is referenced
 * until then; it may be NULL. The array stays the caller's. */
void      context_drop(context *c, td_tensor **t, int n, PyObject *keep);
/* The recorded error as a Python exception; clears it. Returns NULL. */
PyObject *context_raise(context *c);

/* ---- tensors in and out ------------------------------------------------- */

/* A Python object as a value of a call. Tensors of a type that was registered are
 * wrapped without a reference: the caller holds o as long as the tensor. Others are
 * taken by __dlpack__. False after a Python exception. */
bool value_of(context *c, PyObject *o, td_value *v);

/* The Python objects of the results of a call: tensors of the registered type `like`
 * (or Tensor objects where it is NULL), numbers, None.
 *
 *   in, args  arguments of the call, and their objects; a result that shares the
 *             storage of one, or of an earlier result, becomes a view of that object
 *   returns   a new list; NULL after a Python exception */
PyObject *list_of(context *c, const td_value *out, int n_out, const td_value *in,
                  PyObject *args, PyObject *like);

/* register(type, view): type has __dlpack_c_exchange_api__, and view(tensor, sizes,
 * strides, offset) makes a view, its offset counted from the tensor's first element. */
PyObject *register_type(PyObject *module, PyObject *args);

PyObject  *tensor_new(context *c, td_tensor *t); /* a Tensor object */
td_tensor *tensor_in(PyObject *o);               /* of a Tensor object; else NULL */

/* ---- objects ------------------------------------------------------------ */

extern PyTypeObject *tensor_type, *program_type, *function_type, *history_type;
extern PyType_Spec   tensor_spec, program_spec, function_spec, history_spec;

/* Flags of types whose objects Python code cannot make. */
#define NOT_CALLABLE (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION)

/* A Function over a graph; takes over nothing. */
PyObject *function_new(context *c, td_fn *f, int n_out);

/* The autograd side of one call: its arguments and results with their history.
 *
 *   in, out  n_in and n_out tensors, NULL where there is none; referenced (td_keep)
 *   keep     what the memory of the arguments belongs to */
PyObject *history_new(context *c, const td_value *in, int n_in, const td_value *out,
                      int n_out, PyObject *keep);

/* ---- calls -------------------------------------------------------------- */

/* The arguments and results of a call; small ones need no allocation. */
typedef struct call {
    td_value  in_small[48], out_small[16];
    td_value *in, *out;
    int       n_in, n_out;
} call;

/* Converts the arguments (a list or tuple). False after a Python exception. */
bool call_begin(call *k, context *c, PyObject *args, int n_out);
void call_end(call *k);

#endif

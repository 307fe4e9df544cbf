/* function.c -- Function: a compiled function, called without or with autograd. */
#include "core.h"

typedef struct function {
    PyObject_HEAD;
    context *c;
    td_fn   *f;
    int      n_out;
} function;

PyTypeObject *function_type;

PyObject *function_new(context *c, td_fn *f, int n_out) {
    function *o = PyObject_New(function, function_type);
    if (!o) return NULL;
    o->c = context_share(c);
    o->f = f;
    o->n_out = n_out;
    return (PyObject *)o;
}

static void function_dealloc(PyObject *self) {
    function     *o = (function *)self;
    PyTypeObject *type = Py_TYPE(self);
    /* The td_fn is freed with the context, which belongs to one program. */
    context_close(o->c);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Seeds the generator of the context unless seed is None. */
static bool seed_with(context *c, PyObject *seed) {
    if (seed == Py_None) return true;
    unsigned long long s = PyLong_AsUnsignedLongLongMask(seed);
    if (PyErr_Occurred()) return false;
    td_seed(c->cx, s);
    return true;
}

/* Marks the dims that the bytes say: per argument a mask of dims whose sizes are
 * symbols of the graph. */
static void mark_dims(const call *k, const char *dims, Py_ssize_t n) {
    for (int i = 0; i < k->n_in && i < n; i++)
        for (int d = 0; d < 8 && k->in[i].kind == TD_K_TENSOR; d++)
            if ((unsigned char)dims[i] >> d & 1) td_mark_maybe_dynamic(k->in[i].u.t, d);
}

/* Sets requires_grad of the arguments. */
static bool set_flags(call *k, const char *flags, Py_ssize_t n) {
    bool ok = true;
    for (int i = 0; i < k->n_in && i < n; i++)
        if (flags[i] && k->in[i].kind == TD_K_TENSOR)
            ok &= !td_is_nil(td_set_requires_grad(k->in[i].u.t, true));
    return ok;
}

/* What a call gets besides its arguments. */
typedef struct how {
    PyObject *like, *seed;
    PyObject *flags; /* bytes: which arguments require grad; NULL: no autograd */
    PyObject *dims;  /* bytes: symbolic dims */
} how;

static const char *bytes_in(PyObject *o, Py_ssize_t *n) {
    char *p = NULL;
    *n = 0;
    return o && o != Py_None && !PyBytes_AsStringAndSize(o, &p, n) ? p : "";
}

/* The call. Returns the list of results, and with autograd a pair of it and its
 * History; NULL after a Python exception. */
static PyObject *run(function *o, PyObject *args, const how *h) {
    PyObject *list = NULL, *history = NULL;
    if (!context_enter(o->c)) return NULL;
    call k;
    if (call_begin(&k, o->c, args, o->n_out) && seed_with(o->c, h->seed)) {
        Py_ssize_t  n_flags, n_dims;
        const char *flags = bytes_in(h->flags, &n_flags),
                   *dims = bytes_in(h->dims, &n_dims);
        int n = -1;
        mark_dims(&k, dims, n_dims);
        td_set_grad_enabled(o->c->cx, h->flags != NULL);
        bool ok = set_flags(&k, flags, n_flags);
        Py_BEGIN_ALLOW_THREADS;
        if (ok) n = td_invoke_values(o->f, (td_values){k.in, k.n_in}, k.out, k.n_out);
        Py_END_ALLOW_THREADS;
        if (n < 0) context_raise(o->c);
        else
            list = list_of(o->c, k.out, k.n_out, k.in, args,
                           h->like == Py_None ? NULL : h->like);
        if (list && h->flags)
            history = history_new(o->c, k.in, k.n_in, k.out, k.n_out, args);
    }
    call_end(&k);
    context_leave(o->c);
    if (!h->flags || !list) return list;
    PyObject *pair = history ? PyTuple_Pack(2, list, history) : NULL;
    Py_DECREF(list);
    Py_XDECREF(history);
    return pair;
}

/* call(args, like, seed, dims) */
static PyObject *function_call(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    if (n != 4) return PyErr_Format(PyExc_TypeError, "call(args, like, seed, dims)");
    return run((function *)self, a[0], &(how){a[1], a[2], NULL, a[3]});
}

/* record(args, like, seed, dims, flags) */
static PyObject *function_record(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    if (n != 5)
        return PyErr_Format(PyExc_TypeError, "record(args, like, seed, dims, flags)");
    return run((function *)self, a[0], &(how){a[1], a[2], a[4], a[3]});
}

/* ---- looking ------------------------------------------------------------ */

static PyObject *function_explain(PyObject *self, PyObject *args) {
    function *o = (function *)self;
    int       json = 0;
    if (!PyArg_ParseTuple(args, "|p", &json) || !context_enter(o->c)) return NULL;
    size_t (*text_of)(const td_fn *, char *, size_t) =
        json ? td_explain_json : td_explain;
    size_t    n = text_of(o->f, NULL, 0);
    char     *text = PyMem_Malloc(n + 1);
    PyObject *s = NULL;
    if (text && n) {
        text_of(o->f, text, n + 1);
        s = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace");
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(text);
    context_leave(o->c);
    return s;
}

static PyObject *function_report(PyObject *self, PyObject *args) {
    function   *o = (function *)self;
    const char *path;
    if (!PyArg_ParseTuple(args, "s", &path) || !context_enter(o->c)) return NULL;
    bool      ok = td_report(o->f, path);
    PyObject *r = ok ? Py_NewRef(Py_None) : context_raise(o->c);
    context_leave(o->c);
    return r;
}

static PyObject *function_specializations(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromLong(td_fn_specializations(((function *)self)->f));
}

static PyMethodDef methods[] = {
    {"call", (PyCFunction)(void (*)(void))function_call, METH_FASTCALL,
     "call(args, like, seed, dims): the list of results, without autograd"},
    {"record", (PyCFunction)(void (*)(void))function_record, METH_FASTCALL,
     "record(args, like, seed, dims, flags): (results, History)"},
    {"explain", function_explain, METH_VARARGS,
     "explain(json=False): how it was compiled"},
    {"report", function_report, METH_VARARGS,
     "report(path): the same as a page of HTML"},
    {0}};
static PyGetSetDef fields[] = {{"specializations", function_specializations, NULL,
                                "How many specializations were compiled.", NULL},
                               {0}};
static PyType_Slot slots[] = {{Py_tp_dealloc, function_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, fields},
                              {Py_tp_doc, "A compiled function of a Program."},
                              {0}};
PyType_Spec function_spec = {"tandem._core.Function", sizeof(function), 0, NOT_CALLABLE,
                             slots};

/* history.c -- History: arguments and results of one call, from which gradients are
 * computed. It is the part of the call that a torch.autograd.Function keeps. */
#include "core.h"

typedef struct history {
    PyObject_HEAD;
    context    *c;
    td_tensor **t; /* arguments, then results; NULL: no tensor, or not differentiable */
    int         n_in, n_out;
    PyObject   *keep; /* what the memory of the arguments belongs to */
} history;

PyTypeObject *history_type;

PyObject *history_new(context *c, const td_value *in, int n_in, const td_value *out,
                      int n_out, PyObject *keep) {
    td_tensor **t = PyMem_Calloc((size_t)(n_in + n_out + 1), sizeof(td_tensor *));
    history    *o = t ? PyObject_New(history, history_type) : NULL;
    if (!o) {
        PyMem_Free(t);
        return PyErr_NoMemory();
    }
    o->c = context_share(c);
    o->t = t;
    o->n_in = n_in;
    o->n_out = n_out;
    o->keep = Py_XNewRef(keep);
    for (int i = 0; i < n_in; i++)
        if (in[i].kind == TD_K_TENSOR) t[i] = td_keep(in[i].u.t);
    for (int i = 0; i < n_out; i++)
        if (out[i].kind == TD_K_TENSOR && td_requires_grad(out[i].u.t))
            t[n_in + i] = td_keep(out[i].u.t);
    return (PyObject *)o;
}

/* Frees the history; afterwards it has no tensors. Results go before arguments: the
 * values saved for backward may be arguments. */
static void release(history *o) {
    if (!o->t) return;
    td_tensor **t = o->t;
    PyObject   *keep = o->keep;
    o->t = NULL;
    o->keep = NULL;
    context_drop(o->c, t + o->n_in, o->n_out, keep);
    context_drop(o->c, t, o->n_in, keep);
    PyMem_Free(t);
    Py_XDECREF(keep);
}

static void history_dealloc(PyObject *self) {
    history      *o = (history *)self;
    PyTypeObject *type = Py_TYPE(self);
    release(o);
    context_close(o->c);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* differentiable(): for each result, does it have a gradient? */
static PyObject *history_differentiable(PyObject *self, PyObject *none) {
    (void)none;
    history  *o = (history *)self;
    PyObject *list = PyList_New(o->n_out);
    for (int i = 0; list && i < o->n_out; i++)
        PyList_SetItem(list, i, PyBool_FromLong(o->t && o->t[o->n_in + i]));
    return list;
}

/* written(i): argument i, or result i - n_in, was written outside of Tandem. A backward
 * that reads its old elements fails. */
static PyObject *history_written(PyObject *self, PyObject *index) {
    history *o = (history *)self;
    long     i = PyLong_AsLong(index);
    if (i < 0 || i >= o->n_in + o->n_out) {
        PyErr_SetString(PyExc_IndexError, "written: no such argument or result");
        return NULL;
    }
    if (o->t && o->t[i] && context_enter(o->c)) {
        td_bump(o->t[i]);
        context_leave(o->c);
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* ---- backward ----------------------------------------------------------- */

/* The lists of one td_grad. Entries of `of` are indexes of arguments. */
typedef struct lists {
    td_tensor **roots, **tangents, **in, **grads;
    int        *of, n_roots, n_in;
} lists;

static bool lists_make(lists *l, int n) {
    size_t m = (size_t)n + 1;
    *l = (lists){0};
    l->roots = PyMem_Calloc(m * 4, sizeof(td_tensor *));
    l->of = PyMem_Calloc(m, sizeof(int));
    if (!l->roots || !l->of) return PyErr_NoMemory(), false;
    l->tangents = l->roots + m;
    l->in = l->tangents + m;
    l->grads = l->in + m;
    return true;
}

static void lists_free(lists *l) {
    PyMem_Free(l->roots);
    PyMem_Free(l->of);
}

/* Roots with a tangent, and the arguments that `wanted` marks. */
static void lists_fill(lists *l, const history *o, const call *k, const char *wanted) {
    for (int i = 0; i < o->n_out && i < k->n_in; i++) {
        td_tensor *root = o->t[o->n_in + i];
        if (!root || k->in[i].kind != TD_K_TENSOR) continue;
        l->roots[l->n_roots] = root;
        l->tangents[l->n_roots++] = k->in[i].u.t;
    }
    for (int i = 0; i < o->n_in; i++) {
        if (!wanted[i] || !o->t[i] || !td_requires_grad(o->t[i])) continue;
        l->of[l->n_in] = i;
        l->in[l->n_in++] = o->t[i];
    }
}

/* What one backward is to do. */
typedef struct wish {
    PyObject *tangents, *like;
    char     *wanted;
    bool      retain, create;
    char     *flags; /* create: which tangents require grad */
} wish;

/* Computes gradients into k->out, one per argument. False after a Python exception. */
static bool differentiate(history *o, call *k, lists *l, const wish *w) {
    bool ok = true;
    for (int i = 0; w->create && i < k->n_in; i++)
        if (w->flags[i] && k->in[i].kind == TD_K_TENSOR)
            td_set_requires_grad(k->in[i].u.t, true);
    lists_fill(l, o, k, w->wanted);
    for (int i = 0; i < o->n_in; i++) k->out[i] = td_value_none();
    if (!l->n_roots || !l->n_in) return true;
    td_grad_opts opts = {TD_GRAD_OPTS, .allow_unused = true};
    opts.retain_graph = w->retain;
    opts.create_graph = w->create;
    opts.grads = (td_tensor_list){l->tangents, l->n_roots};
    td_set_grad_enabled(o->c->cx, w->create);
    Py_BEGIN_ALLOW_THREADS;
    ok = td_grad((td_tensors){l->roots, l->n_roots}, (td_tensors){l->in, l->n_in},
                 l->grads, &opts);
    Py_END_ALLOW_THREADS;
    if (!ok) return context_raise(o->c), false;
    for (int i = 0; i < l->n_in; i++)
        if (l->grads[i] && !td_is_nil(l->grads[i]))
            k->out[l->of[i]] = td_value_tensor(l->grads[i]);
    return true;
}

/* The history of gradients: its arguments are the tangents, then the arguments of the
 * call; its results are the gradients. */
static PyObject *next_history(history *o, const call *k, const wish *w) {
    int       n = k->n_in + o->n_in;
    td_value *in = PyMem_Calloc((size_t)n + 1, sizeof *in);
    PyObject *keep = PyTuple_Pack(2, w->tangents, (PyObject *)o), *next = NULL;
    if (in && keep) {
        memcpy(in, k->in, sizeof *in * (size_t)k->n_in);
        for (int i = 0; i < o->n_in; i++)
            if (o->t[i]) in[k->n_in + i] = td_value_tensor(o->t[i]);
        next = history_new(o->c, in, n, k->out, o->n_in, keep);
    }
    Py_XDECREF(keep);
    PyMem_Free(in);
    return next;
}

static PyObject *run(history *o, const wish *w) {
    if (!o->t) {
        PyErr_SetString(
            tandem_error,
            "backward: the values saved for backward were freed by an earlier "
            "backward; pass retain_graph=True to that one");
        return NULL;
    }
    if (!context_enter(o->c)) return NULL;
    call      k;
    lists     l;
    PyObject *list = NULL, *next = NULL;
    bool      made = lists_make(&l, o->n_in + o->n_out);
    bool      begun = call_begin(&k, o->c, w->tangents, o->n_in);
    if (made && begun && differentiate(o, &k, &l, w)) {
        list = list_of(o->c, k.out, o->n_in, k.in, w->tangents, w->like);
        if (list && w->create) next = next_history(o, &k, w);
    }
    call_end(&k);
    lists_free(&l);
    context_leave(o->c);
    if (!w->retain && !w->create && list) release(o);
    if (!w->create || !list) return list;
    PyObject *pair = next ? PyTuple_Pack(2, list, next) : NULL;
    Py_DECREF(list);
    Py_XDECREF(next);
    return pair;
}

/* Is the mask as long as what it is about? */
static bool check_mask(Py_ssize_t n, Py_ssize_t least, const char *what) {
    if (n >= least) return true;
    PyErr_Format(PyExc_ValueError, "backward: %s has %zd entries; %zd are needed", what,
                 n, least);
    return false;
}

/* backward(tangents, wanted, like, retain): gradients of the arguments. */
static PyObject *history_backward(PyObject *self, PyObject *args) {
    history   *o = (history *)self;
    wish       w = {0};
    Py_ssize_t n;
    int        retain;
    if (!PyArg_ParseTuple(args, "Oy#Op", &w.tangents, &w.wanted, &n, &w.like,
                          &retain) ||
        !check_mask(n, o->n_in, "wanted"))
        return NULL;
    w.retain = retain;
    return run(o, &w);
}

/* backward_graph(tangents, wanted, like, flags): (gradients, their History). */
static PyObject *history_backward_graph(PyObject *self, PyObject *args) {
    history   *o = (history *)self;
    wish       w = {.create = true, .retain = true};
    Py_ssize_t n, n_flags;
    if (!PyArg_ParseTuple(args, "Oy#Oy#", &w.tangents, &w.wanted, &n, &w.like, &w.flags,
                          &n_flags) ||
        !check_mask(n, o->n_in, "wanted") ||
        !check_mask(n_flags, PySequence_Size(w.tangents), "flags"))
        return NULL;
    return run(o, &w);
}

static PyMethodDef methods[] = {
    {"differentiable", history_differentiable, METH_NOARGS,
     "differentiable(): which results have a gradient"},
    {"written", history_written, METH_O,
     "written(i): argument or result i was written outside of Tandem"},
    {"backward", history_backward, METH_VARARGS,
     "backward(tangents, wanted, like, retain): gradients of the arguments"},
    {"backward_graph", history_backward_graph, METH_VARARGS,
     "backward_graph(tangents, wanted, like, flags): (gradients, History)"},
    {0}};
static PyType_Slot slots[] = {{Py_tp_dealloc, history_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc,
                               "Arguments and results of a call, with history."},
                              {0}};
PyType_Spec history_spec = {"tandem._core.History", sizeof(history), 0, NOT_CALLABLE,
                            slots};

/* program.c -- Program: the functions of a .td text in a context of their own. */
#include "core.h"

typedef struct program {
    PyObject_HEAD;
    context  *c;
    td_gfile *file;
} program;

PyTypeObject *program_type;

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    (void)kw;
    const char *text, *name = "text";
    Py_ssize_t  n;
    if (!PyArg_ParseTuple(args, "s#|s", &text, &n, &name)) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    program  *o = (program *)alloc(type, 0);
    if (!o) return NULL;
    o->c = context_open();
    if (o->c) {
        o->file = td_graphs_parse(o->c->cx, text, (size_t)n, name);
        if (!td_is_nil(o->file)) return (PyObject *)o;
        context_raise(o->c);
    }
    Py_DECREF(o);
    return NULL;
}

static void program_dealloc(PyObject *self) {
    program      *o = (program *)self;
    PyTypeObject *type = Py_TYPE(self);
    /* Functions own references to their graphs; the file is freed with the context. */
    context_close(o->c);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* The function of that name; NULL: the first. */
static td_graph *find(program *o, const char *name) {
    td_graph *g = name ? td_graphs_find(o->file, name) : td_graphs_at(o->file, 0);
    if (g) return g;
    PyErr_Format(tandem_error, "the program has no function %s",
                 name ? name : "at all");
    return NULL;
}

static PyObject *program_functions(PyObject *self, PyObject *none) {
    (void)none;
    program  *o = (program *)self;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < td_graphs_count(o->file); i++) {
        td_graph *g = td_graphs_at(o->file, i);
        PyObject *row = Py_BuildValue("(sii)", td_graph_name(g), td_graph_inputs(g),
                                      td_graph_outputs(g));
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *program_text(PyObject *self, PyObject *args) {
    program    *o = (program *)self;
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "|z", &name)) return NULL;
    td_graph *g = find(o, name);
    if (!g) return NULL;
    size_t    n = td_graph_format(g, NULL, 0);
    char     *text = PyMem_Malloc(n + 1);
    PyObject *s = NULL;
    if (!text) return PyErr_NoMemory();
    td_graph_format(g, text, n + 1);
    s = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace");
    PyMem_Free(text);
    return s;
}

/* run(name, args, like): op by op, without compiling. */
static PyObject *program_run(PyObject *self, PyObject *args) {
    program    *o = (program *)self;
    const char *name;
    PyObject   *in, *like, *list = NULL;
    if (!PyArg_ParseTuple(args, "zOO", &name, &in, &like)) return NULL;
    td_graph *g = find(o, name);
    if (!g || !context_enter(o->c)) return NULL;
    call k;
    if (call_begin(&k, o->c, in, td_graph_outputs(g))) {
        bool ok;
        td_set_grad_enabled(o->c->cx, false);
        Py_BEGIN_ALLOW_THREADS;
        ok = td_graph_run(g, k.in, k.n_in, k.out, k.n_out);
        Py_END_ALLOW_THREADS;
        list =
            ok ? list_of(o->c, k.out, k.n_out, k.in, in, like == Py_None ? NULL : like)
               : context_raise(o->c);
    }
    call_end(&k);
    context_leave(o->c);
    return list;
}

/* config(name, value): a setting of the program's context. */
static PyObject *program_config(PyObject *self, PyObject *args) {
    program    *o = (program *)self;
    const char *name, *value;
    if (!PyArg_ParseTuple(args, "ss", &name, &value) || !context_enter(o->c))
        return NULL;
    bool      ok = td_config_set(o->c->cx, name, value);
    PyObject *r = ok ? Py_NewRef(Py_None) : context_raise(o->c);
    context_leave(o->c);
    return r;
}

/* compile(name, n_params): nothing is compiled before the first call. */
static PyObject *program_compile(PyObject *self, PyObject *args) {
    program    *o = (program *)self;
    const char *name = NULL;
    int         n_params = 0;
    if (!PyArg_ParseTuple(args, "|zi", &name, &n_params)) return NULL;
    td_graph *g = find(o, name);
    if (!g || !context_enter(o->c)) return NULL;
    td_aot_opts opts = {TD_AOT_OPTS, .n_params = n_params};
    td_fn      *f = td_aot_graph(g, &opts);
    PyObject   *r =
        td_is_nil(f) ? context_raise(o->c) : function_new(o->c, f, td_graph_outputs(g));
    context_leave(o->c);
    return r;
}

static PyMethodDef methods[] = {
    {"functions", program_functions, METH_NOARGS, "[(name, inputs, outputs)]"},
    {"text", program_text, METH_VARARGS, "text(name=None): a function as text"},
    {"run", program_run, METH_VARARGS, "run(name, args, like): runs op by op"},
    {"config", program_config, METH_VARARGS, "config(name, value): changes a setting"},
    {"compile", program_compile, METH_VARARGS,
     "compile(name=None, n_params=0): a Function; the first n_params arguments are "
     "parameters, whose sizes do not change"},
    {0}};
static PyType_Slot slots[] = {{Py_tp_new, program_new},
                              {Py_tp_dealloc, program_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc,
                               "Program(text, name): functions from .td text"},
                              {0}};
PyType_Spec        program_spec = {"tandem._core.Program", sizeof(program), 0,
                                   Py_TPFLAGS_DEFAULT, slots};

/* module.c -- the module tandem._core. */
#include "core.h"

static PyObject *set_threads(PyObject *module, PyObject *n) {
    (void)module;
    long threads = PyLong_AsLong(n);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    td_set_threads((int)threads);
    Py_RETURN_NONE;
}

static PyObject *threads(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyLong_FromLong(td_threads());
}

static PyMethodDef methods[] = {
    {"set_threads", set_threads, METH_O,
     "set_threads(n): threads of the pool; 0: one per core"},
    {"threads", threads, METH_NOARGS, "threads(): threads of the pool"},
    {"register", register_type, METH_VARARGS,
     "register(type, view): tensors of this type are passed by DLPack's C functions"},
    {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "tandem._core",
                                        "Tandem's C library for Python.",
                                        -1,
                                        methods,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

static bool add_type(PyObject *m, const char *name, PyType_Spec *spec,
                     PyTypeObject **type) {
    *type = (PyTypeObject *)PyType_FromSpec(spec);
    return *type && !PyModule_AddObjectRef(m, name, (PyObject *)*type);
}

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *m = PyModule_Create(&definition);
    tandem_error = PyErr_NewExceptionWithDoc(
        "tandem.Error", "A failure that Tandem reports; its text is Tandem's message.",
        PyExc_RuntimeError, NULL);
    if (m && tandem_error && !PyModule_AddObjectRef(m, "Error", tandem_error) &&
        add_type(m, "Tensor", &tensor_spec, &tensor_type) &&
        add_type(m, "Program", &program_spec, &program_type) &&
        add_type(m, "Function", &function_spec, &function_type) &&
        add_type(m, "History", &history_spec, &history_type) &&
        !PyModule_AddStringConstant(m, "version", TD_VERSION_STRING))
        return m;
    Py_XDECREF(m);
    return NULL;
}

/* tensor.c -- Tensor: a tensor of Tandem as a Python object, for libraries that read it
 * by __dlpack__. */
#include "core.h"

typedef struct tensor {
    PyObject_HEAD;
    context   *c;
    td_tensor *t;
} tensor;

PyTypeObject *tensor_type;

PyObject *tensor_new(context *c, td_tensor *t) {
    tensor *o = PyObject_New(tensor, tensor_type);
    if (!o) return NULL;
    o->c = context_share(c);
    o->t = td_keep(t);
    return (PyObject *)o;
}

td_tensor *tensor_in(PyObject *o) {
    return Py_TYPE(o) == tensor_type ? ((tensor *)o)->t : NULL;
}

static void tensor_dealloc(PyObject *self) {
    tensor       *o = (tensor *)self;
    PyTypeObject *type = Py_TYPE(self);
    context_drop(o->c, &o->t, 1, NULL);
    context_close(o->c);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- DLPack ------------------------------------------------------------- */

static void drop_versioned(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;
    DLManagedTensorVersioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m && m->deleter) m->deleter(m);
}

static void drop_legacy(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;
    DLManagedTensor *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (m && m->deleter) m->deleter(m);
}

/* Does the consumer understand DLPack 1.0? */
static bool takes_versions(PyObject *kw) {
    PyObject *v = kw ? PyDict_GetItemString(kw, "max_version") : NULL;
    PyObject *major = v && v != Py_None ? PySequence_GetItem(v, 0) : NULL;
    bool      yes = major && PyLong_AsLong(major) >= 1;
    Py_XDECREF(major);
    PyErr_Clear();
    return yes;
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kw) {
    (void)args;
    tensor *o = (tensor *)self;
    if (!context_enter(o->c)) return NULL;
    td_tensor *t = td_requires_grad(o->t) ? td_detach(o->t) : o->t;
    PyObject  *capsule = NULL;
    if (takes_versions(kw)) {
        DLManagedTensorVersioned *m = td_to_dlpack(t);
        capsule = m ? PyCapsule_New(m, "dltensor_versioned", drop_versioned)
                    : context_raise(o->c);
    } else {
        DLManagedTensor *m = td_to_dlpack_legacy(t);
        capsule = m ? PyCapsule_New(m, "dltensor", drop_legacy) : context_raise(o->c);
    }
    context_leave(o->c);
    return capsule;
}

static PyObject *tensor_device(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return Py_BuildValue("(ii)", kDLCPU, 0);
}

/* ---- inspection --------------------------------------------------------- */

static PyObject *tensor_shape(PyObject *self, void *none) {
    (void)none;
    td_ints   n = td_sizes(((tensor *)self)->t);
    PyObject *t = PyTuple_New(n.n);
    for (int i = 0; t && i < n.n; i++)
        PyTuple_SetItem(t, i, PyLong_FromLongLong(n.v[i]));
    return t;
}

static PyObject *tensor_dtype(PyObject *self, void *none) {
    (void)none;
    return PyUnicode_FromString(td_dtype_name(td_dtype_of(((tensor *)self)->t)));
}

static PyObject *tensor_repr(PyObject *self) {
    tensor *o = (tensor *)self;
    char    text[4096];
    if (!context_enter(o->c)) return NULL;
    td_format(o->t, text, sizeof text);
    context_leave(o->c);
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack,
     METH_VARARGS | METH_KEYWORDS,
     "The memory of the tensor as a DLPack capsule, without a copy."},
    {"__dlpack_device__", tensor_device, METH_NOARGS, "(1, 0): the CPU."},
    {0}};
static PyGetSetDef fields[] = {{"shape", tensor_shape, NULL, "Its sizes.", NULL},
                               {"dtype", tensor_dtype, NULL,
                                "The name of its element type: \"f32\".", NULL},
                               {0}};
static PyType_Slot slots[] = {{Py_tp_dealloc, tensor_dealloc},
                              {Py_tp_repr, tensor_repr},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, fields},
                              {Py_tp_doc,
                               "A tensor of Tandem; numpy.from_dlpack reads it."},
                              {0}};
PyType_Spec tensor_spec = {"tandem._core.Tensor", sizeof(tensor), 0, NOT_CALLABLE,
                           slots};

/* exchange.c -- Python objects as tensors and back, without copies. A library that has
 * DLPack's table of C functions (PyTorch) is asked through it: one C call per tensor.
 * Any other goes through __dlpack__. */
#include "core.h"

#include <string.h>

/* DLPack's table of a library, found at the type's __dlpack_c_exchange_api__. Only the
 * functions that are called have their types here. */
typedef struct exchange_api {
    DLPackVersion        version;
    struct exchange_api *prev_api;
    void                *allocate, *managed_from_py;
    int (*managed_to_py)(DLManagedTensorVersioned *m, void **out);
    int (*borrow)(void *py, DLTensor *out);
    void *current_stream;
} exchange_api;

/* Types with such a table. A subclass gets a row of its own, found through the type's
 * attribute; rows are never removed. */
enum { MOST_TYPES = 16 };
static struct {
    PyObject           *type; /* referenced */
    const exchange_api *api;
    PyObject           *view; /* makes a view of a tensor of this type */
} types[MOST_TYPES];
static int n_types;

static const exchange_api *api_of(PyObject *type) {
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    if (!capsule) return NULL;
    const exchange_api *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule);
    if (api && (api->version.major != DLPACK_MAJOR_VERSION || !api->borrow)) {
        PyErr_SetString(PyExc_TypeError,
                        "register: its DLPack table is of another version");
        api = NULL;
    }
    return api;
}

PyObject *register_type(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *type, *view;
    if (!PyArg_ParseTuple(args, "OO", &type, &view)) return NULL;
    const exchange_api *api = api_of(type);
    if (!api) return NULL;
    if (n_types == MOST_TYPES) {
        PyErr_SetString(tandem_error,
                        "register: 16 types are registered, which is the limit");
        return NULL;
    }
    types[n_types].type = Py_NewRef(type);
    types[n_types].api = api;
    types[n_types++].view = Py_NewRef(view);
    Py_RETURN_NONE;
}

/* The row of an object's type; -1: it has none. */
static int row_of(PyObject *o) {
    PyObject *type = (PyObject *)Py_TYPE(o);
    for (int i = 0; i < n_types; i++)
        if (types[i].type == type) return i;
    return -1;
}

/* ---- in ----------------------------------------------------------------- */

static bool dtype_of(DLDataType d, td_dtype *out) {
    static const struct {
        uint8_t  code, bits;
        td_dtype dt;
    } rows[] = {{kDLFloat, 32, TD_F32},
                {kDLInt, 64, TD_I64},
                {kDLBool, 8, TD_BOOL},
                {kDLBfloat, 16, TD_BF16},
                {kDLFloat, 64, TD_F64},
                {kDLFloat, 16, TD_F16},
                {kDLInt, 32, TD_I32},
                {kDLInt, 16, TD_I16},
                {kDLInt, 8, TD_I8},
                {kDLUInt, 8, TD_U8},
                {kDLComplex, 64, TD_C64},
                {kDLComplex, 128, TD_C128},
                {kDLUInt, 16, TD_U16},
                {kDLUInt, 32, TD_U32},
                {kDLUInt, 64, TD_U64},
                {kDLFloat8_e4m3fn, 8, TD_F8E4M3},
                {kDLFloat8_e5m2, 8, TD_F8E5M2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && d.lanes == 1; i++)
        if (rows[i].code == d.code && rows[i].bits == d.bits) {
            *out = rows[i].dt;
            return true;
        }
    PyErr_Format(
        tandem_error,
        "a tensor has elements of DLPack type %d with %d bits, which Tandem does "
        "not have; it has f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool c64 c128 u16 u32 u64 "
        "f8e4m3 f8e5m2",
        d.code, d.bits);
    return false;
}

static td_tensor *wrap(context *c, const DLTensor *d) {
    td_dtype dt;
    if (!dtype_of(d->dtype, &dt)) return NULL;
    if (d->device.device_type != kDLCPU) {
        PyErr_Format(
            tandem_error,
            "a tensor is on device type %d; Tandem's compiled code runs on the CPU",
            (int)d->device.device_type);
        return NULL;
    }
    td_ints sizes = {d->shape, d->ndim},
            strides = {d->ndim ? d->strides : NULL, d->ndim};
    char *data = (char *)d->data + d->byte_offset;
    if (!d->strides) strides = (td_ints){NULL, 0};
    td_tensor *t = td_wrap(c->cx, dt, sizes, strides, data, NULL, NULL);
    if (!td_is_nil(t)) return t;
    context_raise(c);
    return NULL;
}

/* A tensor of a capsule of __dlpack__, which is used up. */
static td_tensor *consume(context *c, PyObject *capsule) {
    td_tensor *t = NULL;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        void *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
        t = td_from_dlpack(c->cx, m);
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        void *m = PyCapsule_GetPointer(capsule, "dltensor");
        PyCapsule_SetName(capsule, "used_dltensor");
        t = td_from_dlpack_legacy(c->cx, m);
    } else {
        PyErr_SetString(PyExc_TypeError, "__dlpack__ returned no DLPack capsule");
        return NULL;
    }
    if (!td_is_nil(t)) return t;
    context_raise(c);
    return NULL;
}

/* By __dlpack__: with the current version if the library knows it, so that a read-only
 * array is accepted. */
static td_tensor *ask(context *c, PyObject *o) {
    PyObject *f = PyObject_GetAttrString(o, "__dlpack__");
    if (!f) {
        PyErr_Clear();
        PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
        PyErr_Format(
            PyExc_TypeError,
            "an argument of a Tandem program is a %S; it must be a number, None, "
            "or a tensor with __dlpack__",
            name ? name : Py_None);
        Py_XDECREF(name);
        return NULL;
    }
    PyObject *none = PyTuple_New(0),
             *kw = Py_BuildValue("{s:(ii)}", "max_version", 1, 1);
    PyObject *capsule = none && kw ? PyObject_Call(f, none, kw) : NULL;
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(f);
    }
    td_tensor *t = capsule ? consume(c, capsule) : NULL;
    Py_XDECREF(capsule);
    Py_XDECREF(none);
    Py_XDECREF(kw);
    Py_DECREF(f);
    return t;
}

bool value_of(context *c, PyObject *o, td_value *v) {
    int row = row_of(o);
    if (row >= 0) {
        DLTensor d;
        if (types[row].api->borrow(o, &d)) return false;
        *v = td_value_tensor(wrap(c, &d));
        return v->u.t != NULL;
    }
    *v = td_value_none();
    if (o == Py_None) return true;
    if (PyBool_Check(o)) {
        *v = td_value_bool(o == Py_True);
    } else if (PyLong_Check(o)) {
        *v = td_value_int(PyLong_AsLongLong(o));
        return !PyErr_Occurred();
    } else if (PyFloat_Check(o)) {
        *v = td_value_float(PyFloat_AsDouble(o));
    } else {
        td_tensor *t = tensor_in(o);
        if (t && td_ctx_of(t) != c->cx) t = td_share(c->cx, t);
        if (!t) t = ask(c, o);
        *v = td_value_tensor(t);
        return t != NULL;
    }
    return true;
}

/* ---- out ---------------------------------------------------------------- */

static PyObject *longs(td_ints v) {
    PyObject *t = PyTuple_New(v.n);
    for (int i = 0; t && i < v.n; i++) {
        PyObject *x = PyLong_FromLongLong(v.v[i]);
        if (!x || PyTuple_SetItem(t, i, x)) Py_CLEAR(t);
    }
    return t;
}

/* A view of the object `base`, whose tensor is b, with the geometry of t. */
static PyObject *view_of(PyObject *base, const td_tensor *b, const td_tensor *t,
                         int row) {
    PyObject *sizes = longs(td_sizes(t)), *strides = longs(td_strides(t)), *v = NULL;
    long long offset = td_offset(t) - td_offset(b);
    if (sizes && strides)
        v = PyObject_CallFunction(types[row].view, "OOOL", base, sizes, strides,
                                  offset);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return v;
}

/* The index of the last element of t in its storage. */
static int64_t last_element(const td_tensor *t) {
    td_ints n = td_sizes(t), by = td_strides(t);
    int64_t at = td_offset(t);
    for (int i = 0; i < n.n; i++) at += (n.v[i] - 1) * by.v[i];
    return at;
}

/* May t be made as a view of an object over b's elements? */
static bool covers(const td_tensor *b, const td_tensor *t) {
    return td_same_storage(b, t) && td_dtype_of(b) == td_dtype_of(t) &&
           td_offset(b) <= td_offset(t) && last_element(t) <= last_element(b);
}

static PyObject *export(context *c, td_tensor *t, int row) {
    if (row < 0) return tensor_new(c, t);
    if (td_requires_grad(t)) t = td_detach(t);
    DLManagedTensorVersioned *m = td_to_dlpack(t);
    void                     *o = NULL;
    if (!m) return context_raise(c);
    return types[row].api->managed_to_py(m, &o) ? NULL : o;
}

/* The argument that t is, or is a view of; -1: none. Results that are no views are
 * compared by address alone. */
static int argument_of(const td_tensor *t, const td_value *in, int n_in) {
    bool view = td_is_view(t);
    for (int i = 0; i < n_in; i++)
        if (in[i].kind == TD_K_TENSOR &&
            (in[i].u.t == t || (view && td_same_storage(in[i].u.t, t))))
            return i;
    return -1;
}

/* The results of a call, and what they may share memory with. */
typedef struct results {
    const td_value *out, *in;
    PyObject       *args, *list; /* objects of in; those of out so far */
    int             row;         /* of the type of the objects; -1: Tensor */
} results;

/* Result t, which is argument k or a view of it. Its memory belongs to the argument's
 * object, so that the result is that object or a view of it. */
static PyObject *object_of_argument(context *c, const results *r, td_tensor *t, int k) {
    PyObject *base = PySequence_GetItem(r->args, k), *v = NULL;
    if (base && row_of(base) < 0) v = export(c, t, r->row);
    else if (base)
        v = r->in[k].u.t == t ? Py_NewRef(base)
                              : view_of(base, r->in[k].u.t, t, r->row);
    Py_XDECREF(base);
    return v;
}

/* The object for result i, a tensor. */
static PyObject *object_of(context *c, const results *r, int i) {
    td_tensor *t = r->out[i].u.t;
    if (r->row < 0) return export(c, t, r->row);
    int k = argument_of(t, r->in, r->args ? (int)PySequence_Size(r->args) : 0);
    if (k >= 0) return object_of_argument(c, r, t, k);
    for (int j = 0; j < i; j++) {
        td_tensor *u = r->out[j].kind == TD_K_TENSOR ? r->out[j].u.t : NULL;
        if (u == t) return Py_XNewRef(PyList_GetItem(r->list, j));
        if (u && td_is_view(t) && covers(u, t))
            return view_of(PyList_GetItem(r->list, j), u, t, r->row);
    }
    return export(c, t, r->row);
}

PyObject *list_of(context *c, const td_value *out, int n_out, const td_value *in,
                  PyObject *args, PyObject *like) {
    results r = {out, in, args, PyList_New(n_out), -1};
    for (int i = 0; like && i < n_types; i++)
        if (types[i].type == like) r.row = i;
    for (int i = 0; r.list && i < n_out; i++) {
        PyObject *o;
        switch (out[i].kind) {
        case TD_K_INT: o = PyLong_FromLongLong(out[i].u.i); break;
        case TD_K_FLOAT: o = PyFloat_FromDouble(out[i].u.f); break;
        case TD_K_BOOL: o = PyBool_FromLong((long)out[i].u.i); break;
        case TD_K_TENSOR:
            o = td_is_nil(out[i].u.t) ? Py_NewRef(Py_None) : object_of(c, &r, i);
            break;
        default: o = Py_NewRef(Py_None);
        }
        if (!o || PyList_SetItem(r.list, i, o)) Py_CLEAR(r.list);
    }
    return r.list;
}

/* ---- calls -------------------------------------------------------------- */

bool call_begin(call *k, context *c, PyObject *args, int n_out) {
    Py_ssize_t n = PySequence_Size(args);
    k->in = k->in_small;
    k->out = k->out_small;
    k->n_out = n_out;
    k->n_in = 0;
    if (n < 0) return false;
    if (n > (Py_ssize_t)(sizeof k->in_small / sizeof *k->in))
        k->in = PyMem_Malloc(sizeof *k->in * (size_t)n);
    if (n_out > (int)(sizeof k->out_small / sizeof *k->out))
        k->out = PyMem_Malloc(sizeof *k->out * (size_t)n_out);
    if (!k->in || !k->out) return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PySequence_GetItem(args, i); /* args holds it as well */
        bool      ok = o && value_of(c, o, &k->in[i]);
        Py_XDECREF(o);
        if (!ok) return false;
        k->n_in++;
    }
    return true;
}

void call_end(call *k) {
    if (k->in != k->in_small) PyMem_Free(k->in);
    if (k->out != k->out_small) PyMem_Free(k->out);
}

/* context.c -- a td_ctx with a lock, shared by the objects of one program. */
#include "core.h"

PyObject *tandem_error;

context *context_open(void) {
    context *c = PyMem_Calloc(1, sizeof *c);
    if (!c) return (context *)PyErr_NoMemory();
    c->cx = td_open();
    c->lock = PyThread_allocate_lock();
    c->refs = 1;
    if (c->cx && c->lock) return c;
    context_close(c);
    return (context *)PyErr_NoMemory();
}

context *context_share(context *c) {
    c->refs++;
    return c;
}

void context_close(context *c) {
    if (!c || --c->refs) return;
    if (c->cx) td_clear(c->cx);
    if (c->cx) td_close(c->cx);
    if (c->lock) PyThread_free_lock(c->lock);
    PyMem_Free(c->late);
    Py_XDECREF(c->late_objects);
    PyMem_Free(c);
}

/* Drops what other threads, or objects that died during a call, have left. */
static void drop_late(context *c) {
    for (int i = 0; i < c->n_late; i++) td_drop(c->late[i]);
    c->n_late = 0;
    PyObject *was = c->late_objects;
    c->late_objects = NULL;
    Py_XDECREF(was);
}

bool context_enter(context *c) {
    unsigned long me = PyThread_get_thread_ident();
    if (c->owner == me) {
        PyErr_SetString(
            tandem_error,
            "a call of a Tandem program was made from inside another call of "
            "the same program, on the same thread");
        return false;
    }
    if (!PyThread_acquire_lock(c->lock, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS;
        PyThread_acquire_lock(c->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS;
    }
    c->owner = me;
    td_scope_begin(c->cx, "python");
    return true;
}

void context_leave(context *c) {
    td_scope_end(c->cx, "python", NULL);
    drop_late(c);
    c->owner = 0;
    PyThread_release_lock(c->lock);
}

/* Remembers a tensor for drop_late. Without memory it lives as long as the context. */
static void leave_late(context *c, td_tensor *t) {
    if (c->n_late == c->cap_late) {
        int         cap = c->cap_late ? c->cap_late * 2 : 16;
        td_tensor **more = PyMem_Realloc(c->late, sizeof *more * (size_t)cap);
        if (!more) return;
        c->late = more;
        c->cap_late = cap;
    }
    c->late[c->n_late++] = t;
}

void context_drop(context *c, td_tensor **t, int n, PyObject *keep) {
    bool mine = PyThread_acquire_lock(c->lock, NOWAIT_LOCK);
    for (int i = 0; i < n; i++) {
        if (!t[i]) continue;
        if (mine) td_drop(t[i]);
        else leave_late(c, t[i]);
    }
    if (mine) {
        PyThread_release_lock(c->lock);
        return;
    }
    if (!keep) return;
    if (!c->late_objects) c->late_objects = PyList_New(0);
    if (!c->late_objects || PyList_Append(c->late_objects, keep)) {
        PyErr_Clear();
        Py_INCREF(keep); /* leaked: its memory may still be read */
    }
}

PyObject *context_raise(context *c) {
    const char *text = td_message(c->cx);
    if (PyErr_Occurred()) (void)0; /* the first exception stays */
    else if (td_error(c->cx) == TD_E_MEMORY) PyErr_SetString(PyExc_MemoryError, text);
    else PyErr_SetString(tandem_error, *text ? text : "the call failed");
    td_clear(c->cx);
    return NULL;
}

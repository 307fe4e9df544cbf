// node.cpp -- tandem._node: the autograd node of a compiled call, for the PyTorch that it
// was built against. It does what Call of _bridge.py does as a torch.autograd.Function,
// without the Python code that such a function runs per call and per backward: that is
// half of the time of a small call.
//
// record(run, args) calls the compiled function and gives the results a node. The node
// has the History of the call, the argument objects, and PyTorch's version counters of
// arguments and results. What it does not handle goes to Python: results that are
// arguments or views (`aliased` of the Run), a backward with create_graph (`gradient`).
#include <Python.h>

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <vector>

namespace {

using torch::autograd::Edge;
using torch::autograd::variable_list;

// Names of attributes and methods, made once.
PyObject *s_record, *s_flags, *s_dims, *s_written, *s_seed, *s_aliased, *s_gradient,
    *s_backward, *s_noted, *tensor_type;

// A reference that is dropped at the end of its block. The GIL is held there.
struct Ref {
    PyObject *o;
    explicit Ref(PyObject *o) : o(o) {}
    Ref(const Ref &) = delete;
    Ref &operator=(const Ref &) = delete;
    ~Ref() { Py_XDECREF(o); }
};

struct Gil {
    PyGILState_STATE state = PyGILState_Ensure();
    Gil() = default;
    Gil(const Gil &) = delete;
    Gil &operator=(const Gil &) = delete;
    ~Gil() { PyGILState_Release(state); }
};

// The Python exception as one of C++, which PyTorch's engine carries to the caller.
[[noreturn]] void raise() {
    python_error e;
    e.persist();
    throw e;
}

PyObject *checked(PyObject *o) {
    if (!o) raise();
    return o;
}

// A tensor's counter of versions and what it was at the call. Inference tensors have none.
struct Seen {
    c10::VariableVersion counter; // disabled
    uint32_t             version = 0;
    explicit Seen(const at::Tensor &t) {
        if (!t.defined() || t.is_inference()) return;
        counter = torch::autograd::impl::version_counter(t);
        version = counter.current_version();
    }
    bool changed() const { return counter.enabled() && counter.current_version() != version; }
};

struct CallBackward : torch::autograd::Node {
    PyObject         *run = nullptr, *history = nullptr, *args = nullptr; // owned
    std::vector<Seen> seen; // arguments, then results

    variable_list apply(variable_list &&tangents) override;
    void release_variables() override {
        if (!history || !Py_IsInitialized()) return;
        Gil gil;
        Py_CLEAR(history);
        Py_CLEAR(args);
        seen.clear();
    }
    std::string name() const override { return "CallBackward"; }
    ~CallBackward() override {
        if (!Py_IsInitialized()) return;
        Gil gil;
        Py_CLEAR(run);
        Py_CLEAR(history);
        Py_CLEAR(args);
    }

private:
    void          note_writes();
    PyObject     *wanted() const;
    PyObject     *gradients(PyObject *list, PyObject *mask);
    variable_list unwrap(PyObject *list) const;
};

// Tells Tandem which arguments and results were written since the call: a backward that
// reads the old elements fails, as in eager.
void CallBackward::note_writes() {
    for (size_t i = 0; i < seen.size(); i++) {
        if (!seen[i].changed()) continue;
        Ref at(checked(PyLong_FromSize_t(i)));
        Ref done(checked(PyObject_CallMethodObjArgs(history, s_noted, at.o, nullptr)));
    }
}

// bytes: which arguments the engine wants a gradient of.
PyObject *CallBackward::wanted() const {
    PyObject *mask = checked(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(num_outputs())));
    char     *bytes = PyBytes_AS_STRING(mask);
    for (uint32_t i = 0; i < num_outputs(); i++)
        bytes[i] = char(next_edge(i).is_valid() && task_should_compute_output(i));
    return mask;
}

// The gradients of the arguments as a list or tuple of tensors and None.
PyObject *CallBackward::gradients(PyObject *list, PyObject *mask) {
    if (at::GradMode::is_enabled()) // create_graph: a history of its own
        return checked(PyObject_CallMethodObjArgs(run, s_gradient, history, mask, list,
                                                  args, nullptr));
    bool keep = torch::autograd::get_current_graph_task_keep_graph();
    return checked(PyObject_CallMethodObjArgs(history, s_backward, list, mask, tensor_type,
                                              keep ? Py_True : Py_False, nullptr));
}

variable_list CallBackward::unwrap(PyObject *list) const {
    Ref           fast(checked(PySequence_Fast(list, "gradients are no sequence")));
    variable_list grads(num_outputs());
    Py_ssize_t    n = std::min(PySequence_Fast_GET_SIZE(fast.o), Py_ssize_t(grads.size()));
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *g = PySequence_Fast_GET_ITEM(fast.o, i);
        if (g != Py_None) grads[size_t(i)] = THPVariable_Unpack(g);
    }
    return grads;
}

variable_list CallBackward::apply(variable_list &&tangents) {
    Gil gil;
    TORCH_CHECK(history,
                "Trying to backward through the graph a second time, but the saved values "
                "were freed; pass retain_graph=True to the first backward");
    note_writes();
    Ref list(checked(PyTuple_New(Py_ssize_t(tangents.size()))));
    for (size_t i = 0; i < tangents.size(); i++)
        PyTuple_SET_ITEM(list.o, Py_ssize_t(i), checked(THPVariable_Wrap(tangents[i])));
    Ref mask(wanted());
    Ref made(gradients(list.o, mask.o));
    return unwrap(made.o);
}

// ---- the call -------------------------------------------------------------------------

// PyTorch's tensors of a sequence of objects; undefined where an object is none.
variable_list tensors_of(PyObject *objects) {
    Ref           fast(checked(PySequence_Fast(objects, "arguments are no sequence")));
    variable_list list;
    Py_ssize_t    n = PySequence_Fast_GET_SIZE(fast.o);
    list.reserve(size_t(n));
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(fast.o, i);
        list.push_back(THPVariable_Check(o) ? THPVariable_Unpack(o) : at::Tensor());
    }
    return list;
}

// May the results get a node as they are? Those that are arguments or views, and calls
// under forward-mode differentiation, are the business of torch.autograd.Function.
bool plain(const variable_list &in, const variable_list &out) {
    for (const auto &t : in)
        if (t.defined() && torch::autograd::impl::get_autograd_meta(t) &&
            t._fw_grad(/*level=*/0).defined())
            return false;
    for (const auto &t : out) {
        if (t.defined() && (t.is_view() || t.requires_grad())) return false;
        for (const auto &a : in)
            if (t.defined() && t.is_same(a)) return false;
    }
    return true;
}

void count_writes(PyObject *written, const variable_list &in) {
    Ref fast(checked(PySequence_Fast(written, "written is no sequence")));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.o); i++) {
        size_t at = PyLong_AsSize_t(PySequence_Fast_GET_ITEM(fast.o, i));
        if (at < in.size() && in[at].defined() && !in[at].is_inference())
            in[at].unsafeGetTensorImpl()->bump_version();
    }
    if (PyErr_Occurred()) raise();
}

// Gives the differentiable results a node with edges to the arguments.
void set_node(PyObject *run, PyObject *args, PyObject *history, const variable_list &in,
              variable_list &out) {
    auto node = c10::make_intrusive<CallBackward>();
    node->run = Py_NewRef(run);
    node->history = Py_NewRef(history);
    node->args = Py_NewRef(args);
    torch::autograd::edge_list edges;
    edges.reserve(in.size());
    for (const auto &t : in)
        edges.push_back(t.defined() && t.requires_grad()
                            ? torch::autograd::impl::gradient_edge(t)
                            : Edge());
    node->set_next_edges(std::move(edges));
    node->seen.reserve(in.size() + out.size());
    for (const auto &t : in) node->seen.emplace_back(t);
    Ref which(checked(PyObject_CallMethod(history, "differentiable", nullptr)));
    for (size_t i = 0; i < out.size(); i++) {
        node->seen.emplace_back(out[i]);
        bool has = out[i].defined() &&
                   PyList_GetItem(which.o, Py_ssize_t(i)) == Py_True;
        if (has) torch::autograd::set_history(out[i], node);
        else node->add_input_metadata(torch::autograd::Node::undefined_input());
    }
}

// record(run, args): the results of a call, with history; a list.
PyObject *record(PyObject *, PyObject *const *a, Py_ssize_t n) {
    HANDLE_TH_ERRORS
    if (n != 2) return PyErr_Format(PyExc_TypeError, "record(run, args)");
    PyObject *run = a[0], *args = a[1];
    Ref       f(checked(PyObject_GetAttr(run, s_record)));
    Ref       dims(checked(PyObject_GetAttr(run, s_dims)));
    Ref       flags(checked(PyObject_GetAttr(run, s_flags)));
    Ref       seed(checked(PyObject_CallMethodNoArgs(run, s_seed)));
    Ref       written(checked(PyObject_GetAttr(run, s_written)));
    PyObject *of[] = {args, tensor_type, seed.o, dims.o, flags.o};
    PyObject *pair_made;
    {
        at::AutoGradMode off(false);
        pair_made = checked(PyObject_Vectorcall(f.o, of, 5, nullptr));
    }
    Ref           pair(pair_made);
    PyObject     *outs = PyTuple_GET_ITEM(pair.o, 0), *history = PyTuple_GET_ITEM(pair.o, 1);
    variable_list in = tensors_of(args), out = tensors_of(outs);
    if (!plain(in, out))
        return PyObject_CallMethodObjArgs(run, s_aliased, pair.o, args, nullptr);
    count_writes(written.o, in);
    set_node(run, args, history, in, out);
    return Py_NewRef(outs);
    END_HANDLE_TH_ERRORS
}

PyMethodDef methods[] = {{"record", (PyCFunction)(void (*)(void))record, METH_FASTCALL,
                          "record(run, args): the results of a call, with a node"},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "tandem._node",
                      "The autograd node of a compiled call, for one version of PyTorch.",
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

} // namespace

PyMODINIT_FUNC PyInit__node(void) {
    const struct {
        PyObject  **at;
        const char *text;
    } names[] = {{&s_record, "record"},   {&s_flags, "flags"},     {&s_dims, "dims"},
                 {&s_written, "written"}, {&s_seed, "seed"},       {&s_aliased, "aliased"},
                 {&s_gradient, "gradient"}, {&s_backward, "backward"}, {&s_noted, "written"}};
    for (const auto &name : names)
        if (!(*name.at = PyUnicode_InternFromString(name.text))) return nullptr;
    Ref torch(PyImport_ImportModule("torch"));
    if (!torch.o || !(tensor_type = PyObject_GetAttrString(torch.o, "Tensor")))
        return nullptr;
    PyObject *m = PyModule_Create(&module);
    // The version whose headers this was compiled with; the package compares it.
    if (m && PyModule_AddStringConstant(m, "built_for", TANDEM_TORCH_VERSION) < 0)
        Py_CLEAR(m);
    return m;
}

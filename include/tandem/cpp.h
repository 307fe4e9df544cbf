/* tandem/cpp.h -- for C++: callbacks that may throw.
 *
 * An exception must not leave a callback: Tandem is C, and what it had begun when it
 * called would stay begun. td_catch<f> is a function with the type of f that calls f
 * and turns an exception into a failure of the context, after which it returns false,
 * 0 or nullptr.
 *
 *     static bool body(td_call *c) { throw std::runtime_error("no such file"); }
 *     td_fn *f = td_aot_function(cx, td_catch<body>, nullptr, nullptr);
 *     td_invoke(f, TD_ARGS(x), &y, 1); // false: "exception: no such file"
 */
#ifndef TANDEM_CPP_H
#define TANDEM_CPP_H

#include "tandem/grad.h"
#include "tandem/graph.h"
#include "tandem/mode.h"
#include "tandem/module.h"

#if defined(__cplusplus) && defined(__cpp_exceptions)
#include <exception>
#include <new>

/* The context of an argument of a callback; nullptr: it has none, and the failure is
 * one of the context that this thread named last. */
static inline td_ctx *td__ctx_in(td_ctx *cx) { return cx; }
static inline td_ctx *td__ctx_in(td_call *c) { return td_call_ctx(c); }
static inline td_ctx *td__ctx_in(td_fcall *f) { return td_fcall_ctx(f); }
static inline td_ctx *td__ctx_in(td_mode_call *h) { return td_mode_call_ctx(h); }
static inline td_ctx *td__ctx_in(const td_module *m) { return td_module_ctx(m); }
static inline td_ctx *td__ctx_in(const td_graph *g) { return td_graph_ctx(g); }
static inline td_ctx *td__ctx_in(const td_tensor *t) { return td_ctx_of(t); }
static inline td_ctx *td__ctx_in(const td_member *m) { return td_ctx_of(m->t); }
static inline td_ctx *td__ctx_in(...) { return nullptr; }

template <auto f> struct td__caught;
template <class R, class... A, R (*f)(A...)> struct td__caught<f> {
    static R fail(td_code code, const char *what, A... x) noexcept {
        td_ctx *cx = nullptr;
        ((cx = cx ? cx : td__ctx_in(x)), ...);
        td_fail(cx, code, "exception: %s", what);
        return R();
    }
    static R call(A... x) noexcept {
        try {
            return f(x...);
        } catch (const std::bad_alloc &e) {
            return fail(TD_E_MEMORY, e.what(), x...);
        } catch (const std::exception &e) {
            return fail(TD_E_ARG, e.what(), x...);
        } catch (...) {
            return fail(TD_E_ARG, "not a std::exception", x...);
        }
    }
};
template <auto f> constexpr auto td_catch = &td__caught<f>::call;
#endif

#endif

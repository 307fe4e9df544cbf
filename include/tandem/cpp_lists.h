/* tandem/cpp_lists.h -- values and lists in place for C++ (17 and later): docs/cpp.md.
 * tensor.h includes it. */
#ifndef TANDEM_CPP_LISTS_H
#define TANDEM_CPP_LISTS_H

#include "tandem/tensor.h"

#ifdef __cplusplus
#include <cstddef>
#include <type_traits>

/* A tensor, a number or nothing on its way to a td_value. With one constructor for each
 * type, g++ warns of NULL, which is an integer in C++. For clang++ an attribute asks
 * for the warning; clang++ sees only that a constant is 0 and a long. */
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgcc-compat"
#define TD__NO_NULL(x)                                                             \
    __attribute__((diagnose_if(__builtin_constant_p(x) && (x) == 0,                \
                               "NULL is the number 0 in C++: write nullptr for an" \
                               " absent value, 0 (not 0L) for the number",         \
                               "warning")))
#else
#define TD__NO_NULL(x)
#endif
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::lifetimebound)
#define TD__BORROWS [[clang::lifetimebound]]
#endif
#endif
#ifndef TD__BORROWS
#define TD__BORROWS
#endif
struct td__any {
    td_value value;
    td__any(td_tensor *t) : value(td_value_tensor(t)) {}
    td__any(std::nullptr_t) : value(td_value_tensor(nullptr)) {}
    td__any(td_value v) : value(v) {}
    td__any(bool x) : value(td_value_bool(x)) {}
    td__any(int x) : value(td_value_int(x)) {}
    td__any(long x) TD__NO_NULL(x) : value(td_value_int(x)) {}
    td__any(long long x) : value(td_value_int(x)) {}
    td__any(unsigned x) : value(td_value_uint(x)) {}
    td__any(unsigned long x) : value(td_value_uint(x)) {}
    td__any(unsigned long long x) : value(td_value_uint(x)) {}
    td__any(double x) : value(td_value_float(x)) {}
    td__any(long double x) : value(td_value_long_double(x)) {}
    template <class T> td__any(T *) : value() {
        static_assert(sizeof(T *) == 0,
                      "a td_tensor *, a td_value or a number is expected here");
    }
};
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
static inline td_value td__v(td__any x) { return x.value; }
#define TD_V(x) td__v(x)

/* A list in place: it holds its entries, so that copies are lists of their own, and
 * turns into the List of a function's parameter, which refers to them. */
template <class List, class T, int N> struct td__list {
    T                    v[N + 1];
    static constexpr int n = N;
    constexpr            operator List() const TD__BORROWS { return List{v, N}; }
};
/* `{}` in place of an array. */
struct td__no_entries {};
template <class List, class T, class From, std::size_t N>
constexpr td__list<List, T, (int)N> td__list_of(const From (&from)[N]) {
    td__list<List, T, (int)N> list = {};
    for (std::size_t i = 0; i < N; i++) list.v[i] = from[i];
    return list;
}
template <class... T>
constexpr td__list<td_ints, int64_t, sizeof...(T)> td__ints(T... x) {
    static_assert((true && ... && (std::is_arithmetic_v<T> || std::is_enum_v<T>)),
                  "a list of numbers is expected here");
    return {{(int64_t)x..., 0}};
}
template <std::size_t N>
constexpr td__list<td_tensors, td_tensor *, (int)N> td__tensors(
    td_tensor *const (&&v)[N]) {
    return td__list_of<td_tensors, td_tensor *>(v);
}
constexpr td__list<td_tensors, td_tensor *, 0> td__tensors(td__no_entries) {
    return {{nullptr}};
}
#define TD_SHAPE(...) td__ints(__VA_ARGS__)
#define TD_LIST(...) td__tensors({__VA_ARGS__})
#define TD_SHAPE_OF(p, n) (td_ints{(p), (int)(n)})
#define TD_LIST_OF(p, n) (td_tensors{(p), (int)(n)})
#define TD_ALL (td_ints{nullptr, 0})

/* A list that owns a copy of the list in place it is made of; made of a td_ints, it
 * refers to the same entries. To C it is a td_ints: `own` is where that has padding. */
template <class List, class T> struct td__own_list {
    T  *v = nullptr;
    int n = 0;

  private:
    int  own = 0;
    void take(const T *from, int count) {
        T *copy = new T[(std::size_t)count + 1];
        for (int i = 0; i < count; i++) copy[i] = from[i];
        v = copy, n = count, own = 1;
    }

  public:
    td__own_list() = default;
    td__own_list(List x) : v((T *)x.v), n(x.n) {}
    td__own_list(const T *entries, int count) : v((T *)entries), n(count) {}
    template <int N> td__own_list(const td__list<List, T, N> &x) { take(x.v, N); }
    td__own_list(const td__own_list &x) : v(x.v), n(x.n) {
        if (x.own) take(x.v, x.n);
    }
    td__own_list &operator=(td__own_list x) {
        T *const  was_v = v;
        int const was_n = n, was_own = own;
        v = x.v, n = x.n, own = x.own;
        x.v = was_v, x.n = was_n, x.own = was_own;
        return *this;
    }
    ~td__own_list() {
        if (own) delete[] v;
    }
    operator List() const TD__BORROWS { return List{v, n}; }
};
typedef td__own_list<td_ints, int64_t>        td_int_list;
typedef td__own_list<td_tensors, td_tensor *> td_tensor_list;
static_assert(sizeof(td_int_list) == sizeof(td_ints), "the same for C");
static_assert(sizeof(td_tensor_list) == sizeof(td_tensors), "the same for C");

template <class T> const T *td__address(const T &x TD__BORROWS) { return &x; }
#define TD_OPTS(T, ...) td__address(T{__VA_ARGS__}) /* C++20: fields by name */

struct td__doubles {
    const double *v;
    int           n;
};
template <class... T>
constexpr td__list<td__doubles, double, sizeof...(T)> td__numbers(T... x) {
    return {{(double)x..., 0}};
}
static inline td_tensor *td__tensor1(td_ctx *cx, td__doubles of) {
    return td_from_doubles(cx, of.v, of.n);
}

template <class T> struct td__dtype_of {
    static constexpr td_dtype is =
        std::is_same<T, float>::value    ? TD_F32
        : std::is_same<T, double>::value ? TD_F64
        : std::is_same<T, int>::value    ? TD_I32
        : std::is_same<T, long long>::value ||
                (std::is_same<T, long>::value && sizeof(long) == 8)
            ? TD_I64
            : TD_DTYPE_NONE;
};
#define TD__DTYPE_OF_ARRAY(...)                                        \
    td__dtype_of<typename std::remove_cv<typename std::remove_pointer< \
        typename std::decay<decltype(__VA_ARGS__)>::type>::type>::type>::is
#endif

#endif

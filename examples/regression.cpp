/* regression.cpp -- C++: a network that learns a sine, its training step compiled.
 *
 *     c++ -std=c++17 regression.cpp $(pkg-config --cflags --libs tandem) -o regression
 *
 * The words are those of C; docs/cpp.md says what differs. */
#include <tandem/tandem.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

struct close_context {
    void operator()(td_ctx *cx) const { td_close(cx); }
};
using context = std::unique_ptr<td_ctx, close_context>;

struct trainer {
    td_module *net;
    td_optim  *opt;
};

static bool step(td_call *c) {
    auto      *t = static_cast<trainer *>(td_call_env(c));
    td_tensor *guess = td_module_call(t->net, TD_ARGS(td_arg(c, 0)));
    td_tensor *loss = td_mse_loss(guess, td_arg(c, 1));
    if (td_rank(loss) != 0) throw std::logic_error("the loss has to be one number");
    td_backward(loss);
    td_optim_step(t->opt);
    td_optim_zero_grad(t->opt);
    return td_return(c, loss);
}

int main() {
    context holder(td_open());
    td_ctx *cx = holder.get();
    td_seed(cx, 1);

    td_module *net = td_nn_sequential(
        cx, TD_MODULES(td_nn_linear(cx, 1, 32, nullptr), td_nn_tanh(cx),
                       td_nn_linear(cx, 32, 1, nullptr)));
    trainer    t = {net, td_optim_module(net, td_adam(1e-2))};

    td_aot_opts opts;
    opts.name = "step";
    opts.module = net;
    td_fn *f = td_aot_step(cx, td_catch<step>, &t, &opts);

    auto       column = TD_SHAPE(64, 1);
    td_tensor *x = td_reshape(td_linspace(cx, -3.0, 3.0, 64), column);
    td_tensor *y = td_sin(x);
    double     first = 0, last = 0;
    for (int i = 0; i < 200; i++) {
        td_scope_begin(cx, "step");
        td_tensor *loss;
        td_invoke(f, TD_ARGS(x, y), &loss, 1);
        last = td_item(loss);
        if (i == 0) first = last;
        td_scope_end(cx, "step", nullptr);
    }
    if (!td_ok(cx)) {
        std::fprintf(stderr, "%s\n", td_message(cx));
        return 1;
    }
    std::printf("loss: %.4f, after 200 steps %.4f\n", first, last);
    return last < first / 4 ? 0 : 1;
}

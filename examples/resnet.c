/* resnet.c -- trains ResNet-18 on images of stripes, whose direction is to be told.
 * Names are those of torchvision's resnet18: files of weights fit either.
 *
 *     cc resnet.c $(pkg-config --cflags --libs tandem) -lm && ./a.out 64 64 100
 *
 * Arguments: channels of the first stage, size of the images, steps. The default is
 * small enough for a test.
 */
#include <tandem/tandem.h>

#include <stdio.h>
#include <stdlib.h>

enum { CLASSES = 4, BATCH = 16 };

/* ---- the network -------------------------------------------------------- */

/* Two convolutions and a way around them. */
typedef struct block {
    td_module *conv1, *bn1, *conv2, *bn2, *around; /* NULL: the input itself */
} block;

static td_tensor *call(td_module *m, td_tensor *x) {
    return td_module_call(m, TD_ARGS(x));
}

static bool block_forward(td_module *m, td_call *c) {
    block     *b = td_module_state(m);
    td_tensor *x = td_arg(c, 0), *y = td_relu(call(b->bn1, call(b->conv1, x)));
    y = call(b->bn2, call(b->conv2, y));
    return td_return(c, td_relu(td_add(y, b->around ? call(b->around, x) : x)));
}

static const td_module_type block_type = {.name = "BasicBlock",
                                          .bytes = sizeof(block),
                                          .forward = block_forward};

static td_module *conv(td_ctx *cx, int64_t in, int64_t out, int64_t size, int64_t by) {
    td_nn_conv_opts o = {TD_NN_CONV_OPTS, .stride = TD_DIMS(by),
                         .padding = TD_DIMS(size / 2), .no_bias = true};
    return td_nn_conv2d(cx, in, out, TD_DIMS(size), &o);
}

static td_module *norm(td_ctx *cx, int64_t channels) {
    return td_nn_batch_norm2d(cx, channels, NULL);
}

/* Registers a child and keeps it at hand in the state. */
static void add(td_module *m, const char *name, td_module *child, td_module **slot) {
    if (td_nn_add(m, name, child)) td_module_follow_child(m, name, slot);
}

static td_module *make_block(td_ctx *cx, int64_t in, int64_t out, int64_t by) {
    td_module *m = td_module_make(cx, &block_type);
    block     *b = m ? td_module_state(m) : NULL;
    if (!b) return NULL;
    add(m, "conv1", conv(cx, in, out, 3, by), &b->conv1);
    add(m, "bn1", norm(cx, out), &b->bn1);
    add(m, "conv2", conv(cx, out, out, 3, 1), &b->conv2);
    add(m, "bn2", norm(cx, out), &b->bn2);
    if (in != out) {
        td_module *shrink = conv(cx, in, out, 1, by);
        td_modules both = TD_MODULES(shrink, norm(cx, out));
        add(m, "downsample", td_nn_sequential(cx, both), &b->around);
    }
    return m;
}

static td_module *make_stage(td_ctx *cx, int64_t in, int64_t out, int64_t by) {
    td_module *first = make_block(cx, in, out, by);
    return td_nn_sequential(cx, TD_MODULES(first, make_block(cx, out, out, 1)));
}

/* A Sequential whose children have names of their own. */
static td_module *make_resnet(td_ctx *cx, int64_t width) {
    td_module *m = td_nn_sequential(cx, (td_modules){NULL, 0});
    td_nn_add(m, "conv1", conv(cx, 3, width, 7, 2));
    td_nn_add(m, "bn1", norm(cx, width));
    td_nn_add(m, "relu", td_nn_relu(cx));
    td_nn_add(m, "maxpool", td_nn_max_pool2d(cx, TD_DIMS(3), TD_DIMS(2), TD_DIMS(1)));
    td_nn_add(m, "layer1", make_stage(cx, width, width, 1));
    td_nn_add(m, "layer2", make_stage(cx, width, 2 * width, 2));
    td_nn_add(m, "layer3", make_stage(cx, 2 * width, 4 * width, 2));
    td_nn_add(m, "layer4", make_stage(cx, 4 * width, 8 * width, 2));
    td_nn_add(m, "avgpool", td_nn_adaptive_avg_pool2d(cx, TD_DIMS(1)));
    td_nn_add(m, "flatten", td_nn_flatten(cx, 1, -1));
    td_nn_add(m, "fc", td_nn_linear(cx, 8 * width, CLASSES, NULL));
    return m;
}

/* ---- images ------------------------------------------------------------- */

/* Waves along one of four directions, of any phase, in noise. */
static td_tensor *make_images(td_ctx *cx, td_tensor *kind, int64_t size) {
    td_tensor *angle = td_mul(td_to(kind, TD_F32), 3.14159265 / CLASSES);
    td_tensor *turn = td_reshape(angle, TD_SHAPE(BATCH, 1, 1, 1));
    td_tensor *at = td_linspace(cx, -8.0, 8.0, size);
    td_tensor *along =
        td_add(td_mul(td_cos(turn), at), td_mul(td_sin(turn), td_unsqueeze(at, 1)));
    td_tensor *phase = td_mul(td_rand(cx, TD_SHAPE(BATCH, 1, 1, 1)), 6.28318531);
    td_tensor *noise = td_randn(cx, TD_SHAPE(BATCH, 3, size, size));
    return td_add(td_sin(td_add(along, phase)), td_mul(noise, 0.3));
}

static long number(int argc, char **argv, int i, long none) {
    long v = i < argc ? strtol(argv[i], NULL, 10) : 0;
    return v > 0 ? v : none;
}

int main(int argc, char **argv) {
    long    width = number(argc, argv, 1, 4), size = number(argc, argv, 2, 24);
    long    steps = number(argc, argv, 3, 30), hits = 0;
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    td_module *net = make_resnet(cx, width);
    td_optim  *opt = td_ok(cx) ? td_optim_module(net, td_adamw(4e-3)) : NULL;
    td_fn     *f = td_ok(cx) ? td_aot_module(net, NULL) : NULL;

    for (long step = 0; step < steps && td_ok(cx); step++) {
        td_scope_begin(cx, "step");
        td_tensor *kind = td_randint(cx, 0, CLASSES, TD_SHAPE(BATCH)), *y;
        td_invoke(f, TD_ARGS(make_images(cx, kind, size)), &y, 1);
        td_tensor *loss = td_cross_entropy(y, kind);
        td_backward(loss);
        td_optim_step(opt);
        td_optim_zero_grad(opt);
        double good = td_item(td_sum(td_eq(td_argmax(y, 1), kind)));
        if (step >= steps - 5) hits += (long)good;
        if (step % 5 == 4)
            printf("step %3ld  loss %.4f  right %2.0f of %d\n", step + 1, td_item(loss),
                   good, BATCH);
        td_scope_end(cx, "step", NULL);
    }
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    bool ok = td_ok(cx) && hits > 5 * BATCH / 2;
    td_fn_drop(f);
    td_optim_free(opt);
    td_module_free(net);
    td_close(cx);
    return ok ? 0 : 1;
}

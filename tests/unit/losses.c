/* losses.c -- losses against numbers from PyTorch 2.x. */
#include "op_help.h"

#include "core/core.h"

static td_tensor *classes(td_ctx *cx, int64_t a, int64_t b, int64_t c) {
    return td_from(cx, TD_I64, TD_SHAPE(3), (int64_t[]){a, b, c});
}

static td_tensor *weights(td_ctx *cx) {
    return td_from(cx, TD_F64, TD_SHAPE(4), (double[]){0.5, 1, 2, 0.25});
}

/* ---- cross entropy ------------------------------------------------------ */

typedef struct entropy_case {
    const char *reduction;
    bool        weighted, ignores;
    double      smoothing;
    int         n;
    double      loss[3], grad[12]; /* of logits pattern([3,4], 7) */
} entropy_case;

/* Targets 2, 0, 3; the second one ignored in half of the rows. */
static const entropy_case by_class[] = {
    {"mean",
     0,
     0,
     0,
     1,
     {2.08807586},
     {0.0158322316, 0.0911082021, -0.299816499, 0.192876065, -0.255153612, 0.0287607122,
      0.165506471, 0.0608864282, 0.0345408701, 0.198768984, 0.0731230227,
      -0.306432877}},
    {"mean",
     0,
     0,
     0.1,
     1,
     {2.04849253},
     {0.00749889822, 0.0827748687, -0.274816499, 0.184542732, -0.230153612,
      0.0204273789, 0.157173138, 0.0525530949, 0.0262075368, 0.19043565, 0.0647896893,
      -0.281432877}},
    {"mean",
     0,
     1,
     0,
     1,
     {2.40704744},
     {0.0237483473, 0.136662303, -0.449724748, 0.289314098, 0, 0, 0, 0, 0.0518113052,
      0.298153476, 0.109684534, -0.459649315}},
    {"mean",
     0,
     1,
     0.1,
     1,
     {2.34142244},
     {0.0112483473, 0.124162303, -0.412224748, 0.276814098, 0, 0, 0, 0, 0.0393113052,
      0.285653476, 0.097184534, -0.422149315}},
    {"mean",
     1,
     0,
     0,
     1,
     {2.16309331},
     {0.0345430507, 0.198781532, -0.654145088, 0.420820506, -0.139174697, 0.0156876612,
      0.0902762572, 0.033210779, 0.00942023731, 0.0542097229, 0.0199426425,
      -0.0835726027}},
    {"mean",
     1,
     0,
     0.1,
     1,
     {2.10920082},
     {0.0281624965, 0.179130354, -0.60348454, 0.396191689, -0.121807029, 0.00796942247,
      0.0799936115, 0.0338439949, 0.00746534803, 0.0600264875, 0.00724505107,
      -0.0747368866}},
    {"mean",
     1,
     1,
     0,
     1,
     {2.321529},
     {0.0422192841, 0.242955205, -0.799510664, 0.514336174, 0, 0, 0, 0, 0.0115136234,
      0.0662563279, 0.0243743409, -0.102144292}},
    {"mean",
     1,
     1,
     0.1,
     1,
     {2.2323245},
     {0.0344208291, 0.218937099, -0.737592215, 0.484234287, 0, 0, 0, 0, 0.00912431426,
      0.073365707, 0.00885506242, -0.0913450837}},
    {"sum",
     0,
     0,
     0,
     1,
     {6.26422758},
     {0.0474966947, 0.273324606, -0.899449497, 0.578628196, -0.765460836, 0.0862821366,
      0.496519414, 0.182659285, 0.10362261, 0.596306951, 0.219369068, -0.91929863}},
    {"sum",
     0,
     0,
     0.1,
     1,
     {6.14547758},
     {0.0224966947, 0.248324606, -0.824449497, 0.553628196, -0.690460836, 0.0612821366,
      0.471519414, 0.157659285, 0.0786226104, 0.571306951, 0.194369068, -0.84429863}},
    {"sum",
     0,
     1,
     0,
     1,
     {4.81409488},
     {0.0474966947, 0.273324606, -0.899449497, 0.578628196, 0, 0, 0, 0, 0.10362261,
      0.596306951, 0.219369068, -0.91929863}},
    {"sum",
     0,
     1,
     0.1,
     1,
     {4.68284488},
     {0.0224966947, 0.248324606, -0.824449497, 0.553628196, 0, 0, 0, 0, 0.0786226104,
      0.571306951, 0.194369068, -0.84429863}},
    {"sum",
     1,
     0,
     0,
     1,
     {5.94850659},
     {0.0949933893, 0.546649212, -1.79889899, 1.15725639, -0.382730418, 0.0431410683,
      0.248259707, 0.0913296424, 0.0259056526, 0.149076738, 0.054842267, -0.229824657}},
    {"sum",
     1,
     0,
     0.1,
     1,
     {5.80030227},
     {0.0774468655, 0.492608473, -1.65958248, 1.08952715, -0.334969329, 0.0219159118,
      0.219982432, 0.0930709861, 0.0205297071, 0.165072841, 0.0199238904,
      -0.205526438}},
    {"sum",
     1,
     1,
     0,
     1,
     {5.22344024},
     {0.0949933893, 0.546649212, -1.79889899, 1.15725639, 0, 0, 0, 0, 0.0259056526,
      0.149076738, 0.054842267, -0.229824657}},
    {"sum",
     1,
     1,
     0.1,
     1,
     {5.02273012},
     {0.0774468655, 0.492608473, -1.65958248, 1.08952715, 0, 0, 0, 0, 0.0205297071,
      0.165072841, 0.0199238904, -0.205526438}},
    {"none",
     0,
     0,
     0,
     3,
     {2.29709516, 1.45013269, 2.51699973},
     {0.0474966947, 0.273324606, -0.899449497, 0.578628196, -0.765460836, 0.0862821366,
      0.496519414, 0.182659285, 0.10362261, 0.596306951, 0.219369068, -0.91929863}},
    {"none",
     0,
     0,
     0.1,
     3,
     {2.24709516, 1.46263269, 2.43574973},
     {0.0224966947, 0.248324606, -0.824449497, 0.553628196, -0.690460836, 0.0612821366,
      0.471519414, 0.157659285, 0.0786226104, 0.571306951, 0.194369068, -0.84429863}},
    {"none",
     0,
     1,
     0,
     3,
     {2.29709516, 0, 2.51699973},
     {0.0474966947, 0.273324606, -0.899449497, 0.578628196, 0, 0, 0, 0, 0.10362261,
      0.596306951, 0.219369068, -0.91929863}},
    {"none",
     0,
     1,
     0.1,
     3,
     {2.24709516, 0, 2.43574973},
     {0.0224966947, 0.248324606, -0.824449497, 0.553628196, 0, 0, 0, 0, 0.0786226104,
      0.571306951, 0.194369068, -0.84429863}},
    {"none",
     1,
     0,
     0,
     3,
     {4.59419031, 0.725066347, 0.629249931},
     {0.0949933893, 0.546649212, -1.79889899, 1.15725639, -0.382730418, 0.0431410683,
      0.248259707, 0.0913296424, 0.0259056526, 0.149076738, 0.054842267, -0.229824657}},
    {"none",
     1,
     0,
     0.1,
     3,
     {4.32356145, 0.777572152, 0.699168662},
     {0.0774468655, 0.492608473, -1.65958248, 1.08952715, -0.334969329, 0.0219159118,
      0.219982432, 0.0930709861, 0.0205297071, 0.165072841, 0.0199238904,
      -0.205526438}},
    {"none",
     1,
     1,
     0,
     3,
     {4.59419031, 0, 0.629249931},
     {0.0949933893, 0.546649212, -1.79889899, 1.15725639, 0, 0, 0, 0, 0.0259056526,
      0.149076738, 0.054842267, -0.229824657}},
    {"none",
     1,
     1,
     0.1,
     3,
     {4.32356145, 0, 0.699168662},
     {0.0774468655, 0.492608473, -1.65958248, 1.08952715, 0, 0, 0, 0, 0.0205297071,
      0.165072841, 0.0199238904, -0.205526438}},
};

/* Targets softmax(pattern([3,4], 5)). */
static const entropy_case by_probability[] = {
    {"mean",
     0,
     0,
     0,
     1,
     {1.68455952},
     {-0.00135776856, 0.0311092062, -0.175900238, 0.1461488, -0.0750273314,
      -0.005424402, 0.0461886988, 0.0342630345, -0.118666183, 0.16458387, -0.04619475,
      0.000277062999}},
    {"mean",
     0,
     0,
     0.2,
     1,
     {1.68609612},
     {-0.0145864352, 0.0264423387, -0.15068349, 0.138827587, -0.0610525875,
      -0.0152540458, 0.0533855867, 0.0229210466, -0.104691439, 0.154754226,
      -0.0389978621, -0.0110649249}},
    {"mean",
     1,
     0,
     0,
     1,
     {2.01583955},
     {0.0151110732, 0.0764200366, -0.368648388, 0.277117278, 0.00691118726,
      -0.00346176804, -0.0618348952, 0.0583854759, -0.0397055837, 0.178147885,
      -0.1605226, 0.0220802982}},
    {"mean",
     1,
     0,
     0.2,
     1,
     {1.91043586},
     {0.00672406862, 0.0615521505, -0.321967637, 0.253691418, 0.0118543142,
      -0.0140434476, -0.0517687861, 0.0539579194, -0.0336213871, 0.163120826,
      -0.148040847, 0.0185414075}},
    {"sum",
     0,
     0,
     0,
     1,
     {5.05367855},
     {-0.00407330567, 0.0933276187, -0.527700714, 0.438446401, -0.225081994,
      -0.016273206, 0.138566097, 0.102789104, -0.355998548, 0.493751609, -0.13858425,
      0.000831188998}},
    {"sum",
     0,
     0,
     0.2,
     1,
     {5.05828836},
     {-0.0437593056, 0.0793270162, -0.452050471, 0.41648276, -0.183157762,
      -0.0457621375, 0.16015676, 0.0687631398, -0.314074316, 0.464262677, -0.116993586,
      -0.0331947748}},
    {"sum",
     1,
     0,
     0,
     1,
     {6.04751865},
     {0.0453332195, 0.22926011, -1.10594516, 0.831351833, 0.0207335618, -0.0103853041,
      -0.185504685, 0.175156428, -0.119116751, 0.534443656, -0.4815678, 0.0662408947}},
    {"sum",
     1,
     0,
     0.2,
     1,
     {5.73130759},
     {0.0201722059, 0.184656452, -0.965902911, 0.761074253, 0.0355629427, -0.0421303427,
      -0.155306358, 0.161873758, -0.100864161, 0.489362479, -0.44412254, 0.0556242226}},
    {"none",
     0,
     0,
     0,
     3,
     {1.91045753, 1.30419059, 1.83903043},
     {-0.00407330567, 0.0933276187, -0.527700714, 0.438446401, -0.225081994,
      -0.016273206, 0.138566097, 0.102789104, -0.355998548, 0.493751609, -0.13858425,
      0.000831188998}},
    {"none",
     0,
     0,
     0.2,
     3,
     {1.88778505, 1.35837901, 1.81212429},
     {-0.0437593056, 0.0793270162, -0.452050471, 0.41648276, -0.183157762,
      -0.0457621375, 0.16015676, 0.0687631398, -0.314074316, 0.464262677, -0.116993586,
      -0.0331947748}},
    {"none",
     1,
     0,
     0,
     3,
     {3.21752142, 1.11970715, 1.71029008},
     {0.0453332195, 0.22926011, -1.10594516, 0.831351833, 0.0207335618, -0.0103853041,
      -0.185504685, 0.175156428, -0.119116751, 0.534443656, -0.4815678, 0.0662408947}},
    {"none",
     1,
     0,
     0.2,
     3,
     {2.95159748, 1.1457906, 1.63391951},
     {0.0201722059, 0.184656452, -0.965902911, 0.761074253, 0.0355629427, -0.0421303427,
      -0.155306358, 0.161873758, -0.100864161, 0.489362479, -0.44412254, 0.0556242226}},
};

static void check_entropy(td_ctx *cx, const entropy_case *e, td_tensor *target) {
    td_tensor *x = td_set_requires_grad(pattern(cx, TD_SHAPE(3, 4), 7), true);
    td_tensor *l = td_op_cross_entropy(x, target, e->weighted ? weights(cx) : NULL,
                                       e->reduction, -100, e->smoothing);
    CHECK_OK(cx);
    TD_CHECK_THAT(first_bad(l, e->loss, e->n, 1e-8) == -1, "%s %d %d %g: %s",
                  e->reduction, e->weighted, e->ignores, e->smoothing, text_of(l));
    CHECK(td_backward(td_sum(l)));
    TD_CHECK_THAT(first_bad(td_grad_of(x), e->grad, 12, 1e-8) == -1,
                  "%s %d %d %g: gradient %s", e->reduction, e->weighted, e->ignores,
                  e->smoothing, text_of(td_grad_of(x)));
}

TEST(cross_entropy_of_classes_is_that_of_pytorch) {
    td_ctx *cx = td_open();

    for (int i = 0; i < TD_COUNT(by_class); i++)
        check_entropy(cx, &by_class[i],
                      classes(cx, 2, by_class[i].ignores ? -100 : 0, 3));

    td_close(cx);
}

TEST(cross_entropy_of_probabilities_is_that_of_pytorch) {
    td_ctx *cx = td_open();

    for (int i = 0; i < TD_COUNT(by_probability); i++)
        check_entropy(cx, &by_probability[i],
                      td_softmax(pattern(cx, TD_SHAPE(3, 4), 5), 1));

    td_close(cx);
}

TEST(cross_entropy_takes_places_and_single_rows) {
    td_ctx    *cx = td_open();
    td_tensor *x = pattern(cx, TD_SHAPE(2, 3, 2, 2), 7),
              *row = pattern(cx, TD_SHAPE(4), 7);
    int64_t    at[] = {0, 1, 2, 1, 1, 0, -100, 2}, two = 2;
    td_tensor *y = td_from(cx, TD_I64, TD_SHAPE(2, 2, 2), at);
    td_tensor *one = td_from(cx, TD_I64, TD_SHAPE(), &two), *w = weights(cx);

    td_tensor *l = td_cross_entropy(x, y, NULL, "none");
    CHECK_SHAPE(l, 2, 2, 2);
    CHECK_VALUES(l, 1.91186787, 2.19411219, 1.66186787, 1.56378086, 2.19411219,
                 1.91186787, 0, 0.694112186);
    CHECK_VALUES(td_cross_entropy(x, y, td_narrow(w, 0, 0, 3), "mean", -100, 0.1),
                 1.554723);
    CHECK_VALUES(td_cross_entropy(row, one), 2.29709516);
    CHECK_VALUES(td_cross_entropy(row, one, w, "mean", -100, 0.3), 1.89115187);

    td_close(cx);
}

TEST(a_mean_over_no_target_is_nan_and_a_sum_zero) {
    td_ctx    *cx = td_open();
    td_tensor *x = pattern(cx, TD_SHAPE(3, 4), 7),
              *none = classes(cx, -100, -100, -100);

    CHECK(isnan(td_item(td_cross_entropy(x, none))));
    CHECK(td_item(td_nll_loss(x, none, NULL, "sum")) == 0);
    CHECK(td_item(td_cross_entropy(x, classes(cx, 1, 7, 1), NULL, "sum", 7)) > 0);
    CHECK_OK(cx);

    td_close(cx);
}

TEST(class_losses_refuse_wrong_targets) {
    td_ctx    *cx = td_open();
    td_tensor *x = pattern(cx, TD_SHAPE(3, 4), 7), *y = classes(cx, 0, 1, 2);

    CHECK(td_is_nil(td_cross_entropy(x, classes(cx, 0, 4, 1))));
    CHECK_FAILS(cx, TD_E_INDEX, "target 4 at position 1 must be a class from 0 to 3");
    CHECK(td_is_nil(td_cross_entropy(x, classes(cx, 0, -1, 1))));
    CHECK_FAILS(cx, TD_E_INDEX, "target -1 at position 1");
    CHECK(td_is_nil(td_cross_entropy(x, td_narrow(y, 0, 0, 2))));
    CHECK_FAILS(cx, TD_E_SHAPE, "target must be [3] for scores [3,4]");
    CHECK(td_is_nil(td_cross_entropy(x, pattern(cx, TD_SHAPE(3), 7))));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "target is f64[3]; class indices must be i64 (td_to), or probabilities "
                "of the sizes of self f64[3,4]");
    CHECK(td_is_nil(td_cross_entropy(x, y, pattern(cx, TD_SHAPE(3), 7))));
    CHECK_FAILS(cx, TD_E_SHAPE, "weight must have one entry per class");
    CHECK(td_is_nil(td_cross_entropy(x, y, NULL, "average")));
    CHECK_FAILS(cx, TD_E_ARG, "reduction must be mean, sum or none, got \"average\"");
    CHECK(td_is_nil(td_cross_entropy(x, y, NULL, "mean", -100, 1.5)));
    CHECK_FAILS(cx, TD_E_ARG, "label_smoothing must lie in [0, 1], got 1.5");
    CHECK(td_is_nil(td_cross_entropy(td_to(x, TD_I64), y)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_nll_loss(x, td_to(y, TD_I32))));
    CHECK_FAILS(cx, TD_E_DTYPE, "target must be i64 class indices, got i32[3]");

    td_close(cx);
}

/* ---- the other losses --------------------------------------------------- */

TEST(distances_are_those_of_pytorch) {
    td_ctx    *cx = td_open();
    td_tensor *a = pattern(cx, TD_SHAPE(2, 3), 7), *b = pattern(cx, TD_SHAPE(2, 3), 4);

    CHECK_VALUES(td_l1_loss(a, b), 1.04166667);
    CHECK_VALUES(td_l1_loss(a, b, "sum"), 6.25);
    CHECK_VALUES(td_l1_loss(a, b, "none"), 0, 0.75, 1.25, 2.25, 0.25, 1.75);
    CHECK_VALUES(td_mse_loss(a, b), 1.71875);
    CHECK_VALUES(td_mse_loss(a, b, "sum"), 10.3125);
    CHECK_VALUES(td_mse_loss(a, b, "none"), 0, 0.5625, 1.5625, 5.0625, 0.0625, 3.0625);
    CHECK_VALUES(td_smooth_l1_loss(a, b), 0.677083333);
    CHECK_VALUES(td_smooth_l1_loss(a, b, "sum", 0.5), 5.0625);
    CHECK_VALUES(td_smooth_l1_loss(a, b, "none", 0.5), 0, 0.5, 1, 2, 0.0625, 1.5);
    CHECK_VALUES(td_smooth_l1_loss(a, b, "sum", 0.0), 6.25);
    CHECK_VALUES(td_huber_loss(a, b, "mean", 0.7), 0.541875);
    CHECK_VALUES(td_huber_loss(a, b, "none", 0.7), 0, 0.28, 0.63, 1.33, 0.03125, 0.98);
    CHECK(td_is_nil(td_huber_loss(a, b, "mean", 0.0)));
    CHECK_FAILS(cx, TD_E_ARG, "huber_loss: delta must be positive, got 0");
    CHECK(td_is_nil(td_smooth_l1_loss(a, b, "mean", -1.0)));
    CHECK_FAILS(cx, TD_E_ARG, "smooth_l1_loss: beta must not be negative");

    td_close(cx);
}

TEST(binary_cross_entropy_is_that_of_pytorch) {
    td_ctx    *cx = td_open();
    td_tensor *a = pattern(cx, TD_SHAPE(2, 3), 7);
    td_tensor *t = td_sigmoid(pattern(cx, TD_SHAPE(2, 3), 4));
    td_tensor *w = td_from(cx, TD_F64, TD_SHAPE(3), (double[]){1, 2, 0.5});
    td_tensor *p = td_from(cx, TD_F64, TD_SHAPE(3), (double[]){3, 1, 0.5});

    CHECK_VALUES(td_bce_with_logits(a, t), 0.816832081);
    CHECK_VALUES(td_bce_with_logits(a, t, NULL, NULL, "none"), 0.530304255, 0.755165235,
                 0.813666334, 1.1657523, 0.70093942, 0.93516494);
    CHECK_VALUES(td_bce_with_logits(a, t, w, p, "none"), 1.19926388, 1.51033047,
                 0.241440082, 1.30126064, 1.40187884, 0.259802645);
    CHECK_VALUES(td_bce_with_logits(a, t, w, p, "sum"), 5.91397656);
    CHECK_VALUES(td_bce_with_logits(td_tensor1(cx, 1000, -1000, 0),
                                    td_tensor1(cx, 1, 1, 0.5), NULL, NULL, "none"),
                 0, 1000, 0.693147182);
    CHECK(td_is_nil(td_bce_with_logits(a, w)));
    CHECK_FAILS(cx, TD_E_SHAPE, "target f64[3] must have the sizes of self f64[2,3]");

    td_close(cx);
}

TEST(divergence_is_that_of_pytorch) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_log_softmax(pattern(cx, TD_SHAPE(2, 3), 7), 1);
    td_tensor *q = td_softmax(pattern(cx, TD_SHAPE(2, 3), 4), 1);
    td_tensor *z =
        td_from(cx, TD_F64, TD_SHAPE(2, 3), (double[]){0, 0.5, 0.5, 1, 0, 0});

    CHECK_VALUES(td_kl_div(x, q), 0.262279185);
    CHECK_VALUES(td_kl_div(x, q, "sum"), 1.57367511);
    CHECK_VALUES(td_kl_div(x, q, "batchmean"), 0.786837555);
    CHECK_VALUES(td_kl_div(x, td_log(q), "mean", true), 0.262279185);
    CHECK_VALUES(td_kl_div(x, q, "none"), -0.0202344161, -0.238549199, 0.682037959,
                 -0.180061146, 0, 1.33048191);
    CHECK_VALUES(td_kl_div(x, z, "none"), 0, -0.130145857, 0.369854143, 0.407605964, 0,
                 0);
    CHECK(td_is_nil(td_mse_loss(x, q, "batchmean")));
    CHECK_FAILS(cx, TD_E_ARG, "reduction must be mean, sum or none");

    td_close(cx);
}

/* schedules.c -- learning rates against PyTorch's, 60 steps of each.
 * tests/nn/schedules.safetensors is tools/oracle/schedules.py's. */
#include "nn_help.h"

#define LR 0.05
enum { STEPS = 60 };

static void stored(const char *name, double *out) {
    td_ctx         *cx = td_open();
    td_safetensors *file = td_safetensors_open(cx, "tests/nn/schedules.safetensors");
    td_tensor      *t = td_safetensors_get(file, name);
    CHECK(td_read(t, TD_F64, out, STEPS * sizeof *out));
    CHECK_OK(cx);
    td_safetensors_close(file);
    td_close(cx);
}

/* The rate as a function of the step. */
#define CHECK_RATES(name, rate)                                                      \
    do {                                                                             \
        double want[STEPS];                                                          \
        stored(name, want);                                                          \
        for (int64_t t = 0; t < STEPS; t++) {                                        \
            double is = (rate), apart = fabs(is - want[t]) / fabs(want[t]);          \
            if (want[t] == 0) apart = fabs(is);                                      \
            if (!(apart < 1e-12))                                                    \
                fprintf(stderr, "%s: step %d: %.17g, PyTorch %.17g\n", name, (int)t, \
                        is, want[t]);                                                \
            CHECK(apart < 1e-12);                                                    \
        }                                                                            \
    } while (0)

TEST(rates_that_step_are_pytorchs) {
    CHECK_RATES("step", td_lr_steps(t, 7, 0.5, LR));
    CHECK_RATES("multi_step", td_lr_multi_step(t, TD_DIMS(3, 10, 10, 31), 0.2, LR));
    CHECK_RATES("exponential", td_lr_exponential(t, 0.93, LR));
    CHECK_RATES("linear", td_lr_linear(t, 5, LR / 3, LR));
    CHECK_RATES("linear_down", td_lr_linear(t, 40, LR, LR * 0.2));
    CHECK_RATES("constant", td_lr_constant(t, 8, 0.25, LR));
    CHECK_RATES("polynomial", td_lr_polynomial(t, 45, 1.7, LR));
}

TEST(rates_on_cosines_are_pytorchs) {
    CHECK_RATES("cosine", td_lr_cosine_annealing(t, 17, LR, 0.001));
    CHECK_RATES("restarts", td_lr_cosine_restarts(t, 5, 2, LR, 0.002));
    CHECK_RATES("restarts_equal", td_lr_cosine_restarts(t, 9, 1, LR, 0));
}

TEST(cycles_are_pytorchs) {
    td_lr_one_cycle_opts o = {TD_LR_ONE_CYCLE_OPTS, .pct_start = 0.4, .linear = true,
                              .div_factor = 10, .final_div_factor = 100};
    td_lr_one_cycle_opts three = {TD_LR_ONE_CYCLE_OPTS, .three_phase = true};
    td_lr_cyclic_opts    c = {TD_LR_CYCLIC_OPTS, .up = 8};
    CHECK_RATES("one_cycle", td_lr_one_cycle(t, STEPS, LR));
    CHECK_RATES("one_cycle_linear", td_lr_one_cycle_with(t, STEPS, LR, &o));
    CHECK_RATES("one_cycle_three", td_lr_one_cycle_with(t, STEPS, LR, &three));
    CHECK_RATES("cyclic", td_lr_cyclic(t, 0.01, LR, &c));
    c = (td_lr_cyclic_opts){TD_LR_CYCLIC_OPTS, .up = 6, .down = 3,
                            .mode = TD_CYCLIC_TRIANGULAR2};
    CHECK_RATES("cyclic2", td_lr_cyclic(t, 0.01, LR, &c));
    c = (td_lr_cyclic_opts){TD_LR_CYCLIC_OPTS, .up = 5, .down = 9, .gamma = 0.97,
                            .mode = TD_CYCLIC_EXP_RANGE};
    CHECK_RATES("cyclic_exp", td_lr_cyclic(t, 0.01, LR, &c));
    CHECK(isnan(td_lr_cyclic(1, 0, 1, &(td_lr_cyclic_opts){0})));
    CHECK(isnan(td_lr_one_cycle_with(1, 9, 1, &(td_lr_one_cycle_opts){0})));
}

/* As the comment in optim.h says. */
TEST(rates_of_several_schedules_are_calls_of_calls) {
    CHECK_RATES("sequential", t < 20 ? td_lr_constant(t, 100, 0.1, LR)
                                     : td_lr_exponential(t - 20, 0.9, LR));
    CHECK_RATES("chained",
                td_lr_constant(t, 20, 0.1,
                               td_lr_exponential(t, 0.9, td_lr_steps(t, 6, 0.5, LR))));
    CHECK_RATES("lambda", LR / sqrt(1 + (double)t));
    CHECK_RATES("multiplicative", td_lr_exponential(t, 0.95, LR));
}

static void check_plateau(const char *name, td_plateau p) {
    double metrics[STEPS], lr = LR;
    char   key[64];
    snprintf(key, sizeof key, "metrics.%s", name);
    stored(key, metrics);
    CHECK_RATES(name, t ? (lr = td_lr_plateau_step(&p, metrics[t - 1], lr)) : lr);
    CHECK(lr < LR);
}

TEST(plateaus_are_pytorchs) {
    td_plateau p = td_lr_plateau();
    p.patience = 3;
    p.factor = 0.5;
    check_plateau("plateau", p);
    p = td_lr_plateau();
    p.maximize = true;
    p.patience = 1;
    p.factor = 0.3;
    p.cooldown = 2;
    p.min_lr = 0.004;
    check_plateau("plateau_max", p);
    p = td_lr_plateau();
    p.threshold = 0.05;
    p.absolute = true;
    p.patience = 0;
    check_plateau("plateau_abs", p);
    CHECK(isnan(td_lr_plateau_step(NULL, 1, 1)));
}

TEST(steps_outside_a_schedule_have_the_value_of_its_end) {
    CHECK(td_lr_polynomial(-3, 10, 2, LR) == LR &&
          td_lr_polynomial(11, 10, 2, LR) == 0);
    CHECK(td_lr_exponential(-1, 0.5, LR) == LR);
    CHECK(td_lr_cosine_restarts(INT64_MAX, 3, 2, LR, 0) >= 0);
    CHECK(td_lr_cosine_restarts(5, 0, 1, LR, 0) == LR);
    CHECK(td_lr_cosine_annealing(4, 0, LR, 0) == LR);
    CHECK(td_lr_multi_step(9, (td_ints){NULL, 0}, 0.5, LR) == LR);
}

/* Unit tests of kernels/math_special.h: values against 40-digit ones. A bound is in
 * units of the last place of the result, or of 1 where the result is smaller: functions
 * with zeros have no more digits near them. */
#include "base/base.h"
#include "td_test.h"

#include "kernels/math_special.h"

#include <math.h>

typedef struct point {
    double x, y, want;
} point;

/* clang-format off */
static const point i0_points[] = {
    {0.5, 0, 1.063483370741323519},
    {-3.0, 0, 4.880792585865024086},
    {7.9, 0, 3.894062832821579984e+2},
    {8.1, 0, 4.695006067101214734e+2},
    {30.0, 0, 7.816722978239774897e+11},
    {600.0, 0, 6.146305403936844803e+258},
};
static const point i0e_points[] = {
    {0.5, 0, 6.450352704491500681e-1},
    {-3.0, 0, 2.430003541618253985e-1},
    {7.9, 0, 1.443698641410419215e-1},
    {8.1, 0, 1.425118094882952837e-1},
    {1000.0, 0, 1.261724045589125659e-2},
};
static const point i1_points[] = {
    {0.5, 0, 2.578943053908963164e-1},
    {-3.0, 0, -3.953370217402609396},
    {7.9, 0, 3.638539440845083917e+2},
    {8.1, 0, 4.394843089103584571e+2},
    {30.0, 0, 7.685320389389569995e+11},
    {600.0, 0, 6.141181345066891937e+258},
};
static const point i1e_points[] = {
    {0.5, 0, 1.564208031848716971e-1},
    {-3.0, 0, -1.968267132973008536e-1},
    {7.9, 0, 1.348964994398937681e-1},
    {8.1, 0, 1.334006883258366327e-1},
    {1000.0, 0, 1.261093025692862947e-2},
};
static const point k0_points[] = {
    {1e-05, 0, 1.162885698094436221e+1},
    {0.5, 0, 9.244190712276658618e-1},
    {1.9, 0, 1.28845979276047494e-1},
    {2.1, 0, 1.007837408899669349e-1},
    {20.0, 0, 5.741237815336524293e-10},
    {600.0, 0, 1.355828530994852438e-262},
};
static const point k0e_points[] = {
    {0.5, 0, 1.52410938577390953},
    {1.9, 0, 8.61450616751755789e-1},
    {2.1, 0, 8.230171525316620576e-1},
    {1000.0, 0, 3.962832160075421711e-2},
};
static const point k1_points[] = {
    {1e-05, 0, 9.999999993935570692e+4},
    {0.5, 0, 1.656441120003300894},
    {1.9, 0, 1.596601530326676293e-1},
    {2.1, 0, 1.227464115335078965e-1},
    {20.0, 0, 5.883057969557038178e-10},
    {600.0, 0, 1.356957918112806087e-262},
};
static const point k1e_points[] = {
    {0.5, 0, 2.731009708211785705},
    {1.9, 0, 1.06747092981457005},
    {2.1, 0, 1.002368052740579062},
    {1000.0, 0, 3.964813081296021048e-2},
};
static const point j0_points[] = {
    {0.5, 0, 9.384698072408129042e-1},
    {-3.0, 0, -2.600519549019334376e-1},
    {2.4, 0, 2.507683297243859217e-3},
    {5.5, 0, -6.843869417819196824e-3},
    {7.9, 0, 1.943618448412782397e-1},
    {8.1, 0, 1.475174540443776703e-1},
    {1000.0, 0, 2.478668615242017456e-2},
    {1000000000000000.0, 0, 6.156638646885021677e-9},
};
static const point j1_points[] = {
    {0.5, 0, 2.422684576748738864e-1},
    {-3.0, 0, -3.390589585259364589e-1},
    {3.8, 0, 1.282100292673169914e-2},
    {7.0, 0, -4.682823482345832699e-3},
    {7.9, 0, 2.191793999217512033e-1},
    {8.1, 0, 2.476077669815928766e-1},
    {1000.0, 0, 4.728311907089523918e-3},
    {1000000000000000.0, 0, 2.446866512377132647e-8},
};
static const point y0_points[] = {
    {1e-05, 0, -7.403160283701970081},
    {0.5, 0, -4.445187335067065571e-1},
    {3.0, 0, 3.76850010012790382e-1},
    {7.9, 0, 2.065209481443757686e-1},
    {8.1, 0, 2.380913287022348086e-1},
    {1000.0, 0, 4.7159179776228134e-3},
    {1000000000000000.0, 0, 2.446866512377132339e-8},
};
static const point y1_points[] = {
    {1e-05, 0, -6.366197727536547995e+4},
    {0.5, 0, -1.471472392670243069},
    {3.0, 0, 3.246744247917999784e-1},
    {7.9, 0, -1.817210772805731277e-1},
    {8.1, 0, -1.331487959524959261e-1},
    {1000.0, 0, -2.478433129235177891e-2},
    {1000000000000000.0, 0, -6.156638646885009443e-9},
};
static const point airy_ai_points[] = {
    {-20.0, 0, -1.764061270779846896e-1},
    {-4.6, 0, 3.374959754894627283e-1},
    {-4.4, 0, 2.337032580731633576e-1},
    {-2.1, 0, 1.634845129992926789e-1},
    {-1.9, 0, 2.868000562794908945e-1},
    {-0.5, 0, 4.757280916105395888e-1},
    {0.5, 0, 2.316936064808334898e-1},
    {1.5, 0, 7.174949700810540967e-2},
    {2.5, 0, 1.572592338047049e-2},
    {20.0, 0, 1.691672868670540314e-27},
};
static const point erfcx_points[] = {
    {-20.0, 0, 1.04429393795282879e+174},
    {-3.0, 0, 1.620598885399958663e+4},
    {-0.5, 0, 1.952360489182557093},
    {0.5, 0, 6.156903441929258749e-1},
    {3.0, 0, 1.790011511813899504e-1},
    {30.0, 0, 1.87958888614167515e-2},
    {10000000000.0, 0, 5.641895835477562869e-11},
};
static const point erfinv_points[] = {
    {1e-20, 0, 8.86226925452757965e-21},
    {-0.3, 0, -2.72462714726754345e-1},
    {0.5, 0, 4.769362762044698734e-1},
    {0.75, 0, 8.134198475976185417e-1},
    {-0.999, 0, -2.326753765513524494},
    {0.9999999999999999, 0, 5.863584748755167927},
};
static const point log_ndtr_points[] = {
    {-1000.0, 0, -5.000078266948121843e+5},
    {-20.0, 0, -2.039171553710972639e+2},
    {-1.5, 0, -2.705944400823889807},
    {-0.5, 0, -1.175911761593618609},
    {0.5, 0, -3.689464152886563931e-1},
    {5.0, 0, -2.866516129637635934e-7},
};
static const point ndtri_points[] = {
    {1e-300, 0, -3.704709629936119924e+1},
    {1e-20, 0, -9.26234008979840758},
    {0.1, 0, -1.281551565544600435},
    {0.3, 0, -5.24400512708040816e-1},
    {0.8, 0, 8.416212335729143638e-1},
    {0.999, 0, 3.090232306167813278},
};
static const point zeta_points[] = {
    {2.0, 1.0, 1.644934066848226436},
    {1.5, 0.25, 1.021305536046660074e+1},
    {30.0, 10.0, 1.061950390415122812e-30},
    {3.0, 1000.0, 5.005002499999166667e-7},
    {2.0, -2.5, 9.539246644989123754},
    {3.0, -0.25, -6.134868339183118018e+1},
};
static const point polygamma_points[] = {
    {1.0, 1.0, 1.644934066848226436},
    {2.0, 0.5, -1.682879664423432e+1},
    {5.0, 3.25, 1.316060857809731391e-1},
    {1.0, -2.5, 9.539246644989123754},
    {3.0, 40.0, 3.244140015156350032e-5},
};
static const point igamma_points[] = {
    {0.5, 0.25, 5.204998778130465377e-1},
    {3.0, 10.0, 9.972306042844884241e-1},
    {30.0, 25.0, 1.821039159774551098e-1},
    {100.0, 101.0, 5.528962934345112458e-1},
    {250.0, 240.0, 2.676500698540158008e-1},
    {1000000.0, 1000500.0, 6.915504757714971815e-1},
    {300.0, 50.0, 3.709454418396004415e-127},
};
static const point igammac_points[] = {
    {0.5, 0.25, 4.795001221869534623e-1},
    {1e-05, 0.9, 2.601863977209298548e-6},
    {3.0, 10.0, 2.769395715511575944e-3},
    {30.0, 25.0, 8.178960840225448902e-1},
    {100.0, 101.0, 4.471037065654887542e-1},
    {250.0, 262.0, 2.212039765711714036e-1},
    {1000000.0, 1000500.0, 3.084495242285028185e-1},
    {300.0, 700.0, 8.14045384048253101e-66},
};
/* clang-format on */

/* In units of the last place of want; waves: of 1 at least. */
static double apart(double got, double want, bool waves) {
    double unit = nextafter(fabs(want), INFINITY) - fabs(want);
    if (waves && unit < 0x1p-53) unit = 0x1p-53;
    return isfinite(got) ? fabs(got - want) / unit : INFINITY;
}

/* Is got the float next to want, or, where want is nearly between two, the other? */
static bool rounds(float got, double want) {
    float w = (float)want;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (got == w || isinf(w) || isinf(got)) return got == w;
    float unit = nextafterf(fabsf(w), INFINITY) - fabsf(w);
    return fabs((double)got - want) <= 0.51 * (double)unit;
}

#define NEAR_1(fn, most, waves)                                                        \
    for (int i = 0; i < TD_COUNT(fn##_points); i++) {                                  \
        point p = fn##_points[i];                                                      \
        CHECK(apart(td_m_##fn##_f64(p.x), p.want, waves) <= (most));                   \
        CHECK(                                                                         \
            rounds(td_m_##fn##_f32((float)p.x), td_m_##fn##_f64((double)(float)p.x))); \
    }
#define NEAR_2(fn, most)                                                  \
    for (int i = 0; i < TD_COUNT(fn##_points); i++) {                     \
        point p = fn##_points[i];                                         \
        CHECK(apart(td_m_##fn##_f64(p.x, p.y), p.want, false) <= (most)); \
    }

TEST(modified_bessel_functions_are_exact_to_a_few_units) {
    NEAR_1(i0, 8, false)
    NEAR_1(i0e, 8, false)
    NEAR_1(i1, 8, false)
    NEAR_1(i1e, 8, false)
    NEAR_1(k0, 8, false)
    NEAR_1(k0e, 8, false)
    NEAR_1(k1, 8, false)
    NEAR_1(k1e, 8, false)
    CHECK(td_m_i0_f64(INFINITY) == INFINITY && td_m_i1_f64(-INFINITY) == -INFINITY);
    CHECK(td_m_k0_f64(0.0) == INFINITY && isnan(td_m_k1_f64(-1.0)));
    CHECK(isnan(td_m_i0_f64(NAN)) && isnan(td_m_k0_f64(NAN)));
}

TEST(bessel_functions_and_airy_are_exact_to_a_few_units_of_one) {
    NEAR_1(j0, 4, true)
    NEAR_1(j1, 4, true)
    NEAR_1(y0, 8, true)
    NEAR_1(y1, 8, true)
    NEAR_1(airy_ai, 32, true)
    CHECK(td_m_y0_f64(0.0) == -INFINITY && isnan(td_m_y1_f64(-1.0)));
    CHECK(td_m_j0_f64(INFINITY) == 0.0 && isnan(td_m_j1_f64(NAN)));
    CHECK(td_m_airy_ai_f64(INFINITY) == 0.0 && isnan(td_m_airy_ai_f64(NAN)));
}

TEST(inverses_of_the_error_function_are_exact_to_a_few_units) {
    NEAR_1(erfcx, 8, false)
    NEAR_1(erfinv, 4, false)
    NEAR_1(ndtri, 4, false)
    NEAR_1(log_ndtr, 16, false)
    CHECK(td_m_erfinv_f64(-1.0) == -INFINITY && isnan(td_m_erfinv_f64(1.5)));
    CHECK(td_m_ndtri_f64(0.0) == -INFINITY && td_m_ndtri_f64(1.0) == INFINITY);
    CHECK(td_m_erfcx_f64(-30.0) == INFINITY && td_m_erfcx_f64(INFINITY) == 0.0);
    CHECK(isnan(td_m_erfcx_f64(NAN)) && isnan(td_m_ndtri_f64(NAN)));
}

/* Both branches of each function, their ends, and what is outside of them. */
#define ROUNDED(fn, step)                                              \
    for (int i = 0; i < TD_COUNT(odd_floats); i++)                     \
        CHECK(rounds(td_m_##fn##_f32(odd_floats[i]),                   \
                     td_m_##fn##_f64((double)odd_floats[i])));         \
    for (int i = -4000; i <= 4000; i++) {                              \
        float x = (float)(i * (step));                                 \
        CHECK(rounds(td_m_##fn##_f32(x), td_m_##fn##_f64((double)x))); \
    }

static const float odd_floats[] = {0.0f,       -0.0f,       1.0f,      -1.0f,
                                   INFINITY,   -INFINITY,   NAN,       1e-45f,
                                   -1e-45f,    1e-38f,      2.0f,      3.0f,
                                   8.0f,       7.9999995f,  3.4e38f,   -3.4e38f,
                                   0.25f,      0.5f,        0.75f,     1e-10f,
                                   0.9999999f, -0.9999999f, 8388609.0f};

TEST(special_functions_of_f32_round_those_of_f64){
    ROUNDED(i0, 0.02501) ROUNDED(i0e, 0.02501) ROUNDED(i1, 0.02501)
        ROUNDED(i1e, 0.02501) ROUNDED(k0, 0.02501) ROUNDED(k0e, 0.02501)
            ROUNDED(k1, 0.02501) ROUNDED(k1e, 0.02501) ROUNDED(j0, 0.01003)
                ROUNDED(j1, 0.01003) ROUNDED(y0, 0.01003) ROUNDED(y1, 0.01003)
                    ROUNDED(spherical_j0, 0.01003) ROUNDED(erfcx, 0.00501)
                        ROUNDED(erfinv, 0.00027) ROUNDED(ndtri, 0.00027)
                            ROUNDED(log_ndtr, 0.00501) ROUNDED(lgamma, 0.01003)}

TEST(zeta_and_incomplete_gamma_functions_are_exact_to_few_units) {
    NEAR_2(zeta, 8)
    NEAR_2(polygamma, 8)
    NEAR_2(igamma, 128)
    NEAR_2(igammac, 256)
    CHECK(td_m_zeta_f64(1.0, 2.0) == INFINITY && isnan(td_m_zeta_f64(0.5, 2.0)));
    CHECK(td_m_zeta_f64(2.0, -3.0) == INFINITY && isnan(td_m_zeta_f64(2.5, -1.5)));
    CHECK(td_m_igamma_f64(2.0, 0.0) == 0.0 && td_m_igammac_f64(2.0, 1e300) == 0.0);
    CHECK(isnan(td_m_igamma_f64(-1.0, 1.0)) && isnan(td_m_igamma_f64(0.0, 0.0)));
}

TEST(orthogonal_polynomials_agree_at_the_ends_and_in_the_recurrence) {
    for (int n = 0; n < 20; n++) {
        double d = n, x = 0.3, sign = n % 2 ? -1.0 : 1.0;
        CHECK(td_m_chebyshev_t_f64(1.0, d) == 1.0);
        CHECK(td_m_chebyshev_u_f64(-1.0, d) == sign * (d + 1.0));
        CHECK(td_m_legendre_p_f64(-1.0, d) == sign);
        CHECK(td_m_laguerre_l_f64(0.0, d) == 1.0);
        CHECK_NEAR(td_m_chebyshev_t_f64(x, d), cos(d * acos(x)), 1e-14);
        CHECK_NEAR(td_m_shifted_t_f64(x, d), td_m_chebyshev_t_f64(2 * x - 1, d), 1e-14);
    }
    CHECK(td_m_hermite_h_f64(0.5, 3.0) == 8.0 * 0.125 - 12.0 * 0.5);
    CHECK(td_m_hermite_he_f64(0.5, 3.0) == 0.125 - 3.0 * 0.5);
    CHECK(td_m_legendre_p_f64(0.5, -1.0) == 0.0);
    CHECK(isnan(td_m_hermite_h_f64(0.5, 513.0)) &&
          isnan(td_m_hermite_h_f32(0.5f, 129.0f)));
}

/* math_special_f32.h: special functions in f32. Each is computed in double to about
 * 1e-10 and rounded once, without branches, so that plain loops over them become
 * vectors; those that are not here round the scalar function of f64. Polynomials are
 * Chebyshev interpolations of 40-digit values, mostly on the intervals of the f64
 * functions, with powers of t in [-1, 1]. */
#ifndef TD_OPS_MATH_SPECIAL_F32_H
#define TD_OPS_MATH_SPECIAL_F32_H

#include "kernels/math_f32.h"
#include "kernels/math_waves.h"

/* ---- modified Bessel functions --------------------------------------------- */

/* I0(x) at t = x^2 / 32 - 1, x <= 8. */
TD_M double td_m_i0_low_f32(double t) {
    double p = 3.37941132154660575e-11;
    p = TD_FMA(p, t, 9.82145636718014282e-10);
    p = TD_FMA(p, t, 2.48461449645117741e-08);
    p = TD_FMA(p, t, 5.47122498362855786e-07);
    p = TD_FMA(p, t, 1.03328284241527143e-05);
    p = TD_FMA(p, t, 1.65311664448031606e-04);
    p = TD_FMA(p, t, 2.20847212375717894e-03);
    p = TD_FMA(p, t, 2.42205364126994137e-02);
    p = TD_FMA(p, t, 2.13640540437226578e-01);
    p = TD_FMA(p, t, 1.47809206508598234e+00);
    p = TD_FMA(p, t, 7.77302713017923352e+00);
    p = TD_FMA(p, t, 2.98335550258799351e+01);
    p = TD_FMA(p, t, 7.90996778772081228e+01);
    p = TD_FMA(p, t, 1.33737470150679172e+02);
    p = TD_FMA(p, t, 1.26193493483245689e+02);
    return TD_FMA(p, t, 4.92085542230755024e+01);
}

/* I1(x) / x at the same t. */
TD_M double td_m_i1_low_f32(double t) {
    double p = 1.02626679571701954e-12;
    p = TD_FMA(p, t, 3.16958254122495739e-11);
    p = TD_FMA(p, t, 8.55785581857156501e-10);
    p = TD_FMA(p, t, 2.01874477902325599e-08);
    p = TD_FMA(p, t, 4.10346876572231493e-07);
    p = TD_FMA(p, t, 7.10381959871137026e-06);
    p = TD_FMA(p, t, 1.03319786752514717e-04);
    p = TD_FMA(p, t, 1.24226556957772222e-03);
    p = TD_FMA(p, t, 1.21102682076724717e-02);
    p = TD_FMA(p, t, 9.34677364412979800e-02);
    p = TD_FMA(p, t, 5.54284524406990831e-01);
    p = TD_FMA(p, t, 2.42907097818100848e+00);
    p = TD_FMA(p, t, 7.45838875647000510e+00);
    p = TD_FMA(p, t, 1.48311896019765239e+01);
    p = TD_FMA(p, t, 1.67171837688348965e+01);
    return TD_FMA(p, t, 7.88709334270285556e+00);
}

/* sqrt(x) e^-x I0(x) at t = 16 / x - 1, x >= 8. */
TD_M double td_m_i0_high_f32(double t) {
    double p = 3.21343456778251988e-09;
    p = TD_FMA(p, t, 3.17346826512834583e-08);
    p = TD_FMA(p, t, 1.02229579521244109e-07);
    p = TD_FMA(p, t, 3.07125179471581788e-07);
    p = TD_FMA(p, t, 1.48016686823559218e-06);
    p = TD_FMA(p, t, 1.11399240039040787e-05);
    p = TD_FMA(p, t, 1.36216348103728119e-04);
    p = TD_FMA(p, t, 3.36055222710755211e-03);
    return TD_FMA(p, t, 4.02176509445008101e-01);
}

/* The same of I1. */
TD_M double td_m_i1_high_f32(double t) {
    double p = -4.23689780674967452e-09;
    p = TD_FMA(p, t, -3.59046383293652146e-08);
    p = TD_FMA(p, t, -1.14235341613201558e-07);
    p = TD_FMA(p, t, -3.58195364814527723e-07);
    p = TD_FMA(p, t, -1.83102123821915271e-06);
    p = TD_FMA(p, t, -1.50353903624545455e-05);
    p = TD_FMA(p, t, -2.19236053390118078e-04);
    p = TD_FMA(p, t, -9.74957744113404828e-03);
    return TD_FMA(p, t, 3.89398459025872334e-01);
}

/* e^a for a >= 0, infinite where a float is. */
TD_M double td_m_growth_f32(double a) { return td_m_exp_f64(a > 200.0 ? 200.0 : a); }

TD_M float td_m_i0_f32(float x) {
    double a = (double)__builtin_fabsf(x);
    double y = td_m_i0_high_f32(16.0 / a - 1.0) * td_m_growth_f32(a);
    return (float)(a < 8.0 ? td_m_i0_low_f32(a * a / 32.0 - 1.0)
                           : y / __builtin_sqrt(a < 1e30 ? a : 1.0));
}
TD_M float td_m_i0e_f32(float x) {
    double a = (double)__builtin_fabsf(x);
    double y = td_m_i0_low_f32(a * a / 32.0 - 1.0) * td_m_exp_f64(-a);
    return (float)(a < 8.0 ? y : td_m_i0_high_f32(16.0 / a - 1.0) / __builtin_sqrt(a));
}
TD_M float td_m_i1_f32(float x) {
    double a = (double)__builtin_fabsf(x);
    double y = td_m_i1_high_f32(16.0 / a - 1.0) * td_m_growth_f32(a);
    double r = a < 8.0 ? a * td_m_i1_low_f32(a * a / 32.0 - 1.0)
                       : y / __builtin_sqrt(a < 1e30 ? a : 1.0);
    return td_m_with_sign_f32((float)r, x);
}
TD_M float td_m_i1e_f32(float x) {
    double a = (double)__builtin_fabsf(x);
    double y = a * td_m_i1_low_f32(a * a / 32.0 - 1.0) * td_m_exp_f64(-a);
    double r = a < 8.0 ? y : td_m_i1_high_f32(16.0 / a - 1.0) / __builtin_sqrt(a);
    return td_m_with_sign_f32((float)r, x);
}

/* K0(x) + log(x / 2) I0(x) at t = x^2 / 2 - 1, x <= 2. */
TD_M double td_m_k0_low_f32(double t) {
    double p = 6.62371699909762332e-10;
    p = TD_FMA(p, t, 6.09445240596198181e-08);
    p = TD_FMA(p, t, 4.05450657596698522e-06);
    p = TD_FMA(p, t, 1.82805551463466711e-04);
    p = TD_FMA(p, t, 5.05339264320488896e-03);
    p = TD_FMA(p, t, 7.17770103437682244e-02);
    p = TD_FMA(p, t, 3.40497321013380316e-01);
    return TD_FMA(p, t, -3.03620772915798087e-01);
}

/* x (K1(x) - log(x / 2) I1(x)) at the same t. */
TD_M double td_m_k1_low_f32(double t) {
    double p = -9.03337035606414411e-09;
    p = TD_FMA(p, t, -7.08284041610348630e-07);
    p = TD_FMA(p, t, -3.89186898669321166e-05);
    p = TD_FMA(p, t, -1.38316873994802619e-03);
    p = TD_FMA(p, t, -2.78542352199271995e-02);
    p = TD_FMA(p, t, -2.43838528889077255e-01);
    p = TD_FMA(p, t, -3.32240955240308222e-01);
    return TD_FMA(p, t, 8.85088287730256051e-01);
}

/* I0(x) at the same t. */
TD_M double td_m_i0_start_f32(double t) {
    double p = 3.27355967798158049e-10;
    p = TD_FMA(p, t, 3.23673532773090558e-08);
    p = TD_FMA(p, t, 2.35757896840416392e-06);
    p = TD_FMA(p, t, 1.19820682641502382e-04);
    p = TD_FMA(p, t, 3.92856510564070643e-03);
    p = TD_FMA(p, t, 7.35898683616883209e-02);
    p = TD_FMA(p, t, 6.35861728156068451e-01);
    return TD_FMA(p, t, 1.56608292975633079e+00);
}

/* I1(x) / x at the same t. */
TD_M double td_m_i1_start_f32(double t) {
    double p = 2.03190335762489548e-11;
    p = TD_FMA(p, t, 2.29155414147612846e-09);
    p = TD_FMA(p, t, 1.94173641191096109e-07);
    p = TD_FMA(p, t, 1.17878947640622869e-05);
    p = TD_FMA(p, t, 4.79282743265327903e-04);
    p = TD_FMA(p, t, 1.17856953169455068e-02);
    p = TD_FMA(p, t, 1.47179736722106713e-01);
    return TD_FMA(p, t, 6.35861728156067452e-01);
}

/* sqrt(x) e^x K0(x) at t = 4 / x - 1, x >= 2. */
TD_M double td_m_k0_high_f32(double t) {
    double p = -1.72711452305799900e-08;
    p = TD_FMA(p, t, 3.78453242712026879e-08);
    p = TD_FMA(p, t, -2.53306581275966301e-08);
    p = TD_FMA(p, t, 6.96235218749315108e-08);
    p = TD_FMA(p, t, -2.80712218313724992e-07);
    p = TD_FMA(p, t, 7.67305516368661819e-07);
    p = TD_FMA(p, t, -2.18685646501095523e-06);
    p = TD_FMA(p, t, 6.99328315436389055e-06);
    p = TD_FMA(p, t, -2.47359436863763089e-05);
    p = TD_FMA(p, t, 9.95620787797855717e-05);
    p = TD_FMA(p, t, -4.79769009962770958e-04);
    p = TD_FMA(p, t, 3.03289171335800224e-03);
    p = TD_FMA(p, t, -3.10714618253683239e-02);
    return TD_FMA(p, t, 1.21859533851438195e+00);
}

/* The same of K1. */
TD_M double td_m_k1_high_f32(double t) {
    double p = 1.96804514073681045e-08;
    p = TD_FMA(p, t, -4.34378984088727386e-08);
    p = TD_FMA(p, t, 3.04087143858269479e-08);
    p = TD_FMA(p, t, -8.42288742950972251e-08);
    p = TD_FMA(p, t, 3.36286050250484762e-07);
    p = TD_FMA(p, t, -9.34504001402245695e-07);
    p = TD_FMA(p, t, 2.72517324253268197e-06);
    p = TD_FMA(p, t, -8.95105444052041498e-06);
    p = TD_FMA(p, t, 3.28446980250700021e-05);
    p = TD_FMA(p, t, -1.39591953881826173e-04);
    p = TD_FMA(p, t, 7.35724102200300623e-04);
    p = TD_FMA(p, t, -5.56672977032652075e-03);
    p = TD_FMA(p, t, 1.03349737754404425e-01);
    return TD_FMA(p, t, 1.36315189037021933e+00);
}

/* y for x > 0, infinite at 0, NaN below. */
TD_M float td_m_k_edges_f32(float x, double y) {
    float r = x == 0.0f ? __builtin_inff() : (float)y;
    return x < 0.0f ? __builtin_nanf("") : r;
}

/* K0 and K1 for x <= 2; `a` is x, which may be anything above. */
TD_M double td_m_k0_start_f32(double a) {
    double t = 0.5 * a * a - 1.0;
    return td_m_k0_low_f32(t) - td_m_log_f64(0.5 * a) * td_m_i0_start_f32(t);
}
TD_M double td_m_k1_start_f32(double a) {
    double t = 0.5 * a * a - 1.0;
    return td_m_k1_low_f32(t) / a + td_m_log_f64(0.5 * a) * a * td_m_i1_start_f32(t);
}

TD_M float td_m_k0_f32(float x) {
    double a = (double)x, e = td_m_exp_f64(-a);
    double y = td_m_k0_high_f32(4.0 / a - 1.0) / __builtin_sqrt(a) * e;
    return td_m_k_edges_f32(x, a <= 2.0 ? td_m_k0_start_f32(a) : y);
}
TD_M float td_m_k0e_f32(float x) {
    double a = (double)x, e = td_m_exp_f64(a);
    double y = td_m_k0_high_f32(4.0 / a - 1.0) / __builtin_sqrt(a);
    return td_m_k_edges_f32(x, a <= 2.0 ? td_m_k0_start_f32(a) * e : y);
}
TD_M float td_m_k1_f32(float x) {
    double a = (double)x, e = td_m_exp_f64(-a);
    double y = td_m_k1_high_f32(4.0 / a - 1.0) / __builtin_sqrt(a) * e;
    return td_m_k_edges_f32(x, a <= 2.0 ? td_m_k1_start_f32(a) : y);
}
TD_M float td_m_k1e_f32(float x) {
    double a = (double)x, e = td_m_exp_f64(a);
    double y = td_m_k1_high_f32(4.0 / a - 1.0) / __builtin_sqrt(a);
    return td_m_k_edges_f32(x, a <= 2.0 ? td_m_k1_start_f32(a) * e : y);
}

/* ---- sine and cosine, and the Bessel functions made of them ----------------- */

/* sin(r) for |r| <= pi/2, to the last digit of a double. */
TD_M double td_m_sin_poly_f64(double r) {
    double z = r * r, p = -8.22063524662432972e-18;
    p = TD_FMA(p, z, 2.81145725434552076e-15);
    p = TD_FMA(p, z, -7.64716373181981648e-13);
    p = TD_FMA(p, z, 1.60590438368216146e-10);
    p = TD_FMA(p, z, -2.50521083854417188e-08);
    p = TD_FMA(p, z, 2.75573192239858907e-06);
    p = TD_FMA(p, z, -1.98412698412698413e-04);
    p = TD_FMA(p, z, 8.33333333333333333e-03);
    p = TD_FMA(p, z, -1.66666666666666667e-01);
    return TD_FMA(p * z, r, r);
}

/* sin(x), or with a shift of 0.5 cos(x), as doubles. */
TD_M double td_m_turned_f32(float x, double shift) {
    td_m_half_turn h = td_m_reduce_f32(x, shift);
    double         y = td_m_sin_poly_f64(h.r);
    y = td_m_from_bits_f64(td_m_bits_f64(y) ^ h.flip);
    return shift == 0.0 ? y : -y;
}

TD_M float td_m_spherical_j0_f32(float x) {
    float y = (float)(td_m_turned_f32(x, 0.0) / (double)x);
    y = x == 0.0f ? 1.0f : y;
    return td_m_isinf_f32(x) ? 0.0f : y;
}

/* J0(x) over (x^2 - z1^2)(x^2 - z2^2) at t = x^2 / 32 - 1, x <= 8. */
TD_M double td_m_j0_low_f32(double t) {
    double p = -8.06092150306148875e-12;
    p = TD_FMA(p, t, 1.63784847764502903e-10);
    p = TD_FMA(p, t, -2.79482083764163579e-09);
    p = TD_FMA(p, t, 3.99872451876101295e-08);
    p = TD_FMA(p, t, -4.67712823975666197e-07);
    p = TD_FMA(p, t, 4.36693292023769147e-06);
    p = TD_FMA(p, t, -3.15734253971151750e-05);
    p = TD_FMA(p, t, 1.69772007000360957e-04);
    p = TD_FMA(p, t, -6.41539064641051299e-04);
    p = TD_FMA(p, t, 1.56364316460513440e-03);
    p = TD_FMA(p, t, -2.11979428947968581e-03);
    return TD_FMA(p, t, 1.14349377437608841e-03);
}

/* J1(x) / x over the same for its zeros. */
TD_M double td_m_j1_low_f32(double t) {
    double p = -2.88726213720669185e-13;
    p = TD_FMA(p, t, 6.31882964366875580e-12);
    p = TD_FMA(p, t, -1.16968005445170863e-10);
    p = TD_FMA(p, t, 1.82681638756280554e-09);
    p = TD_FMA(p, t, -2.35219232301136417e-08);
    p = TD_FMA(p, t, 2.44252245982839405e-07);
    p = TD_FMA(p, t, -1.98909351575385977e-06);
    p = TD_FMA(p, t, 1.22421736483490373e-05);
    p = TD_FMA(p, t, -5.40800323908688065e-05);
    p = TD_FMA(p, t, 1.58600167994098754e-04);
    p = TD_FMA(p, t, -2.69752274671636620e-04);
    return TD_FMA(p, t, 1.94989369858950689e-04);
}

/* Y0(x) - 2/pi log(x) J0(x) at the same t. */
TD_M double td_m_y0_low_f32(double t) {
    double p = 1.64851192972682410e-08;
    p = TD_FMA(p, t, -3.24353020805609449e-07);
    p = TD_FMA(p, t, 5.32118922411063336e-06);
    p = TD_FMA(p, t, -7.27919753005563415e-05);
    p = TD_FMA(p, t, 8.06158694316750648e-04);
    p = TD_FMA(p, t, -7.02574340609072971e-03);
    p = TD_FMA(p, t, 4.63670476504501189e-02);
    p = TD_FMA(p, t, -2.18957470139443250e-01);
    p = TD_FMA(p, t, 6.72177078348322299e-01);
    p = TD_FMA(p, t, -1.07754773395866255e+00);
    p = TD_FMA(p, t, 1.44126323692702535e-01);
    p = TD_FMA(p, t, 1.64709647888311372e+00);
    p = TD_FMA(p, t, -8.28435890360455507e-01);
    return TD_FMA(p, t, -3.82250654459512451e-01);
}

/* (Y1(x) - 2/pi (log(x) J1(x) - 1 / x)) / x at the same t. */
TD_M double td_m_y1_low_f32(double t) {
    double p = 6.20034803307088725e-10;
    p = TD_FMA(p, t, -1.32406292867490962e-08);
    p = TD_FMA(p, t, 2.38045088443123950e-07);
    p = TD_FMA(p, t, -3.60087973768811452e-06);
    p = TD_FMA(p, t, 4.46743330008705572e-05);
    p = TD_FMA(p, t, -4.43817425452208670e-04);
    p = TD_FMA(p, t, 3.42249073891278668e-03);
    p = TD_FMA(p, t, -1.96287568044145010e-02);
    p = TD_FMA(p, t, 7.85478692225930059e-02);
    p = TD_FMA(p, t, -1.96398398604085617e-01);
    p = TD_FMA(p, t, 2.35072092066687055e-01);
    p = TD_FMA(p, t, 2.33675717212924357e-02);
    p = TD_FMA(p, t, -2.43377430791931026e-01);
    return TD_FMA(p, t, 7.07598588211770102e-02);
}

/* Hankel's P of order 0 at t = 128 / x^2 - 1, x >= 8. */
TD_M double td_m_j0_p_f32(double t) {
    double p = -2.72248865852856532e-11;
    p = TD_FMA(p, t, 1.65362802563897955e-10);
    p = TD_FMA(p, t, -1.21060946699114535e-09);
    p = TD_FMA(p, t, 1.27971273738272655e-08);
    p = TD_FMA(p, t, -2.05274786995337069e-07);
    p = TD_FMA(p, t, 6.13741742003662229e-06);
    p = TD_FMA(p, t, -5.36367319203438363e-04);
    return TD_FMA(p, t, 9.99457275788209976e-01);
}

/* x times his Q. */
TD_M double td_m_j0_q_f32(double t) {
    double p = -3.35393677721537965e-11;
    p = TD_FMA(p, t, 1.53865160317560200e-10);
    p = TD_FMA(p, t, -7.53844332597940222e-10);
    p = TD_FMA(p, t, 5.13249160956468986e-09);
    p = TD_FMA(p, t, -4.53508015638225643e-08);
    p = TD_FMA(p, t, 5.68501069395944812e-07);
    p = TD_FMA(p, t, -1.18171105801241324e-05);
    p = TD_FMA(p, t, 5.46651927654619456e-04);
    return TD_FMA(p, t, -1.24440911036108146e-01);
}

/* Hankel's P of order 1 at t = 128 / x^2 - 1, x >= 8. */
TD_M double td_m_j1_p_f32(double t) {
    double p = 2.97258801040276396e-11;
    p = TD_FMA(p, t, -1.82532528713771696e-10);
    p = TD_FMA(p, t, 1.35868178852051284e-09);
    p = TD_FMA(p, t, -1.47013270612806223e-08);
    p = TD_FMA(p, t, 2.45367990960286276e-07);
    p = TD_FMA(p, t, -7.95969614966971052e-06);
    p = TD_FMA(p, t, 8.98804941660262036e-04);
    return TD_FMA(p, t, 1.00090702627812767e+00);
}

/* x times his Q. */
TD_M double td_m_j1_q_f32(double t) {
    double p = 3.61645440341177885e-11;
    p = TD_FMA(p, t, -1.67080384490101794e-10);
    p = TD_FMA(p, t, 8.27562398296519781e-10);
    p = TD_FMA(p, t, -5.70615442772661721e-09);
    p = TD_FMA(p, t, 5.13622057057043579e-08);
    p = TD_FMA(p, t, -6.63361018246961898e-07);
    p = TD_FMA(p, t, 1.45696147232980967e-05);
    p = TD_FMA(p, t, -7.69716705450278421e-04);
    return TD_FMA(p, t, 3.74214992219591813e-01);
}

/* td_m_wave0_f64 and td_m_wave1_f64 for floats. */
TD_M double td_m_wave0_f32(float x, int second) {
    double a = (double)x, t = 128.0 / a / a - 1.0;
    double p = td_m_j0_p_f32(t), q = td_m_j0_q_f32(t) / a;
    double s = td_m_turned_f32(x, 0.0), k = td_m_turned_f32(x, 0.5);
    double c = k + s, d = s - k;
    double y = 5.6418958354775629e-01 * (second ? p * d + q * c : p * c - q * d) /
               __builtin_sqrt(a);
    return a == __builtin_inf() ? 0.0 : y;
}
TD_M double td_m_wave1_f32(float x, int second) {
    double a = (double)x, t = 128.0 / a / a - 1.0;
    double p = td_m_j1_p_f32(t), q = td_m_j1_q_f32(t) / a;
    double s = td_m_turned_f32(x, 0.0), k = td_m_turned_f32(x, 0.5);
    double c = s - k, d = -s - k;
    double y = 5.6418958354775629e-01 * (second ? p * d + q * c : p * c - q * d) /
               __builtin_sqrt(a);
    return a == __builtin_inf() ? 0.0 : y;
}

/* J0 and J1 up to 8. */
TD_M double td_m_j0_start_f32(double a) {
    return td_m_from_zero_f64(a, 2.404825557695773, -1.176691651530894e-16) *
           td_m_from_zero_f64(a, 5.520078110286311, 8.088597146146722e-17) *
           td_m_j0_low_f32(a * a / 32.0 - 1.0);
}
TD_M double td_m_j1_start_f32(double a) {
    return a * td_m_from_zero_f64(a, 3.8317059702075125, -1.5269184090088067e-16) *
           td_m_from_zero_f64(a, 7.015586669815619, -9.414165653410389e-17) *
           td_m_j1_low_f32(a * a / 32.0 - 1.0);
}

TD_M float td_m_j0_f32(float x) {
    float a = __builtin_fabsf(x);
    return (float)(a < 8.0f ? td_m_j0_start_f32((double)a) : td_m_wave0_f32(a, 0));
}
TD_M float td_m_j1_f32(float x) {
    float  a = __builtin_fabsf(x);
    double y = a < 8.0f ? td_m_j1_start_f32((double)a) : td_m_wave1_f32(a, 0);
    return (float)(x < 0.0f ? -y : y);
}

/* y for x > 0, -inf at 0, NaN below. */
TD_M float td_m_y_edges_f32(float x, double y) {
    float r = x == 0.0f ? -__builtin_inff() : (float)y;
    return x < 0.0f ? __builtin_nanf("") : r;
}
TD_M float td_m_y0_f32(float x) {
    double a = (double)x, l = 6.3661977236758134e-01 * td_m_log_f64(a);
    double y = td_m_y0_low_f32(a * a / 32.0 - 1.0) + l * td_m_j0_start_f32(a);
    return td_m_y_edges_f32(x, x < 8.0f ? y : td_m_wave0_f32(x, 1));
}
TD_M float td_m_y1_f32(float x) {
    double a = (double)x, l = td_m_log_f64(a) * td_m_j1_start_f32(a) - 1.0 / a;
    double y = a * td_m_y1_low_f32(a * a / 32.0 - 1.0) + 6.3661977236758134e-01 * l;
    return td_m_y_edges_f32(x, x < 8.0f ? y : td_m_wave1_f32(x, 1));
}

/* ---- relatives of the error function ---------------------------------------- */

/* (1 + 2x) e^(x^2) erfc(x) at t = (x - 15/4) / (x + 15/4), x >= 0. */
TD_M double td_m_erfcx_f32_fit(double t) {
    double p = 1.05800478386419009e-08;
    p = TD_FMA(p, t, 9.38912105483307676e-07);
    p = TD_FMA(p, t, -1.08011685840867370e-06);
    p = TD_FMA(p, t, -1.01080591219215448e-05);
    p = TD_FMA(p, t, 2.24824458077105098e-05);
    p = TD_FMA(p, t, 5.03830802334152979e-05);
    p = TD_FMA(p, t, -2.90208844013804834e-04);
    p = TD_FMA(p, t, 2.94432476604723043e-04);
    p = TD_FMA(p, t, 1.75564415615227167e-03);
    p = TD_FMA(p, t, -9.74682271681719635e-03);
    p = TD_FMA(p, t, 2.83622739398095673e-02);
    p = TD_FMA(p, t, -5.86933519948812168e-02);
    p = TD_FMA(p, t, 9.23043214945072354e-02);
    p = TD_FMA(p, t, -1.08803934639607094e-01);
    p = TD_FMA(p, t, 8.22767384777083055e-02);
    p = TD_FMA(p, t, 3.58541565334449027e-03);
    p = TD_FMA(p, t, -1.40240598585470333e-01);
    return TD_FMA(p, t, 1.23751263083679230e+00);
}

/* e^(a^2) erfc(a) for a >= 0. */
TD_M double td_m_erfcx_wide_f32(double a) {
    return td_m_erfcx_f32_fit(1.0 - 7.5 / (a + 3.75)) / (1.0 + 2.0 * a);
}
TD_M float td_m_erfcx_f32(float x) {
    double v = (double)x, y = td_m_erfcx_wide_f32(__builtin_fabs(v));
    return (float)(x < 0.0f ? 2.0 * td_m_exp_f64(v * v) - y : y);
}

/* Below 0 the logarithm of erfcx less the square, which does not underflow. */
TD_M float td_m_log_ndtr_f32(float x) {
    double u = (double)__builtin_fabsf(x) * 7.0710678118654752e-01, z = u * u;
    double e = 0.5 * td_m_erfcx_wide_f32(u);
    double high = td_m_log1p_f64(-td_m_exp_f64(-z) * e);
    return (float)(x < 0.0f ? td_m_log_f64(e) - z : high);
}

/* erfinv(x) / x at t = 8 x^2 - 1, x <= 1/2. */
TD_M double td_m_erfinv_f32_fit(double t) {
    double p = 1.19363847496831817e-11;
    p = TD_FMA(p, t, 9.24242546897225971e-11);
    p = TD_FMA(p, t, 6.87250113539891259e-10);
    p = TD_FMA(p, t, 5.45134360541060227e-09);
    p = TD_FMA(p, t, 4.39831329569193784e-08);
    p = TD_FMA(p, t, 3.61989122236960450e-07);
    p = TD_FMA(p, t, 3.06374354016020227e-06);
    p = TD_FMA(p, t, 2.69770003734545659e-05);
    p = TD_FMA(p, t, 2.52274755181777657e-04);
    p = TD_FMA(p, t, 2.61402734531522183e-03);
    p = TD_FMA(p, t, 3.35674302970493735e-02);
    return TD_FMA(p, t, 9.17408367052269358e-01);
}

/* -ndtri(q) / s at t, where s = sqrt(-log(q)) and v = (s - 3) / (s + 3) is mapped to
 * [-1, 1]; q from 2e-46 to 1/4. */
TD_M double td_m_ndtri_tail_f32(double t) {
    double p = -6.25242438579452993e-06;
    p = TD_FMA(p, t, 1.32881138678747228e-05);
    p = TD_FMA(p, t, 1.47567527811303105e-06);
    p = TD_FMA(p, t, -3.22792139761166796e-06);
    p = TD_FMA(p, t, -5.23211679972749008e-05);
    p = TD_FMA(p, t, 1.10674443482664089e-04);
    p = TD_FMA(p, t, -1.68824702969928343e-04);
    p = TD_FMA(p, t, 3.54825381677304744e-04);
    p = TD_FMA(p, t, -7.86031788476280005e-04);
    p = TD_FMA(p, t, 1.64290173718938809e-03);
    p = TD_FMA(p, t, -3.40317234018526092e-03);
    p = TD_FMA(p, t, 7.03772921462769620e-03);
    p = TD_FMA(p, t, -1.44449749319405674e-02);
    p = TD_FMA(p, t, 2.92367335872365311e-02);
    p = TD_FMA(p, t, -5.80225541012734658e-02);
    p = TD_FMA(p, t, 1.10428123075875129e-01);
    p = TD_FMA(p, t, -1.95511075453176364e-01);
    p = TD_FMA(p, t, 2.59703477861863097e-01);
    return TD_FMA(p, t, 1.25377710566305134e+00);
}

/* -ndtri(q) for q <= 1/4; infinite at 0. */
TD_M double td_m_ndtri_far_f32(double q) {
    double s = __builtin_sqrt(-td_m_log_f64(q)), v = (s - 3.0) / (s + 3.0);
    double t = (v + 4.3629664496927504e-01) * 2.03362299467201035e+00 - 1.0;
    double y = s * td_m_ndtri_tail_f32(t);
    return q == 0.0 ? __builtin_inf() : y;
}

/* Up to 1/2 a series, beyond by ndtri: 1 - |x| is exact. */
TD_M float td_m_erfinv_f32(float x) {
    double a = (double)__builtin_fabsf(x);
    double low = a * td_m_erfinv_f32_fit(8.0 * a * a - 1.0);
    double far = td_m_ndtri_far_f32(0.5 * (1.0 - a)) * 7.0710678118654752e-01;
    return td_m_with_sign_f32((float)(a > 0.5 ? far : low), x);
}
TD_M float td_m_ndtri_f32(float x) {
    double p = (double)x, q = p < 0.5 ? p : 1.0 - p, v = 2.0 * p - 1.0;
    double mid = 1.4142135623730951 * v * td_m_erfinv_f32_fit(8.0 * v * v - 1.0);
    double far = td_m_ndtri_far_f32(q);
    far = p < 0.5 ? -far : far;
    return (float)(q < 0.25 ? far : mid);
}

/* ---- gamma ------------------------------------------------------------------- */

/* log(Gamma(y)) / ((y - 1)(y - 2)) at t = y - 2, y from 1 to 3. */
TD_M double td_m_lgamma_low_f32(double t) {
    double p = 2.08239521736402583e-08;
    p = TD_FMA(p, t, -4.31983640410574581e-08);
    p = TD_FMA(p, t, -2.99968722538493085e-08);
    p = TD_FMA(p, t, 6.16735614590905960e-08);
    p = TD_FMA(p, t, 1.72476256230532475e-07);
    p = TD_FMA(p, t, -3.59866831706344002e-07);
    p = TD_FMA(p, t, 3.25822186353899766e-07);
    p = TD_FMA(p, t, -6.91737331342193984e-07);
    p = TD_FMA(p, t, 1.85564770588011679e-06);
    p = TD_FMA(p, t, -3.94571348149306578e-06);
    p = TD_FMA(p, t, 8.20343374588290903e-06);
    p = TD_FMA(p, t, -1.76228648415750787e-05);
    p = TD_FMA(p, t, 3.81735972765568011e-05);
    p = TD_FMA(p, t, -8.31048682183433524e-05);
    p = TD_FMA(p, t, 1.82551921839237819e-04);
    p = TD_FMA(p, t, -4.05705913390759531e-04);
    p = TD_FMA(p, t, 9.15376982652179975e-04);
    p = TD_FMA(p, t, -2.10813095893641958e-03);
    p = TD_FMA(p, t, 4.99864116235939921e-03);
    p = TD_FMA(p, t, -1.23841921885337134e-02);
    p = TD_FMA(p, t, 3.29650006211824609e-02);
    p = TD_FMA(p, t, -1.00317301674409040e-01);
    return TD_FMA(p, t, 4.22784335098467134e-01);
}

/* x times what Stirling's first terms leave, at t = 18 / x^2 - 1, x >= 3. */
TD_M double td_m_lgamma_high_f32(double t) {
    double p = 1.44832822602779588e-12;
    p = TD_FMA(p, t, -8.04788818946808898e-12);
    p = TD_FMA(p, t, 5.01034401998711171e-11);
    p = TD_FMA(p, t, -4.23382535978990601e-10);
    p = TD_FMA(p, t, 4.74172430940818040e-09);
    p = TD_FMA(p, t, -7.74893832493433117e-08);
    p = TD_FMA(p, t, 2.18342433582564579e-06);
    p = TD_FMA(p, t, -1.49700218354229886e-04);
    return TD_FMA(p, t, 8.31813669765519709e-02);
}

/* By the series from 1 to 3, one step of the recurrence below, Stirling's above, and
 * reflection for negative numbers. */
TD_M float td_m_lgamma_f32(float x) {
    double a = (double)__builtin_fabsf(x), l = td_m_log_f64(a);
    int    small = a < 1.0;
    double y1 = small ? a : a - 1.0, y2 = small ? a - 1.0 : a - 2.0;
    double low = y1 * y2 * td_m_lgamma_low_f32(y2) + (small ? -l : 0.0);
    double high = (a - 0.5) * l - a + 9.1893853320467274e-01 +
                  td_m_lgamma_high_f32(18.0 / (a * a) - 1.0) / a;
    double y = a < 3.0 ? low : high;
    double s = td_m_sin_poly_f64(3.1415926535897931 * (a - __builtin_rint(a)));
    double back = td_m_log_f64(3.1415926535897931 / (a * __builtin_fabs(s))) - y;
    y = x < 0.0f ? back : y;
    return a == __builtin_inf() ? __builtin_inff() : (float)y;
}

#endif

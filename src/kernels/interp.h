/* kernels/interp.h -- resampling by weights: which elements an element of the result is
 * a sum of. */
#ifndef TD_INTERP_H
#define TD_INTERP_H

#include "kernels/planes.h"
#include "rules/resample_args.h"

/* One dim: its sizes before and after, and the scale the caller gave, else 0. */
typedef struct td_axis {
    int64_t from, to;
    double  scale;
} td_axis;

/* Elements of the argument per element of the result, and the place in the argument
 * that place i of the result is at. As ATen computes them: in f64 when `wide`, else
 * every step is rounded to f32. */
double td__axis_step(const td_axis *a, bool wide, bool align_corners);
double td__axis_source(double step, int64_t i, bool wide, bool align_corners,
                       bool cubic);

/* Argument 0 into result 0 along the axes [d,h,w], or its gradient. */
bool td__interp_run(td_opcall *c, const td_axis a[3], td_resample_mode mode,
                    bool align_corners, td_plane_dir dir);

#endif

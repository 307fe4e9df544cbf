/* kernels/planes.h -- what pooling and resampling share. They work plane by plane on
 * [...,H,W], or volume by volume on [...,D,H,W]; these are dense and of one of three
 * types while they are worked on. */
#ifndef TD_PLANES_H
#define TD_PLANES_H

#include "rules/windows.h"

/* Works on one plane. `index` is the plane of the indices, NULL when there are none. */
typedef void         td_plane_fn(const td_planes *p, const void *from, void *to,
                                 int64_t *index);
/* By compute type: f32 (also for halves), f64, i64 (also for narrow integers). */
typedef td_plane_fn *td_plane_fns[3];

typedef enum td_plane_dir {
    TD_PLANES_FORWARD,
    TD_PLANES_BACKWARD,
    TD_PLANES_TAKE /* forward, and reads the indices */
} td_plane_dir;

/* Runs fn over all planes of argument 0 into result 0, on all threads. `index`, if
 * not NULL, is an i64 tensor of the sizes of the pooled planes: written when forward,
 * else read. */
bool td__planes_run(td_opcall *c, const td_planes *p, td_plane_dir dir,
                    const td_plane_fns fns, td_tensor *index);

#endif

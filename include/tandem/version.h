/* tandem/version.h -- which Tandem this is.
 *
 * Versions are semantic. Before 1.0 nothing is promised; from then on the same
 * major means the same ABI: a program linked against x.y runs with x.z, z >= y. */
#ifndef TANDEM_VERSION_H
#define TANDEM_VERSION_H

#define TD_VERSION_MAJOR 0
#define TD_VERSION_MINOR 1
#define TD_VERSION_PATCH 0
#define TD_VERSION_STRING "0.1.0"
/* For comparisons: #if TD_VERSION >= 100 */
#define TD_VERSION \
    (TD_VERSION_MAJOR * 10000 + TD_VERSION_MINOR * 100 + TD_VERSION_PATCH)

#endif

/* sources.c -- the identity of the sources that the library was built from; the
 * Makefile defines it. */
#include "core/sources.h"

#ifndef TD_SOURCES
#define TD_SOURCES __DATE__ " " __TIME__
#endif

const char td__sources[] = TD_SOURCES;

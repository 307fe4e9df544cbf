/* sources.c -- which sources the library was built from, as the Makefile says. */
#include "core/sources.h"

#ifndef TD_SOURCES
#define TD_SOURCES __DATE__ " " __TIME__
#endif

const char td__sources[] = TD_SOURCES;

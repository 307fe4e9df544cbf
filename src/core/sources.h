/* core/sources.h -- which sources the library was built from. What one build keeps on
 * disk in a form of its own another does not read. */
#ifndef TD_SOURCES_H
#define TD_SOURCES_H

extern const char td__sources[];

#endif

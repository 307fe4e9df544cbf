/* core/sources.h -- the identity of the sources that the library was built from. Files
 * in a private binary form are read only by the build that wrote them. */
#ifndef TD_SOURCES_H
#define TD_SOURCES_H

extern const char td__sources[];

#endif

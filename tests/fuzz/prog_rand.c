/* prog_rand.c -- small random choices, the same on every machine. */
#include "prog.h"

uint64_t prog_next(prog_rng *r) {
    uint64_t z = r->s += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int prog_upto(prog_rng *r, int n) {
    return n > 0 ? (int)(prog_next(r) % (uint64_t)n) : 0;
}

int prog_range(prog_rng *r, int lo, int hi) { return lo + prog_upto(r, hi - lo + 1); }

bool prog_chance(prog_rng *r, int percent) { return prog_upto(r, 100) < percent; }

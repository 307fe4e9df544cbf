/* plot.c -- pictures made of characters: a curve in braille dots, a map in half
 * blocks. Without UTF-8 the curve is made of stars, without colour the map of
 * shades. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

/* ---- a canvas of dots --------------------------------------------------- */

enum { ROWS = 12, MAX_COLS = 100 };

/* A cell of text holds 2 by 4 dots, or one where there is no braille. */
typedef struct canvas {
    bool    fine;
    int     cols;
    uint8_t cell[ROWS][MAX_COLS]; /* bit per dot, as in Unicode's braille block */
} canvas;

static int dots_wide(const canvas *c) { return c->fine ? 2 * c->cols : c->cols; }
static int dots_high(const canvas *c) { return c->fine ? 4 * ROWS : ROWS; }

static void set_dot(canvas *c, int x, int y) {
    static const uint8_t bit[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    if (x < 0 || y < 0 || x >= dots_wide(c) || y >= dots_high(c)) return;
    if (c->fine) c->cell[y / 4][x / 2] |= bit[y % 4][x % 2];
    else c->cell[y][x] = 1;
}

static void put_cell(const cli_term *t, const canvas *c, uint8_t dots) {
    if (!c->fine || !dots) fputc(dots ? '*' : ' ', t->out);
    else /* U+2800 + dots */
        fprintf(t->out, "\xe2%c%c", 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
}

/* ---- the curve ---------------------------------------------------------- */

/* Powers of ten at the top and the bottom of the picture. */
typedef struct scale {
    double top, low;
} scale;

/* A little more than the values span; whole decades where that has no two of them. */
static scale scale_of(const float *v, int n) {
    double most = -300, least = 300;
    for (int i = 0; i < n; i++) {
        double e = v[i] > 0 ? log10((double)v[i]) : -12;
        if (!isfinite(e)) continue;
        most = e > most ? e : most, least = e < least ? e : least;
    }
    if (most < least) return (scale){1, 0};
    scale s = {most + 0.1, fmax(least, most - 12) - 0.1};
    if (floor(s.top) - ceil(s.low) < 1) s = (scale){ceil(s.top), floor(s.low)};
    return s;
}

/* Where along the height the geometric mean of a column's values lies. */
static int height_of(const canvas *c, scale s, const float *v, int from, int to) {
    double sum = 0;
    for (int i = from; i < to; i++) sum += v[i] > 0 ? log10((double)v[i]) : s.low;
    double at = (s.top - sum / (to - from)) / (s.top - s.low);
    if (!(at >= 0)) at = isnan(at) ? -1 : 0;
    return (int)lround(at * (dots_high(c) - 1));
}

static void draw_curve(canvas *c, scale s, const float *v, int n) {
    int wide = dots_wide(c), last = -1;
    for (int x = 0; x < wide; x++) {
        int from = (int)((int64_t)x * n / wide),
            to = (int)((int64_t)(x + 1) * n / wide);
        int y = height_of(c, s, v, from, to > from ? to : from + 1);
        int a = last < 0 ? y : last, step = a < y ? 1 : -1;
        for (set_dot(c, x, y); a != y; a += step) set_dot(c, x, a);
        last = y;
    }
}

/* The decade whose line this text row is on, as a label; "" between decades. */
static void label_of(scale s, int row, char *out, size_t cap) {
    out[0] = 0;
    for (int e = (int)floor(s.top); e >= (int)ceil(s.low); e--) {
        int at = (int)lround((s.top - e) * (ROWS - 1) / (s.top - s.low));
        if (at == row)
            snprintf(out, cap, e >= -4 && e <= 4 ? "%g" : "%.0e", pow(10, e));
    }
}

static void draw_axis(const cli_term *t, int cols, int n, const char *unit) {
    static const char *const corner[] = {"+", "\u2514"}, *const line[] = {"-",
                                                                          "\u2500"};
    char right[32];
    fprintf(t->out, "  %s%8s%s", cli_ink_on(t, CLI_DIM), "", corner[t->utf8]);
    for (int i = 0; i < cols; i++) fputs(line[t->utf8], t->out);
    int room = snprintf(right, sizeof right, "%d %s", n, unit);
    fprintf(t->out, "\n  %8s 1%*s%s%s\n", "", cols - 1 - room, "", right,
            cli_ink_on(t, CLI_PLAIN));
}

void cli_plot_log(const cli_term *t, const float *v, int n, const char *unit) {
    static const char *const bar[] = {"|", "\u2502"}, *const tick[] = {"+", "\u2524"};
    canvas c = {.fine = t->utf8, .cols = t->width - 14};
    if (n < 1) return;
    if (c.cols > 64) c.cols = 64;
    scale s = scale_of(v, n);
    draw_curve(&c, s, v, n);
    for (int row = 0; row < ROWS; row++) {
        char label[16];
        label_of(s, row, label, sizeof label);
        fprintf(t->out, "  %s%7s %s%s%s", cli_ink_on(t, CLI_DIM), label,
                (label[0] ? tick : bar)[t->utf8], cli_ink_on(t, CLI_PLAIN),
                cli_ink_on(t, CLI_LINE));
        for (int i = 0; i < c.cols; i++) put_cell(t, &c, c.cell[row][i]);
        fprintf(t->out, "%s\n", cli_ink_on(t, CLI_PLAIN));
    }
    draw_axis(t, c.cols, n, unit);
}

/* ---- the map ------------------------------------------------------------ */

static uint8_t mix(int a, int b, double at) {
    return (uint8_t)(a + (b - a) * at + 0.5);
}

/* Grey where the network is unsure, the colour of a side where it is sure. */
static cli_rgb shade(double p) {
    static const cli_rgb unsure = {58, 58, 62}, side[] = {{38, 70, 120}, {140, 72, 28}};
    cli_rgb              to = side[p > 0.5];
    double               sure = fabs(2 * p - 1);
    return (cli_rgb){mix(unsure.r, to.r, sure), mix(unsure.g, to.g, sure),
                     mix(unsure.b, to.b, sure)};
}

static const cli_rgb dot_colour[] = {{130, 185, 255}, {255, 180, 90}};

/* The side of a dot on pixel (x, y), -1: none. */
static int dot_at(const cli_dot *d, int n, int x, int y, int size) {
    for (int i = 0; i < n; i++) {
        int at_x = (int)((d[i].x + 1) / 2 * size),
            at_y = (int)((1 - d[i].y) / 2 * size);
        if (at_x == x && at_y == y) return d[i].side;
    }
    return -1;
}

typedef struct map {
    const float   *p;
    int            size;
    const cli_dot *dots;
    int            n;
} map;

static cli_rgb pixel(const map *m, int x, int y) {
    int side = dot_at(m->dots, m->n, x, y, m->size);
    return side < 0 ? shade((double)m->p[y * m->size + x]) : dot_colour[side];
}

/* Two pixels in a character: the upper half in front, the lower behind. */
static void colour_row(const cli_term *t, const map *m, int y) {
    fputs("  ", t->out);
    for (int x = 0; x < m->size; x++) {
        cli_paint(t, pixel(m, x, y), !t->utf8);
        if (t->utf8) cli_paint(t, pixel(m, x, y + 1), true);
        fputs(t->utf8 ? "\u2580" : " ", t->out);
    }
    fprintf(t->out, "%s\n", cli_ink_on(t, CLI_PLAIN));
}

static void shade_row(const cli_term *t, const map *m, int y) {
    static const char *const fine[] = {" ", "\u2591", "\u2592", "\u2593", "\u2588"};
    static const char *const rough[] = {" ", ".", ":", "+", "#"};
    fputs("  ", t->out);
    for (int x = 0; x < m->size; x++) {
        float p = (m->p[y * m->size + x] + m->p[(y + 1) * m->size + x]) / 2;
        int   k = (int)(p * 4 + 0.5f);
        fputs((t->utf8 ? fine : rough)[k < 0 ? 0 : k > 4 ? 4 : k], t->out);
    }
    fputc('\n', t->out);
}

void cli_plot_map(const cli_term *t, const float *p, int size, const cli_dot *dots,
                  int n) {
    map m = {p, size, dots, n};
    for (int y = 0; y + 1 < size; y += 2) {
        if (t->colour) colour_row(t, &m, y);
        else shade_row(t, &m, y);
    }
}

"""plot.py -- draws docs/plots/*.svg from the figures of bench/run.sh.

    python bench/plot.py build/bench/results.jsonl docs/plots

Standard library only. Colours of text and lines follow the reader's light or dark
theme; the background is the page's.
"""
import json
import math
import os
import sys

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 78, 24, 92, 56

# who: label, colour, dashes
SERIES = {
    "tandem": ("Tandem, compiled", "#0ca678", ""),
    "tandem_eager": ("Tandem, eager", "#0ca678", "2 5"),
    "torch": ("PyTorch, eager", "#f76707", "2 5"),
    "torch_compile": ("torch.compile", "#f76707", ""),
    "jax": ("JAX", "#7048e8", ""),
    "stages": ("Tandem, to the plan", "#0ca678", "2 5"),
}

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
         fill: #57606a; }
  .title { font-size: 17px; font-weight: 600; fill: #1f2328; }
  .grid { stroke: #8c959f; stroke-opacity: .28; }
  .axis { stroke: #8c959f; }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round; }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1; }
    .title { fill: #f0f6fc; }
  }
"""


def short(n):
    for unit, mark in ((1 << 20, "M"), (1 << 10, "K")):
        if n >= unit and n % unit == 0:
            return f"{n // unit}{mark}"
    for unit, mark in ((10**6, "M"), (10**3, "K")):
        if n >= unit:
            return f"{n // unit}{mark}"
    return str(n)


def seconds(v):
    for unit, mark in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if v >= unit * 0.999:
            return f"{v / unit:g} {mark}"
    return f"{v / 1e-6:g} µs"


class Axis:
    """Maps values to pixels, on a logarithmic scale or from 0."""

    def __init__(self, values, start, end, log):
        self.log, self.start, self.end = log, start, end
        if log:
            self.low = 10 ** math.floor(math.log10(min(values)))
            self.high = 10 ** math.ceil(math.log10(max(values)))
        else:
            step = 10 ** math.floor(math.log10(max(values)))
            step = step / 2 if max(values) / step < 4 else step
            self.low, self.step = 0, step
            self.high = step * math.ceil(max(values) / step)

    def at(self, v):
        if self.log:
            part = math.log(v / self.low) / math.log(self.high / self.low)
        else:
            part = v / self.high
        return self.start + part * (self.end - self.start)

    def ticks(self):
        if not self.log:
            count = round(self.high / self.step)
            return [i * self.step for i in range(count + 1)]
        count = round(math.log10(self.high / self.low))
        return [self.low * 10**i for i in range(count + 1)]


class Sizes(Axis):
    """The horizontal axis: a tick for each size there is."""

    def __init__(self, sizes, start, end):
        self.log, self.start, self.end = True, start, end
        self.sizes = sorted(set(sizes))
        self.low, self.high = self.sizes[0], self.sizes[-1]

    def ticks(self):
        return self.sizes


def legend(out, whos):
    x, y = LEFT, 58
    for who in whos:
        label, colour, dash = SERIES[who]
        out.append(f'<line x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}" class="line" '
                   f'stroke="{colour}" stroke-dasharray="{dash}"/>')
        out.append(f'<text x="{x + 34}" y="{y + 4.5}">{label}</text>')
        x += 52 + 6.8 * len(label)


def draw(path, title, below, curves, unit, log=True):
    """curves: {who: {size: value}}, values in the unit that `unit` prints."""
    xs = Sizes([s for c in curves.values() for s in c], LEFT, WIDTH - RIGHT)
    ys = Axis([v for c in curves.values() for v in c.values()], HEIGHT - BOTTOM, TOP,
              log)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{title}">',
           f"<style>{STYLE}</style>",
           f'<text class="title" x="{LEFT}" y="30">{title}</text>']
    whos = [w for w in SERIES if w in curves]
    legend(out, whos)
    for v in ys.ticks():
        y = ys.at(v)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" '
                   f'y2="{y:.1f}"/>')
        out.append(f'<text x="{LEFT - 10}" y="{y + 4.5:.1f}" text-anchor="end">'
                   f"{unit(v)}</text>")
    floor = HEIGHT - BOTTOM
    for v in xs.ticks():
        x = xs.at(v)
        out.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" '
                   f'y2="{floor + 5}"/>')
        out.append(f'<text x="{x:.1f}" y="{floor + 21}" text-anchor="middle">'
                   f"{short(v)}</text>")
    out.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" '
               f'y2="{floor}"/>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" '
               f'text-anchor="middle">{below}</text>')
    for who in reversed(whos):
        _, colour, dash = SERIES[who]
        points = [(xs.at(s), ys.at(v)) for s, v in sorted(curves[who].items())]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polyline class="line" stroke="{colour}" '
                   f'stroke-dasharray="{dash}" points="{way}"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>'
                for x, y in points]
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


def read(path):
    """{name: {who: {size: value}}}"""
    found = {}
    with open(path, encoding="utf-8") as f:
        for line in map(json.loads, f):
            for who in SERIES:
                if "size" in line and who in line:
                    curve = found.setdefault(line["name"], {}).setdefault(who, {})
                    curve[line["size"]] = line[who]
    return found


def scaled(curves, by):
    return {w: {s: v * by for s, v in c.items()} for w, c in curves.items()}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found, to = read(sys.argv[1]), sys.argv[2]
    os.makedirs(to, exist_ok=True)
    for name, title in (
            ("overhead_forward", "tanh(x*w), forward: time of one call"),
            ("overhead_forward_backward", "tanh(x*w), forward and backward")):
        if name in found:
            draw(os.path.join(to, name + ".svg"), title, "elements",
                 scaled(found[name], 1e-6), seconds)
    if "compile_cold" in found:
        curves = dict(found["compile_cold"])
        if "compile_stages" in found:
            curves["stages"] = found["compile_stages"]["tandem"]
        draw(os.path.join(to, "compile.svg"),
             "First call and backward, nothing in any cache", "ops in the program",
             scaled(curves, 1e-3), seconds)
    if "memory_resnet18" in found:
        draw(os.path.join(to, "memory.svg"),
             "ResNet-18, 64 x 64: the most a training step holds", "images in a batch",
             found["memory_resnet18"], lambda v: f"{v:g} MiB", log=False)


if __name__ == "__main__":
    main()

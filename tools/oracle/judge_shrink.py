"""Makes a program small while its first unexplained difference keeps its kind."""
import re


def key(d):
    """What stays the same of a difference in a smaller program."""
    text = re.sub(r"[\d.]+", "N", d.text)[:60] if "fail" in d.kind else ""
    return d.kind, text


def shrink(text, difference, judge, rounds=300):
    """judge: the unexplained differences of a text, or None."""
    want, left = key(difference), [rounds]

    def still(lines):
        left[0] -= 1
        found = judge("\n".join(lines)) if left[0] > 0 else None
        return bool(found) and key(found[0]) == want

    lines, smaller = text.split("\n"), True
    while smaller and left[0] > 0:
        smaller = False
        for candidates in (without_lines, without_results):
            for new in candidates(lines):
                if still(new):
                    lines, smaller = new, True
                    break
            if smaller:
                break
    return "\n".join(lines)


def without_lines(lines):
    """Last statements first; a region goes whole, or its edges alone."""
    for i in range(len(lines) - 1, -1, -1):
        s = lines[i].strip()
        if not s or s == "}" or s.startswith(("func ", "case ", "return")):
            continue
        if not s.endswith("{"):
            yield lines[:i] + lines[i + 1:]
            continue
        indent = lines[i][:len(lines[i]) - len(lines[i].lstrip())]
        end = next((k for k in range(i + 1, len(lines)) if lines[k] == indent + "}"), None)
        if end is not None:
            yield lines[:i] + lines[end + 1:]
            yield lines[:i] + lines[i + 1:end] + lines[end + 1:]


def without_results(lines):
    for i, line in enumerate(lines):
        m = re.match(r"(\s+return )(.*)", line)
        items = m.group(2).split(", ") if m else []
        for k in range(len(items) - 1, -1, -1):
            if len(items) > 1:
                rest = ", ".join(items[:k] + items[k + 1:])
                yield lines[:i] + [m.group(1) + rest] + lines[i + 1:]

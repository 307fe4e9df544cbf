#!/bin/sh
# screenshot.sh REPORT OUT.png -- the picture in the README: three views of the page that
# `make demo` writes, side by side. Needs chromium.
#
#     make demo && tools/screenshot.sh build/report.html docs/report.png
set -eu
report=$(realpath "$1")
out=$(realpath -m "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A frame shows the page at 62 % of its size, from an anchor on.
frame() { # X Y WIDTH HEIGHT ANCHOR
    printf '<div style="left:%spx;top:%spx;width:%spx;height:%spx">' "$1" "$2" "$3" "$4"
    printf '<iframe src="file://%s%s" style="width:%spx;height:%spx"></iframe></div>\n' \
        "$report" "$5" $(($3 * 50 / 31)) $(($4 * 50 / 31))
}
{
    echo '<!doctype html><meta charset="utf-8"><style>
        body { margin: 0; background: #dcdde1 }
        div { position: absolute; overflow: hidden; border-radius: 10px;
              box-shadow: 0 1px 6px #0003 }
        iframe { border: 0; transform: scale(.62); transform-origin: 0 0 }
        </style>'
    frame 16 16 670 868 ''
    frame 702 16 674 426 '#joint'
    frame 702 458 674 426 '#memory'
} >"$work/page.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars \
    --user-data-dir="$work/profile" --blink-settings=preferredColorScheme=1 \
    --virtual-time-budget=4000 --window-size=1392,900 \
    --screenshot="$out" "file://$work/page.html" >/dev/null 2>&1
echo "$out"

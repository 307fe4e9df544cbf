#!/bin/sh
# doc-rows.sh PAGE -- the rows of a page's tables `| PyTorch | Tandem |`, as calls of the
# macro ROW(line, python, c) that tests/docs/from_pytorch.c includes. A cell is one piece of
# code between backticks.
awk '
/^\| PyTorch \| Tandem \|/ { rows = 1; next }
!/^\|/ { rows = 0 }
rows && /^\| `/ {
    line = $0
    sub(/^\| `/, "", line)
    at = index(line, "` | `")
    python = substr(line, 1, at - 1)
    c = substr(line, at + 5)
    sub(/` \|$/, "", c)
    gsub(/\\\|/, "|", python)
    gsub(/\\\|/, "|", c)
    gsub(/\\/, "\\\\", python)
    gsub(/"/, "\\\"", python)
    printf "ROW(%d, \"%s\", %s)\n", NR, python, c
}' "$1"

#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Prints a page of docs/ as Doxygen understands it.

Usage: page.py <page.md>

Each heading gets a label, since Doxygen does not know the anchors of GitHub, and links between pages become references
to these labels, which Doxygen checks. Of a link to another file of the source tree, which is no part of the reference,
the text remains.
"""

import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"(#+) (.*)")
COMMENT = re.compile(r"\A<!--.*?-->\s*", re.DOTALL)


def label(page, heading=""):
    return page.stem + ("-" + re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") if heading else "")


def main():
    file = pathlib.Path(sys.argv[1]).resolve()

    def reference(match):
        text, target, heading = match.groups()
        if "://" in target:
            return match.group()
        page = (file.parent / target).resolve() if target else file
        if page.parent != DOCS or page.suffix != ".md" or page.name == "README.md":
            return text
        # Doxygen knows no code in the text of a reference.
        text = text.replace("`", "")
        return f"[{text}](@ref {label(page, heading)})"

    in_code = False
    for line in COMMENT.sub("", file.read_text(encoding="utf-8")).splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            heading = HEADING.fullmatch(line)
            if heading:
                line += f" {{#{label(file, heading[2] if heading[1] != '#' else '')}}}"
            line = LINK.sub(reference, line)
        print(line)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main()

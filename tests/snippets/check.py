#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Compares the code in the Markdown files with code that is compiled, and their paths with the source tree.

Usage: check.py <source folder>. Prints each problem and exits with 1 if there is one.

Each cpp, qml and cmake block must equal one marked region of a file in tests/snippets or tests/package, apart from
common indentation. A region lies between two lines `//! [name]`, or `#! [name]` in CMake files. Regions of one name in
one file are joined. Each region must be shown somewhere. Links, their headings, and paths in backticks must exist.
"""

import difflib
import pathlib
import re
import sys
import textwrap

COMPILED = {"cpp": (".cpp", ".h"), "qml": (".qml",), "cmake": ("CMakeLists.txt",)}
NOT_COMPILED = ("sh", "json", "text")
MARKER = re.compile(r"\s*(?://|#)! \[([\w-]+)\]\s*$")
FENCE = re.compile(r"( *)```(\S*)\s*$")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"#+ (.*)")
PATH = re.compile(r"`((?:include|src|qml|tests|tools|docs|examples|cmake|packaging)/[\w./*{},-]+)`")


def markdown_files(source):
    """The documents of the project, without what lies in build folders."""
    folders = ["docs", "examples", "packaging", "tests", "tools"]
    files = [*source.glob("*.md")]
    for folder in folders:
        files += (source / folder).rglob("*.md")
    return sorted(files)


def blocks(text):
    """(line number, language, code) of each fenced block."""
    language = None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if language is None:
            if fence:
                start, language, code = number, fence.group(2), []
        elif fence and not fence.group(2):
            yield start, language, textwrap.dedent("\n".join(code))
            language = None
        else:
            code.append(line)
    if language is not None:
        yield start, "unfinished", ""


def regions(file):
    """Name -> code of each marked region of a file."""
    found, name = {}, None
    for line in file.read_text().splitlines():
        marker = MARKER.match(line)
        if not marker:
            if name:
                found[name][-1].append(line)
        elif name is None:
            name = marker.group(1)
            found.setdefault(name, []).append([])
        elif name == marker.group(1):
            name = None
        else:
            sys.exit(f"{file}: [{marker.group(1)}] begins inside [{name}]")
    if name:
        sys.exit(f"{file}: [{name}] does not end")
    return {
        name: "\n".join(textwrap.dedent("\n".join(part)) for part in parts).strip("\n")
        for name, parts in found.items()
    }


def anchors(file):
    """The names by which links address the headings of a document."""
    prose = FENCED.sub("", file.read_text())
    headings = (HEADING.fullmatch(line) for line in prose.splitlines())
    return {re.sub(r"[^\w -]", "", heading[1]).lower().replace(" ", "-") for heading in headings if heading}


def expand(pattern):
    """The alternatives of a/{b,c}.h."""
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if not braces:
        return [pattern]
    return [
        path
        for part in braces.group(1).split(",")
        for path in expand(pattern[: braces.start()] + part + pattern[braces.end() :])
    ]


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    problems = []
    compiled = {language: {} for language in COMPILED}
    for file in sorted([*(source / "tests/snippets").rglob("*"), *(source / "tests/package").rglob("*")]):
        for language, endings in COMPILED.items():
            if file.name.endswith(endings):
                place = file.relative_to(source)
                compiled[language].update({f"{place} [{name}]": code for name, code in regions(file).items()})

    shown = set()
    for file in markdown_files(source):
        text = file.read_text()
        name = file.relative_to(source)
        for line, language, code in blocks(text):
            if language in NOT_COMPILED:
                continue
            if language not in COMPILED:
                allowed = ", ".join([*COMPILED, *NOT_COMPILED])
                problems.append(f'{name}:{line}: a block of "{language}"; name one of {allowed}')
                continue
            same = [place for place, other in compiled[language].items() if other == code]
            shown.update(same)
            if same:
                continue
            problems.append(f"{name}:{line}: this {language} block is compiled nowhere")
            nearest = difflib.get_close_matches(code, compiled[language].values(), 1, 0.4)
            for place, other in compiled[language].items():
                if nearest and other == nearest[0]:
                    lines = difflib.unified_diff(
                        other.splitlines(), code.splitlines(), place, f"{name}:{line}", lineterm=""
                    )
                    problems += [f"    {line}" for line in lines]
        prose = FENCED.sub("", text)
        for link, anchor in LINK.findall(prose):
            target = file.parent / link if link else file
            if "://" in link:
                continue
            if not target.exists():
                problems.append(f"{name}: {link} does not exist")
            elif anchor and anchor not in anchors(target):
                problems.append(f"{name}: {link} has no heading #{anchor}")
        for path in PATH.findall(prose):
            problems += [f"{name}: {path} does not exist" for path in expand(path) if not any(source.glob(path))]
    for language in COMPILED:
        for place in compiled[language]:
            if place not in shown:
                problems.append(f"{place}: no document shows this")

    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

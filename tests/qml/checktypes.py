#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Compares docs/qml-types.md with the types of the QML module.

Usage: checktypes.py <folder of the built module> <qml-types.md>. Prints each difference and exits with 1 if there is one.

The module is described by its qmldir, the .qmltypes file of its C++ types, and its .qml files. The page has a heading for
each type, with a table for its properties, one for its methods, one for its signals, and one for each enumeration. The
types of aliases are not checked, since they stand in no file.
"""

import pathlib
import re
import sys

# What the module has for its own use only, and the page leaves out.
INTERNAL_TYPES = {"LockBadge", "LockedActionStatus"}
INTERNAL_MEMBERS = {("LockedAction", ("property", "internal", "QtObject"))}

# How the page writes the types of C++.
NAMES = {
    "QString": "string",
    "QStringList": "list of strings",
    "QDistLock::QmlDistributedLock": "DistributedLock",
    "double": "real",
    "qlonglong": "int",
    "QJSValue": "promise",
    "void": "nothing",
}
TOKEN = re.compile(r'//[^\n]*|"([^"]*)"|([\w.]+:?)|([{}\[\]])')
PARAMETER = re.compile(r"(?:^|, )(\w+)")
ALIAS = None  # as the type of a property: any


def short(name):
    return NAMES.get(name, name.rpartition("::")[2])


def call(name, parameters):
    return f"{name}({', '.join(parameters)})"


def objects(tokens):
    """(kind, {attribute: value}, [children]) of each object of a .qmltypes file."""
    kind, name = None, None
    for text, word, mark in tokens:
        if mark == "{":
            attributes, children = {}, []
            for entry in objects(tokens):
                if isinstance(entry[1], dict):
                    children.append(entry)
                else:
                    attributes[entry[0]] = entry[1]
            yield kind, attributes, children
        elif mark == "}":
            return
        elif mark == "[":
            values = []
            for value, _, end in tokens:
                if end == "]":
                    break
                values.append(value)
            yield name, values
            name = None
        elif word.endswith(":"):
            name = word[:-1]
        elif name and (text or word):
            yield name, text or word
            name = None
        elif word:
            kind = word


def cpp_types(file):
    """Name -> members of each type in a .qmltypes file."""
    tokens = (match.groups(default="") for match in TOKEN.finditer(file.read_text()) if match.group()[:2] != "//")
    found = {}
    for _, _, components in (entry for entry in objects(tokens) if entry[0] == "Module"):
        for _, component, members in components:
            if "exports" not in component:
                continue  # a base class of Qt
            notify = {member.get("notify") for kind, member, _ in members if kind == "Property"}
            rows = set()
            for kind, member, children in members:
                name = member["name"]
                signature = call(name, (child["name"] for _, child, _ in children))
                if kind == "Property":
                    read_only = ", read-only" if member.get("isReadonly") == "true" else ""
                    kind_of_value = ("list of " if member.get("isList") else "") + short(member["type"])
                    rows.add(("property", name, kind_of_value + read_only))
                elif kind == "Method":
                    rows.add(("method", signature, short(member.get("type", "void"))))
                elif kind == "Signal" and name not in notify:
                    rows.add(("signal", signature))
                elif kind == "Enum":
                    rows.update((name, value) for value in member["values"])
            for export in component["exports"]:
                found[re.search(r"/(\w+)", export)[1]] = rows
    return found


def qml_members(file):
    """The members of the type in a .qml file: what its root declares, indented by four spaces."""
    text = file.read_text()
    enums = dict(re.findall(r"^    enum (\w+) \{(.*?)^    \}", text, re.DOTALL | re.MULTILINE))
    for name, values in enums.items():
        yield from ((name, value) for value in re.findall(r"^ +(\w+)", values, re.MULTILINE))
    for prefix, kind, name in re.findall(r"^    (readonly )?property (\w+) (\w+)", text, re.MULTILINE):
        yield ("property", name, ALIAS if kind == "alias" else kind + (", read-only" if prefix else ""))
    for name, parameters in re.findall(r"^    signal (\w+)\((.*)\)", text, re.MULTILINE):
        yield ("signal", call(name, PARAMETER.findall(parameters)))
    for name, parameters, kind in re.findall(r"^    function (\w+)\((.*)\)(?:: (\w+))? \{", text, re.MULTILINE):
        yield ("method", call(name, PARAMETER.findall(parameters)), {"var": "promise"}.get(kind, kind or "nothing"))


def module_types(folder):
    qmldir = (folder / "qmldir").read_text()
    found = cpp_types(folder / re.search(r"^typeinfo (.*)$", qmldir, re.MULTILINE)[1])
    # An internal type has no version, or also a line with one: Qt 6.4 writes both.
    for name, file in re.findall(r"^(?:internal )?(\w+)(?: \d+\.\d+)? (\w+\.qml)$", qmldir, re.MULTILINE):
        found[name] = set(qml_members(folder / file))
    return found


def documented_types(page):
    found, kind = {}, None
    for line in page.read_text().splitlines():
        heading = re.fullmatch(r"## (\w+)", line)
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if heading:
            rows = found[heading[1]] = set()
        if not cells:
            kind = None
        elif not kind:
            kind = cells[0]
        elif not cells[0].startswith("-"):
            name = cells[0].strip("`")
            rows.add((kind, name, cells[1]) if kind in ("property", "method") else (kind, name))
    return found


def main():
    module = module_types(pathlib.Path(sys.argv[1]))
    page = documented_types(pathlib.Path(sys.argv[2]))
    problems = [f"{name}: there is no such type to exclude" for name in INTERNAL_TYPES - module.keys()]
    for name in sorted((module.keys() | page.keys()) - INTERNAL_TYPES):
        if name not in page or name not in module:
            problems.append(f"{name}: {'the page' if name not in page else 'the module'} does not have this type")
            continue
        members = {row for row in module[name] if (name, row) not in INTERNAL_MEMBERS}
        aliases = {row[1] for row in members if row[2:] == (ALIAS,)}
        shown = {row[:2] + (ALIAS,) if row[0] == "property" and row[1] in aliases else row for row in page[name]}
        problems += [f"{name}: the page does not have {' '.join(filter(None, row))}" for row in members - shown]
        problems += [f"{name}: the module does not have {' '.join(filter(None, row))}" for row in shown - members]
    print("\n".join(sorted(problems)) or f"{len(module) - len(INTERNAL_TYPES)} types, all documented")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

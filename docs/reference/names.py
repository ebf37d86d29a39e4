#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Counts the public names and those that are documented, and exits with 1 unless all are.

Usage: names.py <folder of Doxygen's XML>, which was made with EXTRACT_ALL, so that it has every name.

Each overload, enumerator, macro and property counts. Doxygen's own warnings do not name all: an enumerator without a
comment, for instance.
"""

import pathlib
import sys
import xml.etree.ElementTree

COMPOUNDS = ("class", "struct", "union", "namespace")


def is_documented(element):
    parts = (element.find(part) for part in ("briefdescription", "detaileddescription"))
    return any(part is not None and "".join(part.itertext()).strip() for part in parts)


def names(folder):
    """(id, name, documented) of each public name."""
    for file in sorted(folder.glob("*.xml")):
        for compound in xml.etree.ElementTree.parse(file).getroot().iter("compounddef"):
            scope = ""
            if compound.get("kind") in COMPOUNDS:
                scope = compound.findtext("compoundname")
                yield compound.get("id"), scope, is_documented(compound)
                scope += "::"
            elif compound.get("kind") != "file":
                continue
            for member in compound.iter("memberdef"):
                if member.get("prot") == "private" or member.get("kind") == "friend":
                    continue
                name = scope + member.findtext("name")
                yield member.get("id"), name + (member.findtext("argsstring") or ""), is_documented(member)
                for value in member.iter("enumvalue"):
                    yield value.get("id"), f"{name}::{value.findtext('name')}", is_documented(value)


def main():
    found = {key: (name, documented) for key, name, documented in names(pathlib.Path(sys.argv[1]))}
    missing = sorted(name for name, documented in found.values() if not documented)
    for name in missing:
        print(f"not documented: {name}")
    print(f"{len(found)} public names, {len(found) - len(missing)} documented")
    return 1 if missing or not found else 0


if __name__ == "__main__":
    sys.exit(main())

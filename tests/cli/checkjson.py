#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Checks the lines of standard input, one JSON object each, against a schema that has a description of each member.

Usage: checkjson.py <schema>. Prints what is wrong, and exits with 1 if something is; with 77 if there is no jsonschema.
"""

import json
import sys

try:
    from jsonschema import Draft202012Validator as Validator
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)


def described(schema):
    """The names of all members for which the schema has a description, anywhere."""
    names = set()
    if isinstance(schema, dict):
        names.update(schema.get("properties", {}))
        for part in schema.values():
            names |= described(part)
    elif isinstance(schema, list):
        for part in schema:
            names |= described(part)
    return names


def used(value):
    """The names of all members in a value."""
    names = set()
    if isinstance(value, dict):
        names.update(value)
        for part in value.values():
            names |= used(part)
    elif isinstance(value, list):
        for part in value:
            names |= used(part)
    return names


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    Validator.check_schema(schema)
    validator = Validator(schema, format_checker=Validator.FORMAT_CHECKER)
    status = 0
    count = 0
    for line in sys.stdin:
        count += 1
        value = json.loads(line)
        problems = [error.message for error in validator.iter_errors(value)]
        problems += [f"{name} is not in the schema" for name in sorted(used(value) - described(schema))]
        for problem in problems:
            print(f"{problem}\n  in {line.strip()}")
            status = 1
    if count == 0:
        print("there is nothing to check")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Checks what the compiler says about wrong uses of the public headers.

Usage: compileerrors.py <source> <file with flags> <compiler>

The source must compile without a warning. Each of its cases,

    // case name standard: text
    #ifdef CASE_name
    ...
    #endif

must fail with an error that has this text, in its C++ standard and in later ones. GCC names the line that caused an
error before the error, so one compilation checks all cases; a case that it does not report, because another case needs
the same instantiation, is compiled alone. With other compilers each case is compiled alone.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

STANDARDS = [17, 20]
CASE = re.compile(r"// case (\w+) (\d+): (.*)")
CONTEXT = re.compile(r"^In file included from |: In (instantiation|substitution|function|member|lambda|constructor|static) ?")


class Case:
    def __init__(self, name, standard, text, lines):
        self.name = name
        self.standard = standard
        self.text = text
        self.lines = lines


def read_cases(source):
    cases = []
    lines = source.read_text().splitlines()
    for index, line in enumerate(lines):
        match = CASE.search(line)
        if match:
            end = next(i for i in range(index, len(lines)) if lines[i].startswith("#endif"))
            cases.append(Case(match[1], int(match[2]), match[3], range(index + 1, end + 2)))
    return cases


class Compiler:
    def __init__(self, program, flags, source, folder):
        self.program = program
        self.flags = flags
        self.source = source
        self.folder = folder
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        self.is_gcc = "clang" not in version

    def run(self, standard, *arguments):
        """The messages of the compiler, and whether it succeeded."""
        command = [self.program, f"-std=c++{standard}", f"@{self.flags}", "-fPIC", "-Wall", "-Wextra", "-Wpedantic",
                   "-Wconversion", "-Werror", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        return result.stderr, result.returncode == 0

    def header(self, standard):
        return self.folder / f"headers{standard}.h"

    def precompile(self, standard):
        header = self.header(standard)
        includes = [line for line in self.source.read_text().splitlines() if line.startswith("#include <QDistLock/")]
        header.write_text("\n".join(includes) + "\n")
        return self.run(standard, "-x", "c++-header", header, "-o", f"{header}.gch")

    def compile(self, standard, *macros):
        return self.run(standard, "-fsyntax-only", "-include", self.header(standard), *(f"-D{macro}" for macro in macros),
                        self.source)


def errors_by_line(messages, source):
    """Pairs of the lines of the source that caused an error of GCC, and the error."""
    errors = []
    lines = set()
    has_error = False
    for message in messages.splitlines():
        is_error = "error: " in message
        if CONTEXT.search(message):
            if has_error:
                lines = set()
            has_error = False
        own = re.match(re.escape(str(source)) + r":(\d+):", message)
        if own and is_error:
            lines = {int(own[1])}
        elif own and not has_error:
            lines.add(int(own[1]))
        elif own and "in expansion of macro" in message and not errors[-1][0]:
            errors[-1] = (frozenset({int(own[1])}), errors[-1][1])
        if is_error:
            errors.append((frozenset(lines), message))
            has_error = True
    return errors


def check_cases(compiler, standard, cases, fail):
    alone = cases
    if compiler.is_gcc:
        messages, _ = compiler.compile(standard, *(f"CASE_{case.name}" for case in cases))
        errors = errors_by_line(messages, compiler.source)

        def is_reported(case):
            return any(case.text in error and lines.intersection(case.lines) for lines, error in errors)

        alone = [case for case in cases if not is_reported(case)]
    for case in alone:
        messages, succeeded = compiler.compile(standard, f"CASE_{case.name}")
        if succeeded:
            fail(f"C++{standard}, {case.name}: compiles", messages)
        elif not any("error" in line and case.text in line for line in messages.splitlines()):
            fail(f'C++{standard}, {case.name}: no error says "{case.text}"', messages)
    print(f"C++{standard}: {len(cases)} cases must fail; compiled alone: {', '.join(case.name for case in alone) or 'none'}")


def main():
    source = pathlib.Path(sys.argv[1])
    status = 0

    def fail(text, messages):
        nonlocal status
        status = 1
        print(f"FAIL: {text}\n{messages}")

    cases = read_cases(source)
    if not cases:
        fail("there are no cases", "")
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(sys.argv[3], sys.argv[2], source, pathlib.Path(folder))
        for standard in STANDARDS:
            messages, succeeded = compiler.precompile(standard)
            if not succeeded:
                fail(f"C++{standard}: the header gives a warning", messages)
            for macros in [], ["QT_NO_DEBUG"]:
                messages, succeeded = compiler.compile(standard, *macros)
                if not succeeded:
                    fail(f"C++{standard}, {macros}: does not compile without a warning", messages)
            check_cases(compiler, standard, [case for case in cases if case.standard <= standard], fail)
    return status


if __name__ == "__main__":
    sys.exit(main())

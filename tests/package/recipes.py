#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Examines the recipes for vcpkg and Conan, without either of them, and without a network.

Usage: recipes.py <source folder> <cmake>. Prints each problem, and exits with 1 if there is one.

The port is run by CMake, with functions in place of vcpkg's that check what they are given; the recipe for Conan is
compiled. Both must name options that exist, and the version of the project.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

# Each of vcpkg's functions that the port calls; another one is an error of CMake.
STUBS = """
cmake_minimum_required(VERSION 3.22)
set(PORT qdistlock)
set(FEATURES core qml tools)
set(CURRENT_PACKAGES_DIR "{work}")
function(vcpkg_check_features)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES;INVERTED_FEATURES")
    set(options "")
    while(arg_FEATURES)
        list(POP_FRONT arg_FEATURES feature option)
        list(APPEND options "-D${{option}}=ON")
        message(STATUS "feature ${{feature}}")
    endwhile()
    set(${{arg_OUT_FEATURE_OPTIONS}} "${{options}}" PARENT_SCOPE)
endfunction()
function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
    message(STATUS "source ${{arg_SOURCE_PATH}}")
    foreach(option IN LISTS arg_OPTIONS)
        message(STATUS "option ${{option}}")
    endforeach()
endfunction()
function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
    message(STATUS "config ${{arg_CONFIG_PATH}}")
endfunction()
foreach(name IN ITEMS vcpkg_cmake_install vcpkg_fixup_pkgconfig vcpkg_copy_pdbs vcpkg_copy_tools)
    function(${{name}})
    endfunction()
endforeach()
function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
    message(STATUS "licence ${{arg_FILE_LIST}}")
endfunction()
include("{port}/portfile.cmake")
"""


def run_port(port, cmake):
    """(problem, lines): what CMake says of the port, and what its functions were given."""
    with tempfile.TemporaryDirectory() as work:
        script = pathlib.Path(work, "run.cmake")
        script.write_text(STUBS.format(work=work, port=port))
        done = subprocess.run([cmake, "-P", script], capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr, []
        return "", [line[3:].split(" ", 1) for line in done.stdout.splitlines() if line.startswith("-- ")]


def main():
    source, cmake = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    project = (source / "CMakeLists.txt").read_text()
    version = re.search(r"VERSION (\d+\.\d+\.\d+)", project).group(1)
    known = set(re.findall(r"(?:option|set)\((QDISTLOCK_\w+)", project))
    problems = []

    port = source / "packaging/vcpkg/qdistlock"
    manifest = json.loads((port / "vcpkg.json").read_text())
    if manifest["version-semver"] != version:
        problems.append(f"vcpkg.json has version {manifest['version-semver']}, the project {version}")
    problem, lines = run_port(port, cmake)
    if problem:
        problems.append(f"portfile.cmake: {problem}")
    given = {}
    for kind, text in lines:
        given.setdefault(kind, []).append(text)
    if not problem:
        if set(given["feature"]) != set(manifest["features"]):
            problems.append("the features of portfile.cmake and of vcpkg.json differ")
        if pathlib.Path(given["source"][0]) != source:
            problems.append(f"portfile.cmake builds {given['source'][0]}")
        if not pathlib.Path(given["licence"][0]).is_file():
            problems.append("portfile.cmake installs a licence that does not exist")
        if given["config"] != ["lib/cmake/QDistLock6"]:
            problems.append("portfile.cmake looks for the CMake package in another folder")
    used = {text.split("=")[0][2:] for text in given.get("option", [])}

    for recipe in sorted((source / "packaging/conan").rglob("*.py")):
        text = recipe.read_text()
        compile(text, recipe, "exec")
        used |= set(re.findall(r"QDISTLOCK_\w+", text))
        for exported in re.findall(r"for pattern in \((.*?)\)", text, re.DOTALL):
            for pattern in re.findall(r'"(.*?)"', exported):
                if not any(source.glob(pattern)):
                    problems.append(f"{recipe.name} exports {pattern}, which does not exist")
    problems += [f"{name} is no option of the project" for name in sorted(used - known)]

    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

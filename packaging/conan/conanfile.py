# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Builds the sources that it is a part of, with Conan 2: see docs/packaging.md."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir


class QDistLock(ConanFile):
    name = "qdistlock"
    description = "Distributed locks for Qt 6 applications over Redis"
    license = "MIT"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        "qml": [True, False],
        "tools": [True, False],
        "system_qt": [True, False],
    }
    default_options = {"shared": True, "fPIC": True, "qml": False, "tools": False, "system_qt": False}
    implements = ["auto_shared_fpic"]

    def set_version(self):
        project = load(self, os.path.join(self.recipe_folder, "..", "..", "CMakeLists.txt"))
        self.version = re.search(r"VERSION (\d+\.\d+\.\d+)", project).group(1)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in (
            "CMakeLists.txt",
            "LICENSES/*",
            "cmake/*",
            "docs/*.json",
            "include/*",
            "packaging/*",
            "qml/*",
            "src/*",
            "tools/qdistlock/*",
            "tools/qdistlock-monitor/*",
        ):
            copy(self, pattern, src=root, dst=self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("hiredis/[>=1.0 <2]")
        if not self.options.system_qt:
            self.requires("qt/[>=6.4 <7]", transitive_headers=True)

    def configure(self):
        if self.options.qml and not self.options.system_qt:
            self.options["qt"].qtdeclarative = True

    def validate(self):
        check_min_cppstd(self, 17)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["QDISTLOCK_BUILD_TESTS"] = False
        toolchain.cache_variables["QDISTLOCK_BUILD_EXAMPLES"] = False
        toolchain.cache_variables["QDISTLOCK_BUILD_ZOOKEEPER"] = False
        toolchain.cache_variables["QDISTLOCK_BUILD_QML"] = bool(self.options.qml)
        toolchain.cache_variables["QDISTLOCK_BUILD_TOOLS"] = bool(self.options.tools)
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        licences = os.path.join(self.source_folder, "LICENSES")
        copy(self, "MIT.txt", src=licences, dst=os.path.join(self.package_folder, "licenses"))
        rmdir(self, os.path.join(self.package_folder, "share", "licenses"))

    def package_info(self):
        # find_package() reads the file that the library installs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "QDistLock6")]
        self.cpp_info.libs = ["QDistLock6Core"]

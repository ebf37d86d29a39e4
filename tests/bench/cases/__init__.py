# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""The cases, one a file. Each has a name, run() that returns its result and show() that tells it in lines."""

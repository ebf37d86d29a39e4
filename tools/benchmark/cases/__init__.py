# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""The cases, one in each file. Each has a name, run(), which returns its result, and show(), which formats it."""

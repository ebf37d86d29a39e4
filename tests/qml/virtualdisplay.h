// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>

#include <cstdio>

namespace Support {

/*!
    Starts an X server without a screen (Xvfb), and makes Qt use it. Create it before the application object. The server
    ends when this process does.
*/
class VirtualDisplay
{
public:
    VirtualDisplay()
    {
        // With -terminate it ends when its last client has gone: this program, however that ends.
        std::FILE *const server = ::popen(
                "exec Xvfb -displayfd 3 -terminate -nolisten tcp -screen 0 1600x1000x24 3>&1 >/dev/null 2>&1", "r");
        char number[16] = "";
        if (!server || !std::fgets(number, sizeof number, server))
            qFatal("Xvfb, an X server without a screen, was not started; is it installed?");
        qputenv("DISPLAY", ":" + QByteArray(number).trimmed());
        qputenv("QT_QPA_PLATFORM", "xcb");
        qputenv("QT_QUICK_BACKEND", "software");
    }
};

} // namespace Support

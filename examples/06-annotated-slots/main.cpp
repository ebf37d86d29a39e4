// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A window whose buttons share a table with those of other windows, one at a time, and never freeze. Pack,
// then press the other buttons while that takes its time. Set QDISTLOCK_URL to a server and start the
// program twice: each window waits for the other. With --demo it presses its buttons itself.

#include <QDistLock/Annotations>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCommandLineParser>
#include <QtCore/QFutureWatcher>
#include <QtCore/QTimer>
#include <QtWidgets/QApplication>
#include <QtWidgets/QHBoxLayout>
#include <QtWidgets/QPlainTextEdit>
#include <QtWidgets/QPushButton>
#include <QtWidgets/QVBoxLayout>

#include <memory>

using namespace std::chrono_literals;

class Window : public QWidget
{
    Q_OBJECT
    Q_PROPERTY(QString table READ table CONSTANT)
    QDL_LOCKED_METHOD(ship, "table:{this.table}", "wait=1min")
    QDL_LOCKED_METHOD(shipIfFree, "table:{this.table}", "onBusy=skip")

public:
    Window();

    QString table() const { return QStringLiteral("north"); }
    void demonstrate();

public Q_SLOTS:
    void pack();
    void ship();
    void shipIfFree();

private:
    void say(const QString &text);

    QPushButton m_pack{tr("Pack (takes a second)")};
    QPushButton m_ship{tr("Ship")};
    QPushButton m_shipIfFree{tr("Ship, if nobody is at it")};
    QPlainTextEdit m_log;
};

Window::Window()
{
    m_log.setReadOnly(true);
    auto *const controls = new QHBoxLayout;
    for (QWidget *widget : std::initializer_list<QWidget *>{&m_pack, &m_ship, &m_shipIfFree})
        controls->addWidget(widget);
    auto *const layout = new QVBoxLayout(this);
    layout->addLayout(controls);
    layout->addWidget(&m_log);

    connect(&m_pack, &QPushButton::clicked, this, &Window::pack);
    QDistLock::connectLocked(&m_ship, &QPushButton::clicked, this, &Window::ship);
    QDistLock::connectLocked(&m_shipIfFree, &QPushButton::clicked, this, &Window::shipIfFree);

    const auto *const calls = QDistLock::LockedCalls::instance();
    connect(calls, &QDistLock::LockedCalls::skipped, this,
            [this](const QDistLock::LockedCallInfo &call) { say(tr("Left out: somebody is at %1").arg(call.lock)); });
    connect(calls, &QDistLock::LockedCalls::failed, this,
            [this](const QDistLock::LockedCallInfo &call) { say(call.errorString); });
}

void Window::say(const QString &text)
{
    m_log.appendPlainText(text);
    qInfo("%ls", qUtf16Printable(text));
}

/// Work that goes on after the function returns: the lock is held until its future has finished.
void Window::pack()
{
    const QFuture<QString> outcome = QDistLock::withLock(this, QStringLiteral("table:") + table(), {}, [this] {
        say(tr("Packing …"));
        const auto packed = std::make_shared<QPromise<void>>();
        packed->start();
        QTimer::singleShot(1s, this, [packed] { packed->finish(); });
        return packed->future();
    }).then([] { return tr("Packed"); })
      .onCanceled([] { return tr("Not packed"); })
      .onFailed([](const QDistLock::LockUnavailable &error) { return error.result().errorString; });

    // Not then(this, …): Qt 6.4 aborts if the window is closed before the future has finished.
    auto *const watcher = new QFutureWatcher<QString>(this);
    connect(watcher, &QFutureWatcherBase::finished, this, [this, watcher] {
        say(watcher->result());
        watcher->deleteLater();
    });
    watcher->setFuture(outcome);
}

void Window::ship()
{
    QDL_ASSERT_LOCKED(QStringLiteral("table:") + table()); // catches direct calls
    say(tr("Shipped"));
}

void Window::shipIfFree()
{
    ship();
}

void Window::demonstrate()
{
    connect(QDistLock::LockedCalls::instance(), &QDistLock::LockedCalls::failed, this,
            [] { QCoreApplication::exit(1); });
    m_pack.click();
    QTimer::singleShot(300ms, this, [this] {
        m_ship.click();       // waits until it is packed
        m_shipIfFree.click(); // does not
    });
    auto *const timer = new QTimer(this);
    connect(timer, &QTimer::timeout, this, [this] {
        if (m_log.toPlainText().contains(QStringLiteral("Shipped")))
            QCoreApplication::quit();
    });
    timer->start(50ms);
}

int main(int argc, char **argv)
{
    QApplication application(argc, argv);
    QDistLock::quitOnSignals();
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL")) // nothing to install for a first look
        QDistLock::LockRegistry::setDefaultServer(QUrl(QStringLiteral("memory:")));

    QCommandLineParser parser;
    parser.addHelpOption();
    const QCommandLineOption demo(QStringLiteral("demo"), QStringLiteral("Press the buttons and end."));
    parser.addOption(demo);
    parser.process(application);

    const QStringList wrong = QDistLock::validateAnnotations(&Window::staticMetaObject);
    for (const QString &problem : wrong)
        qCritical("%ls", qUtf16Printable(problem));
    if (!wrong.isEmpty())
        return 1;

    Window window;
    window.show();
    if (parser.isSet(demo))
        window.demonstrate();
    return application.exec();
}

#include "main.moc"

// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "form.h"

#include "annotatedform.h"
#include "runform.h"
#include "scopedform.h"
#include "signalsform.h"

namespace Chaos {

Form::Form(const Settings &settings, History *history, InjectedFaults *faults)
{
    for (const LockSettings &lock : settings.locks)
        m_participants.push_back(std::make_unique<Participant>(settings, lock, history, faults));
}

std::unique_ptr<Form> Form::make(const QString &name, const Settings &settings, History *history,
                                 InjectedFaults *faults)
{
    Settings withReaders = settings;
    withReaders.readers = true;
    Settings withPermits = settings;
    withPermits.permits = 3;
    if (name == QLatin1String("semaphore"))
        return std::make_unique<SignalsForm>(withPermits, history, faults);
    if (name == QLatin1String("semaphore-scoped"))
        return std::make_unique<ScopedForm>(withPermits, history, faults);
    if (name == QLatin1String("readwrite"))
        return std::make_unique<SignalsForm>(withReaders, history, faults);
    if (name == QLatin1String("readwrite-scoped"))
        return std::make_unique<ScopedForm>(withReaders, history, faults);
    if (name == QLatin1String("signals"))
        return std::make_unique<SignalsForm>(settings, history, faults);
    if (name == QLatin1String("scoped"))
        return std::make_unique<ScopedForm>(settings, history, faults);
    if (name == QLatin1String("multi"))
        return std::make_unique<SignalsForm>(settings, history, faults, true);
    if (name == QLatin1String("multi-scoped"))
        return std::make_unique<ScopedForm>(settings, history, faults, true);
    if (name == QLatin1String("annotated"))
        return std::make_unique<AnnotatedForm>(settings, history, faults);
#ifdef QDISTLOCK // the program is built
    if (name == QLatin1String("run"))
        return std::make_unique<RunForm>(settings, history, faults);
#endif
    return nullptr;
}

} // namespace Chaos

// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/annotationoptions.h"

#include "annotations/parsing.h"
#include "engine/enginefactory.h"
#include "engine/servername.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

using Detail::quoted;
using namespace Parsing;

namespace {

/// Reads \a value into \a field. Returns false if the value is wrong; sets \a problem only if there is more to say than
/// the help text of the option does.
bool read(milliseconds *field, QStringView value, QString *problem)
{
    static constexpr struct
    {
        const char16_t *name;
        milliseconds length;
    } units[] = {{u"ms", 1ms}, {u"s", 1s}, {u"min", 1min}, {u"h", 1h}};

    const auto digits = std::find_if_not(value.begin(), value.end(), isDigit) - value.begin();
    const QStringView unit = value.sliced(digits).trimmed();
    const auto number = toNumber(value.first(digits));
    const auto known = std::find_if(std::begin(units), std::end(units),
                                    [unit](const auto &candidate) { return unit == QStringView(candidate.name); });
    if (!number || known == std::end(units))
        return false;
    if (*number > ((milliseconds::max)() - 1ms) / known->length) { // the maximum is LockOptions::Forever
        *problem = u"%1 is too long"_s.arg(quoted(value));
        return false;
    }
    *field = known->length * *number;
    return true;
}

bool read(bool *field, QStringView value, QString *)
{
    *field = value == u"true";
    return *field || value == u"false";
}

bool read(int *field, QStringView value, QString *)
{
    const auto number = toNumber(value);
    if (!number || *number > (std::numeric_limits<int>::max)())
        return false;
    *field = int(*number);
    return true;
}

template<auto Field>
bool setField(AnnotationOptions *options, QStringView value, QString *problem)
{
    return read(&(options->lock.*Field), value, problem);
}

bool setWait(AnnotationOptions *options, QStringView value, QString *problem)
{
    if (value != u"forever")
        return setField<&LockOptions::wait>(options, value, problem);
    options->lock.wait = LockOptions::Forever;
    return true;
}

bool setMaxRetries(AnnotationOptions *options, QStringView value, QString *problem)
{
    if (value != u"unlimited")
        return setField<&LockOptions::maxRetries>(options, value, problem);
    options->lock.maxRetries = LockOptions::UnlimitedRetries;
    return true;
}

bool setMode(AnnotationOptions *options, QStringView value, QString *)
{
    const bool isReader = value == u"read" || value == u"shared";
    options->lock.mode = isReader ? LockOptions::Shared : LockOptions::Exclusive;
    return isReader || value == u"write" || value == u"exclusive";
}

bool setPermits(AnnotationOptions *options, QStringView value, QString *problem)
{
    if (value == u"server") {
        options->lock.permits = LockOptions::ServerPermits;
        return true;
    }
    if (!setField<&LockOptions::permits>(options, value, problem))
        return false;
    if (options->lock.permits == 0)
        *problem = u"0 would let nobody in; leave the option out for a lock that one owner holds alone"_s;
    return problem->isEmpty();
}

bool setLabel(AnnotationOptions *options, QStringView value, QString *)
{
    options->lock.label = value.toString();
    return !value.isEmpty();
}

bool setOnBusy(AnnotationOptions *options, QStringView value, QString *)
{
    static constexpr struct
    {
        const char16_t *name;
        OnBusy onBusy;
    } values[] = {
            {u"wait", OnBusy::Wait}, {u"skip", OnBusy::Skip}, {u"fail", OnBusy::Fail}, {u"latest", OnBusy::Latest}};

    for (const auto &known : values) {
        if (value == QStringView(known.name)) {
            options->onBusy = known.onBusy;
            return true;
        }
    }
    return false;
}

bool setMaxQueued(AnnotationOptions *options, QStringView value, QString *problem)
{
    if (value == u"unlimited") {
        options->maxQueued = (std::numeric_limits<int>::max)();
        return true;
    }
    if (!read(&options->maxQueued, value, problem))
        return false;
    if (options->maxQueued == 0)
        *problem = u"0 would let no call wait; write onBusy=fail or onBusy=skip"_s;
    return problem->isEmpty();
}

bool setKeyPrefix(AnnotationOptions *options, QStringView value, QString *)
{
    options->keyPrefix = value.isEmpty() ? u""_s : value.toString(); // not null
    return true;
}

bool setServer(AnnotationOptions *options, QStringView value, QString *problem)
{
    const QUrl url(value.toString(), QUrl::StrictMode);
    *problem = EngineFactory::check(url);
    if (!problem->isEmpty())
        return false;
    options->server = normalizedServer(url);
    return true;
}

bool setCondition(AnnotationOptions *options, QStringView value, QString *problem)
{
    options->conditionNegated = value.startsWith(u'!');
    options->condition = ValuePath::parse(value.sliced(options->conditionNegated ? 1 : 0).trimmed(), problem);
    return options->condition.has_value();
}

struct Option
{
    const char16_t *name;
    /// Returns false if the value is wrong, with the problem unless \a help says it all.
    bool (*set)(AnnotationOptions *options, QStringView value, QString *problem);
    const char16_t *help; ///< ends the error "\"value\" is not …"
};

constexpr char16_t Duration[] = u"a duration; write a whole number and its unit, ms, s, min or h, as in 250ms or 2s";
constexpr char16_t Wait[] =
        u"a duration; write forever, or a whole number and its unit, ms, s, min or h, as in 250ms or 2s";
constexpr char16_t Number[] = u"a whole number";
constexpr char16_t NumberOrUnlimited[] = u"a whole number or unlimited";
constexpr char16_t NumberOrServer[] = u"a whole number or server";
constexpr char16_t Bool[] = u"true or false";

constexpr Option Options[] = {
        {u"mode", setMode, u"read (or shared), or write (or exclusive)"},
        {u"permits", setPermits, NumberOrServer},
        {u"take", setField<&LockOptions::take>, Number},
        {u"wait", setWait, Wait},
        {u"lease", setField<&LockOptions::lease>, Duration},
        {u"retryInterval", setField<&LockOptions::retryInterval>, Duration},
        {u"maxRetries", setMaxRetries, NumberOrUnlimited},
        {u"autoRenew", setField<&LockOptions::autoRenew>, Bool},
        {u"fair", setField<&LockOptions::fair>, Bool},
        {u"minHold", setField<&LockOptions::minHold>, Duration},
        {u"keyPrefix", setKeyPrefix, u"a text"},
        {u"minReplicas", setField<&LockOptions::minReplicas>, Number},
        {u"replicaTimeout", setField<&LockOptions::replicaTimeout>, Duration},
        {u"repairMissingTtl", setField<&LockOptions::repairMissingTtl>, Bool},
        {u"label", setLabel, u"the name of a group"},
        {u"onBusy", setOnBusy, u"wait, skip, fail or latest"},
        {u"maxQueued", setMaxQueued, NumberOrUnlimited},
        {u"condition", setCondition, u"the path of a property"},
        {u"server", setServer, u"a URL"},
};

QString optionNames()
{
    QStringList names;
    for (const Option &option : Options)
        names.append(QStringView(option.name).toString());
    const QString last = names.takeLast();
    return names.join(u", "_s) + u" and "_s + last;
}

/// Sets the option \a name; returns an error, or an empty text.
QString setOption(AnnotationOptions *options, QStringView name, QStringView value)
{
    const auto option = std::find_if(std::begin(Options), std::end(Options),
                                     [name](const Option &known) { return name == QStringView(known.name); });
    if (option == std::end(Options))
        return u"there is no option %1; there are %2"_s.arg(quoted(name), optionNames());
    QString problem;
    if (option->set(options, value, &problem))
        return QString();
    if (problem.isEmpty())
        problem = u"%1 is not %2"_s.arg(quoted(value), QStringView(option->help));
    return u"%1: %2"_s.arg(name, problem);
}

} // namespace

std::optional<AnnotationOptions> AnnotationOptions::parse(QStringView text, QString *error)
{
    AnnotationOptions options;
    QStringList problems;
    QList<QStringView> seen; ///< names
    qsizetype start = 0;
    const QList<QStringView> entries = text.split(u';');
    for (const QStringView entry : entries) {
        const auto spaces = std::find_if_not(entry.begin(), entry.end(), [](QChar c) { return c.isSpace(); })
                - entry.begin();
        const qsizetype position = start + spaces;
        start += entry.size() + 1;
        if (entry.trimmed().isEmpty())
            continue;
        const qsizetype equals = entry.indexOf(u'=');
        const QStringView name = entry.first(equals < 0 ? entry.size() : equals).trimmed();
        QString problem;
        if (equals < 0)
            problem = u"%1 has no value; write name=value"_s.arg(quoted(name));
        else if (seen.contains(name))
            problem = u"the option %1 is given twice"_s.arg(quoted(name));
        else
            problem = setOption(&options, name, entry.sliced(equals + 1).trimmed());
        // The entry, and all that follow, may be the rest of a password that has a ';'.
        const bool mayBeSecret = name != u"server" && seen.contains(u"server") && text.sliced(position).contains(u'@');
        seen.append(name);
        if (problem.isEmpty())
            continue;
        if (mayBeSecret) {
            problems.append(atPosition(position, u"this is no option; a ';' in the server's URL is written %3B"_s));
            break;
        }
        problems.append(atPosition(position, problem));
    }
    // If a value could not be read, its option still has the default, which may contradict the others.
    if (const QString problem = options.lock.validationError(); problems.isEmpty() && !problem.isEmpty())
        problems.append(problem);
    if (!problems.isEmpty())
        return fail(error, problems.join(QLatin1String("; ")));
    return options;
}

QString AnnotationOptions::bind(const MethodSignature &signature)
{
    return condition ? condition->bind(signature) : QString();
}

std::optional<bool> AnnotationOptions::isWanted(const CallArguments &arguments, QString *error) const
{
    if (!condition)
        return true;
    QString problem;
    const auto value = condition->read(arguments, &problem);
    const auto wanted = value ? toBool(*value, &problem) : std::nullopt;
    if (!wanted)
        return fail(error, u"condition %1: %2"_s.arg(nameForError(condition->toString()), problem));
    return *wanted != conditionNegated;
}

} // namespace QDistLock

// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/keytemplate.h"

#include "annotations/keytext.h"
#include "annotations/parsing.h"
#include "engine/enginefactory.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

using namespace Parsing;

namespace {

/// Whether \a c can be part of the `%XX` of an escaped character.
bool isPartOfEscape(char32_t c)
{
    return c == U'%' || (c >= U'0' && c <= U'9') || (c >= U'A' && c <= U'F');
}

/// A character of \a literal that separates it from the value before it, which has this character escaped; 0 if there
/// is none. Preferably one that is always escaped.
char32_t separatorIn(const QString &literal)
{
    const QList<uint> characters = literal.toUcs4();
    char32_t separator = 0;
    for (const uint c : characters) {
        if (isPartOfEscape(c))
            continue;
        if (c < 0x80 && !isSafeInKeys(char16_t(c)))
            return c;
        if (!separator)
            separator = c;
    }
    return separator;
}

} // namespace

std::optional<KeyTemplate> KeyTemplate::parse(QStringView text, QString *error)
{
    KeyTemplate key;
    QString literal;
    qsizetype lastEnd = 0; // the end of the last value
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QChar c = text.at(i);
        const bool doubled = i + 1 < text.size() && text.at(i + 1) == c;
        if ((c == u'{' || c == u'}') && doubled) {
            literal += c;
            ++i;
        } else if (c == u'}') {
            return fail(error, atPosition(i, u"a } without its {; write }} for the character"_s));
        } else if (c == u'{') {
            const qsizetype end = text.indexOf(u'}', i);
            if (end < 0)
                return fail(error, atPosition(i, u"a { without its }; write {{ for the character"_s));
            QString problem;
            const bool mayBeEmpty = text.at(end - 1) == u'?';
            auto path = ValuePath::parse(text.sliced(i + 1, end - i - 1).chopped(mayBeEmpty ? 1 : 0), &problem);
            if (!path)
                return fail(error, atPosition(i, problem));
            if (!key.m_parts.isEmpty()) {
                Part &last = key.m_parts.last();
                last.separator = separatorIn(literal);
                if (!last.separator) {
                    const QString why = literal.isEmpty()
                            ? u"{%1} and {%2} are written without anything between them"_s
                            : u"only characters of an escaped value, 0 to 9, A to F and %, are between {%1} and {%2}"_s;
                    const QString advice =
                            u", so that different values could give the same key; separate them, as in {%1}:{%2}"_s;
                    problem = (why + advice).arg(nameForError(last.value->toString()), nameForError(path->toString()));
                    return fail(error, atPosition(literal.isEmpty() ? i : lastEnd, problem));
                }
            }
            key.m_parts.append({std::exchange(literal, QString()), std::move(path), mayBeEmpty});
            i = end;
            lastEnd = end + 1;
        } else if (c.isNull()) {
            return fail(error, atPosition(i, u"a NUL character, which keys cannot have"_s));
        } else if (c == QChar::ReplacementCharacter) {
            return fail(error, atPosition(i, u"bytes that are not UTF-8; save the source file as UTF-8"_s));
        } else {
            literal += c;
        }
    }
    if (!literal.isEmpty())
        key.m_parts.append({literal, std::nullopt, false});
    if (key.m_parts.isEmpty())
        return fail(error, u"the key is empty"_s);
    return key;
}

QString KeyTemplate::bind(const MethodSignature &signature)
{
    for (Part &part : m_parts) {
        if (!part.value)
            continue;
        if (const QString problem = part.value->bind(signature); !problem.isEmpty())
            return u"{%1}: %2"_s.arg(nameForError(part.value->toString()), problem);
    }
    return QString();
}

std::optional<QString> KeyTemplate::evaluate(const CallArguments &arguments, QString *error) const
{
    QString key;
    for (const Part &part : m_parts) {
        key += part.literal;
        if (!part.value)
            continue;
        QString problem;
        const auto value = part.value->read(arguments, &problem);
        const auto text = value ? valueToKeyText(*value, &problem) : std::nullopt;
        if (!text)
            return fail(error, u"{%1}: %2"_s.arg(nameForError(part.value->toString()), problem));
        if (text->isEmpty() && !part.mayBeEmpty) {
            return fail(
                    error,
                    u"{%1}: the value is empty; a key without it could be that of another call. Write {%1?} if it may be empty"_s
                            .arg(nameForError(part.value->toString())));
        }
        key += escapedForKey(*text, part.separator);
    }
    return key;
}

QString KeyTemplate::nameProblem(const QString &prefix) const
{
    QString name;
    for (const Part &part : m_parts) {
        if (part.mayBeEmpty)
            return QString();
        name += part.literal;
        if (part.value)
            name += u'0';
    }
    QString problem;
    EngineFactory::makeLockId(prefix, name, &problem);
    return problem;
}

bool KeyTemplate::isSame(const QString &prefix, const KeyTemplate &other, const QString &otherPrefix) const
{
    if (prefix + m_parts.first().literal != otherPrefix + other.m_parts.first().literal)
        return false;
    return std::equal(m_parts.begin(), m_parts.end(), other.m_parts.begin(), other.m_parts.end(),
                      [&](const Part &a, const Part &b) {
                          const bool isFirst = &a == &m_parts.first();
                          const bool sameValue = a.value && b.value ? a.value->isSame(*b.value) : !a.value && !b.value;
                          return sameValue && (isFirst || a.literal == b.literal);
                      });
}

} // namespace QDistLock

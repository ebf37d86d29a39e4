// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_ANNOTATIONTABLE_H
#define QDISTLOCK_IMPL_ANNOTATIONTABLE_H

#include <QDistLock/scopedlock.h> // QDL_DETAIL_EXPAND

#include <QtCore/qobjectdefs.h>

#include <cstddef>
#include <string>
#include <type_traits>

namespace QDistLock {
namespace Detail {

// The annotated methods of a class, as a list of types. Each QDL_LOCKED_METHOD() declares a function qdlAnnotations()
// that returns the list so far and one more entry; overload resolution finds the latest one, since it has the highest
// rank.

constexpr int MaximumAnnotations = 64;

template<int number>
struct Rank : Rank<number - 1>
{
};
template<>
struct Rank<0>
{
};
using HighestRank = Rank<MaximumAnnotations>;

struct NoAnnotations
{
    static constexpr int Count = 0;
};

template<typename Method, typename Previous>
struct Annotations
{
    static constexpr int Count = Previous::Count + 1;
    static_assert(Count <= MaximumAnnotations, "a class can have 64 QDL_LOCKED_METHOD at most");
};

/// A friend of every class with annotations.
struct AnnotationAccess
{
    /// The name of the method of \a Class that \a slot points to; null if it is not annotated.
    template<typename Class, typename Slot>
    static const char *methodName(Slot slot)
    {
        return find<Class>(slot, static_cast<decltype(annotations<Class>(0)) *>(nullptr));
    }

private:
    template<typename Class>
    static auto annotations(int) -> decltype(Class::qdlAnnotations(HighestRank(), nullptr));
    template<typename Class>
    static NoAnnotations annotations(...);

    template<typename Class, typename Slot>
    static const char *find(Slot, NoAnnotations *)
    {
        return nullptr;
    }
    template<typename Class, typename Slot, typename Method, typename Previous>
    static const char *find(Slot slot, Annotations<Method, Previous> *)
    {
        return isSame<Class, Method>(slot, 0) ? Method::name() : find<Class>(slot, static_cast<Previous *>(nullptr));
    }

    template<typename Class, typename Method, typename Slot>
    static auto isSame(Slot slot, int) -> decltype(Method::template is<Class>(slot))
    {
        return Method::template is<Class>(slot);
    }
    /// Chosen if the class has no method of that name and type.
    template<typename Class, typename Method, typename Slot>
    static bool isSame(Slot, ...)
    {
        return false;
    }
};

/// The name of the annotated method that \a slot points to; null if it has no annotation.
template<typename Receiver, typename Slot>
const char *annotatedName(Slot slot)
{
    const char *const name = AnnotationAccess::methodName<Receiver>(slot);
    return name ? name : AnnotationAccess::methodName<typename QtPrivate::FunctionPointer<Slot>::Object>(slot);
}

} // namespace Detail
} // namespace QDistLock

// What QDL_LOCKED_METHOD() expands to, see annotations.h. moc reads class infos, the compiler a table of types.
#ifdef Q_MOC_RUN
#  define QDL_LOCKED_METHOD_INFO(method, key, options, ...) \
    Q_CLASSINFO("QDistLock.lock:" #method, key) \
    Q_CLASSINFO("QDistLock.options:" #method, options)
#endif

#define QDL_ANNOTATION_NAME(method, line) QDL_ANNOTATION_NAME_2(method, line)
#define QDL_ANNOTATION_NAME_2(method, line) qdlAnnotation_##method##_##line
// The first overload of qdlAnnotations() hides those of base classes, which may be private.
#define QDL_LOCKED_METHOD_ENTRY(method, Entry, key, options, rest, ...) \
  struct Entry \
  { \
    static_assert(sizeof("" key) > 1, "QDL_LOCKED_METHOD: the key is empty"); \
    static_assert(std::char_traits<char>::length("" key) == sizeof("" key) - 1, \
                  "QDL_LOCKED_METHOD: the key ends at its NUL"); \
    static_assert(std::char_traits<char>::length("" options) == sizeof("" options) - 1, \
                  "QDL_LOCKED_METHOD: the options end at their NUL"); \
    static_assert(sizeof("" options) > 0 && sizeof("" rest) == 1, \
                  "QDL_LOCKED_METHOD takes a method, a key and options"); \
    static const char *name() { return #method; } \
    template<typename QdlClass, typename QdlSlot> \
    static auto is(QdlSlot slot) -> decltype(slot == static_cast<QdlSlot>(&QdlClass::method)) \
    { \
      return slot == static_cast<QdlSlot>(&QdlClass::method); \
    } \
  }; \
  friend struct ::QDistLock::Detail::AnnotationAccess; \
  static ::QDistLock::Detail::NoAnnotations qdlAnnotations(::QDistLock::Detail::Rank<0>, Entry *); \
  static ::QDistLock::Detail::Annotations<Entry, \
                                          decltype(qdlAnnotations(::QDistLock::Detail::HighestRank(), nullptr))> \
          qdlAnnotations(::QDistLock::Detail::Rank< \
                                 decltype(qdlAnnotations(::QDistLock::Detail::HighestRank(), nullptr))::Count + 1>, \
                         std::nullptr_t);

#endif

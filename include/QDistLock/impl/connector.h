// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_CONNECTOR_H
#define QDISTLOCK_IMPL_CONNECTOR_H

#include <QDistLock/impl/annotationtable.h>
#include <QDistLock/impl/jobs.h>
#include <QDistLock/impl/keptarguments.h>
#include <QDistLock/lockoptions.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qlist.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qstring.h>

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace QDistLock {

class LockedMethod;
class PostTally;

namespace Detail {

/// The locks of the annotated slot \a name, whose parameters are \a types. Null, with a warning in the log, if the
/// class of \a receiver has no valid annotation for it. \a name is null for a slot without annotation.
QDISTLOCK_EXPORT std::shared_ptr<const LockedMethod> annotatedMethod(const QObject *receiver, const char *name,
                                                                     const QList<QMetaType> &types);
/// The lock \a key of any slot. Null, with a warning in the log, if \a key or \a options are wrong.
QDISTLOCK_EXPORT std::shared_ptr<const LockedMethod> methodWithKey(const QObject *receiver, const char *name,
                                                                   const QList<QMetaType> &types, const QString &key,
                                                                   const LockOptions &options);
QDISTLOCK_EXPORT std::shared_ptr<const LockedMethod> methodWithKey(const QObject *receiver, const char *name,
                                                                   const QList<QMetaType> &types, const QString &key,
                                                                   const QString &options);
/// Queues \a job for the locks of \a method; called in the thread of \a receiver. \a objects are those that the
/// arguments point to; they are null where they were destroyed.
QDISTLOCK_EXPORT void callLocked(const std::shared_ptr<const LockedMethod> &method, QObject *receiver, qsizetype count,
                                 const QMetaType *types, const void *const *values,
                                 const QList<QPointer<const QObject>> &objects, const std::shared_ptr<LockedJob> &job);

/// The call of a slot that one emission makes.
class QDISTLOCK_EXPORT LockedEmission : public LockedJob
{
public:
    ~LockedEmission() override;

    /// Queues the call; called once, in the thread of the receiver.
    virtual void begin(const std::shared_ptr<const LockedMethod> &method) = 0;
};

/// Carries emissions from the thread that emits to the thread of the receiver, with arguments that were copied in the
/// first: views and pointers could dangle on the way. Reports emissions that do not arrive because the receiver's
/// thread ends.
class QDISTLOCK_EXPORT EmissionRelay : public QObject
{
    Q_OBJECT

public:
    EmissionRelay(const std::shared_ptr<const LockedMethod> &method, QObject *receiver);
    ~EmissionRelay() override;

    /// Called in the thread that emits.
    void send(const std::shared_ptr<LockedEmission> &emission);
    /// Disconnects \a connection before ~QObject() of \a receiver does. ~QObject() would destroy the function object
    /// even while the emitting thread calls it.
    void endWith(QObject *receiver, const QMetaObject::Connection &connection);

Q_SIGNALS:
    void emitted(const std::shared_ptr<QDistLock::Detail::LockedEmission> &emission);
    void ended();

private:
    Q_DISABLE_COPY_MOVE(EmissionRelay)
    const std::shared_ptr<PostTally> m_tally;
};

/// The call of \a Slot with \a Values: first those of withArguments(), then those of the signal, as many as the slot
/// takes.
template<typename Receiver, typename Slot, typename Parameters, typename... Values>
class SlotJob;
template<typename Receiver, typename Slot, typename... Parameters, typename... Values>
class SlotJob<Receiver, Slot, QtPrivate::List<Parameters...>, Values...> final : public LockedEmission
{
    using Indexes = std::index_sequence_for<Values...>;

public:
    SlotJob(Receiver *receiver, const Slot &slot, KeptArguments<Values...> arguments)
        : m_receiver(receiver)
        , m_slot(slot)
        , m_arguments(std::move(arguments))
    {
    }

    /// See isSynchronous(), which does not compile for some slots.
    static constexpr bool hasEndedAtReturn()
    {
        return isSynchronous<std::decay_t<decltype(std::declval<SlotJob &>().call(Indexes()))>>();
    }

    void begin(const std::shared_ptr<const LockedMethod> &method) override { begin(method, Indexes()); }
    void run(const std::shared_ptr<void> &locks) override
    {
        if constexpr (hasEndedAtReturn())
            call(Indexes());
        else
            holdUntilFinished(QFuture<void>(call(Indexes())), locks);
    }

private:
    template<std::size_t... indexes>
    void begin(const std::shared_ptr<const LockedMethod> &method, std::index_sequence<indexes...>)
    {
        submit(method, asObjectPointer(asParameter<std::decay_t<Parameters>, Values>(argument<indexes>()))...);
    }
    template<typename... Converted>
    void submit(const std::shared_ptr<const LockedMethod> &method, const Converted &...converted)
    {
        const QMetaType types[] = {metaTypeOf<Converted>()..., QMetaType()};
        const void *const pointers[] = {static_cast<const void *>(std::addressof(converted))..., nullptr};
        callLocked(method, m_receiver, qsizetype(sizeof...(Values)), types, pointers, m_arguments.objects,
                   shared_from_this());
    }
    template<std::size_t... indexes>
    decltype(auto) call(std::index_sequence<indexes...>)
    {
        if constexpr (std::is_member_function_pointer_v<Slot>)
            return (m_receiver->*m_slot)(argument<indexes>()...);
        else
            return m_slot(argument<indexes>()...);
    }
    template<std::size_t index>
    decltype(auto) argument()
    {
        return Kept<std::tuple_element_t<index, std::tuple<Values...>>>::argument(std::get<index>(m_arguments.values));
    }

    Receiver *const m_receiver;
    Slot m_slot;
    KeptArguments<Values...> m_arguments;
};

/// The function object that a signal is connected to; it runs in the thread that emits. \a Bound are the types of
/// withArguments(), \a Values those that the signal adds to them.
template<typename Receiver, typename Slot, typename Parameters, typename Bound, typename Values>
struct Emission;
template<typename Receiver, typename Slot, typename Parameters, typename... Bound, typename... Values>
struct Emission<Receiver, Slot, Parameters, KeptArguments<Bound...>, QtPrivate::List<Values...>>
{
    using Job = SlotJob<Receiver, Slot, Parameters, Bound..., std::decay_t<Values>...>;

    std::shared_ptr<EmissionRelay> relay;
    Receiver *receiver; ///< another thread may be destroying it, so it is only passed on here
    Slot slot;
    KeptArguments<Bound...> bound;

    void operator()(const std::decay_t<Values> &...values) const
    {
        relay->send(std::make_shared<Job>(receiver, slot, bound + keptArguments<std::decay_t<Values>...>(values...)));
    }
};

/// The parameters of a slot. Those of a function object are unknown, so they are \a Arguments, the arguments of the
/// call.
template<typename Slot, typename Arguments, bool = std::is_member_function_pointer_v<Slot> || std::is_pointer_v<Slot>>
struct ParametersOf
{
    using Type = typename QtPrivate::FunctionPointer<Slot>::Arguments;
};
template<typename Slot, typename Arguments>
struct ParametersOf<Slot, Arguments, false>
{
    using Type = Arguments;
};

/// The class of \a Signal.
template<typename Signal>
using SenderOf = typename QtPrivate::FunctionPointer<Signal>::Object;

/// The options of connectLocked() as methodWithKey() takes them.
template<typename Options>
auto lockOptionsOrText(const Options &options)
{
    constexpr bool isText = std::is_convertible_v<const Options &, QString>;
    static_assert(isText || std::is_convertible_v<const Options &, LockOptions>,
                  "connectLocked: options are LockOptions, or a QString as in u\"wait=2s; lease=30s\"_s");
    return std::conditional_t<isText, QString, LockOptions>(options);
}

/// Connects one pair of signal and slot. \a Bound are the types of withArguments().
template<typename Signal, typename Receiver, typename Slot, typename... Bound>
struct Connector
{
    using SignalType = QtPrivate::FunctionPointer<Signal>;
    using SignalArguments = typename SignalType::Arguments;
    /// Those that a slot can take.
    using AllArguments = typename QtPrivate::List_Append<QtPrivate::List<const Bound &...>, SignalArguments>::Value;
    static constexpr int BoundCount = int(sizeof...(Bound));

    static_assert(std::is_base_of_v<QObject, Receiver>, "connectLocked: the receiver must be a QObject");
    static_assert(
            std::is_copy_constructible_v<Slot>,
            "connectLocked: each call gets a copy of the function object, and this one cannot be copied; let it capture a std::shared_ptr");

    /// The arguments of each call.
    static constexpr int count()
    {
        using SlotType = QtPrivate::FunctionPointer<Slot>;
        if constexpr (std::is_member_function_pointer_v<Slot>) {
            static_assert(std::is_base_of_v<typename SlotType::Object, Receiver>,
                          "connectLocked: the slot is not one of the receiver's");
        }
        if constexpr (std::is_member_function_pointer_v<Slot> || std::is_pointer_v<Slot>) {
            constexpr int slotCount = SlotType::ArgumentCount;
            static_assert(
                    slotCount <= BoundCount + int(SignalType::ArgumentCount),
                    "connectLocked: the slot takes more arguments than the signal has. Give its first ones with "
                    "withArguments(), as in connectLocked(sender, signal, receiver, slot, withArguments(id)); or connect a lambda, with a key");
            static_assert(BoundCount <= slotCount,
                          "connectLocked: withArguments() has more values than the slot takes");
            static_assert(
                    QtPrivate::CheckCompatibleArguments<AllArguments, typename SlotType::Arguments>::value,
                    "connectLocked: an argument does not convert to the slot's parameter. The first parameters "
                    "get the values of withArguments(), the others the arguments of the signal; connect a lambda, with a key, to pass others");
            return slotCount;
        } else {
            constexpr int slotCount = QtPrivate::ComputeFunctorArgumentCount<Slot, AllArguments>::Value;
            static_assert(
                    slotCount >= 0,
                    "connectLocked: the function object cannot be called with the values of withArguments() and then the arguments of the signal");
            static_assert(slotCount < 0 || BoundCount <= slotCount,
                          "connectLocked: withArguments() has more values than the slot takes");
            return slotCount;
        }
    }
    // Only QObject::destroyed() has this type.
    static_assert(
            !std::is_same_v<Signal, void (QObject::*)(QObject *)> || count() <= BoundCount,
            "connectLocked: the object that destroyed() passes is destroyed before the slot runs; use a slot that takes none");
    using Arguments = typename QtPrivate::List_Left<AllArguments, count()>::Value;
    using Parameters = typename ParametersOf<Slot, Arguments>::Type;

    static QList<QMetaType> slotTypes() { return Types<Parameters>::metaTypes(); }
    static const char *slotName([[maybe_unused]] const Slot &slot)
    {
        if constexpr (std::is_member_function_pointer_v<Slot>)
            return annotatedName<Receiver>(slot);
        else
            return nullptr;
    }
    static QMetaObject::Connection connect(const typename SignalType::Object *sender, Signal signal, Receiver *receiver,
                                           const Slot &slot, const KeptArguments<Bound...> &bound,
                                           const std::shared_ptr<const LockedMethod> &method)
    {
        if (!method)
            return QMetaObject::Connection();
        using SignalValues = typename QtPrivate::List_Left<SignalArguments, count() - BoundCount>::Value;
        using Functor = Emission<Receiver, Slot, Parameters, KeptArguments<Bound...>, SignalValues>;
        Functor::Job::hasEndedAtReturn(); // its assertions name the line of the application
        const auto relay = std::make_shared<EmissionRelay>(method, receiver);
        const QMetaObject::Connection connection = QObject::connect(
                sender, signal, receiver, Functor{relay, receiver, slot, bound}, Qt::DirectConnection);
        relay->endWith(receiver, connection);
        return connection;
    }
};

} // namespace Detail
} // namespace QDistLock

#endif

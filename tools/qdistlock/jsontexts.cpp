// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "jsontexts.h"

namespace Cli {

const QList<JsonObjectText> &jsonObjects()
{
    static const QList<JsonObjectText> table{
            {"outcome",
             "hold, acquire, renew, release: what became of a lock",
             {{"command", "the command that prints it"},
              {"name", "the name of the lock"},
              {"outcome",
               "held, and later perhaps lost (hold); acquired; renewed; released; takenAway (release --force); "
               "notHeld: "
               "nobody holds it; otherHolder: somebody else holds it, and was left alone"},
              {"fence", "the fencing token; with held and acquired"},
              {"leaseMs", "the lease; with acquired and renewed"},
              {"tokenFile", "the value of --token-file; with acquired"}}},
            {"listing",
             "ls, show: locks",
             {{"command", "ls or show"},
              {"server", "the server, without user and password"},
              {"prefix", "the prefix of the keys on the server, see --prefix"},
              {"locks", "a list of locks, see below"}}},
            {"event",
             "watch: first the present state, then each change",
             {{"event",
               "snapshot: the present state, the first object; held: the lock was free; passed: it has another holder; "
               "freed; changed: its queue, or whether its holder is connected; unreachable and reachable: the server"},
              {"time", "by the clock of this machine, in UTC: 2026-01-31T12:00:00.000Z"},
              {"locks", "all locks that are held; only with snapshot"},
              {"lock", "the lock that has changed; with held, passed, freed and changed"},
              {"error", "a text; with unreachable"}}},
            {"lock",
             "A lock",
             {{"name", "its name"},
              {"held", "true if somebody holds it"},
              {"foreign", "true if it is held by another library, or was written by hand"},
              {"holder", "who holds it, see below; null if nobody does, or another library"},
              {"ttlMs", "the time until its lease ends, if nobody renews it; null if it is free or never expires"},
              {"fence", "the last fencing token given out for it; null if there is none"},
              {"waiting", "the length of its queue"},
              {"waiters", "only in show: those in the queue, see below; at most the first 1000"}}},
            {"client",
             "Somebody who holds a lock or waits for it",
             {{"client", "its id, in hexadecimal digits"},
              {"host", "its machine; null if it is not known"},
              {"pid", "its process number; null if it is not known"},
              {"application", "its program, with run that of the command; null if it is not known"},
              {"connected",
               "false if it has no connection to the server: it has ended, or has left the lock behind with acquire; "
               "true also if that is not known"}}},
            {"waiter",
             "Somebody who waits: the same members, and these",
             {{"position", "its place in the queue; 1 is the next"}, {"waitedMs", "for how long it has waited"}}},
            {"doctor",
             "doctor: one object for all checks",
             {{"command", "doctor"},
              {"server", "the server, without user and password"},
              {"result", "ok, warn or fail: the worst level of all checks, where info counts as ok"},
              {"checks", "a list of checks, see below"}}},
            {"check",
             "A check",
             {{"check", "its name, as in the text"},
              {"level", "ok, info, warn or fail"},
              {"text", "what was found"},
              {"remedy", "what to do about it; null if there is nothing to do"},
              {"missing", "with the check rights: the rights that the user lacks, as ACL SETUSER grants them"},
              {"sentinel", "with sentinel: host and port of one Sentinel"},
              {"master",
               "with sentinel and majority: host and port of the master that it names, or that most name; null if "
               "there is none; with master: of the master of a cluster that the checks after it are about"},
              {"configEpoch", "with the same: the config epoch of that master, which rises with each fail-over"},
              {"agreeing", "with majority: how many Sentinels name this master"},
              {"sentinels", "with majority: how many Sentinels there are"},
              {"downAfterMs", "with failover: how long a master is silent before the Sentinels replace it"},
              {"shortestLeaseMs", "with failover: locks with a shorter lease are lost in a fail-over"},
              {"node", "with node: host and port of a node of a cluster, or of a server of a quorum"},
              {"vote", "with node: whether the vote of this server of a quorum counts for a new lock"},
              {"votes", "with majority: how many servers of a quorum have a vote"},
              {"servers", "with majority: how many servers the quorum has"},
              {"slots", "with node and master: how many slots the cluster, or this master, serves"},
              {"nodeTimeoutMs", "with failover: how long a master is silent before the cluster replaces it"},
              {"replica", "with replica: host and port of one that is connected"},
              {"bytesBehind", "with replica: bytes that it has not acknowledged"},
              {"silentSeconds",
               "with replica: time since its last acknowledgement, usually 0 or 1; null if it is not known"}}},
    };
    return table;
}

} // namespace Cli

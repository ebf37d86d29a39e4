// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// redis-semaphore's Mutex or Semaphore, and redlock, as contenders, both over ioredis:
// `node node.js --server URL [--clients N] [--locks N] LIBRARY KIND`; the kinds are those of `contenders` below.
// Their options are their defaults, but for a lease of 30 s and no limit to the waiting.

'use strict';

const fs = require('fs');
const path = require('path');
const readline = require('readline');
const { parseArgs } = require('util');

// Installed beside the build, not beside this file.
const load = name => require(path.join(process.env.QDISTLOCK_BENCH_PEERS, 'node_modules', name));
const Redis = load('ioredis');

const { values: options, positionals: [library, contender] } = parseArgs({
    allowPositionals: true,
    options: {
        server: { type: 'string' },
        clients: { type: 'string', default: '1' },
        locks: { type: 'string', default: '1' },
        work: { type: 'string', default: '0' },
        pause: { type: 'string', default: '0' },
        permits: { type: 'string', default: '0' },
        witness: { type: 'string', default: '.' },
    },
});
const clients = Number(options.clients);
const locks = Number(options.locks);

/// A client of the server, or of the cluster with all its nodes; or one of each server of a quorum.
function connect() {
    const url = new URL(options.server);
    if (url.protocol === 'redlock:')
        return [url.host, ...url.searchParams.getAll('node')].map(node => new Redis(`redis://${node}`));
    if (url.protocol !== 'redis+cluster:')
        return new Redis(options.server);
    const nodes = [url.host, ...url.searchParams.getAll('node')];
    return new Redis.Cluster(nodes.map(node => {
        const [host, port] = node.split(':');
        return { host, port: Number(port) };
    }));
}

const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));

const microseconds = () => Number(process.hrtime.bigint() / 1000n);

/// Something with acquire() and release(), both promises.
const makers = {
    'redis-semaphore': client => {
        const { Mutex, Semaphore } = load('redis-semaphore');
        const permits = Number(options.permits);
        const settings = { lockTimeout: 30000, acquireTimeout: Infinity };
        return name => permits ? new Semaphore(client, name, permits, settings) : new Mutex(client, name, settings);
    },
    'redlock': client => {
        const Redlock = load('redlock');
        const redlock = new Redlock([client].flat(), { retryCount: -1 });
        return name => {
            let held;
            return {
                acquire: async () => { held = await redlock.lock(name, 30000); },
                release: () => held.unlock(),
            };
        };
    },
};

function makeLocks(nameOf) {
    const made = [];
    for (let i = 0; i < clients; ++i) {
        const make = makers[library](connect());
        for (let j = 0; j < locks; ++j)
            made.push(make(nameOf(j)));
    }
    return made;
}

const contenders = {
    /// Different locks, each taken and given back in turn.
    pairs() {
        const made = makeLocks(index => `bench:${library}:${process.pid}:${index}`);
        return async milliseconds => {
            const end = performance.now() + milliseconds;
            let pairs = 0;
            await Promise.all(made.map(async lock => {
                do {
                    await lock.acquire();
                    await lock.release();
                    ++pairs;
                } while (performance.now() < end);
            }));
            return { operations: pairs };
        };
    },

    /// Redlock only: all locks in one call.
    together() {
        const redlock = new (load('redlock'))([connect()].flat(), { retryCount: -1 });
        const names = Array.from({ length: locks }, (_, index) => `bench:${library}:${process.pid}:${index}`);
        return async milliseconds => {
            const end = performance.now() + milliseconds;
            let turns = 0;
            do {
                const held = await redlock.lock(names, 30000);
                await held.unlock();
                ++turns;
            } while (performance.now() < end);
            return { operations: turns };
        };
    },

    /// Everybody wants the same lock, again as soon as it was given back.
    contended() {
        const made = makeLocks(() => `bench:contended:${library}`);
        return async (milliseconds, participants) => {
            const end = performance.now() + milliseconds;
            const turnsOf = [];
            const asked = [];
            const acquired = [];
            await Promise.all(made.slice(0, participants).map(async (lock, index) => {
                do {
                    const before = microseconds();
                    await lock.acquire();
                    turnsOf.push(index);
                    asked.push(before);
                    acquired.push(microseconds());
                    await lock.release();
                } while (performance.now() < end);
            }));
            return { operations: asked.length, clients: turnsOf, asked, acquired };
        };
    },

    /// One holds the lock, everybody else waits for it.
    waiters() {
        const made = makeLocks(() => `bench:waiters:${library}`);
        const holder = makers[library](connect())(`bench:waiters:${library}`);
        let held = false;
        return async milliseconds => {
            if (!held) {
                await holder.acquire();
                held = true;
                for (const lock of made)
                    lock.acquire().then(() => lock.release());
            }
            await sleep(milliseconds);
            return { operations: made.length };
        };
    },

    /// One lock after the other, each acquired and released.
    turns() {
        const made = makeLocks(index => `bench:turns:${library}:{${index}}`);
        let next = 0;
        return async milliseconds => {
            const end = performance.now() + milliseconds;
            const times = [];
            let errors = 0;
            do {
                const lock = made[next++ % locks];
                const begin = microseconds();
                try {
                    await lock.acquire();
                    await lock.release();
                } catch (error) {
                    ++errors;
                }
                times.push(microseconds() - begin);
            } while (performance.now() < end);
            return { operations: times.length, microseconds: times, errors };
        };
    },

    /// As LibraryResharding.
    resharding() {
        const made = makeLocks(index => `bench:resharding:${library}:{${index}}`);
        const work = index => Number(options.work) * (index % 8 === 0 ? 100 : 1);
        return async milliseconds => {
            const end = performance.now() + milliseconds;
            const counts = { operations: 0, overlaps: 0, lost: 0, errors: 0 };
            const hold = async index => {
                const witness = path.join(options.witness, String(index));
                let isWitnessed = true;
                try {
                    fs.mkdirSync(witness);
                } catch (error) {
                    isWitnessed = false;
                    ++counts.overlaps;
                }
                await sleep(Math.max(0, Math.min(work(index), end - performance.now())));
                if (isWitnessed)
                    fs.rmdirSync(witness);
            };
            await Promise.all(made.map(async (lock, index) => {
                for (;;) {
                    try {
                        await lock.acquire();
                        ++counts.operations;
                        await hold(index);
                        // It rejects, too, when the lock is no longer its own.
                        await lock.release().catch(() => ++counts.lost);
                    } catch (error) {
                        ++counts.errors;
                    }
                    if (performance.now() >= end)
                        return;
                    await sleep(Number(options.pause));
                }
            }));
            return counts;
        };
    },
};

async function main() {
    const run = contenders[contender]();
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const [, milliseconds, participants] = line.split(' ').map(Number);
        const start = performance.now();
        const cpu = process.cpuUsage();
        const result = await run(milliseconds, participants || clients * locks);
        const used = process.cpuUsage(cpu);
        result.seconds = (performance.now() - start) / 1000;
        result.cpuSeconds = (used.user + used.system) / 1e6;
        console.log(JSON.stringify(result));
    }
    process.exit(0);
}

main();

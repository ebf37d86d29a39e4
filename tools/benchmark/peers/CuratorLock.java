// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Curator's InterProcessMutex as a contender:
// `java CuratorLock.java --server URL [--work MS] [--pause MS] [--witness FOLDER] KIND`. The kinds are `pairs`, one
// lock in turn; `contended`, one lock that other processes acquire, too; and `resharding`, as LibraryResharding, but one
// lock, which is also that of QDistLock.

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

public class CuratorLock
{
    private static long microseconds()
    {
        return System.nanoTime() / 1000;
    }

    private static String hosts(URI server)
    {
        StringBuilder hosts = new StringBuilder(server.getAuthority());
        if (server.getQuery() != null) {
            for (String item : server.getQuery().split("&")) {
                if (item.startsWith("node="))
                    hosts.append(',').append(item.substring("node=".length()));
            }
        }
        return hosts.toString();
    }

    private static String pairs(InterProcessMutex lock, long end) throws Exception
    {
        int pairs = 0;
        do {
            lock.acquire();
            lock.release();
            ++pairs;
        } while (microseconds() < end);
        return "\"operations\": " + pairs;
    }

    private static String contended(InterProcessMutex lock, long end, int work, int pause) throws Exception
    {
        List<Long> clients = new ArrayList<>();
        List<Long> asked = new ArrayList<>();
        List<Long> acquired = new ArrayList<>();
        List<Long> released = new ArrayList<>();
        while (true) {
            clients.add(0L);
            asked.add(microseconds());
            lock.acquire();
            acquired.add(microseconds());
            Thread.sleep(work);
            released.add(microseconds());
            lock.release();
            if (microseconds() >= end)
                break;
            Thread.sleep(pause);
        }
        return "\"operations\": " + asked.size() + ", \"clients\": " + clients + ", \"asked\": " + asked
            + ", \"acquired\": " + acquired + ", \"released\": " + released;
    }

    private static String resharding(InterProcessMutex lock, long end, int work, int pause, String folder)
        throws Exception
    {
        File witness = new File(folder, "0");
        int acquisitions = 0;
        int overlaps = 0;
        while (true) {
            lock.acquire();
            ++acquisitions;
            if (witness.mkdir()) {
                Thread.sleep(work);
                witness.delete();
            } else {
                ++overlaps;
            }
            lock.release();
            if (microseconds() >= end)
                break;
            Thread.sleep(pause);
        }
        return "\"operations\": " + acquisitions + ", \"overlaps\": " + overlaps
            + ", \"lost\": 0, \"errors\": 0";
    }

    public static void main(String[] arguments) throws Exception
    {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < arguments.length; i += 2)
            options.put(arguments[i], arguments[i + 1]);
        String kind = arguments[arguments.length - 1];
        int work = Integer.parseInt(options.getOrDefault("--work", "0"));
        int pause = Integer.parseInt(options.getOrDefault("--pause", "0"));
        URI server = URI.create(options.get("--server"));
        CuratorFramework client
            = CuratorFrameworkFactory.newClient(hosts(server), 600000, 15000, new RetryForever(100));
        client.start();
        Map<String, String> paths = Map.of(
            "pairs", "/bench-curator-" + ProcessHandle.current().pid(),
            "contended", "/bench-curator",
            "resharding", server.getPath() + "/lock:bench:resharding:{0}");
        String path = paths.get(kind);
        InterProcessMutex lock = new InterProcessMutex(client, path);
        OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null;) {
            long cpu = process.getProcessCpuTime();
            long start = microseconds();
            long end = start + 1000 * Long.parseLong(line.split(" ")[1]);
            String result = kind.equals("pairs") ? pairs(lock, end)
                : kind.equals("contended") ? contended(lock, end, work, pause)
                : resharding(lock, end, work, pause, options.get("--witness"));
            double seconds = (microseconds() - start) / 1e6;
            double cpuSeconds = (process.getProcessCpuTime() - cpu) / 1e9;
            System.out.println("{" + result + ", \"seconds\": " + seconds + ", \"cpuSeconds\": " + cpuSeconds + "}");
        }
        client.close();
    }
}

"""Runs over four emulated nodes: network namespaces with a bridge between them, each
with a host name of its own. Skipped, with the reason, where these can't be made.

Nothing outside the namespaces changes; addresses are of the range for benchmarks,
198.18.0.0/15.
"""
import os
import re
import signal
import stat
import subprocess
import sys
import time
import unittest

import process_harness
from process_harness import harness, launch, finish, numbers

PREFIX = f"cl{os.getpid()}"
SWITCH = f"{PREFIX}sw"
NODES = [f"{PREFIX}n{i}" for i in range(1, 5)]
FIRST = "198.18.0.1"
VERSION6 = "fd00:c1ea::"

# What a launcher calls in place of ssh: AGENT HOST COMMAND…
# With a file of names of its own for a node that has one beside this script.
AGENT = """#!/bin/bash
node=$1; shift
hosts=$(dirname "$0")/hosts-$node
exec ip netns exec "$node" unshare --uts --mount bash -c "hostname $node
[ ! -f '$hosts' ] || mount --bind '$hosts' /etc/hosts
exec sh -c \\"\\$0\\"" "$*"
"""


def ip(*words):
    return subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout


def up():
    ip("netns", "add", SWITCH)
    ip("-n", SWITCH, "link", "add", "bridge", "type", "bridge")
    ip("-n", SWITCH, "link", "set", "bridge", "up")
    for number, node in enumerate(NODES, 1):
        ip("netns", "add", node)
        ip("-n", node, "link", "set", "lo", "up")
        ip("-n", SWITCH, "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0",
           "netns", node)
        ip("-n", SWITCH, "link", "set", f"port{number}", "master", "bridge", "up")
        ip("-n", node, "addr", "add", f"198.18.0.{number}/24", "dev", "eth0")
        ip("-n", node, "link", "set", "eth0", "up")
        add_version6(number, node)
    subprocess.run(["ip", "netns", "exec", NODES[0], "unshare", "--uts", "true"], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def add_version6(number, node):
    """Where the system has it. An address is of use at once if nobody looks for doubles."""
    try:
        ip("netns", "exec", node, "sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad")
        ip("-n", node, "addr", "add", f"{VERSION6}{number}/64", "dev", "eth0", "nodad")
    except subprocess.CalledProcessError:
        pass


def addresses6(node):
    """Of a node: the global ones first."""
    words = ip("-n", node, "-6", "-o", "addr", "show", "dev", "eth0").split()
    found = [word.partition("/")[0] for key, word in zip(words, words[1:]) if key == "inet6"]
    return sorted(found, key=lambda address: address.startswith("fe80"))


def down():
    for name in [*NODES, SWITCH]:
        power_off(name)
        subprocess.run(["ip", "netns", "del", name], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def power_off(node):
    found = subprocess.run(["ip", "netns", "pids", node], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for pid in found.stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass


class Nodes(process_harness.Case):
    def start(self, processes, nodes, command, address=FIRST):
        agent = self.path("agent")
        with open(agent, "w", encoding="utf-8") as file:
            file.write(AGENT)
        os.chmod(agent, stat.S_IRWXU)
        if launch.IS_MPI:
            slots = processes // len(nodes)
            hosts = ",".join(f"{node}:{slots}" for node in nodes)
            launcher = ["mpirun", "-n", str(processes), "-H", hosts, "--mca", "plm_rsh_agent",
                        agent, "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl", "tcp,self",
                        "--mca", "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1",
                        "--bind-to", "none"]
        else:
            launcher = launch.command(processes, "--hosts", ",".join(nodes), "--agent", agent)
        return subprocess.Popen(
            ["ip", "netns", "exec", nodes[0], "unshare", "--uts", "bash", "-c",
             f'hostname {nodes[0]}; exec "$@"', "_", *launcher, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=launch.environment(MASTER_ADDR=address, MASTER_PORT="29500"))

    def test_layouts_have_the_bits_of_one_process(self):
        """Six of them across four nodes."""
        for pins, ranks, processes, nodes in (
                ("dp=4", 4, 4, 4), ("dp=2,tp=2", 4, 4, 4), ("tp=4,sp=1", 4, 4, 4),
                ("dp=4,zero=3", 4, 4, 4), ("pp=2,dp=2", 4, 4, 4), ("dp=4,tp=2,zero=1", 8, 4, 4),
                # Two ranks, or two processes, on a node.
                ("dp=2,tp=2,zero=1", 4, 2, 2), ("tp=4", 4, 4, 2)):
            with self.subTest(pins=pins, processes=processes, nodes=nodes):
                binary = self.compiled(harness.golden("t0", "config.json"), ranks, pins)
                command, log = self.golden_command(binary, 20)
                done = harness.run(command, env=launch.environment())
                self.assertEqual(done.returncode, 0, done.stderr)
                want = numbers(log)
                outcome = finish(self.start(processes, NODES[:nodes], command))
                self.assertDone(outcome)
                self.assertEqual(numbers(log), want)
                self.assertSteps(harness.read_log(log), process_harness.expected("t0"), 1e-5, 5e-5)

    @unittest.skipIf(launch.IS_MPI, "mpirun finds addresses by itself")
    def test_the_first_process_is_found_by_any_name(self):
        """A name that its own host takes for the host's loop, as Debian writes it, and
        addresses of version 6, of which one means the interface of whoever uses it."""
        for node in NODES:
            with open(self.path(f"hosts-{node}"), "w", encoding="utf-8") as file:
                file.write("127.0.0.1 localhost\n"
                           f"{'127.0.1.1' if node == NODES[0] else FIRST} {NODES[0]}\n")
        names = [NODES[0]]
        for address in addresses6(NODES[0]):
            names.append(address + ("%eth0" if address.startswith("fe80") else ""))
        self.program = self.compiled(harness.golden("t0", "config.json"), 4, "dp=2,tp=2")
        for name in names:
            for nodes in (2, 4):
                with self.subTest(name=name, nodes=nodes):
                    command, log = self.golden_command(self.program, 3)
                    self.assertDone(finish(self.start(4, NODES[:nodes], command, name)))
                    self.assertSteps(harness.read_log(log), process_harness.expected("t0")[:3],
                                     1e-5, 5e-5)

    def begin(self):
        self.program = self.compiled(harness.golden("t0", "config.json"), 4, "dp=4")
        command, log = self.golden_command(self.program, 1000000, "--rank-timeout", "6")
        process = self.start(4, NODES, command)
        self.await_step(process, log, 3)
        return process, time.time()

    def test_a_cable_that_is_pulled(self):
        """The ranks that can still be reached end, and say who cannot. The one that is cut off
        misses the others, and its line may be read first. mpirun itself would wait for the
        lost host."""
        process, since = self.begin()
        ip("-n", SWITCH, "link", "set", "port3", "down")
        try:
            while set(process_harness.pids(self.program)) - {2}:
                self.assertLess(time.time() - since, process_harness.ENDS_WITHIN)
                time.sleep(0.1)
        finally:
            power_off(NODES[2])
            ip("-n", SWITCH, "link", "set", "port3", "up")
        outcome = finish(process)
        said = re.findall(r"^(?:\S+: )?error\[comm.rank_silent\]: rank (\d) did not answer for 6 s "
                          r"in step \d+, (?:while|after) rank (\d) (?:waited|was) in ",
                          outcome.err, re.M)
        self.assertEqual(len(said), outcome.errors, outcome.err)
        self.assertEqual({lost for lost, by in said if by != "2"}, {"2"}, outcome.err)
        self.assertNotIn(("2", "2"), said, outcome.err)
        self.assertNotEqual(outcome.code, 0)

    def test_a_rank_killed_on_another_node(self):
        process, since = self.begin()
        os.kill(process_harness.pids(self.program)[3], signal.SIGKILL)
        outcome = finish(process, since)
        self.assertTrue(re.match(r"error\[comm.rank_lost\]: rank 3 was lost in step ",
                                 outcome.error), outcome.err)
        self.assertNotEqual(outcome.code, 0)
        self.assertLess(outcome.seconds, process_harness.ENDS_WITHIN)


if __name__ == "__main__":
    try:
        up()
    except (OSError, subprocess.CalledProcessError) as error:
        down()
        print(f"skipped: network namespaces cannot be made here: {error} "
              f"{getattr(error, 'stderr', '')}")
        sys.exit(77)
    try:
        harness.main()
    finally:
        down()

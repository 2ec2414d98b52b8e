"""How a training binary meets its other processes over TCP: by whose variables, and
what is refused or told when they do not come together."""
import os
import re
import signal
import socket
import subprocess
import time

import process_harness
from process_harness import harness, launch, numbers, start, finish, run

PROCESSES = 4


def variables(rank, port, **more):
    return {"RANK": str(rank), "WORLD_SIZE": str(PROCESSES), "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(PROCESSES), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), **more}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Meeting(process_harness.Case):
    def binary(self):
        return self.compiled(harness.golden("t0", "config.json"), 4, "dp=2,tp=2")

    def alone(self, steps):
        command, log = self.golden_command(self.binary(), steps)
        self.assertEqual(harness.run(command, env=launch.environment()).returncode, 0)
        return numbers(log)

    def begin(self, command, **environment):
        """One process, as a script would start it."""
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env=launch.environment(**environment))

    def assertRefused(self, outcome, kind, code, *says):
        self.assertEqual(outcome.code, code, outcome.err)
        self.assertTrue(outcome.error.startswith(f"error[{kind}]: "), outcome.err)
        self.assertEqual(outcome.errors, 1, outcome.err)
        for part in says:
            self.assertIn(part, outcome.err)

    def test_slurm_variables_are_enough(self):
        command, log = self.golden_command(self.binary(), 5)
        self.assertDone(run(4, command, "--slurm"))
        self.assertEqual(numbers(log), self.alone(5))

    def test_names_and_versions_of_addresses(self):
        want = self.alone(3)
        for host in ("localhost", "::1", socket.gethostname()):
            with self.subTest(host=host):
                command, log = self.golden_command(self.binary(), 3)
                self.assertDone(run(4, command, MASTER_ADDR=host))
                self.assertEqual(numbers(log), want)

    def test_an_agent_at_the_port(self):
        """As under torchrun: somebody listens there who is not of the run."""
        command, log = self.golden_command(self.binary(), 3)
        with socket.socket() as agent:
            agent.bind(("127.0.0.1", 0))
            agent.listen()
            port = str(agent.getsockname()[1])
            first = self.begin(command, **variables(0, port))
            self.assertRefused(finish(first), "comm.port_taken", 2,
                               f"127.0.0.1:{port} (Address already in use)",
                               f"MASTER_PORT = {port}", "CLEAVE_PORT=N")
            self.assertDone(run(4, command, MASTER_PORT=port, TORCHELASTIC_USE_AGENT_STORE="True",
                                TORCHELASTIC_RUN_ID="7"))
            self.assertDone(run(4, command, MASTER_PORT=port, CLEAVE_PORT=str(free_port())))
        self.assertEqual(numbers(log), self.alone(3))

    def test_mpirun_may_start_what_talks_over_tcp(self):
        if not harness.shutil.which("mpirun"):
            self.skipTest("there is no mpirun")
        command, log = self.golden_command(self.binary(), 3, "--transport", "tcp")
        mpirun = ["mpirun", "-n", "4", "--oversubscribe", "--bind-to", "none", *command]
        done = finish(self.begin(mpirun))
        self.assertRefused(done, "runtime.bad_launch", 2, "MASTER_ADDR is not set")
        self.assertDone(finish(self.begin(mpirun, MASTER_ADDR="127.0.0.1",
                                          MASTER_PORT=str(free_port()))))
        self.assertEqual(numbers(log), self.alone(3))

    def test_who_is_missing_is_named(self):
        port = free_port()
        command, log = self.golden_command(self.binary(), 3, "--join-timeout", "2")
        # As on two hosts of which one does not come: each reports.
        here = [self.begin(command, **variables(rank, port, LOCAL_RANK=str(rank % 2)))
                for rank in (0, 1)]
        for process in here:
            outcome = finish(process)
            self.assertEqual(outcome.code, 4, outcome.err)
        first = self.begin(command, **variables(0, port))
        self.assertRefused(finish(first), "comm.unreachable", 4,
                           "processes 1, 2, 3 of 4 did not come to process 0 on host",
                           f"listens at 127.0.0.1:{port}", "within 2 s")
        last = self.begin(command, **variables(3, port, LOCAL_RANK="0"))
        self.assertRefused(finish(last), "comm.no_leader", 4, "did not find process 0",
                           f"127.0.0.1:{port} (Connection refused)")
        self.assertFalse(os.path.exists(log))

    def test_signals_end_the_wait(self):
        """A launcher that has lost one process tells the others so."""
        for rank in (0, 2):
            command, _ = self.golden_command(self.binary(), 3)
            process = self.begin(command, **variables(rank, free_port(), LOCAL_RANK="0"))
            time.sleep(0.5)
            since = time.time()
            process.send_signal(signal.SIGTERM)
            outcome = finish(process, since)
            self.assertRefused(outcome, "comm.stopped", 130)
            self.assertLess(outcome.seconds, 5)

    def test_a_process_lost_on_the_way(self):
        """Killed: known at once. Stopped: known when it is time."""
        for number, kind, says in ((signal.SIGKILL, "comm.rank_lost", "process 2 was lost"),
                                   (signal.SIGSTOP, "comm.unreachable", "process 3")):
            port = free_port()
            command, _ = self.golden_command(self.binary(), 3, "--join-timeout", "4")
            here = [self.begin(command, **variables(rank, port)) for rank in (0, 1, 2)]
            time.sleep(1)
            since = time.time()
            here[2].send_signal(number)
            outcome = finish(here[0], since)
            self.assertRefused(outcome, kind, 4, says)
            self.assertLess(outcome.seconds, process_harness.ENDS_WITHIN)
            finish(here[1])
            here[2].kill()
            finish(here[2])

    def test_a_first_process_that_stops_or_goes(self):
        for number, says in ((signal.SIGKILL, "process 0 was lost before all had met"),
                             (signal.SIGSTOP, "process 0 at 127.0.0.1:")):
            port = free_port()
            command, _ = self.golden_command(self.binary(), 3, "--join-timeout", "4")
            here = [self.begin(command, **variables(rank, port)) for rank in (0, 1, 2)]
            time.sleep(1)
            since = time.time()
            here[0].send_signal(number)
            # The next one on its host speaks in its place.
            outcome = finish(here[1], since)
            self.assertRefused(outcome, "comm.no_leader", 4, says)
            self.assertLess(outcome.seconds, process_harness.ENDS_WITHIN)
            last = finish(here[2], since)
            self.assertEqual((last.code, last.errors), (4, 0), last.err)
            here[0].kill()
            finish(here[0])

    def test_variables_that_mean_nothing_are_refused(self):
        command, log = self.golden_command(self.binary(), 3)
        for changes, says in (({"RANK": "4"}, "RANK = 4"), ({"RANK": "x"}, "RANK = x"),
                              ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set"),
                              ({"MASTER_PORT": ""}, "MASTER_PORT is not set"),
                              ({"MASTER_PORT": "70000"}, "MASTER_PORT = 70000"),
                              ({"MASTER_PORT": "0", "LOCAL_RANK": "-7"}, "MASTER_PORT = 0"),
                              ({"MASTER_PORT": "0", "LOCAL_RANK": "3"}, "MASTER_PORT = 0"),
                              ({"WORLD_SIZE": "4 "}, "WORLD_SIZE = 4 "),
                              ({"RANK": "3", "WORLD_SIZE": ""}, "WORLD_SIZE is not set")):
            with self.subTest(changes=changes):
                environment = {**variables(0, 1), "LOCAL_RANK": "0", **changes}
                outcome = finish(self.begin(command, **environment))
                self.assertRefused(outcome, "runtime.bad_launch", 2, says)
        self.assertFalse(os.path.exists(log))

    def test_limits_of_open_files(self):
        """A low one is raised as far as it may be; where that is too little, it is said."""
        limited = ["bash", "-c", 'ulimit -Sn 16; exec "$@"', "sh"]
        command, log = self.golden_command(self.binary(), 3)
        port = free_port()
        here = [self.begin(limited + command, **variables(rank, port)) for rank in range(4)]
        for process in here:
            self.assertDone(finish(process))
        self.assertEqual(numbers(log), self.alone(3))
        limited[2] = 'ulimit -n 16; exec "$@"'
        outcome = finish(self.begin(limited + command, **variables(0, free_port())))
        self.assertRefused(outcome, "runtime.too_few_files", 3, "ulimit -Hn = 16", "ulimit -n 72")

    def test_a_number_that_two_have(self):
        port = free_port()
        command, log = self.golden_command(self.binary(), 3)
        here = [self.begin(command, **variables(rank, port)) for rank in (0, 1, 2)]
        time.sleep(1)
        second = self.begin(command, **variables(2, port, LOCAL_RANK="0"))
        self.assertRefused(finish(second), "runtime.bad_launch", 2, "there are two processes 2",
                           f"pid {here[2].pid}")
        other = self.begin(command, **variables(1, port, WORLD_SIZE="2", LOCAL_RANK="0"))
        self.assertRefused(finish(other), "runtime.bad_launch", 2,
                           "process 1 was told of 2 processes, process 0 of 4")
        here.append(self.begin(command, **variables(3, port)))
        for process in here:
            self.assertDone(finish(process))
        self.assertEqual(numbers(log), self.alone(3))

    def test_nobody_listens_once_all_have_met(self):
        command, log = self.golden_command(self.binary(), 1000000)
        process = start(4, command)
        self.await_step(process, log, 2)
        inodes = set()
        for pid in process_harness.pids(self.binary()).values():
            for entry in os.listdir(f"/proc/{pid}/fd"):
                inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{entry}")))
        listening = set()
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table, encoding="utf-8") as file:
                for line in file.readlines()[1:]:
                    words = line.split()
                    if words[3] == "0A":
                        listening.add(words[9])
        process.send_signal(signal.SIGUSR1)
        self.assertDone(finish(process), 130)
        # A message connection between any two of them, and three for control.
        self.assertEqual(len(inodes), 4 * 3 + 2 * 3)
        self.assertEqual(inodes & listening, set())


if __name__ == "__main__":
    harness.main()

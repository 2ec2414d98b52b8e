"""Case F01: a killed, stopped or failing rank ends the run for all, soon, and says
which rank, in which step and where the others were."""
import os
import re
import signal
import struct
import time

import process_harness
from process_harness import harness, start, finish, pids


class Failures(process_harness.Case):
    def begin(self, *flags, data=None, processes=4, pins="dp=4", step=3):
        self.program = self.compiled(harness.golden("t0", "config.json"), 4, pins)
        command, log = self.golden_command(self.program, 1000000, *flags, data=data)
        process = start(processes, command)
        return process, log, self.await_step(process, log, step)

    def check(self, process, log, pattern, since, code=None):
        outcome = finish(process, since)
        found = re.match(pattern, outcome.error)
        self.assertTrue(found, f"{pattern}\n{outcome.err}")
        self.assertEqual(outcome.errors, 1, outcome.err)
        self.assertNotEqual(outcome.code, 0)
        if code:
            self.assertEqual(outcome.code, code, outcome.err)
        self.assertLess(outcome.seconds, process_harness.ENDS_WITHIN)
        # The step in progress, or the one that had just ended.
        last = process_harness.numbers(log)[-1][0]
        self.assertIn(int(found["step"]), (last, last + 1))
        deadline = time.time() + 10
        while pids(self.program) and time.time() < deadline:
            time.sleep(0.05)
        self.assertEqual(pids(self.program), {}, "processes are left")
        return outcome

    def test_a_killed_rank(self):
        for rank in (2, 0, 3):
            with self.subTest(rank=rank):
                process, log, _ = self.begin()
                os.kill(pids(self.program)[rank], signal.SIGKILL)
                waiting = "[^2]" if rank == 2 else "[0-3]"
                outcome = self.check(
                    process, log, rf"error\[comm.rank_lost\]: rank {rank} was lost in step "
                    rf"(?P<step>\d+), (while rank {waiting} waited|after rank {waiting} was) in "
                    r"\w+ of .+", time.time())
                self.assertIn(f"process {rank} on host", outcome.err)

    def test_a_killed_rank_that_exchanges_beside(self):
        """Others wait for a bucket, or in one of the update."""
        for rank, pins in ((2, "dp=4,zero=3,overlap=1"), (0, "dp=4,zero=2,overlap=1,micro_batch=1")):
            with self.subTest(rank=rank):
                process, log, _ = self.begin(pins=pins)
                os.kill(pids(self.program)[rank], signal.SIGKILL)
                self.check(
                    process, log, rf"error\[comm.rank_lost\]: rank {rank} was lost in step "
                    r"(?P<step>\d+), (while rank \d waited|after rank \d was) in \w+ of .+",
                    time.time())

    def test_a_stopped_rank_that_exchanges_beside(self):
        process, log, _ = self.begin("--rank-timeout", "4", pins="dp=4,zero=3,overlap=1")
        os.kill(pids(self.program)[1], signal.SIGSTOP)
        self.check(process, log, r"error\[comm.rank_silent\]: rank 1 did not answer for 4 s in step "
                   r"(?P<step>\d+), while rank \d waited in \w+ of .+", time.time(), code=4)

    def test_a_killed_process_with_two_ranks(self):
        process, log, _ = self.begin(processes=2, pins="dp=2,tp=2")
        os.kill(pids(self.program)[1], signal.SIGKILL)
        self.check(process, log, r"error\[comm.rank_lost\]: ranks 2 to 3 were lost in step "
                   r"(?P<step>\d+), ", time.time())

    def test_a_stopped_rank(self):
        """With the timeout as it is left alone, and the first rank with a shorter one."""
        for rank, flags, limit in ((2, [], "15 s"), (0, ["--rank-timeout", "4"], "4 s")):
            with self.subTest(rank=rank):
                process, log, _ = self.begin(*flags)
                os.kill(pids(self.program)[rank], signal.SIGSTOP)
                self.check(process, log, rf"error\[comm.rank_silent\]: rank {rank} did not answer "
                           rf"for {limit} in step (?P<step>\d+), while rank \d waited in \w+ of .+",
                           time.time(), code=4)

    def test_a_short_stop_does_no_harm(self):
        """Of one rank, and of all: as a debugger or a suspended machine does."""
        for ranks in ((2,), (0, 1, 2, 3)):
            process, log, step = self.begin("--rank-timeout", "5")
            found = pids(self.program)
            for rank in ranks:
                os.kill(found[rank], signal.SIGSTOP)
            time.sleep(2 if len(ranks) == 1 else 8)
            for rank in ranks:
                os.kill(found[rank], signal.SIGCONT)
            self.await_step(process, log, step + 5)
            process.send_signal(signal.SIGUSR1)
            self.assertDone(finish(process), 130)

    def test_a_failing_rank(self):
        """Tokens of rank 2 go bad while the run reads them."""
        data = self.path("tokens.bin")
        with open(harness.golden("t0", "tokens.bin"), "rb") as file:
            tokens = file.read()
        with open(data, "wb") as file:
            file.write(tokens)
        process, log, _ = self.begin(data=data)
        since = time.time()
        # Of each step's 8 sequences of 32 tokens, 2 are for each rank.
        with open(data, "r+b") as file:
            for sequence in range(len(tokens) // 64 - 1):
                if sequence % 8 in (4, 5):
                    file.seek(2 * (32 * sequence + 7))
                    file.write(struct.pack("<H", 60000))
        outcome = self.check(process, log, r"error\[data.token_out_of_range\]: .* \(rank 2, step "
                             r"(?P<step>\d+), after \w+ of .+\)", since)
        self.assertIn("on rank 2 in step", outcome.err)


if __name__ == "__main__":
    harness.main()

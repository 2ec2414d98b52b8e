"""What the tests of this folder share, on top of the cases' harness: starting runs in
several processes, and reading what they say. Importing it ends the test as skipped where
nothing can be launched."""
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../Cases"))
import harness
import launch

launch.require(harness.CLEAVE)
PLUGIN_FILE = os.path.realpath(os.path.join(os.path.dirname(harness.CLEAVE),
                                            "../lib/libcleave_mpi.so"))
# For programs that carry none.
PLUGIN = {"CLEAVE_MPI_PLUGIN": PLUGIN_FILE}
# What is asked of a run that lost a rank, for any cause.
ENDS_WITHIN = 30


class Outcome:
    """A run that has ended. `error` is the first line of its error, if it had one."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds
        errors = re.findall(r"^(?:\S+: )?(error\[.*)", err, re.M)
        self.error = errors[0] if errors else ""
        self.errors = len(errors)


def finish(process, started=None):
    started = started or time.time()
    out, err = process.communicate(timeout=harness.LIMIT)
    return Outcome(process.returncode, out, err, time.time() - started)


def start(processes, command, *options, **environment):
    return subprocess.Popen(launch.command(processes, *options) + list(command),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env=launch.environment(**environment))


def run(processes, command, *options, **environment):
    return finish(start(processes, command, *options, **environment))


class Case(harness.Case):
    def assertDone(self, outcome, code=0):
        self.assertEqual(outcome.code, code, outcome.err + outcome.out)

    def golden_command(self, binary, steps, *flags, model="t0", weights=True, data=None):
        """A golden model's run; the name of its log with it."""
        log = self.fresh("log", ".jsonl")
        init = ["--init", harness.golden(model, "model.safetensors")] if weights else []
        return [binary, "--data", data or harness.golden(model, "tokens.bin"), "--steps",
                str(steps), *init, "--log", log, *flags], log

    def await_step(self, process, log, step):
        """Waits until a run has logged a step; its last step then."""
        deadline = time.time() + harness.LIMIT
        while time.time() < deadline:
            if os.path.exists(log):
                with open(log, encoding="utf-8") as file:
                    steps = re.findall(r'^{"step": (\d+), "loss"', file.read(), re.M)
                if steps and int(steps[-1]) >= step:
                    return int(steps[-1])
            if process.poll() is not None:
                outcome = finish(process)
                self.fail(f"ended early: {outcome.err}{outcome.out}")
            time.sleep(0.02)
        process.kill()
        self.fail(f"no step {step} in {log}")


def numbers(log):
    return [(row["step"], row["loss"], row["grad_norm"]) for row in harness.read_log(log)]


def expected(model):
    """The reference's steps of a golden model, counted from 1."""
    steps = harness.read_json(harness.golden(model, "expected.json"))["steps"]
    return [{**step, "step": number} for number, step in enumerate(steps, 1)]


def pids(binary):
    """Processes that run a binary: rank → pid."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{entry}/exe") != os.path.realpath(binary):
                continue
            with open(f"/proc/{entry}/environ", "rb") as file:
                values = dict(item.split(b"=", 1) for item in file.read().split(b"\0") if b"=" in item)
        except OSError:
            continue
        found[int(values.get(launch.RANK.encode(), b"0"))] = int(entry)
    return found

"""Stopping, resuming and what a checkpoint holds."""
import math
import os
import random
import shutil
import signal
import subprocess
import time

import harness
from harness import golden, random_ids


def leftovers(folder):
    """Folders of saves that did not come to their end."""
    return sorted(name for name in os.listdir(folder) if name.endswith(".tmp")) \
        if os.path.isdir(folder) else []


class Interrupted(harness.Case):
    """Runs that a signal ends: T0 on two ranks, 20 steps, saved every 5."""

    def command(self, folder, log):
        binary = self.compiled(golden("t0", "config.json"), 2, "tp=2")
        return [binary, "--data", golden("t0", "tokens.bin"), "--steps", "20", "--init",
                golden("t0", "model.safetensors"), "--log", log, "--checkpoint", folder,
                "--save-every", "5", "--resume"]

    def start(self, command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def uninterrupted(self):
        log = self.path("whole.jsonl")
        done = harness.run(self.command(self.path("whole"), log))
        self.assertEqual(done.returncode, 0, done.stderr)
        return harness.read_log(log)

    def kill_during_save(self, command, folder, delay):
        """Kills the run `delay` seconds after a save has begun."""
        process = self.start(command)
        before = set(leftovers(folder))
        self.addCleanup(process.kill)
        deadline = time.monotonic() + harness.LIMIT
        while process.poll() is None and not set(leftovers(folder)) - before:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(2e-4)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=harness.LIMIT)

    def finished(self, command, log, want):
        """Runs to the end; what it said. The losses are bitwise those of the whole run."""
        done = harness.run(command)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = harness.read_log(log)
        self.assertSteps(got, want)
        return done.stderr

    def test_e01_killed_during_a_save(self):
        want = self.uninterrupted()
        numbers = random.Random(os.environ.get("CLEAVE_CASE_SEED", "1"))
        cut = 0
        for attempt in range(6):
            folder, log = self.path(f"saved-{attempt}"), self.path(f"log-{attempt}.jsonl")
            command = self.command(folder, log)
            for _ in range(2):
                self.kill_during_save(command, folder, numbers.choice([0, 1, 3, 10, 30]) * 1e-3)
            broken, complete = leftovers(folder), self.complete(folder)
            said = self.finished(command, log, want)
            for name in broken:
                cut += 1
                self.assertIn(f"passed over {os.path.join(folder, name)}", said)
            start = f"resuming after step {complete[-1]} from" if complete else "no complete"
            self.assertIn(start, said)
        self.assertGreaterEqual(cut, 3, "too few saves were cut short to say anything")

    def complete(self, folder):
        """Steps of the folders that have a manifest and their own name."""
        return sorted(int(name[5:]) for name in os.listdir(folder)
                      if not name.endswith(".tmp")
                      and os.path.exists(os.path.join(folder, name, "manifest.json")))

    def test_e01_damaged_newest_checkpoint(self):
        """A shard cut short, emptied or gone: the one before it is taken, and the log says so."""
        want = self.uninterrupted()

        def cut(path):
            os.truncate(path, os.path.getsize(path) // 2)

        def change(path):
            with open(path, "r+b") as file:
                file.seek(-5, os.SEEK_END)
                byte = file.read(1)
                file.seek(-5, os.SEEK_END)
                file.write(bytes([byte[0] ^ 1]))

        damages = [(cut, "shard-00001-of-00002.safetensors"),
                   (os.remove, "shard-00000-of-00002.safetensors"),
                   (lambda path: os.truncate(path, 0), "shard-00000-of-00002.safetensors"),
                   (os.remove, "manifest.json"), (cut, "manifest.json"),
                   (change, "shard-00001-of-00002.safetensors")]
        for number, (damage, name) in enumerate(damages):
            with self.subTest(number=number, name=name):
                folder, log = self.path(f"damaged-{number}"), self.path(f"damaged-{number}.jsonl")
                command = self.command(folder, log)
                first = harness.run(command)
                self.assertEqual(first.returncode, 0, first.stderr)
                damage(os.path.join(folder, "step-20", name))
                said = self.finished(command, log, want)
                self.assertIn(f"passed over {os.path.join(folder, 'step-20')}", said)
                self.assertIn("resuming after step 15", said)

    def test_e01_asked_to_stop(self):
        want = self.uninterrupted()
        for number in (signal.SIGTERM, signal.SIGINT):
            folder, log = self.path(f"stopped-{number}"), self.path(f"stopped-{number}.jsonl")
            command = self.command(folder, log)
            process = self.start(command)
            deadline = time.monotonic() + harness.LIMIT
            while not os.path.exists(log) or len(harness.read_log(log)) < 2:
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(process.poll(), "ended before it was asked to")
                time.sleep(1e-3)
            # As from a terminal and from a launcher: one request.
            for sent in (number, signal.SIGTERM, number):
                process.send_signal(sent)
                time.sleep(1e-3)
            _, said = process.communicate(timeout=harness.LIMIT)
            self.assertEqual(process.returncode, 130, said)
            done = len(harness.read_log(log))
            self.assertLess(done, 20)
            self.assertIn(f"stopped by a signal after step {done} of 20", said)
            self.assertEqual(self.complete(folder)[-1], done)
            self.assertIn(f"resuming after step {done} ", self.finished(command, log, want))


class Resumed(harness.Case):
    """Runs whose steps are done in parts."""

    def test_e05_stops_at_the_ends_of_epochs(self):
        """16 sequences, batches of 4: three epochs are 12 steps, wherever the run stops."""
        data = self.tokens(random_ids(256, 16 * 8 + 1))
        still = {"schedule": "constant", "peak": 0}
        binary = self.compiled(harness.config(), 2, "dp=2", harness.recipe(
            sequence_length=8, global_batch=4, learning_rate=still, data={"order": "shuffle"}))
        whole, _ = self.train(binary, data, 12)
        log, folder = self.path("log.jsonl"), self.path("saved")
        for steps in (4, 8, 12):
            rows, _ = self.train(binary, data, steps, "--checkpoint", folder, "--resume", log=log)
            self.assertEqual(len(rows), steps)
        self.assertSteps(rows, whole)
        self.assertEqual([r["tokens"] for r in rows], [32 * (i + 1) for i in range(12)])
        # The weights stand still, so an epoch's mean is that of all its samples.
        epochs = [sum(r["loss"] for r in rows[i:i + 4]) / 4 for i in (0, 4, 8)]
        self.assertTrue(max(epochs) - min(epochs) <= 1e-6, epochs)
        self.assertGreater(len({r["loss"] for r in rows}), 6, "the epochs are in one order")

    def test_e05_nothing_left(self):
        """A finished run says so and ends well; fewer steps than were done are refused."""
        binary = self.compiled(golden("t0", "config.json"))
        folder, log = self.path("saved"), self.path("log.jsonl")
        flags = ["--checkpoint", folder, "--resume"]
        self.train(binary, golden("t0", "tokens.bin"), 2, *flags)
        _, said = self.train(binary, golden("t0", "tokens.bin"), 2, *flags, log=log)
        self.assertIn("nothing is left to train", said)
        self.refused([binary, "--data", golden("t0", "tokens.bin"), "--steps", "1", *flags],
                     "resume.past_end", says=["--steps 2"])

    def test_e03_any_layout_goes_on_from_any_other(self):
        """Experts, saved after five steps by each layout and taken up by each: five more."""
        values = harness.recipe(learning_rate={"schedule": "constant", "peak": 1e-3})
        layouts = ("1", "2:tp=2", "2:pp=2", "2:dp=2,ep=2", "4:dp=4,zero=3")
        want = self.golden_run("t0-moe", 10, recipe_values=values)
        for saving in layouts:
            folder, log = self.fresh("saved"), self.fresh("log")
            self.golden_run("t0-moe", 5, "--checkpoint", folder, layout=saving, log=log,
                            recipe_values=values)
            for loading in layouts:
                with self.subTest(saving=saving, loading=loading):
                    copy, copied = self.fresh("copy"), self.fresh("log")
                    shutil.copytree(folder, copy)
                    shutil.copy(log, copied)
                    ranks, _, pins = loading.partition(":")
                    binary = self.compiled(golden("t0-moe", "config.json"), ranks, pins, values)
                    got, _ = self.train(binary, golden("t0-moe", "tokens.bin"), 10, "--checkpoint",
                                        copy, "--resume", log=copied)
                    for row, other in zip(got, want):
                        ratio = abs(row["loss"] / other["loss"] - 1)
                        self.assertLess(ratio, 1e-6, f"step {row['step']}")
                        self.assertLess(abs(row["grad_norm"] / other["grad_norm"] - 1), 2e-5)

    def schedule(self, total):
        rate = {"schedule": "cosine", "peak": 3e-4, "final": 3e-5, "warmup": 10, "total": total}
        return self.compiled(harness.config(), 1, None, harness.recipe(
            sequence_length=4, global_batch=1, learning_rate=rate))

    def test_e07_schedule_goes_on(self):
        data, log, folder = golden("t0", "tokens.bin"), self.path("log.jsonl"), self.path("saved")
        flags = ["--checkpoint", folder, "--resume"]
        rows, _ = self.train(self.schedule(100), data, 50, *flags, log=log)
        self.assertEqual(f"{rows[0]['lr']:.6e}", "3.000000e-05")
        self.assertEqual(f"{rows[9]['lr']:.6e}", "3.000000e-04")
        self.assertEqual(f"{rows[49]['lr']:.6e}", "1.884425e-04")
        other = self.schedule(200)
        command = [other, "--data", data, "--steps", "51", "--log", log, *flags]
        self.refused(command, "resume.schedule_changed",
                     says=["total 100", "total 200", "--allow-schedule-change"])
        self.assertEqual(len(harness.read_log(log)), 50)
        rows, _ = self.train(self.schedule(100), data, 51, *flags, log=log)
        self.assertEqual(f"{rows[50]['lr']:.6e}", "1.837884e-04")
        rows, _ = self.train(other, data, 52, *flags, "--allow-schedule-change", log=log)
        self.assertAlmostEqual(rows[51]["lr"], 3e-5 + 1.35e-4 * (1 + math.cos(math.pi * 42 / 190)),
                               places=12)

    def test_e10_padded_vocabulary_stays_inside(self):
        """251 words cut four ways: 252 rows inside, 251 in every file, read by any layout."""
        model, data = "t0-vocab251", golden("t0-vocab251", "tokens.bin")
        want = self.golden_run(model, 6)
        for layout in (1, 2, 4):
            folder, out, log = (self.path(f"{n}-{layout}") for n in ("saved", "export", "log"))
            self.golden_run(model, 3, "--checkpoint", folder, "--export", out, layout="4:tp=4",
                            log=log)
            exported = harness.read_safetensors(os.path.join(out, "model.safetensors"))
            saved = harness.read_checkpoint(os.path.join(folder, "step-3"))
            for name in ("model.embed_tokens.weight", "lm_head.weight"):
                self.assertEqual(exported[name][0], [251, 64])
                for kind in ("param", "moment1", "moment2"):
                    self.assertEqual(saved[kind, name][0], [251, 64])
                    self.assertTrue(all(x == x for x in saved[kind, name][1]), f"{kind} {name}")
                self.assertNear(saved["param", name], exported[name], 0)
            binary = self.compiled(golden(model, "config.json"), layout, f"tp={layout}")
            got, _ = self.train(binary, data, 6, "--checkpoint", folder, "--resume", log=log)
            self.assertSteps(got, want, 1e-5, 1e-5)


if __name__ == "__main__":
    harness.main()

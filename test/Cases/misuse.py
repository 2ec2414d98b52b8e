"""Clumsy and unlucky use: command lines that say two things, names that cannot be
written, readers that go away. Nothing is lost, changed silently or left half done."""
import glob
import json
import os
import signal
import stat
import subprocess
import time

import harness
from harness import CLEAVE, llama, random_ids, recipe


class CommandLines(harness.Case):
    def setUp(self):
        super().setUp()
        self.model = self.written(llama())

    def refuse(self, kind, *arguments, code=2):
        error = self.refused([CLEAVE, *arguments], kind, code)
        self.assertTrue(error["given"] and error["rule"] and error["suggestions"], error)
        return error

    def test_options_are_given_once(self):
        nn = ["compile", self.model, "--emit=nn"]
        for extra in (["--emit=grad"], ["--cluster", "local:1", "--cluster=local:2"],
                      ["-o", self.path("a"), "--output", self.path("b")],
                      ["--pin", "dp=1", "--pin", "tp=1"], ["--seq-len=8", "--seq-len=8"]):
            with self.subTest(extra=extra):
                self.refuse("usage.extra", *nn, *extra)
        done = harness.run([CLEAVE, *nn, "--set", "seed=1", "--set", "seed=2"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.work), [os.path.basename(self.model)])

    def test_empty_values_are_not_absent_ones(self):
        """As where a script's variable is not set."""
        for option in ("emit", "cluster", "recipe", "pin", "plan", "seq-len", "profile", "output"):
            for words in ([f"--{option}="], [f"--{option}", ""]):
                with self.subTest(words=words):
                    self.refuse("usage.bad_value", "compile", self.model, *words)
        self.refuse("cluster.bad_count", "compile", self.model, "--emit=nn", "--cluster", "local:")
        self.refuse("plan.unknown_pin", "compile", self.model, "--emit=nn", "--pin", "dp=1,")

    def test_clusters_beyond_counting(self):
        for nodes in (2 ** 32, 2 ** 63 - 1):
            cluster = self.written({"nodes": nodes, "devices_per_node": 2 ** 32})
            self.refuse("cluster.out_of_range", "compile", self.model, "--emit=nn", "--cluster",
                        cluster)

    def test_options_are_no_values(self):
        text = self.path("text")
        with open(text, "w", encoding="utf-8") as file:
            file.write("hello")
        error = self.refused([CLEAVE, "tokens", text, "-o"], "usage.option")
        self.assertIn("--output", error["message"])
        self.assertFalse(os.path.exists("--json"))
        self.refuse("usage.bad_value", "compile", self.model, "--emit=nn",
                    "--allow-over-budget=false")

    def test_plans_beside_other_requests(self):
        plan = self.path("plan.mlir")
        made = self.compile_command(self.model, 2, "tp=2", recipe(sequence_length=8))
        self.assertEqual(harness.run([*made, "--emit=plan", "-o", plan]).returncode, 0)
        common = ["compile", self.model, "--cluster", "local:2", "--plan", plan, "--emit=dist"]
        self.refuse("plan.conflict", *common, "--pin", "dp=2")
        self.refuse("plan.conflict", *common, "--global-batch", "4")
        self.refuse("plan.conflict", *common, "--seq-len", "16")
        self.refuse("plan.conflict", *common, "--micro-batch", "1")
        for same in ([], ["--global-batch", "8", "--seq-len", "8"], ["--micro-batch", "8"]):
            done = harness.run([CLEAVE, *common, *same])
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_sequences_beyond_the_positions(self):
        """However the length is asked for: rows beyond a table of positions are no rows."""
        model = harness.config("gpt2-mini")
        longest = model["n_positions"]
        plan, module = self.path("plan.mlir"), self.path("model.mlir")
        for emit, out in (("plan", plan), ("nn", module)):
            done = harness.run(self.compile_command(model) + [f"--emit={emit}", "-o", out])
            self.assertEqual(done.returncode, 0, done.stderr)
        with open(plan, "r+", encoding="utf-8") as file:
            text = file.read()
            self.assertIn("sequence 32", text)
            file.seek(0)
            file.write(text.replace("sequence 32", f"sequence {longest + 1}"))
        self.refused([CLEAVE, "compile", self.written(model), "--plan", plan, "--set", "dropout=0",
                      "--emit=image"], "plan.sequence_too_long", says=[longest, longest + 1])
        self.refused([CLEAVE, "compile", module, "--seq-len", str(longest + 1), "--emit=image"],
                     "plan.sequence_too_long", says=[longest])

    def test_work_beyond_counting(self):
        """The squares of a long sequence: numbers for reports end where they can be counted."""
        model = self.written(llama(max_position_embeddings=2 * 10 ** 9))
        done = harness.run([CLEAVE, "compile", model, "--seq-len", str(10 ** 9), "--global-batch", "1",
                            "--allow-over-budget", "--emit=image", "-o", self.path("image")])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_batches_beyond_counting(self):
        for batch in (2 ** 41, 10 ** 18):
            error = self.refuse("plan.batch_too_large", "compile", self.model, "--emit=image",
                                "--set", f"global_batch={batch}")
            self.assertIn("micro 1", error["suggestions"][0])
        # Two experts for a token, and the tokens of the four ranks that share them.
        experts = harness.golden("t0-moe", "config.json")
        for ranks, pins, most in ((1, "micro_batch=40000000", 2 ** 30 - 1),
                                  (4, "dp=4,ep=4,micro_batch=10000000", 2 ** 28 - 1)):
            error = self.refuse("plan.batch_too_large", "compile", experts, "--emit=image", "--seq-len",
                                "32", "--cluster", f"local:{ranks}", "--pin", pins, "--global-batch",
                                "40000000")
            self.assertIn(f"at most {most} tokens", error["rule"])

    def test_micro_batches_beyond_any_memory(self):
        """What is kept of a micro-batch for the way back, at once or in the slot of a stage."""
        wide = dict(harness.config(), hidden_size=65536, intermediate_size=131072, head_dim=64,
                    num_hidden_layers=8, max_position_embeddings=1024)
        # Many words and little else: pieces of the classifier.
        wordy = dict(harness.config(), vocab_size=50257, max_position_embeddings=1024)
        for model, ranks, pins, batch, given in (
                (wide, 1, "micro_batch=65536", 65536, "bytes of a rank at once"),
                (wide, 2, "pp=2,micro_batch=65536", 262144, "bytes of a rank at once"),
                (wordy, 1, "micro_batch=131072", 131072, "pieces")):
            with self.subTest(pins=pins):
                error = self.refuse("plan.batch_too_large", "compile", self.written(model),
                                    "--emit=image", "--seq-len", "1024", "--cluster",
                                    f"local:{ranks}", "--pin", pins, "--global-batch", str(batch),
                                    "--allow-over-budget")
                self.assertIn(given, error["given"])
                self.assertEqual(error["suggestions"], ["--micro-batch 1"])

    def test_modules_that_are_no_model(self):
        for text in ("", "module {}", "module { func.func @f() { return } }", "{"):
            path = self.path("model.mlir")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            error = self.refused([CLEAVE, "compile", path, "--emit=image"], "model.ir_invalid")
            self.assertTrue(error["where"] and error["rule"] and error["suggestions"], error)

    def test_texts_that_nest_without_end(self):
        """What a parser that calls itself cannot read; brackets in strings and comments count for none."""
        path, wide = self.path("deep.mlir"), '// ' + '(' * 9999 + '\nmodule @"' + '[' * 9999
        plan = harness.run([CLEAVE, "compile", self.model, "--emit=plan"]).stdout
        for text in ("module {" * 200000, "module attributes {a = " + "[" * 50000 + "]" * 50000 + "} {}"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.refuse("plan.unreadable", "compile", self.model, "--plan", path, "--emit=dist")
            self.refuse("plan.unreadable", "verify", self.model, "--plan", path)
            error = self.refused([CLEAVE, "compile", path, "--emit=image"], "model.ir_invalid")
            self.assertTrue(error["where"] and error["rule"] and error["suggestions"], error)
        with open(path, "w", encoding="utf-8") as file:
            file.write(plan.replace("module {", wide + '" {', 1))
        done = harness.run([CLEAVE, "compile", self.model, "--plan", path, "--emit=dist"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_inputs_that_are_no_files(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        os.symlink("loop", self.path("loop"))
        for path in (pipe, self.path("loop"), self.path("absent"), "/dev/zero", self.work):
            with self.subTest(path=path):
                self.refuse("file.read_failed", "inspect", path)
                self.refuse("file.read_failed", "compile", self.model, "--emit=nn", "--recipe", path)
                self.refuse("file.read_failed", "compile", self.model, "--emit=plan", "--plan", path)


class Outputs(harness.Case):
    def setUp(self):
        super().setUp()
        self.model = self.written(llama())

    def emit(self, out, *extra):
        return [CLEAVE, "compile", self.model, "--emit=plan", "-o", out, *extra]

    def content(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_names_that_cannot_be_written(self):
        os.mkdir(self.path("folder"))
        names = [self.path("folder"), self.path("absent/below"), self.path("new/"),
                 self.model + "/below"]
        for name in names:
            for command in (self.emit(name), [CLEAVE, "compile", self.model, "-o", name],
                            [CLEAVE, "tokens", self.model, "-o", name]):
                with self.subTest(command=command[1:]):
                    kind = "data.write_failed" if "tokens" in command else "file.write_failed"
                    error = self.refused(command, kind)
                    self.assertTrue(error["given"] and error["rule"] and error["suggestions"], error)
        self.refused(self.emit(self.path("ok"), "--dump-phases", self.model), "file.write_failed")
        self.assertEqual(sorted(os.listdir(self.work)),
                         sorted(["folder", os.path.basename(self.model)]))

    def test_inputs_are_not_replaced(self):
        before = self.content(self.model)
        link = self.path("link.json")
        os.symlink(self.model, link)
        for out in (self.model, link, os.path.join(self.work, ".", os.path.basename(self.model))):
            for command in (self.emit(out), [CLEAVE, "compile", self.model, "-o", out],
                            [CLEAVE, "tokens", self.model, "-o", out]):
                error = self.refused(command, "usage.bad_value", says=[out])
                self.assertTrue(error["rule"] and error["suggestions"], error)
        self.assertEqual(self.content(self.model), before)

    def test_devices_and_links_stay(self):
        want = harness.run([CLEAVE, "compile", self.model, "--emit=plan"]).stdout.encode()
        link, pipe = self.path("link"), self.path("pipe")
        os.symlink("target", link)
        self.assertEqual(harness.run(self.emit(link)).returncode, 0)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(self.content(self.path("target")), want)
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
        self.assertEqual(harness.run(self.emit(pipe)).returncode, 0)
        self.assertEqual(reader.communicate(timeout=harness.LIMIT)[0], want)
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        done = harness.run(self.emit("/dev/stdout"))
        self.assertEqual(done.stdout.encode(), want)
        self.refused([CLEAVE, "compile", self.model, "-o", pipe], "file.write_failed")

    def test_interrupted_compilations_leave_no_binary(self):
        """Stopped at many moments of the link: nothing, or all of it, under the name; and no
        files of the work where the signal can be caught."""
        started = time.monotonic()
        whole = self.compiled(llama())
        length = time.monotonic() - started
        size = os.path.getsize(whole)
        for number in range(12):
            out, scratch = self.path(f"train-{number}"), self.path(f"scratch-{number}")
            os.mkdir(scratch)
            process = subprocess.Popen([CLEAVE, "compile", self.model, "-o", out],
                                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True, env={**os.environ, "TMPDIR": scratch})
            time.sleep(length * (0.4 + 0.05 * number))
            os.killpg(process.pid, signal.SIGINT if number % 2 else signal.SIGKILL)
            process.wait(timeout=harness.LIMIT)
            if os.path.exists(out):
                self.assertEqual(harness.run([out, "--info"]).returncode, 0)
                self.assertLess(abs(os.path.getsize(out) - size), size // 10)
            if number % 2:
                self.assertEqual(glob.glob(out + ".tmp*") + glob.glob(scratch + "/cleave*"), [])

    def test_devices_without_room(self):
        """For the binary and for the files of the work; a small device where one can be made."""
        full = self.path("full")
        os.mkdir(full)
        mounted = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=100k tmpfs {full} && exec "$@"', "sh"]
        if harness.run([*mounted, "true"]).returncode:
            self.skipTest("no device can be mounted here")
        for out, scratch in ((full + "/train", self.work), (self.path("train"), full)):
            with self.subTest(out=out):
                done = harness.run([*mounted, CLEAVE, "compile", self.model, "--json", "-o", out],
                                   env={**os.environ, "TMPDIR": scratch})
                self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
                self.assertEqual(json.loads(done.stdout)["error"]["kind"], "file.write_failed")

    def test_folders_of_intermediate_files_that_are_not_there(self):
        absent = self.path("absent")
        done = harness.run([CLEAVE, "compile", self.model, "--json", "-o", self.path("train")],
                           env={**os.environ, "TMPDIR": absent})
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        error = json.loads(done.stdout)["error"]
        self.assertEqual((error["kind"], error["given"]), ("file.write_failed", f"TMPDIR = {absent}"))
        self.assertTrue(error["rule"] and error["suggestions"], error)

    def test_closed_standard_output(self):
        for command, code in (("inspect {m} >&-", 4), ("inspect {m} >/dev/full", 4),
                              ("compile {m} --emit=nn >&-", 4),
                              ("compile {m} --emit=plan -o {o} >&- 2>&-", 0),
                              ("compile {m} -o {o} >&- 2>&-", 0)):
            text = command.format(m=self.model, o=self.path("out"))
            done = harness.run(["sh", "-c", f"{CLEAVE} {text}"])
            self.assertEqual(done.returncode, code, text)


class Readers(harness.Case):
    """Whoever reads what a training binary prints may go away; the run goes on."""

    def command(self, *flags):
        data = self.tokens(random_ids(97, 200))
        binary = self.compiled(llama(), 2, "dp=2", recipe(sequence_length=8, global_batch=2))
        return " ".join([binary, "--data", data, "--steps", "300", "--log", self.path("log"),
                         "--checkpoint", self.path("saved"), "--export", self.path("out"), *flags])

    def shell(self, text):
        return harness.run(["bash", "-c", text])

    def complete(self):
        self.assertEqual(len(harness.read_log(self.path("log"))), 300)
        self.assertEqual(os.listdir(self.path("saved")), ["step-300"])
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["config.json", "model.safetensors"])
        with open(self.path("log"), encoding="utf-8") as file:
            for line in file:
                json.loads(line)

    def test_pipes_that_close(self):
        done = self.shell(f"{self.command()} 2>&1 | true; exit ${{PIPESTATUS[0]}}")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.complete()

    def test_streams_that_are_closed(self):
        done = self.shell(f"{self.command()} <&- >&- 2>&-")
        self.assertEqual(done.returncode, 0)
        self.complete()

    def test_devices_that_are_full(self):
        self.assertEqual(self.shell(f"{self.command()} >/dev/full 2>/dev/full").returncode, 0)
        self.complete()
        for flag in ("--info", "--help"):
            done = self.shell(f"{self.command(flag)} >/dev/full")
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("error[file.write_failed]", done.stderr)

    def test_limits_of_file_sizes(self):
        done = self.shell(f"ulimit -f 4; {self.command('--json')}")
        self.assertEqual(done.returncode, 4, done.stderr)
        error = json.loads(done.stderr.strip().splitlines()[-1])["error"]
        self.assertIn(error["kind"], ("log.write_failed", "checkpoint.write_failed"))
        self.assertTrue(error["rule"] and error["suggestions"], error)

    def test_logs_that_take_no_more_lines(self):
        """As on a device that is full: the run ends, but with what it has trained."""
        os.mkfifo(self.path("log"))
        reader = subprocess.Popen(["head", "-n", "4", self.path("log")], stdout=subprocess.DEVNULL)
        done = self.shell(self.command("--json").replace("--steps 300", "--steps 1000000"))
        reader.wait(timeout=harness.LIMIT)
        self.assertEqual(done.returncode, 4, done.stderr)
        error = json.loads(done.stderr.strip().splitlines()[-1])["error"]
        self.assertEqual(error["kind"], "log.write_failed")
        saved = os.listdir(self.path("saved"))
        self.assertEqual(len(saved), 1)
        self.assertIn(f"the state after step {saved[0][5:]} was saved", json.dumps(error["notes"]))
        self.assertGreaterEqual(int(saved[0][5:]), 3)

    def test_threads_that_the_system_refuses(self):
        """Their stacks are more than the process may have: an error, not an abort."""
        command = self.command("--json", "--threads", "4096")
        done = self.shell(f"ulimit -s 8192; ulimit -v 2000000; {command}")
        self.assertEqual(done.returncode, 3, done.stderr)
        error = json.loads(done.stderr.strip().splitlines()[-1])["error"]
        self.assertEqual(error["kind"], "runtime.no_threads")
        self.assertTrue(error["given"] and error["rule"] and error["suggestions"], error)

    def test_two_runs_of_one_folder(self):
        """The second is refused; the first is not disturbed."""
        command = self.command("--save-every", "1")
        first = subprocess.Popen(command.split(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + harness.LIMIT
        while not os.path.isdir(self.path("saved")) or not os.listdir(self.path("saved")):
            self.assertLess(time.monotonic(), deadline)
        other = command.replace(self.path("log"), self.path("log2"))
        refused = harness.run(other.split() + ["--json"])
        said = first.communicate(timeout=harness.LIMIT)[1]
        self.assertEqual(first.returncode, 0, said)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        error = json.loads(refused.stderr.strip().splitlines()[-1])["error"]
        self.assertEqual(error["kind"], "checkpoint.in_use")
        self.assertTrue(error["given"] and error["rule"] and error["suggestions"], error)
        self.assertEqual(len(os.listdir(self.path("saved"))), 300)


if __name__ == "__main__":
    harness.main()

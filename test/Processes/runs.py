"""Training in several processes: files, resumption, signals, and what is refused.

That numbers are those of one process is checked by golden.py --processes.
"""
import json
import os
import shutil
import signal
import unittest

import process_harness
from process_harness import harness, launch, numbers, start, finish, run
import traffic

LAYOUT = "dp=2,tp=2"


class Runs(process_harness.Case):
    def binary(self, pins=LAYOUT, ranks=4):
        return self.compiled(harness.golden("t0", "config.json"), ranks, pins)

    def alone(self, steps, *flags, **options):
        command, log = self.golden_command(self.binary(), steps, *flags, **options)
        done = harness.run(command, env=process_harness.launch.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return numbers(log)

    def together(self, processes, steps, *flags, code=0, binary=None, **options):
        command, log = self.golden_command(binary or self.binary(), steps, *flags, **options)
        outcome = run(processes, command)
        self.assertDone(outcome, code)
        return numbers(log), outcome

    def test_a_binary_is_one_file_that_can_be_moved(self):
        moved = self.path("elsewhere")
        shutil.copy(self.binary(), moved)
        rows, outcome = self.together(2, 3, binary=moved)
        self.assertEqual(rows, self.alone(3))
        self.assertIn("ranks: 4 in 2 processes", outcome.out)
        self.assertEqual(outcome.out.count("steps: 3 of 3 done"), 1)

    @unittest.skipUnless(launch.IS_MPI, "plugins are MPI's")
    def test_a_plugin_of_ones_own(self):
        """CLEAVE_MPI_PLUGIN replaces the plugin inside; what is no plugin is refused."""
        command, log = self.golden_command(self.binary(), 2)
        self.assertDone(run(2, command, **process_harness.PLUGIN))
        outcome = run(2, command, CLEAVE_MPI_PLUGIN=log)
        self.assertEqual(outcome.code, 3, outcome.err)
        self.assertTrue(outcome.error.startswith("error[runtime.transport_missing]: "), outcome.err)
        self.assertEqual(outcome.errors, 1, outcome.err)

    def test_resuming_across_processes(self):
        """Saved by one way of running, continued by another, into the same numbers."""
        straight = self.alone(12)
        ways = {"alone": lambda *a, **o: self.alone(*a, **o),
                "two": lambda *a, **o: self.together(2, *a, **o)[0],
                "four": lambda *a, **o: self.together(4, *a, **o)[0]}
        for first, second in (("alone", "four"), ("four", "alone"), ("two", "four")):
            with self.subTest(first=first, second=second):
                folder = self.fresh("saved")
                flags = ["--checkpoint", folder, "--resume"]
                begun = ways[first](7, *flags)
                self.assertEqual(begun, straight[:7])
                self.assertEqual(sorted(os.listdir(folder)), ["step-7"])
                gone_on = ways[second](12, *flags, weights=False)
                self.assertEqual(gone_on, straight[7:])

    def test_counters_are_those_of_the_table(self):
        """Each rank compares its own at the end, wherever it is; the first process's are logged."""
        for pins, processes in ((LAYOUT, 2), (LAYOUT, 4), ("dp=2,cp=2,zero=2", 4),
                                ("dp=4,zero=3", 2), ("tp=2,pp=2,sp=1,micro_batch=2", 4)):
            with self.subTest(pins=pins, processes=processes):
                command, log = self.golden_command(self.binary(pins), 3, "--profile")
                self.assertDone(run(processes, command))
                steps, counts, ranks = traffic.counted(log)
                self.assertEqual((steps, sorted(ranks)), (3, list(range(4 // processes))))
                # No rank counts what none was to, and none more often than planned.
                self.assertLessEqual(counts, traffic.planned(
                    self, traffic.table(self, "t0", 4, pins), 3))

    def test_another_layout_goes_on_from_what_processes_saved(self):
        folder = self.path("saved")
        self.together(4, 6, "--checkpoint", folder)
        other = self.binary("tp=2,sp=1", 2)
        command, log = self.golden_command(other, 9, "--checkpoint", folder, "--resume",
                                           weights=False)
        self.assertDone(run(2, command))
        self.assertSteps(harness.read_log(log), process_harness.expected("t0")[6:9], 1e-5, 5e-5)

    def test_export_and_evaluation(self):
        """Of a layout that cuts every weight, in padded blocks, and keeps copies."""
        binary = self.compiled(harness.golden("t0-vocab251", "config.json"), 4, "dp=2,tp=2,zero=3")
        flags = lambda out: ["--export", out, "--eval-data",
                             harness.golden("t0-vocab251", "tokens.bin"), "--eval-every", "2",
                             "--eval-sequences", "10"]
        want, got = self.path("want"), self.path("got")
        command, log = self.golden_command(binary, 4, *flags(want), model="t0-vocab251")
        done = harness.run(command, env=process_harness.launch.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        evaluations = [row["eval_loss"] for row in harness.read_rows(log, "eval_loss")]
        self.assertEqual(len(evaluations), 2)
        for processes in (2, 4):
            command, log = self.golden_command(binary, 4, *flags(got), model="t0-vocab251")
            self.assertDone(run(processes, command))
            for name in ("model.safetensors", "config.json"):
                with open(os.path.join(want, name), "rb") as a, \
                        open(os.path.join(got, name), "rb") as b:
                    self.assertEqual(a.read(), b.read(), name)
            self.assertEqual(evaluations, [row["eval_loss"]
                                           for row in harness.read_rows(log, "eval_loss")])

    def stopped(self, number, *options, target="launcher"):
        """A run stopped by a signal goes on where it was, as if nothing had been."""
        folder = self.fresh("saved")
        command, log = self.golden_command(self.binary(), 1000000, "--checkpoint", folder)
        process = start(4, command, *options)
        self.await_step(process, log, 3)
        if target == "launcher":
            process.send_signal(number)
        else:
            os.kill(process_harness.pids(self.binary())[target], number)
        outcome = finish(process)
        saved = os.listdir(folder)
        self.assertEqual(len(saved), 1, outcome.err)
        step = int(saved[0].removeprefix("step-"))
        self.assertEqual(numbers(log)[-1][0], step)
        self.assertIn(f"stopped by a signal after step {step} of 1000000; saved", outcome.err)
        return outcome, folder, log, step

    def test_usr1_to_the_launcher_stops_and_saves(self):
        outcome, folder, log, step = self.stopped(signal.SIGUSR1)
        self.assertEqual(outcome.code, 130, outcome.err)
        begun = numbers(log)
        command, log = self.golden_command(self.binary(), step + 3, "--checkpoint", folder,
                                           "--resume", "--allow-schedule-change", weights=False)
        self.assertDone(run(2, command))
        self.assertEqual(begun + numbers(log), self.alone(step + 3))

    def test_term_and_int_to_the_launcher_stop_and_save(self):
        """mpirun waits so many seconds before it passes them on, and again before it kills."""
        wait = ["--mca", "odls_base_sigkill_timeout", "5"] if launch.IS_MPI else []
        for number in (signal.SIGTERM, signal.SIGINT):
            outcome = self.stopped(number, *wait)[0]
            self.assertNotEqual(outcome.code, 0, outcome.err)

    def test_a_signal_to_any_process_stops_all(self):
        outcome = self.stopped(signal.SIGTERM, target=2)[0]
        self.assertEqual(outcome.code, 130, outcome.err)

    def refused_run(self, kind, code, processes, command, says=()):
        outcome = run(processes, command)
        self.assertEqual(outcome.code, code, outcome.err)
        self.assertTrue(outcome.error.startswith(f"error[{kind}]: "), outcome.err)
        self.assertEqual(outcome.errors, 1, outcome.err)
        for part in says:
            self.assertIn(part, outcome.err)

    def test_another_number_of_ranks_is_refused(self):
        command, log = self.golden_command(self.binary(), 2)
        self.refused_run("runtime.world_mismatch", 2, 3, command,
                         [f"{launch.NAME} started 3 processes",
                          "compiled for 4 ranks (data=2 × tensor=2)", f"{launch.SIZE} = 3", "4 processes: one for each rank"])
        self.assertFalse(os.path.exists(log))

    def test_another_binary_on_one_rank_is_refused(self):
        command, log = self.golden_command(self.binary(), 2)
        other, _ = self.golden_command(self.binary("dp=4"), 2)
        self.refused_run("runtime.program_mismatch", 2, 3, [*command, ":", "-n", "1", *other],
                         ["process 3 on host", "has another program than process 0"])
        self.assertFalse(os.path.exists(log))

    def test_other_settings_on_one_rank_are_refused(self):
        command, log = self.golden_command(self.binary(), 5)
        for other, name in ((["--steps", "6"], "--steps"), (["--export", self.path("x")], "--export"),
                            (["--save-every", "2", "--checkpoint", self.path("c")], "--checkpoint")):
            base = self.golden_command(self.binary(), 5)[0]
            if other[0] == "--steps":
                base[base.index("--steps") + 1] = other[1]
            else:
                base += other
            self.refused_run("runtime.settings_mismatch", 2, 3, [*command, ":", "-n", "1", *base],
                             [f"has another {name} than process 0"])
            self.assertFalse(os.path.exists(log))

    def test_a_checkpoint_folder_that_not_all_share_is_refused(self):
        for folder in ("mine", "yours"):
            os.mkdir(self.path(folder))
        command, log = self.golden_command(self.binary(), 5, "--checkpoint", self.path("mine"))
        other, _ = self.golden_command(self.binary(), 5, "--checkpoint", self.path("yours"))
        self.refused_run("runtime.settings_mismatch", 2, 3, [*command, ":", "-n", "1", *other],
                         ["process 3 on host", "has another --checkpoint folder than process 0"])
        self.assertFalse(os.path.exists(log))
        self.assertEqual(os.listdir(self.path("mine")) + os.listdir(self.path("yours")), [])

    def test_a_refusal_of_one_process_is_that_of_all(self):
        command, log = self.golden_command(self.binary(), 5)
        other, _ = self.golden_command(self.binary(), 5, data=self.path("nothing"))
        self.refused_run("file.read_failed", 2, 3, [*command, ":", "-n", "1", *other],
                         ["nothing", "on process 3 on host"])

    def test_one_json_error(self):
        outcome = run(3, [*self.golden_command(self.binary(), 2)[0], "--json"])
        lines = [line for line in outcome.err.splitlines() if line.startswith('{"error"')]
        self.assertEqual(len(lines), 1, outcome.err)
        self.assertEqual(json.loads(lines[0])["error"]["kind"], "runtime.world_mismatch")

    @unittest.skipUnless(launch.IS_MPI, "what is asked for is an MPI")
    def test_launchers_without_mpi_are_named(self):
        """As torchrun and srun without PMI start a process; nothing is trained."""
        for name, variables in {
                "torchrun": {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "4",
                             "TORCHELASTIC_RUN_ID": "1"},
                "srun": {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0",
                         "SLURM_LOCALID": "0"}}.items():
            command, log = self.golden_command(self.binary(), 2, "--transport", "mpi")
            done = harness.run(command, env=launch.environment(**variables))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"error[runtime.transport_missing]: {name} started 4 processes",
                          done.stderr)
            self.assertFalse(os.path.exists(log))

    def test_help_and_info_are_shown_once(self):
        for flag, text in (("--help", "usage: "), ("--info", "instructions")):
            outcome = run(4, [self.binary(), flag])
            self.assertDone(outcome)
            self.assertEqual(outcome.out.count(text), 1, outcome.out)


if __name__ == "__main__":
    harness.main()

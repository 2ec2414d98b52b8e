"""A pipeline in several processes: the bits of one process, files, and a lost rank."""
import json
import os
import re
import struct

import process_harness
from process_harness import harness, run

PROGRAM = os.path.join(os.path.dirname(harness.CLEAVE), "process-tiny-pipeline")
PLUGIN = process_harness.PLUGIN


class Pipelines(process_harness.Case):
    def command(self, *flags):
        data = self.path("tokens.bin")
        if not os.path.exists(data):
            with open(data, "wb") as file:
                file.write(b"".join(struct.pack("<H", i * i * 7 % 61) for i in range(6 * 200 + 1)))
        log = self.fresh("log", ".jsonl")
        return ["--data", data, "--log", log, *flags], log

    def train(self, processes, *flags):
        arguments, log = self.command(*flags)
        self.assertDone(run(processes, [PROGRAM, *arguments], **PLUGIN))
        with open(log, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [(row["step"], row.get("loss"), row.get("grad_norm"), row.get("eval_loss"))
                for row in rows if "loss" in row or "eval_loss" in row]

    def test_numbers_are_those_of_one_process(self):
        flags = ("--steps", "8", "--eval-data", self.command()[0][1], "--eval-every", "3")
        alone = self.train(1, *flags)
        self.assertEqual(len(alone), 8 + 3)
        for processes in (2, 4):
            with self.subTest(processes=processes):
                self.assertEqual(self.train(processes, *flags), alone)

    def test_files_go_from_one_way_to_another(self):
        straight = self.fresh("straight")
        self.train(1, "--steps", "7", "--export", straight)
        for first, second in ((1, 4), (4, 2)):
            with self.subTest(first=first, second=second):
                saved, out = self.fresh("saved"), self.fresh("out")
                flags = ("--checkpoint", saved, "--resume")
                self.train(first, "--steps", "3", *flags)
                self.train(second, "--steps", "7", *flags, "--export", out)
                with open(f"{straight}/model.safetensors", "rb") as a, \
                        open(f"{out}/model.safetensors", "rb") as b:
                    self.assertEqual(a.read(), b.read())

    def test_a_lost_rank_is_missed_in_its_transfer(self):
        arguments, _ = self.command("--steps", "5")
        outcome = run(4, [PROGRAM, "die", *arguments], **PLUGIN)
        self.assertRegex(outcome.error, re.escape("error[comm.rank_lost]: rank ") + "[23]" +
                         re.escape(" was lost in step 1, while rank 0 waited in receive of "
                                   "gradients from rank 2, micro-batch "), outcome.err)
        self.assertEqual(outcome.errors, 1, outcome.err)
        self.assertNotEqual(outcome.code, 0)
        self.assertLess(outcome.seconds, process_harness.ENDS_WITHIN)


if __name__ == "__main__":
    harness.main()

"""Random models × meshes × plans, compiled: each binary trains as the one of one rank.

    trained.py CLEAVE FORMATS [options of equal_or_refused.py]

The cases are those of `equal_or_refused.py` for the same seed; what that finds refused is left
out. Losses of three steps are compared, in fp32.
"""
import json
import re
import struct

import equal_or_refused
from equal_or_refused import Wrong, run_program

STEPS = 3
# Of a loss of about 3: rounding of some dozen sums, three updates behind each other.
TOLERANCE = 1e-4


class TrainedCase(equal_or_refused.Case):
    def outcome(self):
        what, wanted, plan = self.draw()
        if what:
            return what
        if refused := self.run("compile", "config.json", *wanted, *plan, "-o", "cut"):
            return refused
        image = json.loads(self.described("config.json", *wanted, *plan))
        batch = image["batch"]
        one = ["--seq-len", str(batch["sequence"]), "--global-batch", str(batch["global_batch"])]
        self.run("compile", "config.json", *one, *self.settings, "--pin", "dp=1", "-o", "one")
        count = batch["sequence"] * batch["global_batch"] * STEPS + 1
        ids = [self.random.randrange(self.config["vocab_size"]) for _ in range(count)]
        with open(self.path("tokens.bin"), "wb") as file:
            file.write(struct.pack(f"<{count}H", *ids))
        losses = [self.losses(binary) for binary in ("./one", "./cut")]
        for a, b in zip(*losses):
            if not abs(a - b) <= TOLERANCE * max(1, abs(a)):
                raise Wrong(f"losses of one rank {losses[0]}, of the plan {losses[1]}")
        return "equal"

    def described(self, *words):
        """The image's common part, as JSON."""
        self.run("compile", *words, "--emit=image", "-o", "image")
        return self.read("image")

    def losses(self, binary):
        log = binary[2:] + ".jsonl"
        command = [binary, "--data", "tokens.bin", "--steps", str(STEPS), "--log", log, "--threads", "1"]
        self.commands.append(" ".join(command))
        code, out, err = run_program(command, self.folder)
        if code:
            raise Wrong(f"{binary}: exit code {code}\n{out}{err}")
        return [float(loss) for loss in re.findall(r'"loss": ?([-\d.e+]+)', self.read(log))]


if __name__ == "__main__":
    equal_or_refused.main(TrainedCase)

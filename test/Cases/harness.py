"""What the cases share: compiling, training, refusals and safetensors files.

A case file is run as `FILE CLEAVE GOLDEN_DIR [unittest arguments]` and ends with
`harness.main()`. Nothing here knows a case.
"""
import array
import itertools
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

CLEAVE = os.path.abspath(sys.argv[1])
GOLDEN = os.path.abspath(sys.argv[2])

# In place of pins: what is taken where nothing is pinned.
SEARCHED = ""

# A run that takes longer hangs: none of these needs ten seconds.
LIMIT = 120


def golden(*path):
    return os.path.join(GOLDEN, *path)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def config(name="t0", **changes):
    """A golden model's config; a key changed to `...` is left out."""
    return edited(read_json(golden(name, "config.json")), changes)


def recipe(**changes):
    """The recipe of the golden models."""
    return edited(read_json(golden("recipe.json")), changes)


def edited(values, changes):
    values = {**values, **changes}
    return {key: value for key, value in values.items() if value is not ...}


def run(command, **options):
    """The finished process; its text is captured. A hang is a failure."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT, **options)


class Case(unittest.TestCase):
    """A test with a folder of its own. Equal requests of a class share a binary."""
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="cleave-cases-")
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        cls.binaries = {}

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="cleave-case-")
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.count = 0

    def path(self, name):
        return os.path.join(self.work, name)

    def fresh(self, stem, ending=""):
        self.count += 1
        return self.path(f"{stem}-{self.count}{ending}")

    def written(self, value, stem="file"):
        """A JSON file holding `value`."""
        path = self.fresh(stem, ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    def tokens(self, ids, name="tokens.bin", width=2):
        """A raw token file."""
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(struct.pack(f"<{len(ids)}{'BH?I'[width - 1]}", *ids))
        return path

    def compile_command(self, model, ranks=1, pins=None, recipe_values=None, extra=()):
        """Without pins and without a plan all ranks are data parallel; with `pins` SEARCHED the
        compiler chooses."""
        if pins is None and "--plan" not in extra:
            pins = f"dp={ranks}"
        command = [CLEAVE, "compile", model if isinstance(model, str) else self.written(model),
                   "--recipe", self.written(recipe() if recipe_values is None else recipe_values),
                   "--cluster", f"local:{ranks}", *extra]
        return command + (["--pin", pins] if pins not in (None, SEARCHED) else [])

    def compiled(self, model, ranks=1, pins=None, recipe_values=None, extra=()):
        """Path of a training binary."""
        request = json.dumps([model, ranks, pins, recipe_values, extra])
        if request in self.binaries:
            return self.binaries[request]
        binary = os.path.join(self.shared, f"train-{len(self.binaries)}")
        command = self.compile_command(model, ranks, pins, recipe_values, extra) + ["-o", binary]
        done = run(command)
        self.assertEqual(done.returncode, 0, f"{' '.join(command)}\n{done.stderr}{done.stdout}")
        self.binaries[request] = binary
        return binary

    def train(self, binary, data, steps, *flags, code=0, log=None):
        """The logged steps of a run that ends with `code`, and what it said."""
        log = log or self.fresh("log", ".jsonl")
        command = [binary, "--data", data, "--steps", str(steps), "--log", log, *flags]
        done = run(command)
        self.assertEqual(done.returncode, code, f"{' '.join(command)}\n{done.stderr}{done.stdout}")
        return read_log(log), done.stderr

    def golden_run(self, model, steps, *flags, layout="1", recipe_values=None, **options):
        """The steps of a golden model, from its weights, under RANKS[:PINS]."""
        ranks, _, pins = layout.partition(":")
        binary = self.compiled(golden(model, "config.json"), ranks, pins, recipe_values)
        return self.train(binary, golden(model, "tokens.bin"), steps, "--init",
                          golden(model, "model.safetensors"), *flags, **options)[0]

    def assertNear(self, got, want, tolerance, what=""):
        """Two tensors, (shape, values), element by element."""
        self.assertEqual(got[0], want[0], what)
        worst = max(map(lambda a, b: abs(a - b) if a == a and b == b else math.inf, got[1], want[1]))
        self.assertTrue(worst <= tolerance, f"{what}: differs by {worst}")

    def refused(self, command, kind, code=2, *, says=()):
        """Runs a command that must be refused and hands back the error.

        A refusal names its kind, the rule and a value that would work, and every
        text of `says` appears in it.
        """
        done = run([*command, "--json"])
        what = f"{' '.join(command)}\n{done.stderr}{done.stdout}"
        self.assertEqual(done.returncode, code, what)
        text = done.stdout if command[0] == CLEAVE else done.stderr.strip().splitlines()[-1]
        error = json.loads(text)["error"]
        self.assertEqual(error["kind"], kind, what)
        self.assertTrue(error["message"], what)
        for part in says:
            self.assertIn(str(part), json.dumps(error, ensure_ascii=False), what)
        return error

    def refused_compile(self, kind, model, ranks=1, pins=None, recipe_values=None, extra=(), **checks):
        """A refused compilation; it leaves no binary behind."""
        binary = self.fresh("refused")
        command = self.compile_command(model, ranks, pins, recipe_values, extra)
        error = self.refused([*command, "-o", binary], kind, **checks)
        self.assertFalse(os.path.exists(binary))
        return error

    def assertSteps(self, got, want, loss=0.0, norm=0.0):
        """Losses within an absolute, norms within a relative tolerance."""
        self.assertEqual([r["step"] for r in got], [r["step"] for r in want])
        for a, b in zip(got, want):
            difference = abs(a["loss"] - b["loss"])
            self.assertTrue(difference <= loss, f"step {a['step']}: {a['loss']} {b['loss']}")
            ratio = abs(a["grad_norm"] / b["grad_norm"] - 1) if b["grad_norm"] else a["grad_norm"]
            self.assertTrue(ratio <= norm, f"step {a['step']}: {a['grad_norm']} {b['grad_norm']}")


def read_rows(path, key):
    """The lines of a log that have a key, in order."""
    with open(path, encoding="utf-8") as file:
        return [row for row in map(json.loads, file) if key in row]


def read_log(path):
    """The steps of a log, in order."""
    return read_rows(path, "loss")


def read_safetensors(path):
    """name → (shape, array of float32)."""
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = array.array("f")
        values.frombytes(data[8 + size + begin:8 + size + end])
        tensors[name] = (entry["shape"], values)
    return tensors


def read_checkpoint(folder):
    """(kind, name) → (shape, array of float32), put together from the pieces."""
    body = read_json(os.path.join(folder, "manifest.json"))["body"]
    shards = [read_safetensors(os.path.join(folder, shard["file"])) for shard in body["shards"]]
    tensors = {}
    for tensor in body["tensors"]:
        shape = tensor["shape"]
        whole = array.array("f", [math.nan]) * math.prod(shape)
        for piece in tensor["pieces"]:
            _, values = shards[piece["shard"]][piece["key"]]
            place(whole, shape, values, piece["offset"], piece["extent"])
        tensors[tensor["kind"], tensor["name"]] = (shape, whole)
    return tensors


def place(whole, shape, values, offset, extent):
    """Puts a block into a tensor, a row of the last dimension at a time."""
    row = extent[-1]
    for number, index in enumerate(itertools.product(*map(range, extent[:-1]))):
        at = 0
        for size, start, i in zip(shape, offset, index):
            at = at * size + start + i
        at = at * shape[-1] + offset[-1]
        whole[at:at + row] = values[number * row:(number + 1) * row]


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [offset, offset + 4 * len(values)]}
        offset += 4 * len(values)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            file.write(values.tobytes())
    return path


def llama(**sizes):
    """A small Llama config with no key left to chance."""
    return {"model_type": "llama", "hidden_size": 24, "intermediate_size": 51,
            "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 6, "vocab_size": 97, "max_position_embeddings": 64,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
            "hidden_act": "silu", "initializer_range": 0.1, **sizes}


def random_ids(vocabulary, count, seed=1):
    numbers = random.Random(seed)
    return [numbers.randrange(vocabulary) for _ in range(count)]


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

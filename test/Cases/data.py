"""Cases H01 and H03: token files that do not fit the model, or themselves."""
import json
import os
import struct
import subprocess
import time

import harness
from harness import llama


class TokenFiles(harness.Case):
    def command(self, data, *flags, vocabulary=97):
        binary = self.compiled(llama(vocab_size=vocabulary), 1, None,
                               harness.recipe(sequence_length=8, global_batch=1))
        return [binary, "--data", data, "--steps", "1", *flags]

    def bytes(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def test_h01_width_against_vocabulary(self):
        narrow = self.tokens([4464, 1, 2, 3] * 5, "narrow.bin")
        self.refused(self.command(narrow, vocabulary=128256), "data.width_too_small",
                     says=["16", "128256", narrow])
        wide = self.tokens([70000, 1, 128255, 3] * 5, "wide.bin", width=4)
        done = harness.run(self.command(wide, "--token-bits", "32", vocabulary=128256))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_h01_writer_refuses(self):
        text = self.bytes("text.txt", b"abc")
        out = self.path("out.bin")
        self.refused([harness.CLEAVE, "tokens", text, "-o", out, "--end-of-document", "70000"],
                     "usage.bad_value", says=["70000", "65535"])
        self.assertFalse(os.path.exists(out))

    def test_ids_beyond_the_vocabulary(self):
        data = self.tokens([1] * 5 + [97] + [1] * 12)
        error = self.refused(self.command(data), "data.token_out_of_range", says=[data, "97", "5"])
        self.assertTrue(error["rule"])

    def test_h03_cut_files(self):
        cut = self.bytes("cut.bin", struct.pack("<20I", *range(20)) + b"ab")
        self.refused(self.command(cut, "--token-bits", "32"), "data.truncated", says=[cut, "82"])
        self.refused(self.command(self.bytes("odd.bin", b"\1\0" * 20 + b"\1")), "data.truncated",
                     says=["41"])
        self.refused(self.command(self.bytes("empty.bin", b"")), "data.empty", says=["empty.bin"])
        short = self.tokens([1] * 8, "short.bin")
        self.refused(self.command(short), "data.too_short", says=[short, "8", "9"])
        done = harness.run(self.command(self.tokens([1] * 9, "exact.bin")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(self.command(self.path("absent.bin")), "file.read_failed",
                     says=["absent.bin"])

    def test_h03_files_that_are_cut_while_they_are_read(self):
        """The pages of a mapping go; the run ends with a word, and not by a signal."""
        data = self.tokens(harness.random_ids(97, 20000))
        for ranks, pins in ((1, None), (2, "dp=2,zero=3,overlap=1")):
            binary = self.compiled(llama(), ranks, pins, harness.recipe(sequence_length=8, global_batch=2))
            log = self.fresh("log")
            process = subprocess.Popen([binary, "--data", data, "--steps", "10000000", "--log", log,
                                        "--json"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       stdout=subprocess.DEVNULL, text=True)
            self.addCleanup(process.kill)
            deadline = time.monotonic() + harness.LIMIT
            while not os.path.exists(log) or os.path.getsize(log) < 1000:
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(process.poll())
            os.truncate(data, 0)
            said = process.communicate(timeout=harness.LIMIT)[1]
            self.assertEqual(process.returncode, 2, said)
            error = json.loads(said.strip().splitlines()[-1])["error"]
            self.assertEqual(error["kind"], "file.read_failed")
            self.assertIn("lost some of its 40000 bytes", error["message"])
            self.assertTrue(error["given"] and error["rule"] and error["suggestions"], error)
            self.tokens(harness.random_ids(97, 20000))

    def index(self, lengths, offsets):
        """A Megatron index of 16-bit sequences."""
        return (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1)
                + struct.pack(f"<{len(lengths)}i", *lengths)
                + struct.pack(f"<{len(offsets)}q", *offsets)
                + struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1)))

    def test_h03_index_of_other_data(self):
        data = self.tokens([1] * 30, "pair.bin")
        self.bytes("pair.idx", self.index([10, 20], [0, 20]))
        done = harness.run(self.command(data))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.bytes("pair.idx", self.index([10, 40], [0, 20]))
        self.refused(self.command(data), "data.index_mismatch", says=["60", "100"])
        self.bytes("pair.idx", self.index([10, 20], [0, 20])[:-9])
        self.refused(self.command(data), "data.truncated", says=["pair.idx"])


if __name__ == "__main__":
    harness.main()

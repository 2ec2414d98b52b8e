"""Cases G: what published config.json files say and leave out. Counts are those of their publishers."""
import json
import math
import os

import harness
from harness import config, llama, read_json

CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Frontend", "configs")


def published(name, **changes):
    return harness.edited(read_json(os.path.join(CONFIGS, name + ".json")), changes)


class Families(harness.Case):
    def inspected(self, model):
        done = harness.run([harness.CLEAVE, "inspect", self.written(model), "--json"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def check_totals(self, **totals):
        for name, total in totals.items():
            name = name.replace("__", ".").replace("_", "-")
            self.assertEqual(self.inspected(published(name))["parameters"], total, name)

    def layers(self, model):
        """For each layer of a model its kind, in order."""
        kinds = {}
        for layer in self.inspected(model)["layers"]:
            for first, last in layer["spans"]:
                kinds.update((i, layer["kind"]) for i in range(first, last + 1))
        return [kinds[i] for i in range(len(kinds))]

    def sparse(self, model):
        return [i for i, kind in enumerate(self.layers(model)) if kind == "sparse"]

    def test_g01_explicit_head_widths(self):
        self.check_totals(qwen3_0__6b=596049920, gemma_7b=8537680896, gpt_oss_20b=20914757184)
        done = harness.run(self.compile_command(published("qwen3-0.6b")) + ["--emit=nn"])
        self.assertRegex(done.stdout, r"q_proj.weight\".*file_shape = array<i64: 2048, 1024>")

    def test_g05_sizes_of_the_text_part(self):
        model = published("qwen3-vl-30b-a3b")
        found = self.inspected(model)
        self.assertEqual(found["parameters"], 30532122624)
        self.assertEqual((found["sizes"]["num_experts"], found["sizes"]["num_experts_per_tok"]), (128, 8))
        self.assertEqual([layer["kind"] for layer in found["layers"]], ["sparse"])
        (note,) = [note for note in found["notes"] if "text_config" in note]
        self.assertIn("not compiled", note)
        self.assertIn("vision_config", found["unused_keys"])
        # The type of the whole is that of the part, unless the part says otherwise.
        del model["text_config"]["dtype"]
        self.assertEqual(self.inspected(model)["defaults"]["dtype"], "float32")
        model["torch_dtype"] = "bfloat16"
        self.assertNotIn("dtype", self.inspected(model)["defaults"])

    def test_g08_spellings_of_experts(self):
        for name, *sizes in (("mixtral-8x7b", 8, 2, 14336), ("qwen3-30b-a3b", 128, 8, 768),
                             ("deepseek-v3", 256, 8, 2048), ("gpt-oss-20b", 32, 4, 2880),
                             ("kimi-k2", 384, 8, 2048), ("dbrx", 16, 4, 10752),
                             ("llama-4-scout", 16, 1, 8192), ("gemma-4-26b-a4b", 128, 8, 704),
                             ("minimax-m2.5", 256, 8, 1536)):
            found = self.inspected(published(name))["sizes"]
            keys = ("num_experts", "num_experts_per_tok", "moe_intermediate_size")
            self.assertEqual([found[key] for key in keys], sizes, name)
        self.assertEqual(self.inspected(published("deepseek-v3"))["sizes"]["n_shared_experts"], 1)
        self.check_totals(mixtral_8x7b=46702792704, qwen3_30b_a3b=30532122624,
                          kimi_k2=1026408232448, dbrx=131596523520, llama_4_scout=107769861120)
        # A spelling of another family is not taken for a size, and not passed over either.
        found = self.inspected(published("mixtral-8x7b", num_experts=4))
        self.assertEqual(found["sizes"]["num_experts"], 8)
        self.assertIn("num_experts", found["unused_keys"])
        self.assertTrue(any('"num_experts"' in note for note in found["notes"]), found["notes"])

    def test_g09_which_layers_are_sparse(self):
        four = published("qwen3-30b-a3b", num_hidden_layers=4, decoder_sparse_step=2)
        self.assertEqual(self.sparse(four), [1, 3])
        self.assertEqual(self.sparse({**four, "mlp_only_layers": [3]}), [1])
        self.assertEqual(self.sparse(published("deepseek-v3")), list(range(3, 61)))
        self.assertEqual(len(self.sparse(published("llama-4-maverick"))), 24)
        self.assertEqual(len(self.layers(published("llama-4-maverick"))), 48)

    def test_g11_older_names(self):
        self.check_totals(gpt2=124439808, bloom_176b=176247271424, falcon_40b=41303293952,
                          mpt_7b=6649286656, opt_350m=331196416)
        self.refused([harness.CLEAVE, "inspect", self.written(published("falcon-40b", n_head=64))],
                     "config.conflict", says=["n_head", "num_attention_heads", 64, 128])

    def test_g12_quantized_files(self):
        """Training from scratch goes on with a notice; packed weights are not taken for numbers."""
        model = published("gpt-oss-20b")
        done = harness.run(self.compile_command(model, 8, "tp=8", {"sequence_length": 64},
                                                ["--dump-phases", self.path("phases"), "--emit=grad"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        (note,) = [n for n in self.inspected(model)["notes"] if "quantization_config" in n]
        self.assertIn("training from scratch ignores it", note)
        binary = self.compiled(harness.golden("gpt-oss-mini", "config.json"))
        name = "model.layers.0.mlp.experts.gate_up_proj"
        experts, _, columns = harness.read_safetensors(
            harness.golden("gpt-oss-mini", "model.safetensors"))[name][0]
        # As gpt-oss stores a stack of experts, and as DeepSeek would.
        for parts in ({name + "_blocks": ("U8", [experts, columns, 2, 16]),
                       name + "_scales": ("U8", [experts, columns, 2])},
                      {name: ("F8_E4M3", [experts, 64, columns])}):
            weights = self.replaced(harness.golden("gpt-oss-mini", "model.safetensors"), name, parts)
            error = self.refused([binary, "--data", harness.golden("gpt-oss-mini", "tokens.bin"),
                                  "--steps", "1", "--init", weights],
                                 "import.quantized_unsupported", says=[name, next(iter(parts))])
            self.assertTrue(error["given"] and error["rule"] and error["suggestions"], error)

    def replaced(self, path, name, parts):
        """The file with a tensor in other parts, of 8 bits an element."""
        tensors = harness.read_safetensors(path)
        del tensors[name]
        header, body = {}, b""
        for key, (shape, values) in tensors.items():
            header[key] = {"dtype": "F32", "shape": shape,
                           "data_offsets": [len(body), len(body) + 4 * len(values)]}
            body += values.tobytes()
        for key, (dtype, shape) in parts.items():
            size = math.prod(shape)
            header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + size]}
            body += bytes(size)
        text = json.dumps(header).encode()
        out = self.path("weights.safetensors")
        with open(out, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + body)
        return out

    def test_g13_structure_that_no_key_tells(self):
        """Qwen2 has biases on queries, keys and values, and none on the output."""
        self.check_totals(qwen2__5_7b_instruct=7615616512)
        sizes = llama(model_type="qwen2", num_hidden_layers=2, head_dim=...)
        model = {key: value for key, value in sizes.items() if value is not ...}
        without = self.inspected({**model, "model_type": "llama"})["parameters"]
        self.assertEqual(self.inspected(model)["parameters"] - without, 2 * (24 + 12 + 12))
        self.assertEqual(7615616512 - 28 * (3584 + 512 + 512), 7615487488)

    def test_g15_latent_attention(self):
        self.check_totals(deepseek_v3=671026419200, deepseek_v2_lite=15706484224,
                          deepseek_v2=235741434880)
        lite = published("deepseek-v2-lite")
        self.assertIsNone(lite["q_lora_rank"])
        found = self.inspected(published("deepseek-v3"))
        # Keys of every head come out of 512 numbers a token, whatever the number of key heads.
        self.assertIn("num_key_value_heads", found["unused_keys"])
        self.assertEqual(found["sizes"]["kv_lora_rank"], 512)
        # 58 layers have 256 corrections of a router's scores.
        (sparse,) = [layer for layer in found["layers"] if layer["kind"] == "sparse"]
        matrices = sparse["parameters_per_layer"] - 256
        self.assertEqual(found["parameters"] - 58 * matrices - 3 * found["layers"][0]["parameters_per_layer"]
                         - 2 * 129280 * 7168 - 7168, 14848)


if __name__ == "__main__":
    harness.main()

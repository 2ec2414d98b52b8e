# How lit runs our tests: each .mlir file, in the shell syntax of its RUN lines.

import os

import lit.formats
from lit.llvm import llvm_config

config.name = "Cleave"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".test"]
# Folders of data, and of sources that are tested by programs of their own.
config.excludes = ["Inputs", "Unit", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.cleave_binary_dir, "test")

llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.use_default_substitutions()
llvm_config.add_tool_substitutions(["cleave", "cleave-opt", "cleave-lsp-server"], [config.cleave_tools_dir])
config.substitutions.append(("%plugins", config.cleave_plugins_dir))
# Stand-ins for NVIDIA's libraries, and the path that programs are found on.
config.substitutions.append(("%double", os.path.join(config.test_exec_root, "Cuda", "Double", "lib")))
config.substitutions.append(("%{path}", config.environment["PATH"]))

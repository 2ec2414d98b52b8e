#!/bin/bash
# new-pass.sh COPY CLEAVE_OPT TBLGEN: starts a pass in a copy of the tree, shows
# what was written, then compiles the pass as a plugin and puts the test that was
# made for it through cleave-opt and FileCheck.
set -euo pipefail
copy=$1 tool=$(command -v "$2") tblgen=$(command -v "$3")
root=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$(dirname "$tool")/.." && pwd)
include=$(dirname "$tblgen")/../include

rm -rf "$copy"
mkdir -p "$copy"
for folder in include lib dialects scripts; do
  cp -r "$root/$folder" "$copy/$folder"
done
cd "$copy"

echo "== made"
scripts/new-pass Sharding drop-idle-reshards "Drops reshards that change nothing."
for file in include/cleave/Transforms/Sharding/{Passes.td,Sharding.h} \
  lib/Transforms/Sharding/CMakeLists.txt; do
  echo "== $file"
  diff "$root/$file" "$file" || true
done
for file in lib/Transforms/Sharding/DropIdleReshards.cpp \
  test/Transforms/Sharding/drop-idle-reshards.mlir; do
  echo "== $file"
  cat "$file"
done
cp "$root/.clang-format" .
clang-format-22 --dry-run -Werror lib/Transforms/Sharding/DropIdleReshards.cpp \
  include/cleave/Transforms/Sharding/Sharding.h

echo "== compiled"
mkdir -p made/lib/Transforms/Sharding
"$tblgen" -gen-pass-decls -name Sharding -I"$include" include/cleave/Transforms/Sharding/Passes.td \
  -o made/lib/Transforms/Sharding/Passes.h.inc
clang++-22 -std=c++20 -fPIC -shared -Wall -Wextra -Wno-unused-parameter -Werror -I. -Imade \
  -Iinclude -I"$build" -isystem "$include" "$root/test/Scripts/Inputs/Plugin.cpp" -o NewPass.so
run="$tool --load-pass-plugin=./NewPass.so --pass-pipeline=builtin.module(cleave-sharding-drop-idle-reshards)"
test=test/Transforms/Sharding/drop-idle-reshards.mlir
$run $test | FileCheck $test && echo "its test passes"
if $tool $test | FileCheck $test 2>/dev/null; then
  echo "its test passes without the pass"
fi

//===- BuildImageTest.cpp - The exec dialect as an image -------------------===//
//
// One program with every operator of exec, and the lines of the image that they
// become.
//
//===----------------------------------------------------------------------===//

#include "cleave/Target/Image/Image.h"
#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

const char *const kProgram = R"mlir(
  dist.mesh @mesh ["data", "tensor"] = [2, 3]
  exec.program on @mesh {
    exec.segment "weights" 512
    exec.segment "arena" 4096
    exec.group "tensor" ["tensor"]
    exec.group "all" ["data", "tensor"]
    exec.exchange tokens <arena + 0, 32>
    exec.exchange targets <arena + 32, 32>
    exec.exchange loss <arena + 64, 4>
    exec.exchange objective <arena + 68, 4>
    exec.table "halves" <arena + 128, 8> dense<[1.0, 0.5]> : tensor<2xf32>
    exec.table "ids" <arena + 136, 4> dense<-7> : tensor<1xi32>
    exec.rank_index <arena + 140, 4> along ["tensor"] times 3
    exec.state "embed" shape [7, 2] file [14] sharding <[[tensor], []]> decay
      mean 0.0 std 0.02 value <weights + 0, 24> aliases ["head"]
    exec.state "layers.{1..5}.up" layers [1, 3, 2] shape [4] file [2, 2] sharding <[[]]>
      mean 1.0 std 0.0 value <weights + 64, 16 step 64> gradient <weights + 320, 16 step -64>
    exec.entry update {
      exec.zero "z" <weights + 0, 512>
    }
    exec.entry microbatch {
      exec.copy "c" <weights + 0, 64> to <arena + 256, 64>
      exec.all_reduce "r" f32 <weights + 0, 64> to <weights + 0, 64> max on "all" bytes 64
      exec.repeat "layers" 3 layers [5, -2] {
        exec.launch "layers.*/up" @up(<weights + 64, 16 step 64>, <arena + 320, 16 step -16>)
          extent 4 grain 2 bytes 32 flops 4
        exec.matmul "layers.*/k" <weights + 0, 64> [2, 1] by <weights + 64, 64> [2, 1]
          add to <arena + 512, 64> [2, 1] sizes [2, 2, 2] batch [[2, 4, 0, 4], [2, 8, 8, 8]]
      }
      exec.all_gather "g" bf16 <weights + 0, 12> to <weights + 64, 28> cut [1, 7, 2] on "tensor"
      exec.reduce_scatter "s" i64 <weights + 64, 56> to <weights + 0, 24> sum cut [1, 7, 1]
        on "tensor"
      exec.slice "l" i32 <weights + 64, 56> to <weights + 0, 24> cut [1, 7, 2] on "tensor"
      exec.all_to_all "t" f32 <weights + 0, 56> to <weights + 64, 48> cut [1, 7, 1, 4, 1]
        split_first on "tensor"
      exec.all_to_all "u" f32 <weights + 64, 48> to <weights + 0, 56> cut [1, 7, 1, 4, 1]
        on "tensor"
    }
  }
  func.func @up(%x: tensor<4xf32>, %y: tensor<4xf32>) {
    return
  }
)mlir";

const char *const kLines[] = {
    R"("mesh": [{"name": "data", "size": 2}, {"name": "tensor", "size": 3}])",
    R"("data_axes": [0])",
    R"({"name": "weights", "bytes": 512})",
    R"({"name": "embed", "aliases": ["head"], "file_shape": [14], "shape": [7, 2], "axes": [[1], []], "decay": true, "init": {"mean": 0.0, "std": 0.02}, "value": [0, 0, 24]})",
    R"({"name": "layers.1.up", "file_shape": [2, 2], "shape": [4], "axes": [[]], "decay": false, "init": {"mean": 1.0, "std": 0.0}, "value": [0, 64, 16], "gradient": [0, 320, 16]})",
    R"({"name": "layers.3.up", "file_shape": [2, 2], "shape": [4], "axes": [[]], "decay": false, "init": {"mean": 1.0, "std": 0.0}, "value": [0, 128, 16], "gradient": [0, 256, 16]})",
    R"({"name": "layers.5.up", "file_shape": [2, 2], "shape": [4], "axes": [[]], "decay": false, "init": {"mean": 1.0, "std": 0.0}, "value": [0, 192, 16], "gradient": [0, 192, 16]})",
    R"("exchange": {"tokens": [1, 0, 32], "targets": [1, 32, 32], "loss": [1, 64, 4], "objective": [1, 68, 4]})",
    R"({"name": "halves", "type": "f32", "region": [1, 128, 8], "values": [1.0, 0.5]})",
    R"({"name": "ids", "type": "i32", "region": [1, 136, 4], "values": [-7.0]})",
    R"({"name": "rank index × 3", "type": "i32", "region": [1, 140, 4], "block_start": {"axes": [1], "scale": 3}})",
    "\"groups\": [\n  [1],\n  [0, 1]\n]",
    R"({"op": "zero", "label": "z", "region": [0, 0, 512]})",
    R"({"op": "copy", "label": "c", "source": [0, 0, 64], "target": [1, 256, 64]})",
    R"({"op": "all_reduce", "label": "r", "group": 1, "reduction": "max", "type": "f32", "source": [0, 0, 64], "target": [0, 0, 64], "bytes": 64.0})",
    R"({"op": "repeat", "label": "layers", "count": 3, "first_layer": 5, "layer_step": -2, "body": [)",
    R"({"op": "kernel", "label": "layers.*/up", "symbol": "up", "args": [[0, 64, 16, 64], [1, 320, 16, -16]], "extent": 4, "grain": 2, "bytes": 32.0, "flops": 4.0})",
    R"({"op": "matmul", "label": "layers.*/k", "a": {"region": [0, 0, 64], "row": 2, "column": 1}, "b": {"region": [0, 64, 64], "row": 2, "column": 1}, "c": {"region": [1, 512, 64], "row": 2, "column": 1}, "m": 2, "n": 2, "k": 2, "batch": [[2, 4, 0, 4], [2, 8, 8, 8]], "accumulate": true})",
    R"({"op": "all_gather", "label": "g", "group": 0, "type": "bf16", "outer": 1, "full": 7, "inner": 2, "source": [0, 0, 12], "target": [0, 64, 28]})",
    R"({"op": "reduce_scatter", "label": "s", "reduction": "sum", "group": 0, "type": "i64", "outer": 1, "full": 7, "inner": 1, "source": [0, 64, 56], "target": [0, 0, 24]})",
    R"({"op": "slice", "label": "l", "group": 0, "type": "i32", "outer": 1, "full": 7, "inner": 2, "source": [0, 64, 56], "target": [0, 0, 24]})",
    R"({"op": "all_to_all", "label": "t", "group": 0, "type": "f32", "outer": 1, "first": 7, "middle": 1, "second": 4, "inner": 1, "split_first": true, "source": [0, 0, 56], "target": [0, 64, 48]})",
    R"({"op": "all_to_all", "label": "u", "group": 0, "type": "f32", "outer": 1, "first": 7, "middle": 1, "second": 4, "inner": 1, "split_first": false, "source": [0, 64, 48], "target": [0, 0, 56]})",
};

class BuildImageTest : public testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<exec::ExecDialect, dist::DistDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(kProgram, &context);
    ASSERT_TRUE(module);
    settings.recipe = rt::JsonValue::object();
    settings.dataAxes = {"data"};
    settings.globalBatch = 4;
    settings.microBatch = 1;
    settings.sequence = 8;
    settings.vocabulary = 7;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ImageSettings settings;
};

TEST_F(BuildImageTest, EveryOperatorBecomesALine) {
  auto image = buildImage(*module, settings);
  ASSERT_TRUE(image.ok()) << image.status().error().message;
  std::string text = rt::toImageText(image->image);
  for (const char *line : kLines)
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
}

TEST_F(BuildImageTest, KernelsMoveToTheImage) {
  auto image = buildImage(*module, settings);
  ASSERT_TRUE(image.ok()) << image.status().error().message;
  EXPECT_TRUE(image->kernels->lookupSymbol("up"));
  EXPECT_FALSE(module->lookupSymbol("up"));
  EXPECT_EQ(image->image.first().prediction.bytesPerRank, 512 + 4096);
}

TEST_F(BuildImageTest, WhatTheRuntimeRefusesIsRefused) {
  settings.sequence = 16; // twice what the region of the tokens holds
  auto image = buildImage(*module, settings);
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.status().error().kind, "image.exchange");
}

} // namespace
} // namespace cleave

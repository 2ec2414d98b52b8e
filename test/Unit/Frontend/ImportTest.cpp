// The imported graph: it verifies, round-trips, and is laid out as promised.
#include "TestConfigs.h"

#include "dialects/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <map>
#include <set>

using namespace cleave;
using namespace cleave::frontend;
using namespace cleave::frontend::test;
using namespace mlir;

namespace {

class ImportTest : public testing::Test {
protected:
  OwningOpRef<ModuleOp> import(const std::string &name) {
    auto model = readModel(configPath(name));
    EXPECT_TRUE(model.ok());
    return importModel(*model, context);
  }
  static std::string print(ModuleOp module, bool locations = false) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    OpPrintingFlags flags;
    if (locations)
      flags.enableDebugInfo();
    module.print(stream, flags);
    return text;
  }
  MLIRContext context;
};

TEST_F(ImportTest, verifiesAndRoundTrips) {
  for (const char *name : {"t0", "t0-tied", "t0-llama31-rope", "t0-vocab251", "gpt2-mini", "gpt2",
                           "llama-3.2-1b-instruct", "gemma-2b", "gemma-3-27b", "olmo-2-7b",
                           "phi-3-mini-4k", "pythia-70m", "gpt-neox-20b"}) {
    OwningOpRef<ModuleOp> module = import(name);
    ASSERT_TRUE(succeeded(verify(*module))) << name;
    for (bool locations : {false, true}) {
      const std::string text = print(*module, locations);
      OwningOpRef<ModuleOp> again =
          parseSourceString<ModuleOp>(text, ParserConfig(&context, /*verifyAfterParse=*/true));
      ASSERT_TRUE(again) << name;
      EXPECT_EQ(print(*again, locations), text) << name;
    }
  }
}

TEST_F(ImportTest, countsFollowFromTheGraphToo) {
  for (const char *name : {"t0", "t0-tied", "gpt2", "llama-3.1-405b", "gemma-2b", "gemma-3-27b",
                           "olmo-2-7b", "phi-3-mini-4k", "pythia-70m", "gpt-neox-20b"}) {
    auto model = readModel(configPath(name));
    ASSERT_TRUE(model.ok());
    OwningOpRef<ModuleOp> module = importModel(*model, context);
    int64_t elements = 0;
    std::set<std::string> declared, loaded;
    for (auto parameter : module->getOps<nn::ParameterOp>()) {
      elements += parameter.getTensorType().getNumElements() * parameter.getCount();
      EXPECT_EQ(parameter.getDecay(), parameter.getFileShape().size() >= 2);
      declared.insert(parameter.getSymName().str());
    }
    module->walk([&](nn::LoadOp load) { loaded.insert(load.getParameter().str()); });
    EXPECT_EQ(elements, model->parameterCount()) << name;
    EXPECT_EQ(declared, loaded) << name;
  }
}

TEST_F(ImportTest, oneFunctionPerKindAndOneRepeatForAllLayers) {
  OwningOpRef<ModuleOp> module = import("t0");
  std::vector<std::string> kinds;
  for (auto function : module->getOps<func::FuncOp>())
    if (auto kind = function->getAttrOfType<StringAttr>("nn.kind")) {
      EXPECT_TRUE(function.isPrivate());
      kinds.push_back(kind.str());
    }
  EXPECT_EQ(kinds, (std::vector<std::string>{"embed", "block", "head"}));
  auto forward = module->lookupSymbol<func::FuncOp>("forward");
  ASSERT_TRUE(forward);
  EXPECT_EQ(forward->getAttrOfType<StringAttr>("nn.entry").getValue(), "forward");
  std::map<std::string, int64_t> calls;
  forward.walk([&](func::CallOp call) {
    auto repeat = call->getParentOfType<nn::RepeatOp>();
    calls[call.getCallee().str()] += repeat ? repeat.getIterations() : 1;
  });
  EXPECT_EQ(calls, (std::map<std::string, int64_t>{{"embed", 1}, {"block", 4}, {"head", 1}}));
  EXPECT_EQ((*module)->getAttrOfType<StringAttr>("nn.family").getValue(), "llama");
  EXPECT_EQ((*module)->getAttrOfType<IntegerAttr>("nn.vocab").getInt(), 256);
  EXPECT_EQ((*module)->getAttrOfType<IntegerAttr>("nn.max_positions").getInt(), 256);
}

TEST_F(ImportTest, everyOperatorOfAKindHasAPathAndAName) {
  for (const char *name :
       {"t0", "gpt2-mini", "gemma-3-27b", "olmo-2-7b", "phi-3-mini-4k", "pythia-70m"}) {
    OwningOpRef<ModuleOp> module = import(name);
    for (auto function : module->getOps<func::FuncOp>()) {
      if (!function->hasAttr("nn.kind"))
        continue;
      std::set<std::string> paths;
      for (Operation &op : function.front().without_terminator()) {
        auto path = op.getAttrOfType<StringAttr>("nn.path");
        ASSERT_TRUE(path) << name;
        EXPECT_TRUE(paths.insert(path.str()).second) << path.str();
        auto location = dyn_cast<NameLoc>(op.getLoc());
        ASSERT_TRUE(location);
        EXPECT_EQ(location.getName().str(), function.getSymName().str() + "/" + path.str());
      }
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        EXPECT_TRUE(function.getArgAttr(i, "nn.name") || function.getArgAttr(i, "nn.parameter"));
    }
  }
}

TEST_F(ImportTest, aTiedMatrixIsOneParameterLoadedTwice) {
  OwningOpRef<ModuleOp> module = import("t0-tied");
  int loads = 0;
  module->walk(
      [&](nn::LoadOp load) { loads += load.getParameter() == "model.embed_tokens.weight"; });
  EXPECT_EQ(loads, 2);
}

TEST_F(ImportTest, aTiedMatrixIsKnownByTheNameOfTheHeadAsWell) {
  auto aliasesIn = [&](const char *config, const char *parameter) {
    OwningOpRef<ModuleOp> module = import(config);
    ArrayAttr aliases = module->lookupSymbol<nn::ParameterOp>(parameter).getAliasesAttr();
    return aliases ? aliases : ArrayAttr::get(&context, {});
  };
  const ArrayAttr head = ArrayAttr::get(&context, {StringAttr::get(&context, "lm_head.weight")});
  EXPECT_EQ(aliasesIn("t0-tied", "model.embed_tokens.weight"), head);
  EXPECT_EQ(aliasesIn("gpt2", "transformer.wte.weight"), head);
  EXPECT_TRUE(aliasesIn("t0", "model.embed_tokens.weight").empty());
}

TEST_F(ImportTest, anUnscaledGpt2KeepsItsScores) {
  auto model = readEdited("gpt2", [](rt::JsonValue &c) { c.set("scale_attn_weights", false); });
  ASSERT_TRUE(model.ok());
  OwningOpRef<ModuleOp> module = importModel(*model, context);
  int seen = 0;
  module->walk([&](nn::AttentionOp op) {
    ++seen;
    EXPECT_EQ(op.getScale().convertToDouble(), 1.0);
  });
  EXPECT_EQ(seen, 1);
}

/// "full: cap 50; sliding: cap 50 window 4096; logits 30"
std::string boundsOf(ModuleOp module) {
  std::string text;
  module.walk([&](nn::AttentionOp op) {
    text += op->getParentOfType<func::FuncOp>().getSymName().str() + ":";
    if (op.getCap())
      text += " cap " + std::to_string(std::lround(op.getCap()->convertToDouble()));
    if (op.getWindow())
      text += " window " + std::to_string(*op.getWindow());
    text += "; ";
  });
  module.walk([&](nn::SoftCapOp op) {
    text += "logits " + std::to_string(std::lround(op.getCap().convertToDouble()));
  });
  return text;
}

TEST_F(ImportTest, windowsAndCapsAreInTheGraph) {
  auto bounds = [&](const char *config, const std::function<void(rt::JsonValue &)> &edit) {
    auto model = readEdited(config, edit);
    EXPECT_TRUE(model.ok());
    return boundsOf(*importModel(*model, context));
  };
  auto as = [](rt::JsonValue &) {};
  EXPECT_EQ(bounds("gemma-2-27b", as), "sliding: cap 50 window 4096; full: cap 50; logits 30");
  EXPECT_EQ(bounds("gemma-2-27b",
                   [](rt::JsonValue &c) {
                     c.set("attn_logit_softcapping", rt::JsonValue());
                     erase(c, "final_logit_softcapping");
                   }),
            "sliding: window 4096; full:; logits 30");
  EXPECT_EQ(bounds("gemma-3-27b", as), "sliding: window 1024; full:; ");
  EXPECT_EQ(bounds("mistral-7b-v0.1", as), "block: window 4096; ");
  EXPECT_EQ(bounds("llama-3-8b", as), "block:; ");
}

TEST_F(ImportTest, biasesAreAddedWhereTheyExist) {
  auto model = readEdited("t0", [](rt::JsonValue &c) {
    c.set("attention_bias", true);
    c.set("mlp_bias", true);
  });
  ASSERT_TRUE(model.ok());
  OwningOpRef<ModuleOp> module = importModel(*model, context);
  ASSERT_TRUE(succeeded(verify(*module)));
  std::set<std::string> biases;
  module->walk([&](nn::AddOp op) {
    StringRef path = op->getAttrOfType<StringAttr>("nn.path").getValue();
    if (path.ends_with(".bias"))
      biases.insert(path.str());
  });
  EXPECT_EQ(biases, (std::set<std::string>{"attention.q.bias", "attention.k.bias",
                                           "attention.v.bias", "attention.out.bias",
                                           "mlp.gate.bias", "mlp.up.bias", "mlp.down.bias"}));
}

TEST_F(ImportTest, namesOfLayersAreThoseOfFiles) {
  auto model = readModel(configPath("llama-3.1-405b"));
  ASSERT_TRUE(model.ok());
  OwningOpRef<ModuleOp> module = importModel(*model, context);
  std::set<std::string> inGraph, inFiles;
  for (auto parameter : module->getOps<nn::ParameterOp>())
    for (int64_t i = 0; i < parameter.getCount(); ++i)
      inGraph.insert(parameter.getTensorName(i));
  for (const Parameter &parameter : model->parameters)
    inFiles.insert(parameter.name);
  EXPECT_EQ(inGraph, inFiles);
}

TEST_F(ImportTest, depthCostsNothing) {
  auto operations = [&](int64_t layers) {
    auto model =
        readEdited("llama-3.1-405b", [&](rt::JsonValue &c) { c.set("num_hidden_layers", layers); });
    EXPECT_TRUE(model.ok());
    int64_t count = 0;
    importModel(*model, context)->walk([&](Operation *) { ++count; });
    return count;
  };
  EXPECT_EQ(operations(126), operations(4));
}

} // namespace

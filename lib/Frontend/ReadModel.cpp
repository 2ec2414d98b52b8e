//===- ReadModel.cpp - From a file to a model's description ------------------===//

#include "lib/Frontend/Family.h"
#include "runtime/Base/Files.h"
#include "runtime/Base/Suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <span>

namespace cleave::frontend {

using rt::JsonValue;

std::vector<std::string> supportedFamilies() {
  std::vector<std::string> names;
  for (const Family *family : families())
    names.emplace_back(family->modelType);
  return names;
}

/// The model_type of a nested part ("text_config"), to say more in an error.
static std::string nestedType(const JsonValue &root) {
  for (const rt::JsonMember &member : root.members())
    if (const JsonValue *type = member.value.find("model_type"); type && type->isString())
      return fmt::format("\"{}\" has the model_type \"{}\"", member.key, type->string());
  return "";
}

static rt::Error familyMissing(const JsonValue &root, const std::string &file) {
  std::string suggestion = fmt::format("\"model_type\": \"{}\"", families().back()->modelType);
  if (const JsonValue *classes = root.find("architectures"); classes && classes->isArray())
    for (const JsonValue &name : classes->elements())
      for (const Family *family : families())
        if (name.isString() && name.string() == family->className)
          suggestion = fmt::format("\"model_type\": \"{}\"", family->modelType);
  rt::Error error =
      rt::userError("config.missing_key", "\"model_type\" is missing, so the family is unknown")
          .at(root.where(file))
          .withRule(fmt::format("\"model_type\" is at the top of the file and one of {}",
                                fmt::join(supportedFamilies(), ", ")))
          .suggest(std::move(suggestion));
  if (std::string nested = nestedType(root); !nested.empty())
    error.notes.push_back({{}, nested + "; models in parts are not supported"});
  return error;
}

static rt::StatusOr<const Family *> findFamily(const JsonValue &root, const std::string &file) {
  if (!root.isObject())
    return rt::userError("config.wrong_type",
                         fmt::format("the file holds {}, not an object", root.kindName()))
        .at(root.where(file))
        .withRule("a config is one JSON object")
        .suggest(fmt::format("{{\"model_type\": \"{}\", …}}", families().back()->modelType));
  const JsonValue *type = root.find("model_type");
  if (!type || type->isNull())
    return familyMissing(root, file);
  if (!type->isString())
    return rt::userError("config.wrong_type",
                         fmt::format("\"model_type\" is {}, not a string", type->kindName()))
        .at(type->where(file))
        .withGiven(givenText("model_type", *type))
        .withRule("\"model_type\" names the family")
        .suggest(fmt::format("\"{}\"", families().back()->modelType));
  for (const Family *family : families())
    if (family->modelType == type->string())
      return family;
  const std::vector<std::string> names = supportedFamilies();
  rt::Error error =
      rt::userError("config.family_unsupported",
                    fmt::format("models of family \"{}\" are not supported", type->string()))
          .at(type->where(file))
          .withGiven(givenText("model_type", *type))
          .withRule(fmt::format("supported families: {}", fmt::join(names, ", ")));
  if (std::optional<std::string> near = rt::nearestName(type->string(), names))
    error.suggestions.push_back(fmt::format("\"model_type\": \"{}\"", *near));
  else
    error.suggestions.push_back(fmt::format("a model of family {}", fmt::join(names, " or ")));
  error.notes.push_back({{}, "docs/Guides/AddAModelFamily.md tells how to add a family"});
  return error;
}

/// "torch.bfloat16" and "bfloat16" are the same.
static std::string typeText(const JsonValue &value) {
  const std::string &text = value.string();
  return text.starts_with("torch.") ? text.substr(6) : text;
}

static rt::StatusOr<std::string> readStoredType(Config &config) {
  static constexpr std::string_view known[] = {"float32", "float16", "bfloat16", "float64"};
  const JsonValue *old = config.given("torch_dtype"), *modern = config.given("dtype");
  if (!old && !modern) {
    config.noteDefault("dtype", JsonValue("float32"), "neither torch_dtype nor dtype is given");
    config.note("the file does not say in which type its weights are stored; float32 is assumed "
                "(training precision is the recipe's)");
    return std::string("float32");
  }
  if (old && modern && typeText(*old) != typeText(*modern))
    return config.error("config.conflict", "dtype", "\"torch_dtype\" and \"dtype\" differ")
        .withRule("\"torch_dtype\" is the older name of \"dtype\"; if both are given they agree")
        .suggest("remove \"torch_dtype\"")
        .note(givenText("torch_dtype", *old), old->where(config.fileName()));
  const std::string type = typeText(modern ? *modern : *old);
  if (std::ranges::find(known, type) == std::end(known))
    return config
        .error("config.dtype_unknown", modern ? "dtype" : "torch_dtype",
               fmt::format("\"{}\" is no type of weights", type))
        .withRule(fmt::format("it is one of {}", fmt::join(known, ", ")))
        .suggest("\"bfloat16\"");
  return type;
}

rt::StatusOr<ModelDescription> readModelText(const std::string &text, const std::string &file) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const JsonValue root, rt::parseJson(text, {.file = file}));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Family *family, findFamily(root, file));
  std::vector<std::span<const ConfigKey>> tables = family->tables();
  tables.insert(tables.begin(), commonKeys());
  CLEAVE_RT_ASSIGN_OR_RETURN(Config config, Config::read(root, file, std::move(tables)));

  ModelDescription model;
  model.family = family->modelType;
  model.file = file;
  model.configText = text;
  CLEAVE_RT_ASSIGN_OR_RETURN(model.storedType, readStoredType(config));
  CLEAVE_RT_ASSIGN_OR_RETURN(FamilyModel made, family->describe(config));
  model.sizes = made.sizes;
  rt::StatusOr<std::vector<Parameter>> parameters = collectParameters(made.architecture);
  if (!parameters.ok()) {
    rt::Error error = parameters.error();
    error.where = root.where(file);
    return error;
  }
  model.parameters = std::move(*parameters);
  model.layers = summarizeLayers(made.architecture);
  model.defaults = std::move(config.defaults);
  model.unusedKeys = std::move(config.unusedKeys);
  model.notes = std::move(config.notes);
  model.dropouts = std::move(config.dropouts);
  model.window = made.window;
  if (model.window)
    model.notes.push_back(
        fmt::format("attention reaches back {} positions; longer sequences are not "
                    "trained yet",
                    *model.window));
  if (const JsonValue *quantized = root.find("quantization_config");
      quantized && !quantized->isNull())
    model.notes.push_back("\"quantization_config\" says how the published weights are stored; "
                          "training from scratch ignores it");
  model.architecture = std::make_shared<const Architecture>(std::move(made.architecture));
  return model;
}

rt::StatusOr<ModelDescription> readModel(const std::string &path) {
  std::error_code ignored;
  std::filesystem::path file(path);
  if (std::filesystem::is_directory(file, ignored))
    file /= "config.json";
  rt::StatusOr<std::string> text = rt::readWholeFile(file.string());
  if (!text.ok()) {
    rt::Error error = text.error();
    if (error.rule.empty() || !std::filesystem::exists(file, ignored))
      error.rule = "MODEL is a config.json, a folder that holds one, or an .mlir file";
    return error;
  }
  return readModelText(*text, file.string());
}

rt::Status refuseDropout(const ModelDescription &model) {
  if (model.dropouts.empty())
    return rt::Status::success();
  const DropoutKey &first = model.dropouts.front();
  rt::Error error =
      rt::userError("config.dropout_unsupported",
                    fmt::format("\"{}\" is {}, and training with dropout is not supported",
                                first.key, first.probability))
          .at(first.where)
          .withGiven(fmt::format("{} = {}", first.key, first.probability))
          .withRule("dropout is 0, in the config or by the recipe")
          .suggest("\"dropout\": 0 in the recipe trains without it (--set dropout=0)");
  for (const DropoutKey &key : std::span(model.dropouts).subspan(1))
    error.notes.push_back({key.where, fmt::format("\"{}\" is {}", key.key, key.probability)});
  return error;
}

} // namespace cleave::frontend

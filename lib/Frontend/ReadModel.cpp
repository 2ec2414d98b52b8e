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

/// Shown where any family would do.
static constexpr std::string_view kExample = "llama";

std::vector<std::string> supportedFamilies() {
  std::vector<std::string> names;
  for (const Family *family : families())
    names.emplace_back(family->modelType);
  for (const Wrapper &wrapper : wrappers())
    names.emplace_back(wrapper.modelType);
  std::ranges::sort(names);
  return names;
}

/// The model_type of a nested part ("text_config"), to say more in an error.
static std::string nestedType(const JsonValue &root) {
  for (const rt::JsonMember &member : root.members())
    if (const JsonValue *type = member.value.find("model_type"); type && type->isString())
      return fmt::format("\"{}\" has the model_type \"{}\"", member.key, type->string());
  return "";
}

/// The model_type whose class in transformers is called `name`.
static std::optional<std::string_view> typeOfClass(std::string_view name) {
  for (const Family *family : families())
    if (name == family->className)
      return family->modelType;
  for (const Wrapper &wrapper : wrappers())
    if (name == wrapper.className)
      return wrapper.modelType;
  return std::nullopt;
}

static rt::Error familyMissing(const JsonValue &root, const std::string &file) {
  std::string_view likely = kExample;
  if (const JsonValue *classes = root.find("architectures"); classes && classes->isArray())
    for (const JsonValue &name : classes->elements())
      if (name.isString())
        likely = typeOfClass(name.string()).value_or(likely);
  rt::Error error =
      rt::userError("config.missing_key", "\"model_type\" is missing, so the family is unknown")
          .at(root.where(file))
          .withRule(fmt::format("\"model_type\" is at the top of the file and one of {}",
                                fmt::join(supportedFamilies(), ", ")))
          .suggest(fmt::format("\"model_type\": \"{}\"", likely));
  if (std::string nested = nestedType(root); !nested.empty())
    error.notes.push_back({{}, nested + "; the file as a whole has one of its own at the top"});
  return error;
}

static rt::Error familyUnsupported(const JsonValue &type, const std::string &file) {
  const std::vector<std::string> names = supportedFamilies();
  rt::Error error =
      rt::userError("config.family_unsupported",
                    fmt::format("models of family \"{}\" are not supported", type.string()))
          .at(type.where(file))
          .withGiven(givenText("model_type", type))
          .withRule(fmt::format("supported families: {}", fmt::join(names, ", ")))
          .suggest(
              fmt::format("\"model_type\": \"{}\"",
                          rt::nearestName(type.string(), names).value_or(std::string(kExample))));
  error.notes.push_back({{}, "docs/Guides/AddAModelFamily.md tells how to add a family"});
  return error;
}

static const Family *familyOf(std::string_view modelType) {
  auto it = std::ranges::find(families(), modelType, &Family::modelType);
  return it == families().end() ? nullptr : *it;
}

static rt::StatusOr<const JsonValue *> modelType(const JsonValue &root, const std::string &file) {
  if (!root.isObject())
    return rt::userError("config.wrong_type",
                         fmt::format("the file holds {}, not an object", root.kindName()))
        .at(root.where(file))
        .withRule("a config is one JSON object")
        .suggest(fmt::format("{{\"model_type\": \"{}\", …}}", kExample));
  const JsonValue *type = root.find("model_type");
  if (!type || type->isNull())
    return familyMissing(root, file);
  if (!type->isString())
    return rt::userError("config.wrong_type",
                         fmt::format("\"model_type\" is {}, not a string", type->kindName()))
        .at(type->where(file))
        .withGiven(givenText("model_type", *type))
        .withRule("\"model_type\" names the family")
        .suggest(fmt::format("\"{}\"", kExample));
  return type;
}

namespace {
/// The text model that a file describes.
struct TextModel {
  const Family *family = nullptr;
  /// Its keys, wherever they stand in the file.
  JsonValue keys;
  /// Keys beside the part that the part overrides.
  std::vector<UnusedKey> overridden = {};
  std::vector<std::string> notes = {};
};
} // namespace

/// The part with the text model, completed by what stands beside it.
static rt::StatusOr<TextModel> openWrapper(const JsonValue &root, const Wrapper &wrapper,
                                           const std::string &file) {
  const std::string name(wrapper.part);
  const JsonValue *part = root.find(name);
  if (!part || !part->isObject())
    return rt::userError(part ? "config.wrong_type" : "config.missing_key",
                         fmt::format("\"{}\", which describes the text model, is {}", name,
                                     part ? part->kindName() : "missing"))
        .at((part ? *part : root).where(file))
        .withGiven(givenText("model_type", *root.find("model_type")))
        .withRule(
            fmt::format("models of family \"{}\" have an object \"{}\"", wrapper.modelType, name))
        .suggest(fmt::format("\"model_type\": \"{}\", and the keys of the text model beside it",
                             wrapper.textType));
  if (const JsonValue *type = part->find("model_type");
      type && !type->isNull() && !(type->isString() && type->string() == wrapper.textType))
    return rt::userError("config.family_unsupported",
                         fmt::format("a text model of this family inside one of family \"{}\" is "
                                     "not supported",
                                     wrapper.modelType))
        .at(type->where(file))
        .withGiven(givenText(name + ".model_type", *type))
        .withRule(fmt::format("the text model of \"{}\" is a \"{}\"", wrapper.modelType,
                              wrapper.textType))
        .suggest(fmt::format("\"model_type\": \"{}\"", wrapper.textType));
  TextModel text{familyOf(wrapper.textType), *part};
  text.keys.set("model_type", *root.find("model_type"));
  for (const rt::JsonMember &member : root.members()) {
    const JsonValue *own = text.keys.find(member.key);
    if (member.key == name || member.key == "model_type")
      continue;
    if (!own || own->isNull())
      text.keys.set(member.key, member.value);
    else if (!own->sameValue(member.value))
      text.overridden.push_back({member.key, fmt::format("\"{}\" has its own", name)});
  }
  text.notes.push_back(fmt::format("the text model in \"{}\" is what is described; what the file "
                                   "has beside it for other media is not compiled",
                                   name));
  return text;
}

static rt::StatusOr<TextModel> findText(const JsonValue &root, const std::string &file) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const JsonValue *type, modelType(root, file));
  for (const Wrapper &wrapper : wrappers())
    if (wrapper.modelType == type->string())
      return openWrapper(root, wrapper, file);
  if (const Family *family = familyOf(type->string()))
    return TextModel{family, root};
  return familyUnsupported(*type, file);
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

/// What the config said about itself, and what follows for those who read it.
static void takeRemarks(ModelDescription &model, Config &config, TextModel &text) {
  model.defaults = std::move(config.defaults);
  model.unusedKeys = std::move(config.unusedKeys);
  std::ranges::move(text.overridden, std::back_inserter(model.unusedKeys));
  model.notes = std::move(text.notes);
  std::ranges::move(config.notes, std::back_inserter(model.notes));
  model.dropouts = std::move(config.dropouts);
  model.untrained = std::move(config.untrained);
  if (const JsonValue *quantized = text.keys.find("quantization_config");
      quantized && !quantized->isNull())
    model.notes.push_back("\"quantization_config\" says how the published weights are stored; "
                          "training from scratch ignores it");
}

rt::StatusOr<ModelDescription> readModelText(const std::string &text, const std::string &file) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const JsonValue root, rt::parseJson(text, {.file = file}));
  CLEAVE_RT_ASSIGN_OR_RETURN(TextModel chosen, findText(root, file));
  const Family &family = *chosen.family;
  std::vector<std::span<const ConfigKey>> tables = family.tables();
  tables.insert(tables.begin(), commonKeys());
  CLEAVE_RT_ASSIGN_OR_RETURN(Config config, Config::read(chosen.keys, file, std::move(tables)));

  ModelDescription model;
  model.family = root.find("model_type")->string();
  model.file = file;
  model.configText = text;
  CLEAVE_RT_ASSIGN_OR_RETURN(model.storedType, readStoredType(config));
  CLEAVE_RT_ASSIGN_OR_RETURN(FamilyModel made, family.describe(config));
  model.sizes = std::move(made.sizes);
  rt::StatusOr<std::vector<Parameter>> parameters = collectParameters(made.architecture);
  if (!parameters.ok()) {
    rt::Error error = parameters.error();
    error.where = root.where(file);
    return error;
  }
  model.parameters = std::move(*parameters);
  model.layers = summarizeLayers(made.architecture);
  takeRemarks(model, config, chosen);
  assert((!model.untrained.empty() ||
          std::ranges::all_of(made.architecture.kinds,
                              [](const LayerKind &kind) { return bool(kind.graph); })) &&
         "a kind without a graph needs a reason that the config gives");
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

rt::Status refuseUntrained(const ModelDescription &model) {
  if (model.untrained.empty())
    return rt::Status::success();
  rt::Error error = model.untrained.front();
  for (const rt::Error &other : std::span(model.untrained).subspan(1))
    error.notes.push_back({other.where, other.message});
  return error;
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

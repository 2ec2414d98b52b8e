// One file or an index with shards.
#include "runtime/Base/Suggest.h"
#include "runtime/Checkpoint/SafeTensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace cleave::rt {

namespace fs = std::filesystem;

namespace {

Error badIndex(const std::string &message, Where where) {
  return userError("safetensors.index_mismatch", message)
      .at(std::move(where))
      .withRule("the index has a weight_map from each tensor to the file beside it that holds it")
      .suggest("take index and files from one place, or one file model.safetensors");
}

/// tensor → file name, as the index says.
StatusOr<std::map<std::string, std::string>> readWeightMap(const std::string &path) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const JsonValue index, readJsonFile(path));
  const JsonValue *weights = index.find("weight_map");
  if (!weights || !weights->isObject())
    return badIndex(fmt::format("'{}' has no weight_map", path), index.where(path));
  std::map<std::string, std::string> result;
  for (const JsonMember &member : weights->members()) {
    // A name with a folder in it could reach outside the checkpoint.
    if (!member.value.isString() || fs::path(member.value.string()).has_parent_path())
      return badIndex(
          fmt::format("'{}' is not the name of a file beside the index", toString(member.value)),
          member.value.where(path));
    result.emplace(member.key, member.value.string());
  }
  return result;
}

/// What a path given for weights means: a file to open, and whether it is an
/// index.
struct Source {
  std::string path;
  bool isIndex;
};

StatusOr<Source> resolve(const std::string &path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    return Source{path, path.ends_with(".json")};
  const fs::path folder(path);
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(single, ignored))
    return Source{single.string(), false};
  if (fs::exists(index, ignored))
    return Source{index.string(), true};
  return userError("file.read_failed", fmt::format("'{}' has neither model.safetensors nor "
                                                   "model.safetensors.index.json",
                                                   path))
      .at({path})
      .withRule("weights are a .safetensors file, an index of such files, or a folder with either")
      .suggest("name the file itself");
}

} // namespace

StatusOr<TensorCollection> TensorCollection::open(const std::string &path) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const Source source, resolve(path));
  TensorCollection collection;
  if (!source.isIndex) {
    CLEAVE_RT_ASSIGN_OR_RETURN(SafeTensorsFile file, SafeTensorsFile::open(source.path));
    collection.files.push_back(std::move(file));
    return collection;
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto weights, readWeightMap(source.path));
  const fs::path folder = fs::path(source.path).parent_path();
  std::map<std::string, size_t> opened;
  for (const auto &[tensor, fileName] : weights) {
    if (!opened.count(fileName)) {
      CLEAVE_RT_ASSIGN_OR_RETURN(SafeTensorsFile file,
                                 SafeTensorsFile::open((folder / fileName).string()));
      opened.emplace(fileName, collection.files.size());
      collection.files.push_back(std::move(file));
    }
    if (!collection.files[opened.at(fileName)].find(tensor))
      return badIndex(
          fmt::format("tensor '{}' is not in '{}', where the index puts it", tensor, fileName),
          {source.path});
  }
  for (const SafeTensorsFile &file : collection.files)
    for (const TensorEntry &entry : file.tensors())
      if (!weights.count(entry.name) ||
          weights.at(entry.name) != fs::path(file.path()).filename().string())
        return badIndex(fmt::format("tensor '{}' of '{}' is not where the index puts it",
                                    entry.name, file.path()),
                        {source.path});
  return collection;
}

std::optional<TensorCollection::Found> TensorCollection::find(std::string_view name) const {
  for (const SafeTensorsFile &file : files)
    if (const TensorEntry *entry = file.find(name))
      return Found{&file, entry};
  return std::nullopt;
}

std::vector<std::string> TensorCollection::names() const {
  std::vector<std::string> all;
  for (const SafeTensorsFile &file : files)
    for (const TensorEntry &entry : file.tensors())
      all.push_back(entry.name);
  std::ranges::sort(all);
  return all;
}

Status TensorCollection::readBox(std::string_view name, const Box &box,
                                 std::span<float> out) const {
  if (const std::optional<Found> found = find(name))
    return found->file->readBox(*found->entry, box, out);
  Error error = userError("safetensors.missing_tensor", fmt::format("no tensor '{}'", name));
  if (!files.empty())
    error.where.file = files.front().path();
  if (const std::optional<std::string> nearest = nearestName(name, names()))
    error.suggestions.push_back(*nearest);
  return error;
}

} // namespace cleave::rt

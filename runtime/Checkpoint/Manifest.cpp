// Manifest and shard records to JSON and back.
#include "runtime/Checkpoint/Manifest.h"

#include "runtime/Base/Files.h"
#include "runtime/Base/ObjectReader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace cleave::rt {

namespace {

constexpr int64_t formatVersion = 1;
const char *const formatName = "cleave-checkpoint";
const char *const errorPrefix = "checkpoint";

std::string checksumText(uint32_t sum) { return fmt::format("{:08x}", sum); }

uint32_t checksumOf(const std::string &text) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

std::optional<uint32_t> parseChecksum(const std::string &text) {
  uint32_t sum = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
  if (text.size() != 8 || result.ec != std::errc() || result.ptr != text.data() + text.size())
    return std::nullopt;
  return sum;
}

JsonValue listOf(const std::vector<int64_t> &numbers) {
  JsonValue list = JsonValue::array();
  for (int64_t number : numbers)
    list.append(number);
  return list;
}

std::optional<std::vector<int64_t>> numbersOf(const JsonValue::Array *list) {
  if (!list)
    return std::nullopt;
  std::vector<int64_t> numbers;
  for (const JsonValue &value : *list) {
    if (!value.isInteger() || value.integer() < 0)
      return std::nullopt;
    numbers.push_back(value.integer());
  }
  return numbers;
}

JsonValue stateToJson(const RunState &state) {
  JsonValue json = JsonValue::object();
  json.set("step", static_cast<int64_t>(state.step));
  json.set("samples", static_cast<int64_t>(state.samples));
  // A seed may use all 64 bits, which JSON integers here don't.
  json.set("seed", fmt::format("{}", state.seed));
  json.set("ranks", static_cast<int64_t>(state.ranks));
  json.set("recipe", state.recipe);
  json.set("plan_hash", state.planHash);
  json.set("data_digest", state.dataDigest);
  json.set("program", state.program);
  return json;
}

JsonValue tensorsToJson(const std::vector<StoredTensor> &tensors) {
  JsonValue list = JsonValue::array();
  for (const StoredTensor &tensor : tensors) {
    JsonValue json = JsonValue::object();
    json.set("name", tensor.name);
    json.set("kind", nameOf(tensor.kind));
    json.set("shape", listOf(tensor.shape));
    JsonValue pieces = JsonValue::array();
    for (const StoredPiece &piece : tensor.pieces) {
      JsonValue item = JsonValue::object();
      item.set("shard", static_cast<int64_t>(piece.shard));
      item.set("key", piece.key);
      item.set("offset", listOf(piece.box.offset));
      item.set("extent", listOf(piece.box.extent));
      item.set("crc32c", checksumText(piece.checksum));
      pieces.append(std::move(item));
    }
    json.set("pieces", std::move(pieces));
    list.append(std::move(json));
  }
  return list;
}

JsonValue shardToJson(const StoredShard &shard) {
  JsonValue json = JsonValue::object();
  json.set("file", shard.file);
  json.set("bytes", static_cast<int64_t>(shard.bytes));
  return json;
}

/// Reads the parts of a manifest; the first thing that is wrong is kept.
class ManifestReader {
public:
  explicit ManifestReader(std::string path) : path(std::move(path)) {}

  RunState readState(ObjectReader in) {
    RunState state;
    for (const char *key : {"step", "samples", "seed", "ranks", "recipe"})
      in.require(key);
    state.step = static_cast<uint64_t>(in.integer("step", {.min = 0}).value_or(0));
    state.samples = static_cast<uint64_t>(in.integer("samples", {.min = 0}).value_or(0));
    const std::string seed = in.string("seed").value_or("");
    const auto parsed = std::from_chars(seed.data(), seed.data() + seed.size(), state.seed);
    if (parsed.ec != std::errc() || parsed.ptr != seed.data() + seed.size())
      fail("the seed is not a number");
    state.ranks =
        static_cast<uint32_t>(in.integer("ranks", {.min = 1, .max = 1 << 24}).value_or(1));
    if (const JsonValue *recipe = in.raw("recipe"))
      state.recipe = *recipe;
    state.planHash = in.string("plan_hash").value_or("");
    state.dataDigest = in.string("data_digest").value_or("");
    state.program = in.string("program").value_or("");
    absorb(in.finish());
    return state;
  }

  StoredShard readShard(const JsonValue &value) {
    ObjectReader in(value, path, errorPrefix, "shards");
    StoredShard shard;
    in.require("file");
    in.require("bytes");
    shard.file = in.string("file").value_or("");
    shard.bytes = static_cast<uint64_t>(in.integer("bytes", {.min = 0}).value_or(0));
    // The file lies beside the manifest; a path could lead anywhere.
    if (shard.file.find('/') != std::string::npos)
      fail(fmt::format("'{}' is not a file name", shard.file));
    absorb(in.finish());
    return shard;
  }

  std::vector<StoredTensor> readTensors(const JsonValue::Array *list, size_t shards) {
    std::vector<StoredTensor> tensors;
    if (!list)
      fail("the list of tensors is missing");
    else
      for (const JsonValue &value : *list)
        tensors.push_back(readTensor(value, shards));
    return tensors;
  }

  void absorb(const Status &found) {
    if (status.ok() && !found.ok())
      status = found;
  }
  void fail(std::string message) {
    absorb(runError("checkpoint.bad_manifest", std::move(message)).at({path}));
  }
  const Status &result() const { return status; }

private:
  StoredTensor readTensor(const JsonValue &value, size_t shards) {
    ObjectReader in(value, path, errorPrefix, "tensors");
    StoredTensor tensor;
    in.require("name");
    tensor.name = in.string("name").value_or("");
    const std::string kind = in.oneOf("kind", {"param", "moment1", "moment2"}).value_or("param");
    tensor.kind = kind == "param"     ? StateKind::Parameter
                  : kind == "moment1" ? StateKind::FirstMoment
                                      : StateKind::SecondMoment;
    const auto shape = numbersOf(in.list("shape"));
    const JsonValue::Array *pieces = in.list("pieces");
    absorb(in.finish());
    if (!shape || !volumeOf(*shape) || !pieces) {
      fail(fmt::format("tensor '{}' has no shape or no pieces", tensor.name));
      return tensor;
    }
    tensor.shape = *shape;
    for (const JsonValue &piece : *pieces)
      tensor.pieces.push_back(readPiece(piece, tensor, shards));
    return tensor;
  }

  StoredPiece readPiece(const JsonValue &value, const StoredTensor &tensor, size_t shards) {
    ObjectReader in(value, path, errorPrefix, "pieces");
    StoredPiece piece;
    piece.shard =
        static_cast<uint32_t>(in.integer("shard", {.min = 0, .max = 1 << 24}).value_or(0));
    piece.key = in.string("key").value_or("");
    const auto offset = numbersOf(in.list("offset")), extent = numbersOf(in.list("extent"));
    const auto checksum = parseChecksum(in.string("crc32c").value_or(""));
    absorb(in.finish());
    if (offset && extent)
      piece.box = {*offset, *extent};
    if (!offset || !extent || !checksum || !piece.box.isInside(tensor.shape) ||
        piece.shard >= shards)
      fail(fmt::format("a piece of tensor '{}' makes no sense", tensor.name));
    piece.checksum = checksum.value_or(0);
    return piece;
  }

  std::string path;
  Status status;
};

} // namespace

const char *nameOf(StateKind kind) {
  switch (kind) {
  case StateKind::Parameter:
    return "param";
  case StateKind::FirstMoment:
    return "moment1";
  case StateKind::SecondMoment:
    return "moment2";
  }
  return "unknown";
}

std::string toText(const Manifest &manifest) {
  JsonValue body = JsonValue::object();
  body.set("state", stateToJson(manifest.state));
  JsonValue shards = JsonValue::array();
  for (const StoredShard &shard : manifest.shards)
    shards.append(shardToJson(shard));
  body.set("shards", std::move(shards));
  body.set("tensors", tensorsToJson(manifest.tensors));
  JsonValue file = JsonValue::object();
  file.set("format", formatName);
  file.set("version", formatVersion);
  file.set("crc32c", checksumText(checksumOf(toString(body))));
  file.set("body", std::move(body));
  return toString(file, 1) + "\n";
}

StatusOr<Manifest> parseManifest(const std::string &text, const std::string &path) {
  JsonReadOptions options;
  options.file = path;
  StatusOr<JsonValue> json = parseJson(text, options);
  if (!json.ok())
    return runError("checkpoint.bad_manifest", "the manifest is not JSON: " + json.error().message)
        .at(json.error().where);
  ManifestReader reader(path);
  ObjectReader file(*json, path, errorPrefix);
  file.checkVersion(formatVersion);
  if (file.string("format") != formatName)
    reader.fail("this is not a manifest of a checkpoint");
  const auto checksum = parseChecksum(file.string("crc32c").value_or(""));
  const JsonValue *body = file.raw("body");
  reader.absorb(file.finish());
  if (!checksum || !body || checksumOf(toString(*body)) != *checksum)
    reader.fail("the manifest does not match its checksum");
  CLEAVE_RT_RETURN_IF_ERROR(reader.result());

  Manifest manifest;
  ObjectReader in(*body, path, errorPrefix);
  if (auto state = in.object("state"))
    manifest.state = reader.readState(*state);
  else
    reader.fail("the state is missing");
  if (const JsonValue::Array *shards = in.list("shards"))
    for (const JsonValue &shard : *shards)
      manifest.shards.push_back(reader.readShard(shard));
  manifest.tensors = reader.readTensors(in.list("tensors"), manifest.shards.size());
  reader.absorb(in.finish());
  CLEAVE_RT_RETURN_IF_ERROR(reader.result());
  return manifest;
}

Status checkCoverage(const Manifest &manifest, const std::string &path) {
  for (const StoredTensor &tensor : manifest.tensors) {
    auto fail = [&](std::string message) {
      return runError(
                 "checkpoint.incomplete",
                 fmt::format("{} of tensor '{}' {}", nameOf(tensor.kind), tensor.name, message))
          .at({path})
          .withRule("every element is saved exactly once");
    };
    uint64_t covered = 0;
    for (size_t i = 0; i < tensor.pieces.size(); ++i) {
      covered += tensor.pieces[i].box.volume();
      for (size_t j = 0; j < i; ++j)
        if (!tensor.pieces[i].box.empty() && !tensor.pieces[j].box.empty())
          if (const auto common = intersection(tensor.pieces[i].box, tensor.pieces[j].box))
            return fail(fmt::format("is there twice in {}", common->toString()));
    }
    const uint64_t total = *volumeOf(tensor.shape);
    if (covered != total)
      return fail(fmt::format("has {} of its {} elements", covered, total));
  }
  return Status::success();
}

std::string shardRecordText(const StoredShard &shard, const std::vector<StoredTensor> &tensors) {
  JsonValue json = JsonValue::object();
  json.set("shard", shardToJson(shard));
  json.set("tensors", tensorsToJson(tensors));
  return toString(json) + "\n";
}

Status addShardRecord(Manifest &manifest, const std::string &text, const std::string &path) {
  JsonReadOptions options;
  options.file = path;
  CLEAVE_RT_ASSIGN_OR_RETURN(const JsonValue json, parseJson(text, options));
  ManifestReader reader(path);
  ObjectReader in(json, path, errorPrefix);
  const JsonValue *shard = in.raw("shard");
  const auto number = static_cast<uint32_t>(manifest.shards.size());
  if (!shard)
    reader.fail("the record has no shard");
  else
    manifest.shards.push_back(reader.readShard(*shard));
  // A record knows one shard, its own, and calls it 0.
  std::vector<StoredTensor> tensors = reader.readTensors(in.list("tensors"), 1);
  reader.absorb(in.finish());
  CLEAVE_RT_RETURN_IF_ERROR(reader.result());
  for (StoredTensor &tensor : tensors) {
    for (StoredPiece &piece : tensor.pieces)
      piece.shard = number;
    auto same = std::ranges::find_if(manifest.tensors, [&](const StoredTensor &other) {
      return other.kind == tensor.kind && other.name == tensor.name;
    });
    if (same == manifest.tensors.end()) {
      manifest.tensors.push_back(std::move(tensor));
      continue;
    }
    if (same->shape != tensor.shape)
      return internalError(fmt::format("ranks disagree on the shape of '{}'", tensor.name));
    std::ranges::move(tensor.pieces, std::back_inserter(same->pieces));
  }
  return Status::success();
}

} // namespace cleave::rt

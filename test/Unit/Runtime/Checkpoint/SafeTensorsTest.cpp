// The reader believes nothing; the writer is read back bit for bit.
#include "runtime/Checkpoint/SafeTensors.h"

#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

using namespace cleave::rt;

namespace {

std::string fileWith(const std::string &header, size_t dataBytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(dataBytes, '\x3f');
}

class SafeTensors : public ::testing::Test {
protected:
  std::string openKind(const std::string &bytes) {
    EXPECT_TRUE(writeFileAtomically(folder.file("x"), bytes).ok());
    const StatusOr<SafeTensorsFile> file = SafeTensorsFile::open(folder.file("x"));
    return file.ok() ? "" : file.error().kind;
  }
  TemporaryFolder folder;
};

TEST_F(SafeTensors, RefusesEveryDamagedHeader) {
  const char *f32 = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(openKind(fileWith(f32, 8)), "");
  EXPECT_EQ(openKind(fileWith("{}", 0)), "");
  EXPECT_EQ(openKind("short"), "safetensors.truncated");
  EXPECT_EQ(openKind(fileWith(f32, 8).substr(0, 20)), "safetensors.truncated");
  EXPECT_EQ(openKind(std::string(8, '\xFF') + "{}"), "safetensors.bad_header");
  EXPECT_EQ(openKind(fileWith(" {}", 0)), "safetensors.bad_header");
  EXPECT_EQ(openKind(fileWith("{", 0)), "safetensors.bad_header");
  EXPECT_EQ(openKind(fileWith(f32, 7)), "safetensors.bad_offsets");
  EXPECT_EQ(openKind(fileWith(f32, 9)), "safetensors.bad_offsets");
  struct Case {
    const char *header, *kind;
  };
  const Case cases[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "safetensors.bad_offsets"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "safetensors.bad_offsets"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", "safetensors.bad_offsets"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})",
       "safetensors.bad_offsets"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[9223372036854775800,9223372036854775807]}})",
       "safetensors.bad_offsets"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
       "safetensors.bad_header"},
      {R"({"a":{"dtype":"F32","shape":[2305843009213693954],"data_offsets":[0,8]}})",
       "safetensors.bad_header"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "safetensors.bad_header"},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "safetensors.bad_header"},
      {R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", "safetensors.unknown_dtype"},
      {R"({"a":{"dtype":"F4","shape":[15],"data_offsets":[0,8]}})", "safetensors.bad_offsets"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", "safetensors.bad_header"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "safetensors.bad_header"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "safetensors.duplicate_name"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "safetensors.bad_offsets"},
      {R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "safetensors.bad_offsets"},
      {R"({"__metadata__":{"a":1}})", "safetensors.bad_header"},
  };
  for (const Case &c : cases)
    EXPECT_EQ(openKind(fileWith(c.header, 8)), c.kind) << c.header;
}

TEST_F(SafeTensors, EmptyAndScalarTensorsAreAllowed) {
  const char *header = R"({"b":{"dtype":"F32","shape":[0,3],"data_offsets":[4,4]},
    "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},
    "c":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  EXPECT_EQ(openKind(fileWith(header, 8)), "");
}

TEST_F(SafeTensors, MutatedFilesNeverCrash) {
  const std::string good = fileWith(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})",
      22);
  std::mt19937_64 random(99);
  int accepted = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = good;
    for (uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(at + 1);
        break;
      case 2:
        bytes.insert(at, 1, "0123456789[]{}\","[random() % 16]);
        break;
      case 3:
        bytes.erase(at, random() % 3);
        break;
      }
      if (bytes.empty())
        bytes = "x";
    }
    // Not atomically (this is done thousands of times), and not truncated in
    // place, which some file systems answer with a flush.
    std::filesystem::remove(folder.file("fuzz"));
    FILE *out = std::fopen(folder.file("fuzz").c_str(), "wb");
    std::fwrite(bytes.data(), 1, bytes.size(), out);
    std::fclose(out);
    const StatusOr<SafeTensorsFile> file = SafeTensorsFile::open(folder.file("fuzz"));
    if (!file.ok())
      continue;
    ++accepted;
    for (const TensorEntry &entry : file->tensors()) {
      std::vector<float> values(entry.elements());
      const Status read = file->readFloats(entry, 0, values);
      ASSERT_TRUE(read.ok() || read.error().kind == "safetensors.not_float");
    }
  }
  EXPECT_GT(accepted, 20);
}

TEST_F(SafeTensors, WritesWhatItReads) {
  std::vector<float> wide(6), narrow(5);
  std::iota(wide.begin(), wide.end(), 1.5f);
  narrow = {1.0f, -0.0f, 3.14159f, 65504.0f, 1e-30f};
  const std::string path = folder.file("m.safetensors");
  StatusOr<SafeTensorsWriter> writer = SafeTensorsWriter::create(
      path,
      {{"z", FloatType::F32, {2, 3}}, {"half", FloatType::BF16, {5}}, {"e", FloatType::F32, {0}}},
      {{"format", "pt"}}, "export.write_failed");
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ(writer->tensors()[0].name, "e");
  ASSERT_EQ(writer->tensors()[1].name, "z");
  ASSERT_EQ(writer->tensors()[2].name, "half");
  ASSERT_TRUE(writer->append(std::span(wide).first(2)).ok());
  EXPECT_EQ(writer->commit().error().kind, "internal");
  ASSERT_TRUE(writer->append(std::span(wide).subspan(2)).ok());
  ASSERT_TRUE(writer->append(narrow).ok());
  EXPECT_FALSE(writer->append(narrow).ok());
  ASSERT_TRUE(writer->commit().ok());

  const StatusOr<SafeTensorsFile> file = SafeTensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << renderText(file.error());
  EXPECT_EQ(file->metadata().at(0).second, "pt");
  EXPECT_EQ(file->find("missing"), nullptr);
  const TensorEntry *z = file->find("z"), *half = file->find("half");
  ASSERT_TRUE(z && half);
  EXPECT_EQ(writer->checksums()[1], crc32c(file->bytes(*z)));
  std::vector<float> back(6, NAN);
  ASSERT_TRUE(file->readFloats(*z, 0, back).ok());
  EXPECT_EQ(back, wide);
  std::vector<float> column(2, NAN);
  ASSERT_TRUE(file->readBox(*z, {{0, 1}, {2, 1}}, column).ok());
  EXPECT_EQ(column, (std::vector<float>{2.5f, 5.5f}));
  std::vector<float> halves(5, NAN);
  ASSERT_TRUE(file->readFloats(*half, 0, halves).ok());
  for (size_t i = 0; i < 5; ++i)
    EXPECT_LE(std::abs(halves[i] - narrow[i]), std::abs(narrow[i]) / 256) << i;
}

TEST_F(SafeTensors, ConvertsEveryFloatType) {
  EXPECT_EQ(fromBFloat16(toBFloat16(1.0f)), 1.0f);
  EXPECT_TRUE(std::isnan(fromBFloat16(toBFloat16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_EQ(fromBFloat16(toBFloat16(HUGE_VALF)), HUGE_VALF);
  // Ties go to even: 1 + 2^-8 lies halfway between 1 and 1 + 2^-7.
  EXPECT_EQ(fromBFloat16(toBFloat16(1.00390625f)), 1.0f);
  EXPECT_EQ(fromBFloat16(toBFloat16(1.01171875f)), 1.015625f);
  std::string bytes = fileWith(
      R"({"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},"d":{"dtype":"F64","shape":[1],"data_offsets":[12,20]},"i":{"dtype":"I32","shape":[1],"data_offsets":[20,24]}})",
      0);
  const uint16_t halves[] = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0xFC00, 0x8000};
  const double wide = 0.1;
  bytes.append(reinterpret_cast<const char *>(halves), sizeof halves);
  bytes.append(reinterpret_cast<const char *>(&wide), sizeof wide).append(4, '\0');
  ASSERT_TRUE(writeFileAtomically(folder.file("f"), bytes).ok());
  const StatusOr<SafeTensorsFile> file = SafeTensorsFile::open(folder.file("f"));
  ASSERT_TRUE(file.ok()) << renderText(file.error());
  std::vector<float> out(6, NAN);
  ASSERT_TRUE(file->readFloats(*file->find("h"), 0, out).ok());
  EXPECT_EQ(out,
            (std::vector<float>{1.0f, -2.0f, std::ldexp(1.0f, -24), 65504.0f, -HUGE_VALF, -0.0f}));
  ASSERT_TRUE(file->readFloats(*file->find("d"), 0, std::span(out).first(1)).ok());
  EXPECT_EQ(out[0], 0.1f);
  EXPECT_EQ(file->readFloats(*file->find("i"), 0, std::span(out).first(1)).error().kind,
            "safetensors.not_float");
}

void writeOne(const std::string &path, const std::string &name, float value) {
  StatusOr<SafeTensorsWriter> writer =
      SafeTensorsWriter::create(path, {{name, FloatType::F32, {1}}}, {}, "export.write_failed");
  ASSERT_TRUE(writer->append(std::span(&value, 1)).ok());
  ASSERT_TRUE(writer->commit().ok());
}

TEST_F(SafeTensors, ReadsShardedFolders) {
  writeOne(folder.file("model-00001-of-00002.safetensors"), "a", 1);
  writeOne(folder.file("model-00002-of-00002.safetensors"), "b", 2);
  const std::string index = folder.file("model.safetensors.index.json");
  auto withMap = [&](const std::string &map) {
    EXPECT_TRUE(writeFileAtomically(index, "{\"weight_map\": " + map + "}").ok());
    return TensorCollection::open(folder.path());
  };
  const std::string first = "\"model-00001-of-00002.safetensors\"",
                    second = "\"model-00002-of-00002.safetensors\"";
  const StatusOr<TensorCollection> both = withMap("{\"a\":" + first + ",\"b\":" + second + "}");
  ASSERT_TRUE(both.ok()) << renderText(both.error());
  EXPECT_EQ(both->names(), (std::vector<std::string>{"a", "b"}));
  float value = NAN;
  ASSERT_TRUE(both->readBox("b", Box::whole({1}), std::span(&value, 1)).ok());
  EXPECT_EQ(value, 2.0f);
  const Status missing = both->readBox("bb", Box::whole({1}), std::span(&value, 1));
  EXPECT_EQ(missing.error().kind, "safetensors.missing_tensor");
  EXPECT_EQ(missing.error().suggestions.at(0), "b");
  EXPECT_EQ(withMap("{\"a\":" + second + "}").error().kind, "safetensors.index_mismatch");
  EXPECT_EQ(withMap("{\"a\":\"../x.safetensors\"}").error().kind, "safetensors.index_mismatch");
  EXPECT_EQ(withMap("{\"a\":\"gone.safetensors\"}").error().kind, "file.read_failed");
  EXPECT_EQ(withMap("[]").error().kind, "safetensors.index_mismatch");
}

} // namespace

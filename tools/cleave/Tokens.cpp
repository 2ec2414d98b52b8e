//===- Tokens.cpp - cleave tokens --------------------------------------------===//
//
// Makes a token file of text without a tokenizer: every byte is a token, every
// file a document. The result is a raw file of 16-bit ids.
//
//===----------------------------------------------------------------------===//

#include "Driver.h"
#include "Output.h"

#include "runtime/Base/Json.h"
#include "runtime/Data/TokenWriter.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

namespace cleave::tool {

/// Bytes take the ids below, so an end of document comes after them; 16 bits
/// bound it from above.
static rt::StatusOr<int64_t> readEndOfDocument(const std::string &text) {
  constexpr int64_t least = 256, most = 65535;
  int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc() && end == text.data() + text.size() && id >= least && id <= most)
    return id;
  return rt::userError("usage.bad_value",
                       fmt::format("\"{}\" can't be the end-of-document token", text))
      .withGiven("--end-of-document " + text)
      .withRule(fmt::format("it is a whole number from {} to {}", least, most))
      .suggest(fmt::format("--end-of-document {}", least));
}

static rt::Status checkVocabulary(const std::string &name) {
  if (name == "bytes")
    return rt::Status::success();
  return rt::userError("usage.bad_value", fmt::format("there is no vocabulary \"{}\"", name))
      .withGiven("--vocab " + name)
      .withRule("vocabularies: bytes")
      .suggest("--vocab bytes");
}

static void report(const rt::ByteTokenSummary &summary, int64_t endOfDocument,
                   const std::string &output, bool json) {
  if (!json) {
    tell("{}: {} tokens in {} document{}, vocabulary {}\n", output, summary.tokens,
         summary.documents, summary.documents == 1 ? "" : "s", endOfDocument + 1);
    return;
  }
  rt::JsonWriter out;
  out.beginObject().key("file").value(output).key("tokens").value(summary.tokens);
  out.key("documents").value(summary.documents).key("vocab_size").value(endOfDocument + 1);
  out.key("end_of_document").value(endOfDocument).endObject();
  std::fputs((out.take() + "\n").c_str(), stdout);
}

rt::Status runTokens(const Words &words) {
  CommandLine line("tokens", "write the bytes of text files as a token file to train on",
                   {"FILE…"});
  line.add()("o,output", "token file to write", cxxopts::value<std::string>(), "OUT.bin")(
      "vocab", "vocabulary: bytes", cxxopts::value<std::string>()->default_value("bytes"),
      "V")("end-of-document", "id that ends every file",
           cxxopts::value<std::string>()->default_value("256"), "N");
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::vector<std::string> files, line.requiredAll("FILE…"));
  if (!line.has("output"))
    return rt::userError("usage.missing", "--output is missing")
        .withRule("cleave tokens FILE… -o OUT.bin")
        .suggest("-o tokens.bin");
  CLEAVE_RT_RETURN_IF_ERROR(checkVocabulary(line.text("vocab")));
  rt::ByteTokenOptions options;
  CLEAVE_RT_ASSIGN_OR_RETURN(options.endOfDocument,
                             readEndOfDocument(line.text("end-of-document")));
  CLEAVE_RT_RETURN_IF_ERROR(checkOutput(line.text("output"), files, "data.write_failed"));
  CLEAVE_RT_ASSIGN_OR_RETURN(const rt::ByteTokenSummary summary,
                             rt::writeByteTokens(files, line.text("output"), options));
  report(summary, options.endOfDocument, line.text("output"), line.json());
  return rt::Status::success();
}

} // namespace cleave::tool

//===- Files.cpp - Files of share/ by name ---------------------------------===//

#include "lib/CostModel/Files.h"
#include "runtime/Base/Suggest.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;
namespace cleave::cost {

std::vector<std::string> stemsOf(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (sys::fs::directory_iterator it(folder, error), end; it != end && !error; it.increment(error))
    if (sys::path::extension(it->path()) == ".json")
      names.push_back(sys::path::stem(it->path()).str());
  llvm::sort(names);
  return names;
}

rt::StatusOr<rt::JsonValue> readNamed(const std::string &folder, const std::string &name,
                                      const std::string &kind) {
  const std::vector<std::string> known = stemsOf(folder);
  if (llvm::is_contained(known, name))
    return rt::readJsonFile(folder + "/" + name + ".json");
  rt::Error error = rt::userError(kind, "there is no such file in " + folder)
                        .withGiven(name)
                        .withRule("one of " + join(known, ", "));
  if (auto near = rt::nearestName(name, known))
    error.suggestions.push_back(*near);
  else if (!known.empty())
    error.suggestions.push_back(known.front());
  return error;
}

} // namespace cleave::cost

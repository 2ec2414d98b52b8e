//===- Files.h - Files of share/ by name -----------------------------------===//
#pragma once

#include "runtime/Base/Json.h"
#include <string>
#include <vector>

namespace cleave::cost {

/// The stems of the .json files of `folder`, in alphabetical order.
std::vector<std::string> stemsOf(const std::string &folder);

/// `folder`/`name`.json; `kind` ("device.unknown") with the nearest of those there.
rt::StatusOr<rt::JsonValue> readNamed(const std::string &folder, const std::string &name,
                                      const std::string &kind);

} // namespace cleave::cost

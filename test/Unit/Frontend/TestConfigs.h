// Configs for the Frontend's tests: the files in test/Frontend/configs, and
// edits of them. Holds no expectations.
#pragma once

#include "cleave/Frontend/Model.h"
#include "runtime/Base/Files.h"
#include "runtime/Base/Json.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace cleave::frontend::test {

inline std::string configPath(const std::string &name) {
  return std::string(CLEAVE_TEST_CONFIGS) + "/" + name + ".json";
}

inline std::string configText(const std::string &name) {
  rt::StatusOr<std::string> text = rt::readWholeFile(configPath(name));
  EXPECT_TRUE(text.ok()) << name;
  return text.ok() ? *text : "";
}

/// The config `name` after `edit`, as text.
inline std::string edited(const std::string &name,
                          const std::function<void(rt::JsonValue &)> &edit) {
  rt::StatusOr<rt::JsonValue> root = rt::parseJson(configText(name));
  EXPECT_TRUE(root.ok());
  edit(*root);
  return rt::toString(*root, 2);
}

/// Removes a key from an object.
inline void erase(rt::JsonValue &object, const std::string &key) {
  std::erase_if(object.members(), [&](const rt::JsonMember &m) { return m.key == key; });
}

inline rt::StatusOr<ModelDescription> readEdited(const std::string &name,
                                                 const std::function<void(rt::JsonValue &)> &edit) {
  return readModelText(edited(name, edit), name + ".json");
}

/// The value behind `text`, which must be JSON.
inline rt::JsonValue json(const std::string &text) {
  rt::StatusOr<rt::JsonValue> value = rt::parseJson(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? std::move(*value) : rt::JsonValue();
}

/// The kind of the error, or "" for success.
template <typename T> std::string kindOf(const rt::StatusOr<T> &result) {
  return result.ok() ? "" : result.error().kind;
}

inline const Parameter *findParameter(const ModelDescription &model, const std::string &name) {
  for (const Parameter &p : model.parameters)
    if (p.name == name)
      return &p;
  return nullptr;
}

inline const DefaultedKey *findDefault(const ModelDescription &model, const std::string &key) {
  for (const DefaultedKey &d : model.defaults)
    if (d.key == key)
      return &d;
  return nullptr;
}

inline bool isUnused(const ModelDescription &model, const std::string &key) {
  for (const UnusedKey &u : model.unusedKeys)
    if (u.key == key)
      return true;
  return false;
}

} // namespace cleave::frontend::test

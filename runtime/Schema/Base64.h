// Base64 (RFC 4648, with padding, no line breaks) for the bytes inside an image.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cleave::rt {

std::string toBase64(std::string_view bytes);

/// Nothing if `text` is not exactly what `toBase64` could have written.
std::optional<std::string> fromBase64(std::string_view text);

} // namespace cleave::rt

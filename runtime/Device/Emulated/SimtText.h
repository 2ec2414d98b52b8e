// The text of Simt.h, which a binary carries.
#pragma once

#include <string_view>

namespace cleave::rt {

extern const std::string_view simtText;

} // namespace cleave::rt

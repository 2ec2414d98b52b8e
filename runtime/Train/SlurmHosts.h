// Lists of hosts as Slurm writes them: "node[01-03,07],gpu5".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cleave::rt {

/// The first host of a list: "node01". Of several brackets in a name each gives its
/// first number. Nothing for what is no such list.
std::optional<std::string> firstSlurmHost(std::string_view list);

} // namespace cleave::rt

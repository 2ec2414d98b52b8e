// The parts of `validate`, and the checks that several of them use. Private to
// runtime/Schema.
#pragma once

#include "runtime/Schema/Image.h"

#include <optional>
#include <set>
#include <string>

namespace cleave::rt {

/// `region` lies inside its segment, starts at a multiple of `alignment` bytes
/// and doesn't move; `image.region` otherwise, naming `owner`.
Status checkRegion(const Program &program, const Region &region, int64_t alignment,
                   const std::string &owner);

/// An error of the image, with what to do about it.
Error brokenImage(const char *kind, std::string message);

/// The axes exist and none is in `used`, which collects them.
Status checkAxes(const Program &program, const AxisList &axes, std::set<int32_t> &used,
                 const char *kind, const std::string &owner);

/// `image.command` or `image.region`, naming entry, index and label.
Status validateCommands(const Program &program);

/// `image.command`: each bucket of a program whose commands are right is awaited once in its
/// entry, and until then nobody writes what it reads nor touches what it writes.
Status validateBeside(const Program &program);

/// "matmul layers.3/mlp.gate".
std::string titleOf(const Command &command);

/// `image.group`: axes and members, and that all ranks of the program take part.
Status validateGroups(const Program &program);

/// `image.traffic`: what a step exchanges names groups and neighbours that there are.
Status validateTraffic(const Program &program);

/// `image.pipeline`: the program's stages, their boundaries and entries.
Status validateStages(const Program &program);

/// The programs of a pipeline that have ranks in a group of `program`, by index in
/// ascending order; just its own where the group is not cut by the pipeline.
std::vector<int64_t> programsIn(const Program &program, const Group &group);

/// `image.group`: groups of several programs, and the order of their collectives.
Status validateCollectiveOrder(const Image &image);

/// `image.pipeline`: the lists of actions of an image whose stages are right.
Status validateActions(const Image &image);

} // namespace cleave::rt

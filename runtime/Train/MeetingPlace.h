// Where the processes of a launch without an MPI meet, by environment variables:
//
//   MASTER_ADDR, MASTER_PORT   a name of process 0's host, and a port there: torchrun's,
//                              and those of anybody who sets variables by hand
//   CLEAVE_PORT                a port to take instead
//
// Where torchrun's agent listens at MASTER_PORT itself (TORCHELASTIC_USE_AGENT_STORE),
// the meeting is at the first free one of the four ports behind it. Under Slurm the host
// is the first one of the step, and the port is made of the job's number, unless the
// variables say otherwise.
#pragma once

#include "runtime/Comm/TCP/Meeting.h"
#include "runtime/Train/Launch.h"

namespace cleave::rt {

/// `runtime.bad_launch` (exit 2) for a variable that is missing or means nothing.
StatusOr<tcp::MeetingPlace> meetingPlaceOf(const Launch &launch, Environment environment);

} // namespace cleave::rt

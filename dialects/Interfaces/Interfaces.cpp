//===- Interfaces.cpp - Generated definitions of the operator interfaces ---===//

#include "dialects/Interfaces/Interfaces.h"

#include "dialects/Interfaces/Interfaces.cpp.inc"

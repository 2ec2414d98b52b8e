// Makes the pass that scripts/new-pass wrote loadable, with the source as it is.
#include "lib/Transforms/Sharding/DropIdleReshards.cpp"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

extern "C" mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "NewPass", LLVM_VERSION_STRING,
          [] { cleave::registerDropIdleReshardsPass(); }};
}

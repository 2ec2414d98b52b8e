//===- cleave-opt.cpp - Runs any pass on any IR ----------------------------===//

#include "cleave/Pipelines/Register.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  cleave::registerAllDialects(registry);
  cleave::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Cleave's optimiser driver\n", registry));
}

//===- EmitBinary.cpp - Link kernels, image and runtime --------------------===//
//
// Two objects are made: the kernels, and one that holds the image's text, the
// table of kernels and `main`. The system's C++ compiler driver links them with
// the runtime's static libraries, since only it knows where the system's own
// libraries are.
//
//===----------------------------------------------------------------------===//

#include "cleave/Support/Diagnostics.h"
#include "cleave/Target/Image/Image.h"
#include "cleave/Target/Kernel/Contract.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "runtime/Schema/Unroll.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include <cerrno>
#include <cstring>

using namespace mlir;
namespace cleave {

/// The runtime's libraries, users before what they use.
static const char *const kLibraries[] = {
    "CleaveRtMain",       "CleaveRtTrain",         "CleaveRtDeviceCUDA", "CleaveRtDeviceEmulated",
    "CleaveRtExec",       "CleaveRtDevice",        "CleaveRtDeviceCPU",  "CleaveRtCommMPI",
    "CleaveRtCommTCP",    "CleaveRtCommProcesses", "CleaveRtCommLocal",  "CleaveRtData",
    "CleaveRtCheckpoint", "CleaveRtSchema",        "CleaveRtBase"};

/// Beside them, unless Cleave was built without MPI. The binary carries its bytes, so
/// that it is one file that can be copied anywhere.
static const char *const kMpiPlugin = "libcleave_mpi.so";

static LLVM::GlobalOp text(OpBuilder &b, Location loc, StringRef name, StringRef value) {
  std::string terminated = value.str();
  terminated.push_back('\0');
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), terminated.size());
  return LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                                b.getStringAttr(terminated));
}

static Value address(OpBuilder &b, Location loc, StringRef symbol) {
  return LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), symbol);
}

/// `cleave_kernels`: an array of (name, function) pairs.
static void addTable(OpBuilder &b, Location loc, ArrayRef<std::string> symbols) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto entry = LLVM::LLVMStructType::getLiteral(b.getContext(), {pointer, pointer});
  auto type = LLVM::LLVMArrayType::get(entry, std::max<size_t>(symbols.size(), 1));
  SmallVector<std::string> names;
  for (auto [i, symbol] : llvm::enumerate(symbols)) {
    names.push_back("cleave_kernel_name_" + std::to_string(i));
    text(b, loc, names.back(), symbol);
    auto kernel = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                              {pointer, b.getI64Type(), b.getI64Type()});
    LLVM::LLVMFuncOp::create(b, loc, symbol, kernel);
  }
  auto table = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal,
                                      "cleave_kernels", Attribute());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&table.getInitializerRegion().emplaceBlock());
  Value value = LLVM::ZeroOp::create(b, loc, type);
  for (auto [i, symbol] : llvm::enumerate(symbols)) {
    Value name = address(b, loc, names[i]), function = address(b, loc, symbol);
    value = LLVM::InsertValueOp::create(b, loc, value, name, {int64_t(i), 0});
    value = LLVM::InsertValueOp::create(b, loc, value, function, {int64_t(i), 1});
  }
  LLVM::ReturnOp::create(b, loc, value);
}

/// `main`, which hands everything to the runtime.
static void addMain(OpBuilder &b, Location loc, int64_t imageBytes, int64_t kernels,
                    int64_t pluginBytes, int64_t textBytes, int64_t codeBytes) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  auto run = LLVM::LLVMFuncOp::create(
      b, loc, "cleaveTrainMain",
      LLVM::LLVMFunctionType::get(i32, {i32, pointer, pointer, i64, pointer, i64, pointer, i64,
                                        pointer, i64, pointer, i64}));
  auto main =
      LLVM::LLVMFuncOp::create(b, loc, "main", LLVM::LLVMFunctionType::get(i32, {i32, pointer}));
  OpBuilder::InsertionGuard guard(b);
  Block *body = main.addEntryBlock(b);
  b.setInsertionPointToStart(body);
  auto constant = [&](int64_t n) -> Value {
    return LLVM::ConstantOp::create(b, loc, i64, b.getI64IntegerAttr(n));
  };
  Value code =
      LLVM::CallOp::create(b, loc, run,
                           ValueRange{body->getArgument(0), body->getArgument(1),
                                      address(b, loc, "cleave_image"), constant(imageBytes),
                                      address(b, loc, "cleave_kernels"), constant(kernels),
                                      address(b, loc, "cleave_mpi_plugin"), constant(pluginBytes),
                                      address(b, loc, "cleave_gpu_text"), constant(textBytes),
                                      address(b, loc, "cleave_gpu_code"), constant(codeBytes)})
          .getResult();
  LLVM::ReturnOp::create(b, loc, code);
}

static OwningOpRef<ModuleOp> mainModule(MLIRContext *context, const CompiledImage &compiled,
                                        StringRef plugin) {
  const rt::Image &image = compiled.image;
  context->loadDialect<LLVM::LLVMDialect>();
  OpBuilder b(context);
  Location loc = b.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  b.setInsertionPointToStart(module->getBody());
  llvm::SmallSetVector<StringRef, 32> used;
  for (const rt::Program &program : image.programs)
    for (size_t list = 0; list < program.entryLists(); ++list)
      rt::forEachCommand(program.entryList(list), [&](const rt::Command &command, int64_t) {
        if (auto *kernel = std::get_if<rt::KernelCommand>(&command.what))
          if (kernel->threads == 0)
            used.insert(kernel->symbol);
      });
  SmallVector<std::string> symbols(used.begin(), used.end());
  std::string imageText = rt::toImageText(image);
  text(b, loc, "cleave_image", imageText);
  addTable(b, loc, symbols);
  text(b, loc, "cleave_mpi_plugin", plugin);
  text(b, loc, "cleave_gpu_text", compiled.gpuText);
  text(b, loc, "cleave_gpu_code", compiled.gpuCode);
  addMain(b, loc, static_cast<int64_t>(imageText.size()), static_cast<int64_t>(symbols.size()),
          static_cast<int64_t>(plugin.size()), static_cast<int64_t>(compiled.gpuText.size()),
          static_cast<int64_t>(compiled.gpuCode.size()));
  return module;
}

namespace {
/// Intermediate files, which go when their owner does, and with a signal that ends the process.
class ScratchFiles {
public:
  ScratchFiles() = default;
  ScratchFiles(const ScratchFiles &) = delete;
  ScratchFiles &operator=(const ScratchFiles &) = delete;
  ~ScratchFiles() {
    for (const std::string &path : paths) {
      llvm::sys::fs::remove(path);
      llvm::sys::DontRemoveFileOnSignal(path);
    }
  }

  /// The name of an empty file.
  rt::StatusOr<std::string> make(StringRef ending) {
    SmallString<128> path;
    if (std::error_code error = llvm::sys::fs::createTemporaryFile("cleave", ending, path)) {
      SmallString<128> folder;
      llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, folder);
      return rt::runError("file.write_failed", "cannot make a temporary file in '" +
                                                   folder.str().str() + "': " + error.message())
          .withGiven("TMPDIR = " + folder.str().str())
          .withRule("intermediate files are written into the folder that TMPDIR names, else /tmp")
          .suggest("TMPDIR=FOLDER, one that is there and takes files");
    }
    paths.push_back(path.str().str());
    std::string ignored;
    llvm::sys::RemoveFileOnSignal(path, &ignored);
    return paths.back();
  }

private:
  std::vector<std::string> paths;
};
} // namespace

static rt::Status writeObject(ModuleOp module, const cpu::Profile &profile,
                              const std::string &path) {
  std::unique_ptr<llvm::MemoryBuffer> object;
  rt::Status compiled = withDiagnostics(*module.getContext(), [&]() -> LogicalResult {
    auto made = cpu::compileObject(module, profile);
    if (failed(made))
      return failure();
    object = std::move(*made);
    return success();
  });
  if (!compiled.ok())
    return compiled;
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (!error) {
    out << object->getBuffer();
    out.close();
    error = out.error();
    out.clear_error();
  }
  if (error)
    return rt::systemError("file.write_failed", "cannot write '" + path + "'", error.value());
  return rt::Status::success();
}

static rt::StatusOr<std::string> findDriver() {
  for (const char *name : {"c++", "g++", "clang++", "clang++-22"})
    if (auto path = llvm::sys::findProgramByName(name))
      return *path;
  return rt::missingError("emit.linker_missing", "no C++ compiler driver to link with was found")
      .withRule("linking a training binary needs c++, g++ or clang++ on PATH")
      .suggest("apt-get install g++");
}

static rt::Status link(const LinkSettings &settings, ArrayRef<std::string> objects,
                       const std::string &log, const std::string &output) {
  auto driver = findDriver();
  if (!driver.ok())
    return driver.status();
  std::vector<std::string> words = {*driver, "-o", output};
  llvm::append_range(words, objects);
  for (const char *name : kLibraries) {
    std::string path = settings.libraries + "/lib" + name + ".a";
    if (!llvm::sys::fs::exists(path))
      return rt::missingError("emit.runtime_missing", "a library of the runtime is missing")
          .withGiven(path)
          .withRule("the runtime's libraries lie in the folder lib beside the folder of cleave")
          .suggest("scripts/build");
    words.push_back(path);
  }
  for (const char *system : {"-ldnnl", "-lfmt", "-lpthread", "-lm"})
    words.push_back(system);
  SmallVector<StringRef> refs(words.begin(), words.end());
  std::optional<StringRef> redirects[] = {std::nullopt, StringRef(log), StringRef(log)};
  std::string message;
  int code = llvm::sys::ExecuteAndWait(*driver, refs, std::nullopt, redirects, 0, 0, &message);
  if (code == 0)
    return rt::Status::success();
  auto text = llvm::MemoryBuffer::getFile(log);
  if (text && (*text)->getBuffer().contains(std::strerror(ENOSPC)))
    return rt::systemError("file.write_failed", "cannot write '" + output + "'", ENOSPC);
  return rt::missingError("emit.link_failed", "linking the training binary failed")
      .withGiven(text ? (*text)->getBuffer().str() : message)
      .withRule("libdnnl-dev and libfmt-dev are installed, and the runtime's libraries are of one "
                "build")
      .suggest("scripts/setup")
      .suggest("scripts/build CleaveRtMain CleaveRtDeviceCPU");
}

/// Leaves those that the processor runs, which are not fused from operators.
static void dropGpuKernels(ModuleOp kernels) {
  for (func::FuncOp kernel : llvm::make_early_inc_range(kernels.getOps<func::FuncOp>()))
    if (kernel->hasAttr(target::kOutputsAttr))
      kernel.erase();
}

rt::Status emitBinary(const CompiledImage &image, const cpu::Profile &profile,
                      const LinkSettings &settings, const std::string &output) {
  ScratchFiles scratch;
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string kernelsObject, scratch.make("kernels.o"));
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string mainObject, scratch.make("main.o"));
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string log, scratch.make("link.log"));
  OwningOpRef<ModuleOp> kernels = image.kernels.get().clone();
  if (!image.gpuText.empty())
    dropGpuKernels(*kernels);
  CLEAVE_RT_RETURN_IF_ERROR(writeObject(*kernels, profile, kernelsObject));
  auto plugin = llvm::MemoryBuffer::getFile(settings.libraries + "/" + kMpiPlugin);
  auto main =
      mainModule(kernels->getContext(), image, plugin ? (*plugin)->getBuffer() : StringRef());
  CLEAVE_RT_RETURN_IF_ERROR(writeObject(*main, profile, mainObject));
  return link(settings, {mainObject, kernelsObject}, log, output);
}

} // namespace cleave

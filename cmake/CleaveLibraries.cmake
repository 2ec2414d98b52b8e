# How our targets are made: compiler libraries (which see MLIR and share one
# precompiled header), runtime libraries (which never do) and dialects.

option(CLEAVE_ASSERTIONS "Keep assert() in optimised builds" OFF)
set(CLEAVE_SANITIZE "" CACHE STRING "Sanitizers, comma separated, or empty")

if(CLEAVE_ASSERTIONS)
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
endif()
if(CLEAVE_SANITIZE)
  add_compile_options(-fsanitize=${CLEAVE_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${CLEAVE_SANITIZE})
endif()
# A precompiled header only hits in ccache if its time stamp is left out.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options("SHELL:$<$<COMPILE_LANGUAGE:CXX>:-Xclang -fno-pch-timestamp>")
endif()

set(CLEAVE_WARNINGS -Wall -Wextra -Wno-unused-parameter -Werror)

# The one precompiled header of the compiler: MLIR's heavy headers.
function(cleave_pch_target)
  file(WRITE ${PROJECT_BINARY_DIR}/CleavePCH.cpp "")
  add_library(CleavePCH OBJECT ${PROJECT_BINARY_DIR}/CleavePCH.cpp)
  target_precompile_headers(CleavePCH PRIVATE ${PROJECT_SOURCE_DIR}/cmake/Precompiled.h)
  target_compile_options(CleavePCH PRIVATE ${CLEAVE_WARNINGS})
endfunction()
cleave_pch_target()

# cleave_add_library(Name SOURCES a.cpp … LINKS OtherLib … [DEPENDS tablegen targets])
function(cleave_add_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LINKS;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC ${A_LINKS} MLIR LLVM)
  target_compile_options(${name} PRIVATE ${CLEAVE_WARNINGS})
  target_precompile_headers(${name} REUSE_FROM CleavePCH)
  if(A_DEPENDS)
    add_dependencies(${name} ${A_DEPENDS})
  endif()
endfunction()

# cleave_add_runtime_library(Name SOURCES … LINKS …): no LLVM, no MLIR.
function(cleave_add_runtime_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC ${A_LINKS})
  target_compile_options(${name} PRIVATE ${CLEAVE_WARNINGS})
endfunction()

# cleave_add_tool(name SOURCES … LINKS …): an executable in build/bin that sees MLIR.
function(cleave_add_tool name)
  cmake_parse_arguments(A "" "" "SOURCES;LINKS;DEPENDS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LINKS} MLIR LLVM)
  # -fPIC as the precompiled header was made with; CMake gives executables -fPIE.
  target_compile_options(${name} PRIVATE ${CLEAVE_WARNINGS} -fPIC)
  target_precompile_headers(${name} REUSE_FROM CleavePCH)
  if(A_DEPENDS)
    add_dependencies(${name} ${A_DEPENDS})
  endif()
endfunction()

# cleave_add_unittest(name SOURCES … LINKS … [WHOLE]): one GoogleTest program; one
# CTest entry per test, or with WHOLE one for the program (tests that share work).
include(GoogleTest)
function(cleave_add_unittest name)
  cmake_parse_arguments(A "WHOLE" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LINKS} GTest::gtest GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${CLEAVE_WARNINGS})
  # Tests of the compiler include MLIR's headers; those of the runtime must not.
  if(NOT name MATCHES "^Runtime")
    target_compile_options(${name} PRIVATE -fPIC) # as the precompiled header was made
    target_precompile_headers(${name} REUSE_FROM CleavePCH)
  endif()
  if(A_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 120)
  endif()
endfunction()

# cleave_also_for(name profile…): the tests of `name` once more, with kernels of these
# profiles (see KernelHarness.h); skipped where the processor lacks their instructions.
function(cleave_also_for name)
  foreach(profile ${ARGN})
    gtest_discover_tests(${name} TEST_PREFIX "${name}.${profile}." TEST_LIST ${name}_${profile}
      DISCOVERY_TIMEOUT 120 PROPERTIES ENVIRONMENT CLEAVE_TEST_PROFILE=${profile})
  endforeach()
endfunction()

# cleave_add_passes(Topic): generates Passes.h.inc in the build folder's twin of
# the calling folder from include/cleave/Transforms/<Topic>/Passes.td.
function(cleave_add_passes topic)
  set(LLVM_TARGET_DEFINITIONS ${PROJECT_SOURCE_DIR}/include/cleave/Transforms/${topic}/Passes.td)
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name ${topic})
  add_public_tablegen_target(Cleave${topic}IncGen)
endfunction()

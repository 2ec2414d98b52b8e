// Errors of the command line and of models: text, JSON, exit codes.

// RUN: not cleave inspect %s 2>&1 | FileCheck %s --check-prefix=BADIR
// BADIR: driver-errors.mlir:[[#@LINE+1]]:{{[0-9]+}}: error[model.ir_invalid]
this is no module

// RUN: not cleave inspect %S/no-such.json 2>&1 | FileCheck %s --check-prefix=NOFILE
// NOFILE: error[file.read_failed]: {{.*}}no-such.json

// RUN: not cleave insepct 2>&1 | FileCheck %s --check-prefix=COMMAND
// COMMAND: error[usage.subcommand]: "insepct" is no subcommand
// COMMAND: suggestion: cleave inspect

// RUN: not cleave inspect --jsno x 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: error[usage.option]
// OPTION: suggestion: --json

// RUN: not cleave inspect 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error[usage.missing]: MODEL is missing

// RUN: not cleave inspect a b 2>&1 | FileCheck %s --check-prefix=EXTRA
// EXTRA: error[usage.extra]

// RUN: not cleave compile %S/configs/t0.json --emit=nm 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error[usage.emit]: there is no phase "nm"
// PHASE: suggestion: --emit=nn

// The exit code of a user's mistake is 2; with --json, standard output holds
// the error and standard error nothing.
// RUN: bash -c 'cleave inspect --json %S/no-such.json; test $? = 2' 2> %t.err | FileCheck %s --check-prefix=JSON
// RUN: count 0 < %t.err
// JSON: {"error": {"kind": "file.read_failed", "message": "{{.*}}"

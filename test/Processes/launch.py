"""How tests start programs in several processes: over MPI by mpirun (as root in a
container, on fewer cores than processes), or over TCP by the launcher beside this file,
as the variable CLEAVE_TEST_TRANSPORT says; without what a scheduler around the test may
have set."""
import os
import shutil
import sys

TRANSPORT = os.environ.get("CLEAVE_TEST_TRANSPORT", "mpi")
IS_MPI = TRANSPORT == "mpi"
# What the launcher is called in messages, and its variables.
NAME = "mpirun" if IS_MPI else "the launcher"
SIZE = "OMPI_COMM_WORLD_SIZE" if IS_MPI else "WORLD_SIZE"
RANK = "OMPI_COMM_WORLD_RANK" if IS_MPI else "RANK"
LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py")


def require(cleave):
    """Ends the test as skipped (exit code 77) where nothing can be launched."""
    if not IS_MPI:
        return
    plugin = os.path.join(os.path.dirname(os.path.abspath(cleave)), "../lib/libcleave_mpi.so")
    for what, found in (("mpirun", shutil.which("mpirun")), (plugin, os.path.exists(plugin))):
        if not found:
            print(f"skipped: there is no {what}")
            sys.exit(77)


def environment(**more):
    values = {name: value for name, value in os.environ.items()
              if not name.startswith(("OMPI_", "PMIX_", "PMI_", "SLURM_", "MASTER_", "TORCHELASTIC_"))
              and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CLEAVE_PORT")}
    return {**values, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            # What MPI libraries keep until the end of a process is not ours to free.
            "ASAN_OPTIONS": "detect_leaks=0", **more}


def command(processes, *options):
    if not IS_MPI:
        return [sys.executable, LAUNCHER, "-n", str(processes), *options]
    return ["mpirun", "-n", str(processes), "--oversubscribe", "--bind-to", "none", *options]

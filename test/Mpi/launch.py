"""How tests start programs under mpirun: as root in a container, on fewer cores than
processes, without what a scheduler around the test may have set."""
import os
import shutil
import sys


def require(cleave):
    """Ends the test as skipped (exit code 77) where nothing can be launched."""
    plugin = os.path.join(os.path.dirname(os.path.abspath(cleave)), "../lib/libcleave_mpi.so")
    for what, found in (("mpirun", shutil.which("mpirun")), (plugin, os.path.exists(plugin))):
        if not found:
            print(f"skipped: there is no {what}")
            sys.exit(77)


def environment(**more):
    values = {name: value for name, value in os.environ.items()
              if not name.startswith(("OMPI_", "PMIX_", "PMI_", "SLURM_"))
              and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**values, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            # What MPI libraries keep until the end of a process is not ours to free.
            "ASAN_OPTIONS": "detect_leaks=0", **more}


def mpirun(processes, *options):
    return ["mpirun", "-n", str(processes), "--oversubscribe", "--bind-to", "none", *options]

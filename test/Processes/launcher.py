#!/usr/bin/env python3
"""A launcher without an MPI: starts processes and tells them by torchrun's variables
(or Slurm's) which ones they are.

    launcher.py -n N [--slurm] [--hosts A,B --agent AGENT] COMMAND … [: -n M COMMAND …]

The processes are dealt out over the hosts in equal parts; AGENT HOST COMMAND starts one there.
USR1, TERM and INT are passed on. When a process has failed, the others have a while to end
by themselves; then they are killed, as the stopped ones are. The exit code is that of the
first that failed, 137 for one that was killed.
"""
import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import time

# Longer than any run may take to end, so that nobody is killed who should have ended.
GRACE = 32
PR_SET_PDEATHSIG = 1


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def parse(words):
    """The commands in order of processes, and the options of the first part."""
    commands, options = [], {}
    while words:
        count = 1
        while words and words[0].startswith("-"):
            name = words.pop(0)
            if name == "-n":
                count = int(words.pop(0))
            else:
                options[name] = True if name == "--slurm" else words.pop(0)
        end = words.index(":") if ":" in words else len(words)
        commands += [words[:end]] * count
        words = words[end + 1:]
    return commands, options


def variables(number, count, local, local_count, slurm):
    if slurm:
        return {"SLURM_STEP_ID": "0", "SLURM_JOB_ID": str(os.getpid()), "SLURM_PROCID": number,
                "SLURM_STEP_NUM_TASKS": count, "SLURM_LOCALID": local,
                "SLURM_STEP_NODELIST": "localhost"}
    return {"RANK": number, "WORLD_SIZE": count, "LOCAL_RANK": local,
            "LOCAL_WORLD_SIZE": local_count,
            "MASTER_ADDR": os.environ.get("MASTER_ADDR", "127.0.0.1"),
            "MASTER_PORT": os.environ.get("MASTER_PORT", PORT)}


def start(number, command, count, options):
    hosts = options.get("--hosts", "").split(",")
    each = count // len(hosts)
    more = variables(number, count, number % each, each, "--slurm" in options)
    if hosts != [""]:
        command = [options["--agent"], hosts[number // each], shlex.join(command)]
    # Nobody outlives this launcher, whatever ends it.
    libc = ctypes.CDLL(None)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL,
                            env={**os.environ, **{name: str(value) for name, value in more.items()}},
                            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))


def main():
    commands, options = parse(sys.argv[1:])
    running, code, deadline = [], 0, None

    def pass_on(received, _):
        for process in running:
            process.send_signal(received)

    for received in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        signal.signal(received, pass_on)
    for number, command in enumerate(commands):
        running.append(start(number, command, len(commands), options))
    while running:
        for process in list(running):
            if process.poll() is None:
                continue
            running.remove(process)
            code = code or (137 if process.returncode < 0 else process.returncode)
            if code and not deadline:
                deadline = time.time() + GRACE
        stopped = [process for process in running if state(process.pid) == "T"]
        if running and code and (time.time() > deadline or len(stopped) == len(running)):
            for process in running:
                process.kill()
        time.sleep(0.01)
    sys.exit(code)


def state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(") ")[2][:1]
    except OSError:
        return ""


PORT = free_port()
main()

"""Programs that may not end: runs them, and tells where each of their threads is if they do not."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")
MOST_TURNS = 10  # of the time that a program has, where others take the cores


class Unended(Exception):
    """A program has not ended in time. The text tells where its threads were."""


def read(path):
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # the process is gone, or the system does not tell
        return "?"


def family(pid):
    """The process, and all that it has started and that live."""
    found = [pid]
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        children = read(thread / "children")
        for child in children.split() if children != "?" else []:
            found += family(int(child))
    return found


def threads(pids):
    """The state of each thread of these processes, by (process, thread)."""
    found = {}
    for pid in pids:
        for thread in pathlib.Path(f"/proc/{pid}/task").glob("*"):
            # The name, which may hold any character, is in brackets.
            fields = read(thread / "stat").rpartition(")")[2].split()
            if len(fields) > 12:
                used = (int(fields[11]) + int(fields[12])) / TICKS
                found[pid, int(thread.name)] = (fields[0], used, read(thread / "schedstat"))
    return found


def waits_for_cores(pids):
    """The seconds for which each thread could have run and had no core, by (process, thread)."""
    found = {}
    for key, (_, _, schedule) in threads(pids).items():
        figures = schedule.split()
        found[key] = int(figures[1]) / 1e9 if len(figures) == 3 else 0
    return found


def tell_threads(pids):
    """A line for each thread. What it used within a second tells a slow one from one that waits."""
    before = threads(pids)
    time.sleep(1)
    text = ""
    waits = waits_for_cores(pids)
    for (pid, thread), (state, used, _) in threads(pids).items():
        place = pathlib.Path(f"/proc/{pid}/task/{thread}")
        queued = waits.get((pid, thread), 0)
        more = used - before.get((pid, thread), ("", 0, ""))[1]
        text += (f"  process {pid} thread {thread} ({read(place / 'comm')}): state {state}, used "
                 f"{used:.2f} s, {more:.2f} s of them in the last, waited {queued:.2f} s for a "
                 f"core, is in {read(place / 'wchan')}, call {read(place / 'syscall')[:60]}\n")
    return text


def tell_stacks(pids):
    if shutil.which("gdb") is None:
        return ""
    text = ""
    for pid in pids:
        words = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all bt"]
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                                  text=True, errors="replace")
        except subprocess.TimeoutExpired:
            continue
        frames = [line for line in done.stdout.splitlines() if line.startswith(("#", "Thread"))]
        text += f"  process {pid}:\n" + "".join(f"    {line}\n" for line in frames)
    return text


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def waited_longer(pids, waited, seconds):
    """Whether a thread of these waited for a core for longer than that since `waited` was taken."""
    waits = waits_for_cores(pids)
    return any(waits[key] - waited.get(key, 0) > seconds for key in waits)


def lacks_cores(pids, waited, seconds):
    """Whether a thread, such as strace's, waited for a core in more than half of the last seconds.
    The system counts a wait when it ends: one that lasts is seen by the thread's state."""
    if waited_longer(pids, waited, seconds / 2):
        return True
    before = threads(pids)
    time.sleep(1)
    after = threads(pids)
    lacking = any(before[key][0] == after[key][0] == "R" and after[key][1] - before[key][1] < 0.5
                  for key in before.keys() & after.keys())
    return lacking or waited_longer(pids, waited, seconds / 2)  # one that ended just now counts


def communicate(process, seconds):
    """What the process has written. The time counts anew where a thread lacked a core: the program
    is slow, and does not wait for something that never comes. A program that has ended while this
    was found out has the time once more, to be read to its end."""
    waited = {}
    had_ended = False
    for turn in range(MOST_TURNS):
        try:
            return process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            pids = family(process.pid)
            if turn + 1 == MOST_TURNS or had_ended:
                raise
            is_slow = lacks_cores(pids, waited, seconds)
            had_ended = process.poll() is not None
            if not is_slow and not had_ended:
                raise
            waited = waits_for_cores(pids)


def run(words, seconds, is_traced=False, **options):
    """As subprocess.run, with its output as text. Unended if the program, which strace may follow,
    has not ended in so many seconds, though it had cores; then nothing that it has started is left.
    """
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", **options)
    with process:
        pids = []
        try:
            output, errors = communicate(process, seconds)
            return subprocess.CompletedProcess(words, process.returncode, output, errors)
        except subprocess.TimeoutExpired:
            pids = family(process.pid)
            text = tell_threads(pids)
            if is_traced:  # by strace, and by nobody else until strace has ended
                process.kill()
                pids.remove(process.pid)
                time.sleep(1)
            text += tell_stacks(pids)
            raise Unended(f"no end within {seconds} s with cores\n{text}") from None
        finally:
            if process.returncode is None:
                kill_all({process.pid, *pids, *(child for pid in pids for child in family(pid))})

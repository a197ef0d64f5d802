"""A file system that loses power: follows the calls of a program by strace, and gives the states
in which a disk may be left. What was synced is there; of the rest each write and each change of a
folder is there or not, in whatever order, and a write may be torn at a multiple of 512 bytes.
"""
import collections
import itertools
import os
import pathlib
import re
import subprocess

CALLS = "openat,mkdir,write,pwrite64,fsync,linkat,rename,renameat2,unlink,unlinkat,rmdir,close"
LINE = re.compile(r"(\d+)\s+(\w+)\((.*)\)\s+= (-?\d+)", re.S)
TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def texts(arguments):
    """The strings among a call's arguments, in bytes."""
    return [bytes.fromhex(found.replace("\\x", "")) for found in TEXT.findall(arguments)]


def told(output):
    """The last step that the lines of --json tell of as saved; -1 where there is none."""
    found = re.findall(rb'"event":"checkpoint","step":(\d+)[,}]', output)
    return int(found[-1]) if found else -1


def most_calls(log):
    """How often that thread of a followed program which does so most often calls what."""
    counts = collections.Counter(re.findall(r"^(\d+) +(\w+)\(", log, re.M))
    most = collections.Counter()
    for (_, call), count in counts.items():
        most[call] = max(most[call], count)
    return most


def failed_in_loader(log):
    """Whether the last call that was made to fail was the loader's, before it had the program, by a
    log with stacks."""
    last = log.rpartition("(INJECTED)")[2]
    stack = list(itertools.takewhile(lambda line: line.startswith(" > "), last.splitlines()[1:]))
    return all("/ld-linux" in line for line in stack)


class File:
    def __init__(self):
        self.writes = []  # (when, offset, bytes)
        self.syncs = []   # when

    def content(self, now, noise):
        content = bytearray()
        for when, offset, data in self.writes:
            if when > now:
                break
            if when > self.synced_before(now):
                if noise.random() < 0.5:
                    continue
                if noise.random() < 0.5:
                    data = data[:noise.randrange(0, len(data) + 1, 512)]
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            content[offset:offset + len(data)] = data
        return bytes(content)

    def synced_before(self, now):
        return max((when for when in self.syncs if when <= now), default=-1)


class Folder(File):
    def __init__(self):
        super().__init__()
        self.entries = {}  # as they are when all is done so far


class Disk:
    """What the calls of a program do below one folder."""

    def __init__(self, root):
        self.root = os.fsencode(root)
        self.top = Folder()
        self.changes = []  # (when, {(folder, name): node or None})
        self.open = {}     # by descriptor
        self.offsets = {}
        self.said = []     # (when, bytes) to standard output
        self.now = 0

    def follow(self, words, **options):
        """Runs a program. Its calls are what there is to lose."""
        log = pathlib.Path(options.pop("log"))
        done = subprocess.run(["strace", "-f", "-xx", "-s", "100000000", "-o", str(log), "-e",
                               f"trace={CALLS}", *words], capture_output=True, text=True, **options)
        pending = {}
        for line in log.read_text().splitlines():
            number = line.split(" ", 1)[0]
            if line.endswith(" <unfinished ...>"):
                pending[number] = line[:-len(" <unfinished ...>")]
                continue
            resumed = re.match(r"\d+\s+<\.\.\. \w+ resumed>(.*)", line, re.S)
            if resumed:
                line = pending.pop(number, "") + resumed[1]
            found = LINE.match(line)
            if found and int(found[4]) >= 0:
                self.now += 1
                self.call(found[2], found[3], int(found[4]))
        return done

    def place(self, path):
        """Folder and name; None where it is elsewhere."""
        if not path.startswith(self.root + b"/"):
            return None
        folder = self.top
        *above, name = path[len(self.root) + 1:].rstrip(b"/").split(b"/")
        for part in above:
            folder = folder.entries.get(part)
            if not isinstance(folder, Folder):
                return None
        return folder, name

    def node(self, path):
        if path == self.root:
            return self.top
        place = self.place(path)
        return place and place[0].entries.get(place[1])

    def change(self, entries):
        self.changes.append((self.now, entries))
        for (folder, name), node in entries.items():
            if node is None:
                folder.entries.pop(name, None)
            else:
                folder.entries[name] = node

    def call(self, name, arguments, result):
        paths = texts(arguments)
        descriptor = int(arguments.split(",")[0]) if re.match(r"\d+\b", arguments) else -1
        if name == "openat":
            place = self.place(paths[0])
            node = File() if "O_TMPFILE" in arguments and self.node(paths[0]) else \
                self.node(paths[0])
            if node is None and place and "O_CREAT" in arguments:
                node = File()
                self.change({place: node})
            self.open[result], self.offsets[result] = node, 0
        elif name == "close":
            self.open.pop(descriptor, None)
        elif name in ("write", "pwrite64"):
            node = self.open.get(descriptor)
            if descriptor == 1:
                self.said.append((self.now, paths[0][:result]))
            if node is None:
                return
            offset = int(arguments.rsplit(",", 1)[1]) if name == "pwrite64" else \
                self.offsets[descriptor]
            node.writes.append((self.now, offset, paths[0][:result]))
            if name == "write":
                self.offsets[descriptor] += result
        elif name == "fsync":
            if self.open.get(descriptor) is not None:
                self.open[descriptor].syncs.append(self.now)
        elif name == "mkdir" and self.place(paths[0]):
            self.change({self.place(paths[0]): Folder()})
        elif name == "linkat" and self.place(paths[1]):
            self.change({self.place(paths[1]): self.open[int(paths[0].rsplit(b"/", 1)[1])]})
        elif name in ("rename", "renameat2") and self.place(paths[0]):
            source, target = self.place(paths[0]), self.place(paths[1])
            swapped = self.node(paths[1]) if "RENAME_EXCHANGE" in arguments else None
            self.change({source: swapped, target: self.node(paths[0])})
        elif name in ("unlink", "rmdir") and self.place(paths[0]):
            self.change({self.place(paths[0]): None})
        elif name == "unlinkat":
            folder = self.open.get(descriptor)
            place = (folder, paths[0]) if isinstance(folder, Folder) else self.place(paths[0])
            if place:
                self.change({place: None})

    def told(self, now):
        """The last step that the program has told of as saved by call `now`."""
        return told(b"".join(data for when, data in self.said if when <= now))

    def crash(self, now, noise, target):
        """Makes `target` what a loss of power after call `now` may leave of the folder."""
        left = {}
        for when, entries in self.changes:
            if when > now:
                break
            is_synced = all(folder.synced_before(now) > when for folder, _ in entries)
            if is_synced or noise.random() < 0.5:
                for (folder, name), node in entries.items():
                    left.setdefault(folder, {})[name] = node
        self.write(self.top, left, now, noise, os.fsencode(target))

    def write(self, folder, left, now, noise, path):
        os.makedirs(path, exist_ok=True)
        for name, node in left.get(folder, {}).items():
            if isinstance(node, Folder):
                self.write(node, left, now, noise, path + b"/" + name)
            elif node is not None:
                with open(path + b"/" + name, "wb") as file:
                    file.write(node.content(now, noise))

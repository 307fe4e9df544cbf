"""Runs work in child processes: PyTorch may die on a program, and the rest goes on."""
import os
import pickle
import signal
import struct
import sys
import traceback
from collections import namedtuple

Died = namedtuple("Died", "how")  # SIGFPE, SIGSEGV..., SIGALRM: it took too long

SECONDS = 120  # for one item


def each(items, work):
    """(item, work(item)) in order; Died in place of a result that never came."""
    items, at = list(items), 0
    while at < len(items):
        pid, results = start(items[at:], work)
        for result in results:
            yield items[at], result
            at += 1
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            yield items[at], Died(signal.Signals(os.WTERMSIG(status)).name)
            at += 1
        elif status:
            raise SystemExit(1)


def start(items, work):
    sys.stdout.flush()
    ours, childs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(childs)
        return pid, receive(ours)
    os.close(ours)
    try:
        with os.fdopen(childs, "wb") as to:
            for item in items:
                signal.alarm(SECONDS)
                data = pickle.dumps(work(item))
                to.write(struct.pack("q", len(data)) + data)
                to.flush()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def receive(fd):
    with os.fdopen(fd, "rb") as f:
        while True:
            head = f.read(8)
            if len(head) < 8:
                return
            yield pickle.loads(f.read(struct.unpack("q", head)[0]))

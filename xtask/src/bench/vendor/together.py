"""Processes that begin together, when all of them are ready; if one fails, none is waited for."""

import multiprocessing.connection
import sys
import threading
import time

READY_SECONDS = 60

# What is forked needs no module of its own.
fork = multiprocessing.get_context("fork")


def one(target, arguments, start, results):
    try:
        results.put(target(lambda: start.wait(READY_SECONDS), *arguments))
    except BaseException:
        # The others wait for it.
        start.abort()
        raise


def run(target, of_each):
    """target(ready, *arguments) of each arguments, in a process of its own; each calls ready() once, when it can begin. The seconds from then to
    the end of the last, and what they returned, in any order."""
    start, results = fork.Barrier(len(of_each) + 1), fork.SimpleQueue()
    processes = [fork.Process(target=one, args=(target, arguments, start, results)) for arguments in of_each]
    try:
        for process in processes:
            process.start()
        start.wait(READY_SECONDS)
        began = time.monotonic()
        left = {process.sentinel: process for process in processes}
        while left:
            for sentinel in multiprocessing.connection.wait(list(left)):
                process = left.pop(sentinel)
                process.join()
                if process.exitcode != 0:
                    sys.exit("a process failed")
        return time.monotonic() - began, [results.get() for _ in processes]
    except threading.BrokenBarrierError:
        sys.exit("a process was not ready after %d s, or failed before" % READY_SECONDS)
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()

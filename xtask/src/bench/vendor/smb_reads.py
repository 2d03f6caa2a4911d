"""smb_reads.py URL CLIENTS SECONDS SPAN_BYTES REQUEST_BYTES SEED: random reads of a file on an SMB share by so many clients at once, each a process
with a session of its own, by Samba's client library. Prints what all of them did together."""

import ctypes
import multiprocessing
import os
import random
import sys
import time

CONFIGURATION = "[global]\n  client min protocol = SMB3\n  disable netbios = yes\n"


def client(url, seconds, span, request, seed, start, done):
    library = ctypes.CDLL("libsmbclient.so.0", use_errno=True)
    library.smbc_lseek.restype = ctypes.c_int64
    library.smbc_lseek.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int]
    library.smbc_read.restype = ctypes.c_ssize_t
    library.smbc_read.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    # Nobody in particular: the share takes guests.
    ask = ctypes.CFUNCTYPE(None, *([ctypes.c_char_p] * 2), *([ctypes.c_void_p, ctypes.c_int] * 3))
    nobody = ask(lambda *_: None)
    if library.smbc_init(nobody, 0) != 0:
        sys.exit("libsmbclient does not start")
    file = library.smbc_open(url.encode(), os.O_RDONLY, 0)
    if file < 0:
        sys.exit("cannot open %s: %s" % (url, os.strerror(ctypes.get_errno())))
    buffer = ctypes.create_string_buffer(request)
    draw = random.Random(seed)
    start.wait()
    count, ends = 0, time.monotonic() + seconds
    while time.monotonic() < ends:
        offset = draw.randrange(span // request) * request
        if library.smbc_lseek(file, offset, os.SEEK_SET) != offset or library.smbc_read(file, buffer, request) != request:
            sys.exit("a read at %d failed: %s" % (offset, os.strerror(ctypes.get_errno())))
        count += 1
    done.put(count)


def main():
    url, clients, seconds, span, request, seed = sys.argv[1], *map(int, sys.argv[2:])
    home = os.path.join(os.environ["HOME"], ".smb")
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "smb.conf"), "w") as file:
        file.write(CONFIGURATION)
    start, done = multiprocessing.Barrier(clients), multiprocessing.Queue()
    at_work = []
    for number in range(clients):
        arguments = (url, seconds, span, request, seed * 1000 + number, start, done)
        at_work.append(multiprocessing.Process(target=client, args=arguments))
    for process in at_work:
        process.start()
    for process in at_work:
        process.join()
        if process.exitcode != 0:
            # The others wait for it.
            for other in at_work:
                other.kill()
            sys.exit("a client failed")
    count = sum(done.get() for _ in range(clients))
    print("requests=%d iops=%.1f" % (count, count / seconds))


main()

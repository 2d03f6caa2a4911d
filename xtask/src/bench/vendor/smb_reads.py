"""smb_reads.py URL CLIENTS SECONDS SPAN_BYTES REQUEST_BYTES SEED: random reads of a file on an SMB share by so many clients at once, each a process
with a session of its own, by Samba's client library. Prints what all of them did together."""

import ctypes
import os
import random
import sys
import time

import together

CONFIGURATION = "[global]\n  client min protocol = SMB3\n  disable netbios = yes\n"


def client(ready, url, seconds, span, request, seed):
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
    ready()
    count, ends = 0, time.monotonic() + seconds
    while time.monotonic() < ends:
        offset = draw.randrange(span // request) * request
        if library.smbc_lseek(file, offset, os.SEEK_SET) != offset or library.smbc_read(file, buffer, request) != request:
            sys.exit("a read at %d failed: %s" % (offset, os.strerror(ctypes.get_errno())))
        count += 1
    return count


def main():
    url, clients, seconds, span, request, seed = sys.argv[1], *map(int, sys.argv[2:])
    home = os.path.join(os.environ["HOME"], ".smb")
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "smb.conf"), "w") as file:
        file.write(CONFIGURATION)
    each = [(url, seconds, span, request, seed * 1000 + number) for number in range(clients)]
    count = sum(together.run(client, each)[1])
    print("requests=%d iops=%.1f" % (count, count / seconds))


main()

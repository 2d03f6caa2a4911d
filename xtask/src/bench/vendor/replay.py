"""replay.py URI TRACE MACHINES FIRST_IMAGE IMAGE_BYTES THINK: the requests of a boot (lines of the trace: gap_us,op,offset,length), again by so many machines at
once, each in an image of its own, one behind the other. Requests of a machine wait for the one before and for the time that the recorded
machine took then, times THINK; those that it sent together go out together. Prints the seconds until the last machine is through."""

import sys
import time

import nbd
import together

TOGETHER_US = 200
IN_FLIGHT = 32


def groups(path):
    made = []
    for line in open(path):
        gap, op, offset, length = line.strip().split(",")
        request = (op, int(offset), int(length))
        if made and int(gap) < TOGETHER_US and len(made[-1][1]) < IN_FLIGHT:
            made[-1][1].append(request)
        else:
            made.append((int(gap) / 1e6, [request]))
    return made


def machine(ready, uri, trace, base, think):
    handle = nbd.NBD()
    handle.connect_uri(uri)
    ready()
    for gap, requests in trace:
        if gap * think > 0.0001:
            time.sleep(gap * think)
        waiting, buffers = [], []
        for op, offset, length in requests:
            buffers.append(nbd.Buffer.from_bytearray(bytearray(length)))
            send = handle.aio_pread if op == "R" else handle.aio_pwrite
            waiting.append(send(buffers[-1], base + offset))
        while waiting:
            waiting = [cookie for cookie in waiting if not handle.aio_command_completed(cookie)]
            if waiting:
                handle.poll(-1)
    handle.shutdown()


def main():
    uri, path, think = sys.argv[1], sys.argv[2], float(sys.argv[6])
    machines, first, image = map(int, sys.argv[3:6])
    trace = groups(path)
    seconds, _ = together.run(machine, [(uri, trace, (first + number) * image, think) for number in range(machines)])
    print("seconds=%.3f" % seconds)


main()

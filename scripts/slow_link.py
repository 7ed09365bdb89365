#!/usr/bin/env python3
"""A slow link between two network namespaces: packets wait for their turn at a rate, then for a delay.

For kernels without netem: two TUN devices, one in each namespace, and this process between them. Needs root.

    scripts/slow_link.py left 10.9.0.1/24 right 10.9.0.2/24 --delay-ms 5 --mbit 100

Prints "up" when packets pass. SIGSTOP is a clean partition, SIGCONT heals it.
"""
import argparse
import collections
import ctypes
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000
DEVICE, MTU = "slow0", 9000  # large packets: fewer turns of this loop
MAX_WAITING_BYTES = 4 << 20  # beyond, packets are lost, as in a switch


def open_tun(namespace, address):
    """A TUN device inside a namespace; the descriptor works in ours."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(there, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"namespace {namespace}")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    for words in (["addr", "add", address, "dev", DEVICE], ["link", "set", DEVICE, "mtu", str(MTU), "up"]):
        subprocess.run(["ip", *words], check=True)
    libc.setns(home, CLONE_NEWNET)
    os.close(there), os.close(home)
    return tun


class Direction:
    """Packets on their way from one device to the other."""

    def __init__(self, source, target, delay_s, bytes_per_s):
        self.source, self.target, self.delay_s, self.bytes_per_s = source, target, delay_s, bytes_per_s
        self.waiting, self.waiting_bytes, self.free_at = collections.deque(), 0, 0.0

    def take(self):
        for _ in range(64):
            try:
                packet = os.read(self.source, 65536)
            except BlockingIOError:
                return
            if self.waiting_bytes + len(packet) > MAX_WAITING_BYTES:
                continue
            self.free_at = max(self.free_at, time.monotonic())
            if self.bytes_per_s:
                self.free_at += len(packet) / self.bytes_per_s
            self.waiting.append((self.free_at + self.delay_s, packet))
            self.waiting_bytes += len(packet)

    def give(self):
        """Passes on what is due. Seconds until the next, or None."""
        while self.waiting:
            due, packet = self.waiting[0]
            if (left := due - time.monotonic()) > 0:
                return left
            try:
                os.write(self.target, packet)
            except BlockingIOError:
                return 0.0005
            self.waiting.popleft()
            self.waiting_bytes -= len(packet)
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for side in ("left", "right"):
        parser.add_argument(side, help="network namespace")
        parser.add_argument(f"{side}_address", help="address with prefix, as 10.9.0.1/24")
    parser.add_argument("--delay-ms", type=float, default=0, help="one way")
    parser.add_argument("--mbit", type=float, default=0, help="0: as fast as it goes")
    args = parser.parse_args()
    left, right = open_tun(args.left, args.left_address), open_tun(args.right, args.right_address)
    rate = args.mbit * 1e6 / 8
    directions = {left: Direction(left, right, args.delay_ms / 1e3, rate),
                  right: Direction(right, left, args.delay_ms / 1e3, rate)}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    poll = select.poll()
    for tun in directions:
        poll.register(tun, select.POLLIN)
    print("up", flush=True)
    while True:
        pauses = [pause for d in directions.values() if (pause := d.give()) is not None]
        # poll's milliseconds are coarse: the last one is slept through in small steps.
        timeout = None if not pauses else max(0, int(min(pauses) * 1000))
        ready = poll.poll(timeout)
        for tun, _ in ready:
            directions[tun].take()
        if not ready and pauses and min(pauses) < 0.001:
            time.sleep(min(pauses))


if __name__ == "__main__":
    main()

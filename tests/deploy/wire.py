"""Networks as they are, on this machine: namespaces, and a wire between them that one can spoil.

Each namespace has a TUN device; what the kernel sends there arrives here as packets and goes on to
the device of whom it is for: later, or not at all. TCP at both ends is the kernel's own. It stands
for `tc netem`, which not every kernel has.
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from pathlib import Path

TUN, TUNSETIFF, IFF_TUN, IFF_NO_PI = "/dev/net/tun", 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET, MTU = 0x40000000, 1500
DEVICE = "px0"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def lacking():
    """Why there can be no such networks here; nothing, if they can be."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if not Path(TUN).exists():
        return f"there is no {TUN}"
    name = f"px-{os.getpid()}-probe"
    try:
        ip("netns", "add", name)
        ip("netns", "delete", name)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"ip netns does not work: {error}"
    return ""


def device_in(namespace):
    """A TUN device in a namespace; the thread that opens it goes there, and ends."""
    opened = []

    def go():
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{namespace}") as there:
            if libc.setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        about = struct.pack("16sH14x", DEVICE.encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(device, TUNSETIFF, about)
        opened.append(device)

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    return opened[0]


class Wire:
    """Between hosts by name: `delay` in seconds each way, `loss` of packets, and ways `cut`."""

    def __init__(self, hosts, seed):
        self.names = {host: f"px-{os.getpid()}-{host}" for host in hosts}
        self.addresses = {host: f"10.77.0.{i + 1}" for i, host in enumerate(hosts)}
        self.devices, self.rng = {}, random.Random(seed)
        self.delay, self.loss, self.cut = 0.0, 0.0, set()
        self.carried, self.lost, self.over = 0, 0, threading.Event()

    def inside(self, host):
        """What to put before a command that is to run there."""
        return "ip", "netns", "exec", self.names[host]

    def open(self):
        for host, name in self.names.items():
            ip("netns", "add", name)
            self.devices[host] = device_in(name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "address", "add", f"{self.addresses[host]}/24", "dev", DEVICE)
            ip("-n", name, "link", "set", DEVICE, "mtu", str(MTU), "up")
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def close(self):
        self.over.set()
        self.thread.join()
        for device in self.devices.values():
            os.close(device)
        for name in self.names.values():
            ip("netns", "delete", name)

    def carry(self):
        """Packets from device to device, each when it is due."""
        host_of = {device: host for host, device in self.devices.items()}
        by_address = {bytes(map(int, a.split("."))): h for h, a in self.addresses.items()}
        due = []
        while not self.over.is_set():
            wait = max(0.0, min(0.1, due[0][0] - time.monotonic())) if due else 0.1
            for device in select.select([*host_of], [], [], wait)[0]:
                packet = os.read(device, 2 * MTU)
                to = by_address.get(packet[16:20]) if packet[0] >> 4 == 4 else None
                if to is None:
                    continue
                if (host_of[device], to) in self.cut or self.rng.random() < self.loss:
                    self.lost += 1
                    continue
                self.carried += 1
                heapq.heappush(due, (time.monotonic() + self.delay, self.carried, to, packet))
            while due and due[0][0] <= time.monotonic():
                *_, to, packet = heapq.heappop(due)
                with contextlib.suppress(OSError):  # a queue that is full loses packets, too
                    os.write(self.devices[to], packet)


@contextlib.contextmanager
def wired(hosts, seed=0):
    wire = Wire(hosts, seed)
    try:
        wire.open()
        yield wire
    finally:
        wire.close()

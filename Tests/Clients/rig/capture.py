"""Frames that pass a machine's port of the switch of `network.Network`."""

import socket
import struct
import threading

ALL_PROTOCOLS = 0x0003
IPV4, TCP = 0x0800, 6


class Capture:
    """Keeps the TCP payloads between machines, by the pair of addresses, until it is closed."""

    def __init__(self, network, name):
        self.payloads = {}
        self.ports = {}
        with network.inside("switch"):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
            self.socket.bind((name, 0))
        self.socket.settimeout(0.2)
        self.is_over = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.is_over:
            try:
                frame = self.socket.recv(70_000)
            except TimeoutError:
                continue
            self._keep(frame)

    def _keep(self, frame):
        if len(frame) < 54 or struct.unpack(">H", frame[12:14])[0] != IPV4 or frame[23] != TCP:
            return
        packet = frame[14:]
        size = struct.unpack(">H", packet[2:4])[0]
        tcp = packet[(packet[0] & 15) * 4 : size or None]
        pair = tuple(socket.inet_ntoa(packet[at : at + 4]) for at in (12, 16))
        payload = tcp[(tcp[12] >> 4) * 4 :]
        self.payloads.setdefault(pair, []).append(payload)
        for port in struct.unpack(">HH", tcp[:4]):
            self.ports[pair, port] = self.ports.get((pair, port), 0) + len(payload)

    def between(self, one, other):
        """The payloads in both directions, joined."""
        return b"".join(
            b"".join(self.payloads.get(pair, [])) for pair in ((one, other), (other, one))
        )

    def close(self):
        self.is_over = True
        self.thread.join()
        self.socket.close()

"""`status` names what bounds the tokens per second: the stage that computes most, or the link that takes longest."""
import contextlib
import queue
import socket
import threading
import time
import unittest

import cluster

LAYERS = 24


class Delay:
    """A TCP relay in front of an address: what goes either way arrives so many seconds later."""

    def __init__(self, target, seconds):
        host, port = target.rsplit(":", 1)
        self.target, self.seconds = (host, int(port)), seconds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.connections = [self.listener]
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                here, _ = self.listener.accept()
                there = socket.create_connection(self.target)
                self.connections += here, there
                for one, other in ((here, there), (there, here)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    on_the_way = queue.SimpleQueue()
                    threading.Thread(target=self._take, args=(one, on_the_way), daemon=True).start()
                    threading.Thread(target=self._give, args=(other, on_the_way), daemon=True).start()

    def _take(self, connection, on_the_way):
        data = b"."
        while data:
            try:
                data = connection.recv(1 << 16)
            except OSError:
                data = b""
            on_the_way.put((time.monotonic() + self.seconds, data))

    @staticmethod
    def _give(connection, on_the_way):
        with contextlib.suppress(OSError):
            while True:
                due, data = on_the_way.get()
                time.sleep(max(0, due - time.monotonic()))
                if not data:
                    return connection.shutdown(socket.SHUT_WR)
                connection.sendall(data)

    def close(self):
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


def heavy(stage, stages):
    """Layer ranges of which one stage has nearly all."""
    sizes = [1] * stages
    sizes[stage] = LAYERS - stages + 1
    begins = [sum(sizes[:i]) for i in range(stages + 1)]
    return [f"{begin}-{end - 1}" for begin, end in zip(begins, begins[1:])]


def even(stages):
    size = LAYERS // stages
    return [f"{i * size}-{(i + 1) * size - 1}" for i in range(stages)]


# What is made slow, the layers, seconds on the way to and from workers, and how the answer begins.
CASES = [
    *((f"stage {i} of 3", heavy(i, 3), {}, f"stage w{i} ") for i in range(3)),
    *((f"link into {i} of 3, {s} s", even(3), {i: s}, f"the link from {'the coordinator' if i == 0 else f'w{i - 1}'} to w{i} ")
      for i, s in ((0, 0.05), (1, 0.05), (2, 0.15))),
]


class WhySlow(cluster.TestCase):
    def said(self, layers, delays):
        """What status answers while a request runs, time and again."""
        with contextlib.ExitStack() as stack:
            entries = []
            for i, layer_range in enumerate(layers):
                worker = cluster.Server("worker", "--listen", "127.0.0.1:0", "--name", f"w{i}", "--models", self.folder, "--threads", 1)
                stack.callback(worker.stop)
                address = worker.ready().grpc
                if i in delays:
                    relay = Delay(address, delays[i])
                    stack.callback(relay.close)
                    address = relay.address
                entries.append({"name": f"w{i}", "address": address, "threads": 1, "layers": layer_range})
            file = self.folder / "topology.yaml"
            file.write_text(cluster.topology_text(self.model, entries, context=4096))
            coordinator = cluster.Server("serve", "-f", file)
            stack.callback(coordinator.stop)
            server = coordinator.ready().grpc
            asking = cluster.Server("run", "--server", server, "--tokens", "3,4,5", "-n", 4000, "--ignore-eos", "--temp", 0)
            stack.callback(asking.stop)
            answers = []
            time.sleep(1)
            for _ in range(5):
                answers.append(cluster.run_json("status", "--server", server)["bottleneck"])
                time.sleep(0.1)
            return answers

    def test_slow_downs(self):
        self.model = cluster.tiny_model(self.folder / "tiny.gguf", context=4096, layers=LAYERS, hidden=512)
        for what, layers, delays, begins in CASES:
            with self.subTest(what):
                said = self.said(layers, delays)
                right = sum(answer.startswith(begins) for answer in said)
                self.assertGreater(right, len(said) / 2, said)


if __name__ == "__main__":
    unittest.main()

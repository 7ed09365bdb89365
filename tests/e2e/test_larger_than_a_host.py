"""A model larger than any of its hosts: workers that pin their weights, each in a memory group smaller than the model."""
import contextlib
import os
import pathlib
import unittest

import cluster

MIB = 1 << 20
GROUPS = pathlib.Path("/sys/fs/cgroup/memory")  # version 1; elsewhere the test is skipped


@contextlib.contextmanager
def memory_group(name, limit_bytes):
    group = GROUPS / name
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit_bytes))
    except OSError as error:
        raise unittest.SkipTest(f"memory groups cannot be made here: {error}") from None
    try:
        yield group
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def evict(path):
    """Out of the page cache: pages belong to the group that reads them first."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class LargerThanAHost(cluster.TestCase):
    def group(self, name, limit_bytes):
        stack = contextlib.ExitStack()
        group = stack.enter_context(memory_group(f"baton-{os.getpid()}-{name}", limit_bytes))
        self.addCleanup(stack.close)  # after the processes in it have ended
        return group

    def worker(self, name, group, model):
        enter = f"echo $$ > {group}/cgroup.procs; exec \"$@\""
        server = cluster.Server("worker", "--listen", "127.0.0.1:0", "--name", name, "--models", model.parent, "--threads", 1,
                                "--mlock", wrapper=["sh", "-c", enter, "sh"])
        self.addCleanup(server.stop)
        return server.ready()

    def serve(self, model, workers):
        entries = [{"name": name, "address": server.grpc, "threads": 1} for name, server in workers.items()]
        file = self.folder / f"{len(workers)}.yaml"
        file.write_text(cluster.topology_text(model, entries, context=64, sequences=1,
                                              more="limits: {start: 5s, batch_rows: 64}\n"))
        return self.start("serve", "-f", file)

    def test_two_hosts_hold_what_one_cannot(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf", layers=40, hidden=1024)
        size = model.stat().st_size
        limit = int(size / 1.8)
        overhead = 24 * MIB  # of the process itself, its KV cache and scratch
        self.assertGreater(limit, size / 2 + overhead, "the model is too small for this test")
        ask = ("--tokens", "3,4,5,6", "-n", 8, "--temp", 0, "--ignore-eos")
        alone = cluster.run_json("run", "-m", model, *ask)["tokens"]

        evict(model)
        groups = [self.group(name, limit) for name in ("left", "right")]
        workers = {name: self.worker(name, group, model) for name, group in zip(("left", "right"), groups)}
        served = self.serve(model, workers).ready()
        self.assertEqual(cluster.run_json("run", "--server", served.grpc, *ask)["tokens"], alone)
        for group in groups:
            self.assertLessEqual(int((group / "memory.max_usage_in_bytes").read_text()), limit)
        for worker in cluster.run_json("status", "--server", served.grpc)["workers"]:
            self.assertGreater(cluster.locked_bytes(worker["pid"]), 0.9 * worker["weights_bytes"])

        evict(model)
        lonely = {"lonely": self.worker("lonely", self.group("lonely", limit), model)}
        refused = self.serve(model, lonely)
        self.assertNotEqual(refused.wait(), 0)
        self.assertRegex(refused.words(), r"baton: error: .*does not fit: worker lonely needs .*has ")


if __name__ == "__main__":
    unittest.main()

"""A cluster of real processes for the scripts that measure one: its workers, its coordinator, and what one asks of it."""
import argparse
import collections.abc
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile

PATIENCE_S = 900


def parser(description):
    """With what each of them is told."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.add_argument("model", type=lambda p: pathlib.Path(p).resolve())
    made.add_argument("--baton", default="baton", type=lambda p: pathlib.Path(p).resolve() if "/" in p else p)
    return made


@contextlib.contextmanager
def started(words, ready, env=None):
    """A process in the background, from the line that it begins so, and that line's match."""
    process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if found := re.match(ready, line):
                break
        else:
            raise SystemExit("".join(said))
        subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)  # so that a full pipe never stops it
        yield process, found
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            raise SystemExit(f"{' '.join(map(str, words[:6]))} … did not end on SIGTERM") from None


@dataclasses.dataclass
class Worker:
    threads: int = 1
    layers: str = "auto"
    listen: str = "127.0.0.1:0"
    flags: tuple = ()
    inside: tuple = ()  # words before the command, as those that enter a network namespace
    around: collections.abc.Callable = contextlib.nullcontext  # of its process, for as long as that lives


class Cluster:
    def __init__(self, stack, args, workers, settings, listen="127.0.0.1:0", inside=()):
        """Starts the workers, then the coordinator; all end with `stack`. settings: the rest of the topology."""
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-cluster-")))
        self.file, self.processes = folder / "topology.yaml", {}
        self._command, self._env = (*inside, args.baton), os.environ | {"XDG_STATE_HOME": str(folder / "state")}

        def start(name, *words):
            self.processes[name], ready = stack.enter_context(started(words, r"ready grpc=(\S+)", self._env))
            return ready[1]

        text = f"model: {args.model}\n{settings}listen:\n  grpc: {listen}\nworkers:\n"
        for i, worker in enumerate(workers):
            address = start(f"w{i}", *worker.inside, args.baton, "worker", "--listen", worker.listen, "--name", f"w{i}", "--models",
                            args.model.parent, "--threads", worker.threads, *worker.flags)
            stack.enter_context(worker.around(self.processes[f"w{i}"]))
            text += f"  - {{name: w{i}, address: \"{address}\", threads: {worker.threads}, layers: {worker.layers}}}\n"
        self.file.write_text(text)
        self.address = start("serve", *self._command, "serve", "-f", self.file)

    def ask(self, *words, patience_s=PATIENCE_S):
        """What a command of the program answers, as JSON."""
        done = subprocess.run([str(w) for w in (*self._command, *words, "--json")], env=self._env, capture_output=True, text=True,
                              timeout=patience_s)
        if done.returncode != 0:
            raise SystemExit(f"baton {' '.join(map(str, words[:3]))}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def bench(self, *words, patience_s=PATIENCE_S):
        """The report of `baton bench`, whose requests all succeeded."""
        report = self.ask("bench", "--server", self.address, *words, patience_s=patience_s)
        if report["failed"]:
            raise SystemExit(f"{report['failed']} requests failed: {report['first_error']}")
        return report

    def tokens_per_s(self, streams, *words):
        """Of so many streams together, in decode."""
        report = self.bench("--clients", streams, "--requests", streams, "--no-speculation", *words)
        return streams * 1000 / report["tbt_ms"]["mean"]

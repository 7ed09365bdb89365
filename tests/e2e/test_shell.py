"""What a shell has of the program: help, completion for three shells, the man page, exit codes, --json."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELLS = {"bash": ("bash", "-n"), "zsh": ("zsh", "-n"), "fish": ("fish", "--no-execute")}


def said(*args):
    return cluster.good(cluster.run(*args)).stdout


COMMANDS = re.findall(r"(?m)^  ([a-z]+) {2,}\S", said("--help"))


def flags_of(*command):
    return set(re.findall(r"(?m)^  (?:-\w,)?(--[a-z][a-z-]*)", said(*command, "--help")))


class Shell(cluster.TestCase):
    def test_each_command_helps_with_an_example(self):
        self.assertGreater(len(COMMANDS), 20)
        for command in COMMANDS:
            self.assertRegex(said(command, "--help"), rf"Example:\n  .*baton {command}", command)

    def test_completion_knows_all_commands_and_flags(self):
        for shell, check in SHELLS.items():
            script = said("completion", shell)
            for command in COMMANDS:
                self.assertIn(command, script, shell)
                for flag in flags_of(command):
                    self.assertIn(flag if shell != "fish" else f"-l {flag[2:]}", script, f"{shell}: {command} {flag}")
            if shutil.which(check[0]):
                checked = subprocess.run(check, input=script, text=True, capture_output=True)
                self.assertEqual((checked.returncode, checked.stderr), (0, ""), shell)

    def test_bash_completes(self):
        for words, expected in ((["wor"], "worker"), (["status", "--wa"], "--wait --watch"), (["certs", "iss"], "issue"),
                                (["certs", "issue", "--ro"], "--role")):
            typed = " ".join(["baton", *words])
            script = f'source <("{cluster.BATON}" completion bash); COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _baton; ' \
                     'echo "${COMPREPLY[*]}"'
            done = subprocess.run(["bash", "-c", script], text=True, capture_output=True, timeout=60, cwd=self.folder)
            self.assertEqual((done.stdout.strip(), done.stderr), (expected, ""))

    def test_the_man_page(self):
        page = subprocess.run([sys.executable, ROOT / "scripts/make_man_page.py", cluster.BATON], text=True, capture_output=True,
                              check=True).stdout
        for command in COMMANDS:
            self.assertIn(f".SS baton {command}\n", page)
        if shutil.which("man"):
            file = self.folder / "baton.1"
            file.write_text(page)
            shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", file], text=True, capture_output=True,
                                   env={"MANWIDTH": "120", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"})
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))

    def test_exit_codes_are_those_of_the_documents(self):
        codes = {int(code) for code in re.findall(r"(?m)^  k\w+ = (\d+),", (ROOT / "cli/exit_code.h").read_text())}
        listed = re.search(r"Exit codes: (.*?)\.\n", (ROOT / "docs/cli.md").read_text(), re.S)[1]
        self.assertEqual({int(code) for code in re.findall(r"(?:^|·\s+)(\d+) ", listed)}, codes)
        page = (ROOT / "scripts/make_man_page.py").read_text()
        self.assertEqual({int(code) for code in re.findall(r"\((\d+), \"", page)}, codes)

    def test_json_of_small_commands(self):
        certs = self.folder / "certs"
        made = [cluster.run_json("certs", "init", "-d", certs),
                cluster.run_json("certs", "issue", "a", "--role", "worker", "--host", "127.0.0.1", "-d", certs)]
        for path in [path for files in made for path in files.values()]:
            self.assertTrue(pathlib.Path(path).is_file(), path)
        self.assertTrue(cluster.run_json("certs", "key", "ann", "-f", self.folder / "keys.txt")["key"])
        template = self.folder / "template.jinja"
        template.write_text("{{ messages[0].content }}!")
        conversation = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
        self.assertEqual(cluster.run_json("render", "--template", template, stdin=conversation), {"prompt": "hi!"})


if __name__ == "__main__":
    unittest.main()

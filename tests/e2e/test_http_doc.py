"""The curl commands of docs/http.md do what the page says; docs/grpc.md is what its maker prints."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = [command for block in re.findall(r"```sh\n(.*?)```", (ROOT / "docs/http.md").read_text(), re.S)
            for command in re.split(r"\n(?=curl )", block.strip())]


class HttpDoc(cluster.TestCase):
    @unittest.skipIf(shutil.which("curl") is None, "curl is not installed")
    def test_all_commands(self):
        template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        model = cluster.tiny_model(self.folder / "tiny.gguf", chat_template=template, context=1024)
        made = cluster.Cluster(self.folder, model, context=1024, http="127.0.0.1:0")
        self.addCleanup(made.stop)
        said = {}
        for command in COMMANDS:
            done = subprocess.run(["bash", "-c", command], text=True, capture_output=True, timeout=60,
                                  env=os.environ | {"URL": f"http://{made.coordinator.http}", "no_proxy": "*"})
            self.assertEqual(done.returncode, 0, command + done.stderr)
            self.assertTrue(done.stdout, command)
            said[command] = done.stdout
        parsed = [json.loads(out) for command, out in said.items() if out.startswith("{")]
        self.assertEqual(len(parsed), len(COMMANDS) - 2)  # all but the stream and the metrics
        self.assertEqual(sum("error" in each for each in parsed), 1)
        stream = next(out for command, out in said.items() if '"stream": true' in command)
        self.assertTrue(stream.endswith("data: [DONE]\n\n"))
        self.assertIn('"usage":{"prompt_tokens"', stream)
        call = next(json.loads(out) for command, out in said.items() if "tool_choice" in command)["choices"][0]
        self.assertIn(call["finish_reason"], ("tool_calls", "length"))
        metrics = next(out for command, out in said.items() if command.endswith("/metrics"))
        for name in ("baton_stage_compute_seconds", "baton_stage_queue_seconds", "baton_stage_link_seconds", "baton_stage_bubble_share",
                     "baton_time_to_first_token_seconds_bucket", "baton_time_between_tokens_seconds_bucket",
                     "baton_worker_losses_total", "baton_requests_finished_total", "baton_kv_blocks_used",
                     "baton_worker_page_faults_total", "baton_worker_mapped_resident_bytes", "baton_stage_weight_bytes_total",
                     "baton_link_bytes_total"):
            self.assertRegex(metrics, rf"(?m)^{name}\b")

    def test_the_grpc_reference_is_up_to_date(self):
        made = subprocess.run([sys.executable, ROOT / "scripts/make_proto_reference.py"], text=True, capture_output=True)
        self.assertEqual(made.stdout, (ROOT / "docs/grpc.md").read_text(), "run scripts/make_proto_reference.py > docs/grpc.md")


if __name__ == "__main__":
    unittest.main()

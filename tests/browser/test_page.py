"""The page, driven as a person would: chat streams, stop works, a killed worker is seen, and seen to come back."""
import os
import pathlib
import signal
import time
import unittest

import cluster
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

SCREENSHOTS = pathlib.Path(os.environ["BATON_SCREENSHOTS"])
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def browser(width, height, dark=False):
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}",
                 *(["--blink-settings=preferredColorScheme=0"] if dark else [])):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = "/usr/bin/chromium"
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


class Page(cluster.TestCase):
    def setUp(self):
        super().setUp()
        model = cluster.tiny_model(self.folder / "tiny.gguf", chat_template=TEMPLATE, context=8192)
        file = self.folder / "topology.yaml"
        workers = [{"name": n, "address": "127.0.0.1:0", "threads": 1, "launch": "local"} for n in ("left", "right")]
        file.write_text(cluster.topology_text(model, workers, context=8192, http="127.0.0.1:0"))
        self.up = self.start("up", "-f", file).ready()

    def open(self, *size, **more):
        page = browser(*size, **more)
        self.addCleanup(page.quit)
        page.get(f"http://{self.up.http}/")
        self.wait(page, lambda: page.find_element(By.ID, "state").text == "ready")
        return page

    def wait(self, page, holds, timeout=30):
        end = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > end:
                page.save_screenshot(str(SCREENSHOTS / "failed.png"))
                self.fail("waited in vain; see failed.png: " + page.find_element(By.TAG_NAME, "body").text[:500])
            time.sleep(0.1)

    def say(self, page, text, tokens, endless=False):
        if endless:  # a random model may end at any token
            page.execute_script("""
              const ask = window.fetch;
              window.fetch = (url, options) => ask(url, options?.body ?
                {...options, body: JSON.stringify({...JSON.parse(options.body), ignore_eos: true})} : options);""")
        settings = page.find_element(By.CSS_SELECTOR, "form details")
        page.execute_script("arguments[0].open = true", settings)
        box = page.find_element(By.ID, "max_tokens")
        box.clear()
        box.send_keys(str(tokens))
        page.execute_script("arguments[0].open = false", settings)
        page.find_element(By.ID, "prompt").send_keys(text, Keys.ENTER)

    def answer(self, page):
        bodies = page.find_elements(By.CSS_SELECTOR, ".message.assistant .body")
        return bodies[-1].get_attribute("textContent") if bodies else ""

    def stage(self, page, name):
        return page.execute_script("return document.querySelector(`#picture g[data-worker=\"${arguments[0]}\"]`)?.dataset.state", name)

    def no_errors(self, page):
        self.assertEqual([e for e in page.get_log("browser") if e["level"] == "SEVERE"], [])

    def test_chat_streams_stops_and_outlives_a_worker(self):
        page = self.open(1280, 900)
        self.say(page, "hi", 7000, endless=True)
        self.wait(page, lambda: len(self.answer(page)) > 50)
        first = len(self.answer(page))
        self.wait(page, lambda: len(self.answer(page)) > first)  # goes on: it streams
        page.save_screenshot(str(SCREENSHOTS / "streaming.png"))

        pid = next(w["pid"] for w in cluster.run_json("status", "--server", self.up.grpc)["workers"] if w["name"] == "right")
        os.kill(pid, signal.SIGKILL)
        seen = set()
        end = time.monotonic() + 15
        while time.monotonic() < end and not seen - {"ready", None}:
            seen.add(self.stage(page, "right"))
            time.sleep(0.02)
        page.save_screenshot(str(SCREENSHOTS / "worker-lost.png"))
        self.assertTrue(seen - {"ready", None}, "the loss was not shown")
        self.wait(page, lambda: self.stage(page, "right") == "ready")
        before = len(self.answer(page))
        self.wait(page, lambda: len(self.answer(page)) > before)
        page.save_screenshot(str(SCREENSHOTS / "worker-back.png"))

        page.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
        self.wait(page, lambda: not page.find_element(By.ID, "stop").is_enabled())
        stopped = self.answer(page)
        time.sleep(1)
        self.assertEqual(self.answer(page), stopped)
        page.refresh()
        self.wait(page, lambda: self.answer(page) == stopped)  # history
        self.no_errors(page)

    def test_a_phone_in_the_dark_with_a_keyboard(self):
        page = self.open(390, 844, dark=True)
        self.assertLessEqual(page.execute_script("return document.documentElement.scrollWidth"),
                             page.execute_script("return window.innerWidth"))
        self.say(page, "hi", 8)
        self.wait(page, lambda: page.find_element(By.ID, "send").is_enabled() and self.answer(page))
        page.save_screenshot(str(SCREENSHOTS / "phone-dark.png"))
        page.execute_script("document.getElementById('pipeline').scrollIntoView()")
        page.save_screenshot(str(SCREENSHOTS / "phone-dark-pipeline.png"))
        named = page.execute_script("""
          return [...document.querySelectorAll('button, input, textarea, [role=img]')].filter(e =>
            !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length || e.getAttribute('aria-labelledby')))
            .map(e => e.outerHTML)""")
        self.assertEqual(named, [])
        self.assertIn("left ready", page.find_element(By.ID, "picture-title").get_attribute("textContent"))
        self.no_errors(page)


if __name__ == "__main__":
    unittest.main()

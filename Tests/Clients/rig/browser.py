"""Headless Chromium, driven over its DevTools pipe: no port, no driver program, no waiting."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from .node import PASSWORD, USER


class PageError(Exception):
    """An expectation of the page failed."""


class Browser:
    """One browser with one page. Elements are found by their visible text."""

    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if program is None:
            raise FileNotFoundError("chromium is missing: make deps installs it")
        self.profile = tempfile.mkdtemp(prefix="divan-browser-")
        to_browser, self.output = os.pipe()
        self.input, from_browser = os.pipe()

        def connect_pipe():
            # DevTools speaks on descriptors 3 (in) and 4 (out); copies first, as 3 may be in use.
            one, other = os.dup(to_browser), os.dup(from_browser)
            os.dup2(one, 3)
            os.dup2(other, 4)
            os.closerange(5, 256)

        flags = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
            "--window-size=1280,900",
            f"--user-data-dir={self.profile}",
        ]
        if os.getuid() == 0:
            flags.append("--no-sandbox")
        self.process = subprocess.Popen(
            [program, *flags, "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=connect_pipe,
            close_fds=False,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.console = []
        self.requests = []
        self.session = None
        (target,) = [
            each
            for each in self.call("Target.getTargets")["targetInfos"]
            if each["type"] == "page"
        ][:1]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self.call("Browser.close", browser=True)
            self.process.wait(10)
        except (PageError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(10)
        os.close(self.input)
        os.close(self.output)
        shutil.rmtree(self.profile, ignore_errors=True)

    # The protocol

    def call(self, method, browser=False, **parameters):
        self.number += 1
        number = self.number
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session and not browser:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(30)
            if answer.get("id") == number:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def receive(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.input], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise PageError("the browser does not answer")
            part = os.read(self.input, 1 << 16)
            if not part:
                raise PageError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        event = json.loads(message)
        self.note(event)
        return event

    def note(self, event):
        """Records errors of the page for the tests."""
        method, about = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Page.javascriptDialogOpening":
            # Confirmation dialogs are accepted.
            self.number += 1
            message = {
                "id": self.number,
                "method": "Page.handleJavaScriptDialog",
                "params": {"accept": True},
                "sessionId": self.session,
            }
            os.write(self.output, json.dumps(message).encode() + b"\0")
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])

    # The page

    def open(self, address):
        """Opens an address and waits until the page has text.

        The page that is left is complete too, so that alone says nothing; and a browser that just
        started on a busy machine takes its time, which is not the page's.
        """
        self.call("Page.navigate", url=address)
        there = f"location.href.startsWith({json.dumps(address)})"
        said = "document.querySelector('form, h1')"
        self.wait(f"{there} && document.readyState == 'complete' && {said}", "the page loads", 60)

    def evaluate(self, expression):
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise PageError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait(self, expression, what, seconds=10):
        """The value of an expression once it is true."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                # An element counts as true; its value would be an empty object.
                value = self.evaluate(f"(e => e instanceof Node || e)({expression})")
            except PageError as error:
                # Between two pages.
                if not any(word in str(error) for word in ("context", "navigated")):
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > deadline:
                raise PageError(f"not within {seconds} s: {what}\n{self.text()[:2000]}\n{self.console}")
            time.sleep(0.02)

    def text(self):
        """The visible text."""
        return self.evaluate("document.body ? document.body.innerText : ''")

    def wait_for_text(self, text, seconds=10):
        self.wait(
            f"(document.body?.innerText ?? '').toLowerCase().includes({json.dumps(text.lower())})",
            f"the page says “{text}”",
            seconds,
        )

    def wait_for_no_text(self, text, seconds=10):
        self.wait(
            f"document.body && !document.body.innerText.toLowerCase().includes({json.dumps(text.lower())})",
            f"the page no longer says “{text}”",
            seconds,
        )

    FIND = """
        const visible = e => e.offsetParent !== null || e.getClientRects().length > 0;
        const told = e => ((e.innerText || '') + ' ' + (e.value || '') + ' '
            + (e.title || '') + ' ' + (e.getAttribute('aria-label') || '')).trim().toLowerCase();
        const fits = (e, words) => words.some(w => told(e).includes(w));
        const top = () => [...document.querySelectorAll('dialog[open]')].pop() || document.body;
    """

    def click(self, *words, within=None, seconds=10):
        """Clicks the first button or link with one of `words`, in the row with `within`.

        An open dialog comes before the page, as it does for a person.
        """
        words = json.dumps([word.lower() for word in words])
        scope = "top()"
        if within is not None:
            rows = "[...document.querySelectorAll('tr, li, section, article, .row')]"
            row = f"{rows}.filter(visible).filter(r => fits(r, [{json.dumps(within.lower())}])).pop()"
            scope = f"({row} || {{querySelectorAll: () => []}})"
        kinds = "button, a, [role=button], [role=tab], input[type=submit], summary, td.link"
        script = f"""(() => {{ {self.FIND}
            const found = [...{scope}.querySelectorAll({json.dumps(kinds)})]
                .filter(visible).filter(e => !e.disabled).filter(e => fits(e, {words}));
            const exact = found.find(e => {words}.some(w => told(e) === w)) || found[0];
            if (!exact) return false;
            exact.click();
            return true;
        }})()"""
        self.wait(script, f"something to click that says {words}", seconds)

    def log_in(self, user=USER, password=PASSWORD):
        """Fills in and sends the form of the login; the caller waits for what it expects then."""
        self.fill("user", user)
        self.fill("password", password)
        self.click("log in")

    def fill(self, words, value, seconds=10):
        """Types into the first field with one of `words` as its label, name or hint."""
        if isinstance(words, str):
            words = [words]
        words = json.dumps([word.lower() for word in words])
        script = f"""(() => {{ {self.FIND}
            const about = e => [e.name, e.id, e.placeholder, e.type, e.getAttribute('aria-label'),
                ...[...(e.labels || [])].map(l => l.innerText)].join(' ').toLowerCase();
            const fields = [...top().querySelectorAll('input, textarea, select')].filter(visible)
                .filter(e => !['submit', 'button', 'hidden'].includes(e.type));
            const field = fields.find(e => {words}.some(w => about(e).includes(w)));
            if (!field) return false;
            field.focus();
            if (field.type === 'checkbox') {{
                if (field.checked !== {json.dumps(bool(value))}) field.click();
            }} else {{
                const kind = Object.getPrototypeOf(field);
                Object.getOwnPropertyDescriptor(kind, 'value').set
                    .call(field, {json.dumps(str(value))});
                field.dispatchEvent(new Event('input', {{bubbles: true}}));
                field.dispatchEvent(new Event('change', {{bubbles: true}}));
            }}
            return true;
        }})()"""
        self.wait(script, f"a field for {words}", seconds)

    def screenshot(self, path):
        image = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(image))

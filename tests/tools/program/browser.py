"""A browser without a window, for tests of pages."""
import shutil
import subprocess
import tempfile
import unittest

CHROMIUM = shutil.which("chromium")
in_browser = unittest.skipUnless(CHROMIUM, "Debian's chromium is not installed: pages were not "
                                           "drawn")


def browse(page, *words, width=900, height=700, dark=False, sought=""):
    """What Chromium writes to its output and its errors with `words` and the page. What scripts say
    to the console, as of an error, is among the errors: CONSOLE."""
    with tempfile.TemporaryDirectory() as profile:
        # --no-sandbox: the user may be root, and the page is our own.
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--disable-dev-shm-usage", f"--user-data-dir={profile}",
             f"--window-size={width},{height}", "--enable-logging=stderr",
             "--virtual-time-budget=5000",
             *(["--blink-settings=preferredColorScheme=0"] if dark else []),
             *words, page.as_uri() + sought], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()

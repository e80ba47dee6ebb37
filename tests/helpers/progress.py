"""A plugin of pytest: says from time to time how many tests are done, and about how long the others will take."""

import time

SECONDS = 15
"""From one line to the next, at least."""
TOO_EARLY = 0.1
"""Share of the tests from which on the time left is said: the longest come first."""


class Progress:
    """What is known of a run of tests, in the process that reports it."""

    def __init__(self, plugins):
        self.plugins = plugins
        self.total = self.done = 0
        self.begun = self.said = time.monotonic()

    def pytest_xdist_node_collection_finished(self, ids):
        self.total = len(ids)

    def pytest_collection_finish(self, session):
        self.total = len(session.items)

    def pytest_runtest_logreport(self, report):
        now = time.monotonic()
        self.done += report.when == "teardown"
        if report.when == "teardown" and now - self.said >= SECONDS and self.done < self.total:
            self.said = now
            share = self.done / self.total
            left = (now - self.begun) * (1 - share) / share
            said = f", about {left // 60:.0f}:{left % 60:02.0f} left" if share > TOO_EARLY else ""
            terminal = self.plugins.get_plugin("terminalreporter")
            terminal.ensure_newline()
            terminal.write_line(f"{share:.0%} of {self.total:,} tests{said}")


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # not in the processes of pytest-xdist
        config.pluginmanager.register(Progress(config.pluginmanager))

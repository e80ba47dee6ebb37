"""A plugin of pytest: says from time to time how many tests are done, and about how long the others will take."""

import time

SECONDS = 15
"""From one line to the next, at least."""


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
            left = (now - self.begun) * (self.total - self.done) / self.done
            terminal = self.plugins.get_plugin("terminalreporter")
            terminal.ensure_newline()
            terminal.write_line(
                f"{self.done / self.total:.0%} of {self.total:,} tests, about {left // 60:.0f}:{left % 60:02.0f} left"
            )


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # not in the processes of pytest-xdist
        config.pluginmanager.register(Progress(config.pluginmanager))

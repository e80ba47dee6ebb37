"""A plugin of pytest: `--last-skipped` runs the tests that were skipped when they last ran, and no others."""

SKIPPED = "attention-grid/skipped"
"""Key in pytest's cache: the tests that were skipped, and the files that were skipped as a whole."""


def pytest_addoption(parser):
    parser.addoption("--last-skipped", action="store_true", help="run only the tests that the last run skipped")


def pytest_collection_modifyitems(config, items):
    if config.getoption("last_skipped"):
        skipped = set(config.cache.get(SKIPPED, []))
        items[:] = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & skipped]


def pytest_terminal_summary(terminalreporter, config):
    if config.pluginmanager.has_plugin("cacheprovider"):  # not with `-p no:cacheprovider`
        ended = [report.nodeid for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
        ran = {*ended, *(each.partition("::")[0] for each in ended if config.getoption("last_skipped"))}
        skipped = {report.nodeid for report in terminalreporter.stats.get("skipped", [])}
        config.cache.set(SKIPPED, sorted(skipped | set(config.cache.get(SKIPPED, [])) - ran))

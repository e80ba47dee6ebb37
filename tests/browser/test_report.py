"""The report, opened from its file in a browser that has no network: categories, a table and a figure really show."""

import shutil

import pytest
from small_studies import reviews

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.by import By  # noqa: E402 - only where selenium is
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.extended]

SECONDS = 20
SWITCHES = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--window-size=1400,1000", "--proxy-server=127.0.0.1:9",
]  # fmt: skip
STUDY = {
    "extensions": ["studies/hate_speech"],
    "experiment": {
        "seeds": [1],
        "backbones": {"tfidf": {"kind": "tfidf"}},
        "datasets": {"imdb": reviews(200, 48)},
        "stages": {"score": {"task": {"kind": "sequence_classification"}, "data": {"imdb": {}}}},
        "models": {"words": {"backbone": "tfidf"}},
    },
    "report": {
        "tables": {
            "scores": {"stage": "score", "columns": ["f1"]},
            "classes": {"kind": "classes", "stage": "score", "models": ["words"]},
            "cost": {"stage": "score", "columns": ["minutes"]},
        },
        "figures": {
            "lengths": {"kind": "words"},
            "f1": {"kind": "score_intervals", "stage": "score"},
            "confusion": {"kind": "confusion", "stage": "score"},
        },
        "opens_with": ["scores", "f1"],
    },
    "execution": {"results": "results/words"},
}


@pytest.fixture(scope="module")
def report(copy_of_repository):
    """A report as `make report` builds it, and the folder of its study's results."""
    project = copy_of_repository("report")
    study = project.configure(STUDY, "words.yaml")
    results = project.folder / "results/words"
    project.snakemake("--cores", 1, "--configfile", study)
    project.snakemake("--configfile", study, "--report", results / "report.html")
    return results / "report.html"


def browser_here():
    """Return a browser without a window, in which every address but those of files is out of reach."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if not all(programs.values()):
        pytest.skip(f"not installed: {', '.join(name for name, path in programs.items() if not path)}")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for switch in SWITCHES:
        options.add_argument(switch)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(programs["chromedriver"]))


@pytest.fixture(scope="module")
def browser():
    """See `browser_here`."""
    driver = browser_here()
    yield driver
    driver.quit()


@pytest.fixture
def opened(report, browser):
    """The report's first page."""
    browser.get(report.as_uri())
    seen(browser, "//*[text()='Workflow']")
    return browser


def seen(browser, path):
    """Return the first element at `path` that shows, as soon as there is one."""

    def shown(_):
        return next((element for element in browser.find_elements(By.XPATH, path) if element.is_displayed()), None)

    return WebDriverWait(browser, SECONDS).until(shown, f"nothing shows at {path}")


def click(browser, path):
    browser.execute_script("arguments[0].click()", seen(browser, path))


def row(name):
    return f"//tr[td[normalize-space(text())='{name}']]"


def test_first_page_without_a_network(opened):
    rows = [each.text for each in opened.find_elements(By.CSS_SELECTOR, ".facts tr")]
    assert {"Study words", "Models words", "Stages in order score", "Seeds 1"} <= set(rows)
    assert opened.find_element(By.CSS_SELECTOR, ".prose h1").text == "words"
    assert "Data: generated texts, not published corpora, under the names imdb." in opened.page_source
    assert not [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"]


def test_first_page_with_the_named_results(opened):
    """Across the page, before the methods and above the graph of the rules."""
    table, figure = (seen(opened, f"//*[contains(@class, 'prose')]//{tag}") for tag in ("table", "*[name()='svg']"))
    assert [cell.text for cell in table.find_elements(By.CSS_SELECTOR, "th")] == ["model", "imdb F1 [%]"]
    methods = seen(opened, "//*[contains(@class, 'facts')]")
    assert table.location["y"] < figure.location["y"] < methods.location["y"] < seen(opened, "//canvas").location["y"]
    assert min(figure.size.values()) > 100
    body = opened.find_element(By.TAG_NAME, "body")
    assert body.value_of_css_property("margin") == "0px"  # the styles of tables change nothing else
    assert not [name for name in ("SEVERE", "System Message") if name in body.text]


def test_order_of_results(opened):
    topics = [element.text for element in opened.find_elements(By.XPATH, "//li") if element.text[:1].isdigit()]
    assert topics == ["1. Scores", "3. Time and memory", "5. Texts"]


def test_table_with_its_caption(opened, report):
    click(opened, "//*[text()='1. Scores']")
    click(opened, f"{row('scores (table)')}//a[@iconname='eye']")
    opened.switch_to.frame(seen(opened, "//iframe"))
    cells = [cell.text for cell in opened.find_elements(By.CSS_SELECTOR, "th, td")]
    assert cells == ["model", "imdb F1 [%]", *(report.parent / "tables/scores.csv").read_text().split()[1].split(",")]
    opened.switch_to.default_content()
    click(opened, f"{row('scores (table)')}//a[@iconname='information-circle']")
    seen(opened, "//*[contains(text(), 'one row per model') or contains(text(), 'One row per model')]")


def test_figure_in_the_report(opened):
    click(opened, "//*[text()='1. Scores']")
    click(opened, f"{row('confusion (figure)')}//a[@iconname='eye']")
    picture = seen(opened, "//img[contains(@src, 'confusion')]")
    WebDriverWait(opened, SECONDS).until(lambda _: picture.get_property("naturalWidth") > 0, "it does not load")
    assert min(picture.size.values()) > 50

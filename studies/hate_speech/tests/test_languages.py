import pytest
from text_descriptions import write_texts

from lib.results.scope import Scope
from studies.hate_speech.results.kinds.texts import LanguagesFigure

pytestmark = pytest.mark.extended


def drawn(file, **settings):
    scope = Scope(models=[], stages={}, owners={}, texts=["tweets"], files=[file])
    (axes,) = LanguagesFigure(kind="languages", **settings).draw(scope).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    return axes, dict(zip(names, [bar.get_width() for bar in axes.patches], strict=True))


def test_languages_by_share(tmp_path):
    languages = ["en"] * 12 + ["de"] * 3 + ["fr", "nl", "pl", "la", "es"]
    file = write_texts(tmp_path / "texts.parquet", *({"language": language} for language in languages))
    axes, bars = drawn(file, threshold=0.1)
    assert list(bars.items()) == [("en", 60), ("de", 15), ("other", 25)]
    assert axes.yaxis_inverted()
    assert [text.get_text() for text in axes.texts] == ["60.0", "15.0", "25.0"]
    assert axes.get_title("left") == "tweets"
    assert set(drawn(file)[1]) == set(languages)

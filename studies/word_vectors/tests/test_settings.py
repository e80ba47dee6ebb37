"""What settings of word vectors refuse."""

import pytest
from pydantic import ValidationError

from lib.preparing.settings.word_vectors import WordVectors

pytestmark = pytest.mark.extended

LOCAL = {"source": "local", "path": "glove.txt", "format": "glove", "dimension": 50}
TRAINED = {"source": "trained"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "local", "dimension": 50}, "'path' is missing"),
        ({"source": "local", "path": "a", "format": "glove"}, "'dimension' is missing"),
        (TRAINED | {"dimension": 0}, "dimension"),
    ],
)
def test_settings_of_vectors_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        WordVectors(**settings)


@pytest.mark.parametrize("settings", [LOCAL, TRAINED])
def test_settings_from_their_dump(settings):
    made = WordVectors(**settings)
    assert WordVectors(**made.model_dump(mode="json")) == made

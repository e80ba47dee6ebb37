"""What the workflow knows of an augmentation: what its ways read, and the code that they execute."""

from lib.core.extensions import part
from lib.preparing.settings.augmentation import Augmentation
from lib.workflow.planning.corpora import address_of
from lib.workflow.planning.paths import Paths
from lib.workflow.staleness.digests import code_digest


def sources(paths: Paths, settings: Augmentation) -> dict[str, list[str]]:
    """Return what the ways of an augmentation read: a WordNet database; folders of a model and its tokeniser."""
    found: dict[str, list[str]] = {}
    if settings.synonyms is not None:
        url = settings.synonyms.url
        found["synonyms"] = [paths.fetched(address_of(url)) if url else str(settings.synonyms.local)]
    if (model := settings.masked_lm) is not None:
        found["masked_lm"] = [paths.weights(model)]
        if model.repository is not None and model.revision is not None:
            found["masked_lm"].append(paths.downloads("tokenizers", model.repository, model.revision))
    return {way: found[way] for way in settings.ways}


def code(settings: Augmentation) -> str:
    """Return the digest of the code that augments a dataset."""
    modules = [part(f"lib.augmentation.{way}") for way in settings.ways]
    return code_digest("studies/hate_speech/scripts/augment_dataset.py", *modules)

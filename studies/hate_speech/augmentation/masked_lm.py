"""Replacement of any words by predictions of a masked language model.

A word is hidden behind one mask token, whatever its number of pieces, so the new word is a single token: of letters,
and one that begins a word. Draws are keyed by document and copy; what else shares a batch moves the model's scores by
rounding only.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from lib.core.errors import ConfigError, RunError
from lib.core.model_folder import TOKENIZER, in_time, opening, read_core, read_fields
from lib.preparing.settings.augmentation import Augmentation
from lib.tokens.masking import TokenMasker
from studies.hate_speech.augmentation.words import WORD, Place, Request, cased, chosen, replaceable, replaced

_WHOLE = re.compile(WORD)
_BATCH_TOKENS = 4096
"""Tokens that the model reads at once, at most, since it scores the whole vocabulary for each."""


class Rewriter:
    """Replaces words by those that a model draws.

    Args:
        settings: share of the words, `masked_lm.top_k` and `masked_lm.max_tokens`.
        source: folder of the model and, if it is another one, folder of its tokeniser.
        device: `auto`, `cpu` or `cuda`.

    Raises:
        ConfigError: the tokeniser has no mask token, or does not tell where words begin, or has none whole.
        DataError: there is no tokeniser.
        RunError: the model is missing, or does not predict masked tokens.
    """

    def __init__(self, settings: Augmentation, source: Sequence[str | Path], device: str) -> None:
        assert settings.masked_lm is not None  # the settings were checked
        self._share, self._top = settings.share, settings.masked_lm.top_k
        model, tokenizer = Path(source[0]), Path(source[-1])
        if (tokenizer / TOKENIZER).is_file():
            read_core(tokenizer)
        with opening(tokenizer, "that of the model"):
            self._tokenizer = AutoTokenizer.from_pretrained(tokenizer, local_files_only=True, trust_remote_code=False)
        available = "cuda" if torch.cuda.is_available() else "cpu"
        self._device = torch.device(available if device == "auto" else device)
        self._model = _opened(model).to(self._device).eval()
        reach = getattr(self._model.config, "max_position_embeddings", settings.masked_lm.max_tokens)
        self._limit = min(settings.masked_lm.max_tokens, self._tokenizer.model_max_length, reach)
        if self._tokenizer.mask_token is None:
            raise ConfigError(
                f"augmentation.masked_lm: {tokenizer}: has no mask token. Expected the tokeniser of a masked language "
                "model; name another model."
            )
        try:
            masker = TokenMasker.of(self._tokenizer, seed=settings.seed, masking="words")
        except ConfigError as error:
            raise ConfigError(
                f"augmentation.masked_lm: {tokenizer}: its tokens do not tell where a word begins. Expected WordPiece, "
                "whole words, or tokens that keep the space before them; name another model."
            ) from error
        assert masker.edges is not None  # asked for by masking
        self._mask = masker.mask_token_id
        texts = self._tokenizer.batch_decode([[number] for number in masker.replacements.tolist()])
        words = {
            number: text.strip()
            for number, text in zip(masker.replacements.tolist(), texts, strict=True)
            if masker.edges.begins[number] and _WHOLE.fullmatch(text.strip())
        }
        self._words = list(words.values())
        self._numbers = torch.tensor(list(words), device=self._device)
        self._spellings: defaultdict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(self._words):
            self._spellings[word.casefold()].append(place)
        if len(self._spellings) < 2:
            raise ConfigError(
                f"augmentation.masked_lm: {tokenizer}: has {len(words)} tokens that are whole words, so none can be "
                "drawn in place of another. Name a model whose vocabulary has words."
            )

    def rewrite(self, requests: Sequence[Request]) -> list[str | None]:
        """See `studies.hate_speech.augmentation.words.Rewriter.rewrite`."""
        result: list[str | None] = []
        size = max(1, _BATCH_TOKENS // self._limit)
        for start in range(0, len(requests), size):
            result += self._rewritten(requests[start : start + size])
        return result

    def _rewritten(self, requests: Sequence[Request]) -> list[str | None]:
        found = self._read([request.text for request in requests])
        taken = [number for number, places in enumerate(found) if places]
        some = [requests[number] for number in taken]
        places = [chosen(requests[number], found[number], self._share) for number in taken]
        result: list[str | None] = [None] * len(requests)
        for number, request, where, words in zip(taken, some, places, self._drawn(some, places), strict=True):
            new = {place: cased(word, request.text[slice(*place)]) for place, word in zip(where, words, strict=False)}
            result[number] = replaced(request.text, new) if new else None
        return result

    def _read(self, texts: list[str]) -> list[list[Place]]:
        """Return the places of the words of each text that the model reads and that may be replaced."""
        offsets = self._tokenizer(
            texts, truncation=True, max_length=self._limit, return_offsets_mapping=True
        ).offset_mapping
        ends = [max((end for _, end in places), default=0) for places in offsets]
        # A text that spells a mask token would be read as one.
        return [
            [] if self._tokenizer.mask_token in text else [place for place in replaceable(text) if place[1] <= end]
            for text, end in zip(texts, ends, strict=True)
        ]

    @torch.no_grad()
    def _drawn(self, requests: Sequence[Request], places: Sequence[Sequence[Place]]) -> list[list[str]]:
        """Return a new word for each place of each text, in order."""
        if not requests:
            return []
        masked = [
            replaced(request.text, dict.fromkeys(where, self._tokenizer.mask_token))
            for request, where in zip(requests, places, strict=True)
        ]
        batch = self._tokenizer(masked, truncation=True, max_length=self._limit, padding=True, return_tensors="pt")
        ids = batch.input_ids.to(self._device)
        rows, positions = torch.nonzero(ids == self._mask, as_tuple=True)  # by row, in the order of the words
        words: list[list[str]] = [[] for _ in requests]
        if not len(rows):
            return words
        logits = self._model(input_ids=ids, attention_mask=batch.attention_mask.to(self._device)).logits
        scores = logits[rows, positions][:, self._numbers].float()
        met = [0] * len(requests)
        for place, row in enumerate(rows.tolist()):
            start, end = places[row][met[row]]
            if same := self._spellings.get(requests[row].text[start:end].casefold()):
                scores[place, same] = -torch.inf
            met[row] += 1
        best, candidates = scores.topk(min(self._top, len(self._words)))
        probabilities = best.double().softmax(1).cpu().numpy()
        for row, shares, numbers in zip(rows.tolist(), probabilities, candidates.tolist(), strict=True):
            words[row].append(self._words[requests[row].draws.choice(numbers, p=shares)])
        return words


def _opened(folder: Path) -> torch.nn.Module:
    try:
        read_fields(folder)
        with in_time(folder):
            model, found = AutoModelForMaskedLM.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, output_loading_info=True
            )
    except Exception as error:  # damaged files raise errors of many kinds
        raise RunError(
            f"{folder}: holds no masked language model that can be loaded ({type(error).__name__}: {error}). "
            "Expected a folder with config.json and weights, such as the `model` of a run of masked_lm."
        ) from error
    if missing := sorted(found["missing_keys"]):
        raise RunError(
            f"{folder}: its weights predict no masked tokens ({len(missing)} are missing, such as {missing[0]}). "
            "Expected a model that was trained to, such as the `model` of a run of masked_lm."
        )
    if broken := [name for name, weight in model.named_parameters() if not weight.isfinite().all()]:
        raise RunError(
            f"{folder}: {len(broken)} weights are NaN or inf, such as {broken[0]}. Expected finite ones; run its stage "
            "again, or download it again."
        )
    return model

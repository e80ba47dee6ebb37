"""Word vectors as the first embeddings of tokens that are words."""

import logging
from pathlib import Path

import torch
from tokenizers.models import BPE, Unigram
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lib.core.errors import RunError
from studies.word_vectors.storage import load_vectors

SPACES = ("Ġ", "▁")
"""First characters of a token that begins a word, in byte-pair encodings and in SentencePiece."""

logger = logging.getLogger(__name__)


@torch.no_grad()
def embed_words(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> int:
    """Replace the embeddings of the tokens that are words with a vector; other tokens keep theirs.

    Vectors are taken as they are. A token that is a word may also begin longer ones, as WordPiece's do.

    Args:
        model: model with its first weights, as wide embeddings as the vectors.
        tokenizer: tokenizer of the model.
        folder: folder of the word vectors.

    Returns:
        How many tokens begin as word vectors.

    Raises:
        DataError: the vectors cannot be read.
        RunError: they have another dimension, or no token is a word with a vector.
    """
    (keyed, lowercase), embeddings = load_vectors(folder), model.get_input_embeddings().weight
    if keyed.vector_size != embeddings.shape[1]:
        raise RunError(
            f"{folder}: its vectors have {keyed.vector_size} dimensions, but the embeddings {embeddings.shape[1]}. "
            "Expected the same number; change one of them."
        )
    found = 0
    for token, word in words_of(tokenizer).items():
        word = word.lower() if lowercase else word
        if word in keyed.key_to_index:  # for fastText, anything that has an n-gram would be in `keyed`
            embeddings[token] = torch.tensor(keyed[word])
            found += 1
    if not found:
        raise RunError(
            f"{folder}: none of the {len(tokenizer):,} tokens is a word with a vector. Expected some; choose other "
            "vectors, or a tokeniser of the same language whose tokens are words."
        )
    logger.info("%s of %s tokens begin as word vectors, the others as random ones", f"{found:,}", f"{len(tokenizer):,}")
    return found


def words_of(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    """Return the text of each token, by id.

    Special tokens are left out and, where tokens mark the beginning of a word, those without the mark.
    """
    vocabulary = tokenizer.get_vocab()
    marks = isinstance(tokenizer.backend_tokenizer.model, BPE | Unigram)  # elsewhere, the signs are letters
    if marks and any(token.startswith(SPACES) for token in vocabulary):
        vocabulary = {token: number for token, number in vocabulary.items() if token.startswith(SPACES)}
    special = set(tokenizer.all_special_ids)
    return {
        number: tokenizer.convert_tokens_to_string([token]).strip()
        for token, number in vocabulary.items()
        if number not in special
    }

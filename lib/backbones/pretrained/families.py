"""Families of architectures, with the public switches by which their attention is causal or bidirectional.

No class of transformers is derived from or patched. What a switch really does differs between releases, so
`lib.backbones.pretrained.probe` looks at every model that is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Direction = Literal["causal", "bidirectional"]


@dataclass(frozen=True)
class Family:
    """How the architectures of one `model_type` are told in which directions to attend.

    Args:
        switches: fields of the configuration that are set for each direction.
        includes_width: whether an opened window of width w sees distance w, where a causal one ends at w - 1.
    """

    switches: Mapping[Direction, Mapping[str, Any]]
    includes_width: bool = False


_BY_CAUSALITY = Family({"causal": {"is_causal": True}, "bidirectional": {"is_causal": False}}, includes_width=True)

FAMILIES: dict[str, Family] = {
    "llama": _BY_CAUSALITY,
    "mistral": _BY_CAUSALITY,
    "qwen2": _BY_CAUSALITY,
    "qwen3": _BY_CAUSALITY,
    # It ignores `is_causal`. Opened, its windows reach half as far to either side as before to the left.
    "gemma3_text": Family(
        {
            "causal": {"use_bidirectional_attention": False},
            "bidirectional": {"use_bidirectional_attention": True},
        }
    ),
}
"""By `model_type`."""

import pytest
import torch
from cost_tables import encoder_table, markdown_tables

from lib.backbones.encoder.settings import Settings as Encoder
from lib.measure.compared import ENCODERS, FORWARD_ONLY
from lib.measure.encoder_cost import PEER_ENCODERS, TOKENS, TimedEncoder, encoder_cost, lfm2, modernbert, own_encoder
from lib.measure.summaries import encoder_summary
from lib.measure.tables import COLUMNS

SIZES = Encoder()
SMALL = Encoder(hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64)
MADE = [*ENCODERS, *PEER_ENCODERS]


def made(name, encoder):
    torch.manual_seed(0)
    return PEER_ENCODERS[name](encoder) if name in PEER_ENCODERS else own_encoder(ENCODERS[name], encoder)


def weights_without_embeddings(name):
    with torch.device("meta"):
        model = made(name, SIZES)
    return sum(weight.numel() for weight in model.parameters() if len(weight) < 30_000)


@pytest.mark.parametrize("name", MADE)
def test_all_encoders_of_the_grids_sizes_have_nearly_the_weights_of_exact_attentions(name):
    """LSH has one projection for queries and keys."""
    assert weights_without_embeddings(name) == pytest.approx(weights_without_embeddings("sdpa"), rel=0.085)


@pytest.mark.parametrize("name", MADE)
def test_an_encoder_returns_states_without_dropout_and_a_step_changes_its_weights(name):
    encoder = TimedEncoder(made(name, SMALL), "cpu", "float32")
    ids = torch.randint(1000, 30_000, (2, 64), generator=torch.Generator().manual_seed(0))
    encoder.model.train()
    first, second = encoder.states(ids), encoder.states(ids)
    assert first.shape == (2, 64, 32)
    torch.testing.assert_close(first, second)
    before = [weight.detach().clone() for weight in encoder.model.parameters()]
    encoder.step(ids)
    assert (
        sum((old != new).any() for old, new in zip(before, encoder.model.parameters(), strict=True)) > len(before) / 2
    )


@pytest.mark.parametrize("name", [name for name in MADE if name not in FORWARD_ONLY])
def test_what_is_compared_with_encoders_reads_to_both_sides(name):
    """LFM2 too, whose attention is causal as published."""
    encoder = TimedEncoder(made(name, SMALL), "cpu", "float32")
    encoder.model.eval()
    ids = torch.randint(1000, 30_000, (1, 64), generator=torch.Generator().manual_seed(0))
    changed = ids.clone()
    changed[0, -1] += 1
    assert not torch.equal(encoder.states(ids)[0, 0], encoder.states(changed)[0, 0]) or name.startswith("window")
    assert not torch.equal(encoder.states(ids)[0, -8], encoder.states(changed)[0, -8])


def test_the_peers_are_mixtures_by_torchs_own_kernel():
    assert modernbert(SIZES).module.config.layer_types == [
        "full_attention", "sliding_attention", "sliding_attention", "full_attention"
    ]  # fmt: skip
    assert lfm2(SIZES).module.config.layer_types == ["conv", "conv", "full_attention", "conv"]
    assert {maker(SIZES).module.config._attn_implementation for maker in (modernbert, lfm2)} == {"sdpa"}


def test_a_table_of_every_encoder_pass_and_length_says_what_was_not_measured():
    encoders = {name: ENCODERS[name] for name in ("sdpa", "ssm")}
    place = {"device": "cpu", "dtype": "float32", "seconds": 0.0}
    table = encoder_cost(encoders, SMALL, lengths=[128, 64], minutes=1.0, **place)
    assert list(table) == COLUMNS["encoder_cost"]
    keys = list(table[["implementation", "model", "pass", "length"]].itertuples(index=False, name=None))
    owners = dict.fromkeys(encoders, "ours") | dict.fromkeys(PEER_ENCODERS, "transformers")
    expected = [
        (owner, name, kind, length)
        for length in (64, 128)
        for name, owner in owners.items()
        for kind in ("forward", "step")
        if (name, kind) != ("mamba", "step")
    ]
    assert keys == expected
    assert set(table["tokens"]) == {TOKENS}
    assert table["skipped"].isna().all()
    assert (table[["median_ms", "tokens_per_s", "parameters", "repetitions"]] > 0).all(axis=None)
    short = encoder_cost(encoders, SMALL, lengths=[64, 128], minutes=1e-9, **place).set_index("length")
    assert short.loc[64, "skipped"].isna().all()
    assert short.loc[128, "skipped"].notna().all()
    assert short.loc[128, ["median_ms"]].isna().all(axis=None)


def test_a_summary_says_how_many_times_as_fast_as_modernbert_each_encoder_is():
    common = {"parameters": 12_600_000, "tokens": 2048, "repetitions": 3}
    rows = [
        {"model": model, "implementation": owner, "pass": kind, "length": length, "median_ms": time, "skipped": reason}
        for kind in ("forward", "step")
        for model, owner, times in (
            ("favor-m64", "ours", (250.0, 1000.0)),
            ("modernbert", "transformers", (500.0, 4000.0 if kind == "forward" else float("nan"))),
        )
        for length, time in zip((512, 8192), times, strict=True)
        for reason in ("more than 1 min" if time != time else None,)
    ]
    forward, step = markdown_tables(encoder_summary(encoder_table(common | row for row in rows)))
    assert forward[0]["8,192 [ms]"] == "1,000 (4.0x)"
    assert forward[1]["512 [ms]"] == "500 (1.0x)"
    assert step[0] == {
        "implementation": "ours",
        "model": "favor-m64",
        "weights [M]": "12.6",
        "512 [ms]": "250 (2.0x)",
        "8,192 [ms]": "1,000",
    }
    assert step[1]["8,192 [ms]"] == "not measured: more than 1 min"

from matplotlib.container import BarContainer
from run_records import scope_of, write_baseline, write_run

from lib.results.kinds.bars import BarsFigure

MODELS = ["tfidf", "sdpa", "lsh-h2-c64", "favor-m64"]
COSTS = {"sdpa": (2048.0, 60.0), "lsh-h2-c64": (1024.0, 180.0), "favor-m64": (1536.0, 90.0)}


def write(root, dataset="imdb", kind="gpu", kind_of_baseline="gpu"):
    folders = [write_baseline(root, dataset, 0.6, peak_memory_mb=512.0, peak_memory_kind=kind_of_baseline)]
    for model, (memory, seconds) in COSTS.items():
        values = {"peak_memory_mb": memory, "seconds_per_epoch": seconds, "peak_memory_kind": kind}
        folders.append(write_run(root, "finetune", model, dataset, **values))
    return folders


def drawn(folders, datasets=("imdb",)):
    scope = scope_of(folders, {"finetune": datasets}, MODELS, baseline="tfidf")
    return BarsFigure(kind="bars", stage="finetune").draw(scope)


def bars_of(axes):
    """Return name, length and text of each bar, from the top."""
    axes.figure.draw_without_rendering()
    bars = [container.patches[0] for container in axes.containers if isinstance(container, BarContainer)]
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    texts = [text.get_text() for text in axes.texts]
    rows = [(bar.get_y(), name, bar.get_width(), text) for bar, name, text in zip(bars, names, texts, strict=True)]
    downwards = axes.yaxis_inverted()
    return [row[1:] for row in sorted(rows, reverse=not downwards)]


def test_bars_ordered_with_figures(tmp_path):
    figure = drawn([*write(tmp_path), *write(tmp_path, "arxiv")], ["imdb", "arxiv"])
    memory, _, minutes, other = figure.axes
    assert [axes.get_title("left") for axes in figure.axes] == ["imdb", "arxiv"] * 2
    assert (memory.get_xlabel(), minutes.get_xlabel()) == ("peak GPU memory [GiB]", "time [min/epoch]")
    ordered = [("tfidf", 0.5, "0.50"), ("lsh-h2-c64", 1.0, "1.00"), ("favor-m64", 1.5, "1.50"), ("sdpa", 2.0, "2.00")]
    assert bars_of(memory) == ordered
    ordered = [("sdpa", 1.0, "1.0"), ("favor-m64", 1.5, "1.5"), ("lsh-h2-c64", 3.0, "3.0"), ("tfidf", 0, "-")]
    assert bars_of(minutes) == bars_of(other) == ordered


def test_bars_of_two_kinds_of_memory(tmp_path):
    memory, _ = drawn(write(tmp_path, kind_of_baseline="resident")).axes
    assert memory.get_xlabel() == "memory [GiB]"
    assert [text for _, _, text in bars_of(memory)] == ["0.50 resident", "1.00 GPU", "1.50 GPU", "2.00 GPU"]
    memory, _ = drawn(write(tmp_path, kind="resident", kind_of_baseline="resident")).axes
    assert memory.get_xlabel() == "peak resident memory [GiB]"

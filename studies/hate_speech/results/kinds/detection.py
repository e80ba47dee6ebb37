"""How well models detect one class by their probabilities: a row per model."""

from typing import ClassVar, Literal

import pandas as pd

from lib.core.errors import DataError
from lib.results.predictions import class_names, class_probabilities, without_copies
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table

BINS = 10
SCORES = {
    "f1_half": "F1 at 0.5 [%]",
    "f1_threshold": "F1 at the threshold [%]",
    "roc_auc": "ROC-AUC [%]",
    "average_precision": "average precision [%]",
    "calibration_error": "calibration error [%]",
}


class DetectionTable(TableSettings):
    """One table per dataset: how well each model detects one class, at 0.5, at a threshold, and at all thresholds."""

    divided: ClassVar[Literal["if_several"]] = "if_several"
    needs_predictions: ClassVar[bool] = True
    needs_probabilities: ClassVar[bool] = True

    kind: Literal["detection"]
    stage: str
    """Stage whose runs it shows."""
    positive: str | None = None
    """The class to detect; null = the last one."""

    def make(self, scope: Scope) -> Table:
        """Return scores of detection on test in percent: one row per model.

        F1 of the class at a probability of 0.5, and at the threshold with the highest F1 on validation, which has a
        column; area under the ROC curve and average precision, which need no threshold; the expected calibration error
        of the predicted class in ten bins. With more than one seed these are means with a standard deviation.

        Raises:
            DataError: a run is missing or duplicated, has no probabilities, or no such class.
        """
        grid = without_copies(scope.grid(self.stage))
        scores = pd.DataFrame([_scores(folder, self.positive) for folder in grid["folder"]], index=grid["row"])
        means, deviations = scores.groupby("row").mean(), scores.groupby("row").std()
        frame, columns = pd.DataFrame({"model": scope.models}), {}
        for name, label in (("threshold", "threshold"), *SCORES.items()):
            factor, decimals = (1, 3) if name == "threshold" else (100, 2)
            frame[name] = means[name].reindex(scope.models).to_numpy() * factor
            columns[name] = Column(label, decimals)
            if deviations.notna().any(axis=None):
                frame[f"{name}_sd"] = deviations[name].reindex(scope.models).to_numpy() * factor
        detected = self.positive or class_names(grid["folder"].iloc[0])[-1]
        return Table(frame, columns, f"Detected class: {detected}.")


def _scores(folder: str, positive: str | None) -> dict[str, float]:
    """Return the scores of a run as fractions, and its threshold."""
    # scikit-learn starts slowly
    from lib.evaluation.calibration import expected_calibration_error, reliability
    from lib.evaluation.decisions import threshold as best_threshold
    from studies.hate_speech.evaluation.detection import detection_scores

    names = class_names(folder)
    if positive is not None and positive not in names:
        raise DataError(f"{folder}: there is no class '{positive}' to detect. Known: {', '.join(names)}.")
    number = len(names) - 1 if positive is None else names.index(positive)
    chosen_labels, validation = class_probabilities(folder, "validation")
    labels, probabilities = class_probabilities(folder)
    try:
        threshold = best_threshold(validation[:, number], chosen_labels == number, "f1")
        scores = detection_scores(labels == number, probabilities[:, number], threshold)
    except (DataError, ValueError) as error:
        raise DataError(f"{folder}: '{names[number]}' cannot be detected ({error}). Check the splits.") from error
    bins = reliability(probabilities.argmax(axis=1) == labels, probabilities.max(axis=1), BINS)
    return scores | {"threshold": threshold, "calibration_error": expected_calibration_error(bins)}

"""Hours of a study, and their cost in money, energy and carbon: a row per model and hardware."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.settings import BaseSettings, NonNegativeFloat, PositiveFloat, check
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table

NOTE = (
    "Device hours on the hardware named: wall time of training loops, their evaluations left out where records tell "
    "them apart, and of fit and evaluation of a model that does not train, times the GPUs of a run; a CPU counts once. "
    "All seeds, datasets and variants together; under `all models`, runs that models share count once."
)


TOGETHER = "all models"
"""Row of all models together. No model can be called so, since names have no spaces."""


class Rates(BaseSettings):
    """What an hour on some hardware takes."""

    price_per_hour: NonNegativeFloat | None = None
    """Price of an hour, in `currency`."""
    watts: PositiveFloat | None = None
    """Mean power draw in watts; include host and cooling if they should count."""


class ComputeTable(TableSettings):
    """One row per model and hardware: hours by stage and in all, and their cost."""

    about: ClassVar[Topic] = "cost"
    takes_variants: ClassVar[Literal["any"]] = "any"
    takes_tuning: ClassVar[Literal["any"]] = "any"

    kind: Literal["compute"]
    time: list[str] = Field(min_length=1)
    """Stages whose hours are shown, of the models that pass them."""
    rates: dict[str, Rates] = Field(default_factory=dict)
    """Price and power by hardware: its name in `run.json`, or a part of it (the longest match counts). Values that are
    not given here make no column."""
    currency: str | None = None
    """Currency of the prices."""
    carbon_intensity: NonNegativeFloat | None = None
    """Grams of CO2 equivalent per kWh of the electricity used."""

    @check
    def _rates_have_what_they_need(self) -> Iterator[str]:
        if self.currency is None and any(each.price_per_hour is not None for each in self.rates.values()):
            yield "currency: missing, but rates has a price_per_hour. Name the currency"

    def make(self, scope: Scope) -> Table:
        """Return hours by stage and in all, of each model and of all together, one row per hardware.

        They are wall time times devices: the processes of a run have a GPU each, or share one CPU. Hours on different
        hardware are never added up. Price, energy and carbon have columns as far as `settings` give what they follow
        from; hardware without a rate leaves them empty.
        """
        runs = pd.concat(scope.grid(stage, ["seconds"]) for stage in self.time).fillna({"hardware": "unknown"})
        hours = pd.concat([runs, runs.drop_duplicates("folder").assign(row=TOGETHER)])
        hours["hours"] = hours["processes"].where(hours["device"] != "cpu", 1) * hours["seconds"] / 3600
        frame = hours.pivot_table(index=["row", "hardware"], columns="stage", values="hours", aggfunc="sum")
        frame = frame.reindex(columns=self.time).add_suffix("_hours")
        frame = frame.reindex([row for name in [*scope.models, TOGETHER] for row in frame.index if row[0] == name])
        frame["hours"] = frame.sum(axis=1)
        printed = {f"{stage}_hours": Column(f"{stage} [h]", 3) for stage in self.time} | {"hours": Column("all [h]", 3)}
        rates = [_rates(self, hardware) for hardware in frame.index.get_level_values("hardware")]
        price = pd.Series([each.price_per_hour for each in rates], frame.index, float)
        watts = pd.Series([each.watts for each in rates], frame.index, float)
        if price.notna().any():
            frame["price"], printed["price"] = price * frame["hours"], Column(f"price [{self.currency}]", 2)
        if watts.notna().any():
            frame["energy_kwh"], printed["energy_kwh"] = watts / 1000 * frame["hours"], Column("energy [kWh]", 3)
            if self.carbon_intensity is not None:
                frame["carbon_kg"] = frame["energy_kwh"] * self.carbon_intensity / 1000
                printed["carbon_kg"] = Column("CO2 equivalent [kg]", 3)
        return Table(frame.reset_index(names=["model", "hardware"]), printed, NOTE)


def _rates(settings: ComputeTable, hardware: str) -> Rates:
    """Return the rates of the longest name that is part of the hardware's; without one, none are known."""
    fitting = [name for name in settings.rates if name in hardware]
    return settings.rates[max(fitting, key=len)] if fitting else Rates()

"""Holding outlier sets fixed: what removes a pair's excess, and what reproduces it."""

import pytest

from audit.plants import STOCK
from audit.rigs import LOUD, decoder, loud_records, model_subject, quiet_records, record
from insular.audit.localisation.intervention_results import Interventions
from insular.audit.localisation.interventions import Pair, intervene
from insular.audit.localisation.localise import localise
from insular.audit.spec import SensitivitySpec
from insular.precision.layers import int8_layers
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import quiet_bitsandbytes

SPEC = SensitivitySpec(clip_norm=0.01)
WIDTH = 12


def pair(seed: int, precision: PrecisionSpec, *, quiet: bool = False, kept=None) -> Pair:
    """Three quiet records, and a loud one (or a quiet one) to add."""
    model = decoder(seed, family="llama" if seed % 2 else "gpt2", precision=precision)
    subject = model_subject(model, precision=precision)
    baseline, spares = quiet_records(seed)
    loud, _ = loud_records(seed)
    return Pair(
        subject=subject,
        model=model,
        baseline=baseline[1:],
        candidate=spares[0] if quiet else loud[0],
        width=WIDTH,
        spec=SPEC,
        keep=(lambda name, arrays: None) if kept is None else kept.__setitem__,
    )


def intervened(seed: int, precision: PrecisionSpec = STOCK, **how) -> Interventions | None:
    with quiet_bitsandbytes():
        return intervene(pair(seed, precision, **how), progress=lambda line: None)


@pytest.mark.parametrize("seed", range(4))
def test_what_removes_the_influence_and_what_reproduces_it(seed: int):
    found = intervened(seed)
    assert found is not None and found.exact
    assert found.steps[0].name == "as it is" and found.steps[0].n_altered == 3
    assert {change.by_candidate for change in found.unions} - {0}
    forced = found.step("D's masks everywhere")
    own = found.step("each record's own set everywhere")
    for step in (forced, own):
        assert step is not None and step.valid
        assert step.n_altered == 0 and step.largest_change == 0
        assert step.ratio <= 1 + 1e-4
    assert all(step.valid for step in found.steps)


def test_the_one_kind_of_layer_that_is_coupled_reproduces_the_whole_ratio():
    found = intervened(0)
    assert found is not None
    kinds = {change.kind.rpartition(".")[2] for change in found.unions}
    native = found.steps[0]
    alone = [found.step(f"union only in {kind}") for kind in kinds]
    assert any(
        step is not None and step.ratio == pytest.approx(native.ratio, rel=0.05) for step in alone
    )
    if len(kinds) == 1:
        (step,) = alone
        assert step is not None and step.n_altered == native.n_altered


def test_no_layer_is_quantised_again_and_the_model_is_afterwards_as_it_was():
    built = pair(0, STOCK)
    layers = int8_layers(built.model)
    before = {name: layer.weight.clone() for name, layer in layers.items()}
    with quiet_bitsandbytes():
        native = built.run(built.extended)
        first = intervene(built, progress=lambda line: None)
        again = built.run(built.extended)
    assert first is not None
    assert (native.gradients == again.gradients).all()
    assert all("forward" not in vars(layer) for layer in layers.values())
    assert all((layer.weight == before[name]).all() for name, layer in layers.items())


def test_values_alone_change_nothing_and_the_mask_alone_everything():
    found = intervened(3)
    assert found is not None and found.values_equal
    cells = {(cell.values, cell.mask): cell for cell in found.factorial}
    assert cells["D", "D"].logit_max == 0 == cells["D'", "D"].logit_max
    assert cells["D", "D'"].logit_max == cells["D'", "D'"].logit_max > 0


def test_a_forced_set_that_omits_an_outlier_is_rejected_and_kept():
    built = pair(0, STOCK)
    loud = record("loud too", *[LOUD + 1] * 9)
    # the candidate's own outlier stands in every union of D' alone, the baseline's in both
    both = Pair(
        subject=built.subject,
        model=built.model,
        baseline=(*built.baseline, loud),
        candidate=built.candidate,
        width=WIDTH,
        spec=SPEC,
        keep=built.keep,
    )
    with quiet_bitsandbytes():
        found = intervene(both, progress=lambda line: None)
    assert found is not None
    for step in found.steps:
        assert step.valid or "prescribed columns must hold every outlier" in step.problem


def test_a_clean_pair_changes_no_union():
    found = intervened(2, quiet=True)
    assert found is not None
    assert found.unions == () and found.factorial == () and found.factorial_layer == ""
    assert found.steps[0].n_altered == 0


@pytest.mark.parametrize(
    "precision",
    [
        PrecisionSpec(backbone="float32"),
        PrecisionSpec(backbone="nf4"),
        PrecisionSpec(backbone="int8", outlier_rule="record"),
        PrecisionSpec(backbone="bitsandbytes-int8", threshold=0.0),
    ],
)
def test_a_stack_without_unions_has_no_interventions(precision: PrecisionSpec):
    assert intervened(0, precision) is None


def test_the_batched_rule_of_our_own_layer_is_intervened_on_too():
    found = intervened(0, PrecisionSpec(backbone="int8", outlier_rule="batched"))
    assert found is not None and found.exact
    assert found.steps[0].n_altered == 3


def test_the_gradients_of_every_valid_step_are_kept():
    kept: dict[str, dict] = {}
    found = intervened(0, kept=kept)
    assert found is not None
    assert list(kept) == [step.name for step in found.steps if step.valid]


def test_localise_gives_origins_and_interventions():
    built = pair(1, STOCK)
    with quiet_bitsandbytes():
        found = localise(
            built.subject,
            built.baseline,
            built.candidate,
            width=WIDTH,
            spec=SPEC,
            keep=built.keep,
            progress=lambda line: None,
        )
    assert found is not None and found.origins is not None and found.interventions is not None
    named = {m.module for m in found.origins.originating("forward")}
    changed = {change.layer for change in found.interventions.unions}
    assert named and all(any(layer in name for layer in changed) for name in named)

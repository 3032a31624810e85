"""The census: by hand on one layer, against a slow count, planted, and clean."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from audit.rigs import (
    COLUMN,
    PAD,
    decoder,
    layer_subject,
    loud_records,
    model_subject,
    quiet_records,
    random_table,
    record,
)
from insular.audit.census.count import run_census
from insular.audit.census.results import BatchCensus, CensusResult, LayerCensus
from insular.audit.subjects.model_subject import ModelSubject
from insular.audit.subjects.subject import Evaluation, Subject, SubjectFacts
from insular.errors import InvalidArgumentError
from insular.models.loading import load_decoder
from insular.models.structure import block_linears
from insular.precision.layers import int8_layers
from insular.precision.linear import Int8Linear, llm_int8_linear
from insular.precision.observation import observe_outliers
from insular.precision.outliers import BatchedOutliers
from insular.precision.ownership import RowOwnership
from insular.precision.policy import apply_precision
from insular.precision.spec import PrecisionSpec
from insular.precision.stock import quiet_bitsandbytes
from insular.records import read_packaged
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord

STOCK = PrecisionSpec(backbone="bitsandbytes-int8")
LOW = PrecisionSpec(backbone="bitsandbytes-int8", threshold=1.5)
OWNED = PrecisionSpec(backbone="int8", outlier_rule="record")


@pytest.fixture(autouse=True)
def quiet() -> object:
    with quiet_bitsandbytes():
        yield


class OneLayer(nn.Module):
    """Embeds the tokens and multiplies them by one int8 weight."""

    def __init__(self, table: Tensor, *, out: int, seen: list[int] | None = None) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(table)
        weight = torch.randn(out, table.shape[1], generator=torch.Generator().manual_seed(0))
        self.layer = llm_int8_linear(weight, None, threshold=6.0)
        self.seen = [] if seen is None else seen

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor | None = None,
        use_cache: bool = False,
    ) -> Tensor:
        self.seen.append(len(input_ids))
        return self.layer(self.table(input_ids))


def one_layer(table: Tensor, *, out: int = 3) -> ModelSubject:
    return model_subject(OneLayer(table, out=out))


def by_hand() -> tuple[ModelSubject, tuple[TokenisedRecord, ...]]:
    """Token t > 0 has its outlier in column t - 1; token 4 has none; padding has one in 3."""
    table = torch.zeros(5, 4)
    table[PAD, 3] = table[1, 0] = table[2, 1] = table[3, 2] = 9.0
    records = (record("a", 1, 2), record("b", 1, 4), record("c", 4, 4), record("d", 3))
    return one_layer(table), records


def test_worked_example_by_hand() -> None:
    """Own sets a {0,1}, b {0}, c {}, d {2}; d's second position is padding, with column 3."""
    subject, records = by_hand()
    found = run_census(subject, records, batch_sizes=(4, 2, 1))
    assert found is not None
    one, two, four = found.batches
    # alone, and so without padding: a, b and d own their union, c has none
    assert (one.batch, one.n_batches, one.n_layers) == (1, 4, 1)
    assert (one.n_pairs, one.n_altered, one.n_columns, one.n_foreign) == (3, 0, 4, 0)
    assert (one.n_padding, one.largest_union) == (0, 2)
    # {a, b}: union {0,1}, b altered; {c, d}: union {2,3}, both altered
    assert (two.n_pairs, two.n_altered, two.n_columns, two.n_foreign) == (4, 3, 8, 4)
    assert (two.n_padding, two.largest_union) == (2, 2)
    assert two.correction_work == 3 * (4 * 2 + 3 * 2)
    assert two.owned_work == 3 * (2 * 2 + 2 * 1 + 2 * 0 + 1 * 1)
    # all: union {0,1,2,3}
    assert (four.n_pairs, four.n_altered, four.n_columns, four.n_foreign) == (4, 4, 16, 12)
    assert (four.n_padding, four.largest_union) == (4, 4)
    assert four.correction_work == 3 * 7 * 4
    assert four.owned_work == two.owned_work == 3 * 7
    assert (four.altered_share, four.foreign_share, four.padding_share) == (1.0, 0.75, 0.25)
    assert four.saved_share == 0.75
    (layer,) = found.layers
    assert layer == LayerCensus(
        name="layer",
        in_features=4,
        out_features=3,
        source="layer",
        unions=(2, 2, 4),
        takes_union=True,
        n_altered=4,
    )
    assert (found.records, found.width, found.n_tokens) == (("a", "b", "c", "d"), 2, 7)
    assert (found.thresholds, found.device, found.takes_union) == ((6.0,), "cpu", True)
    assert found.largest is four
    assert found.at(2) is two
    assert found.at(8) is None


def slow_count(
    subject: ModelSubject, records: Sequence[TokenisedRecord], size: int, *, side: str
) -> dict[str, int]:
    """Loops over batches, layers, records, rows and columns."""
    sums = dict.fromkeys(
        ["n_pairs", "n_altered", "n_columns", "n_foreign", "n_padding", "largest_union"], 0
    )
    sums |= {"correction_work": 0, "owned_work": 0, "n_layers": 0}
    named = set()
    width = max(len(r.tokens) for r in records)
    layers = int8_layers(subject.model)
    for first in range(0, len(records), size):
        part = records[first : first + size]
        mask = collate(part, pad_token_id=PAD, width=width, padding_side=side).attention_mask
        with observe_outliers(subject.model, keep_inputs=True) as log:
            subject.forward(part, width=width)
        for name, seen in log.forwards[0].items():
            own: list[set[int]] = [set() for _ in part]
            union: set[int] = set()
            for r in range(len(part)):
                for t in range(width):
                    row = seen.inputs.view(len(part), width, -1)[r, t]  # OPT flattens records
                    loud = (row.half().abs() >= seen.threshold).nonzero()
                    union |= {int(j) for j in loud}
                    if mask[r, t]:
                        own[r] |= {int(j) for j in loud}
            if not union:
                continue
            named.add(name)
            sums["largest_union"] = max(sums["largest_union"], len(union))
            for r, mine in enumerate(own):
                rows, out = int(mask[r].sum()), layers[name].out_features
                sums["n_pairs"] += 1
                sums["n_altered"] += mine != union
                sums["n_columns"] += len(union)
                sums["n_foreign"] += len(union - mine)
                sums["n_padding"] += len(union - set().union(*own))
                sums["correction_work"] += rows * len(union) * out
                sums["owned_work"] += rows * len(mine) * out
    return sums | {"n_layers": len(named)}


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_census_equals_a_slow_count(family: str, side: str) -> None:
    model = decoder(3, family=family, precision=LOW)
    subject = model_subject(model, precision=LOW, padding_side=side)
    records, _ = quiet_records(5, lengths=(10, 7, 12, 9, 11, 5, 8, 12))
    found = run_census(subject, records, batch_sizes=(2, 4, 8))
    assert found is not None
    for census in found.batches:
        expected = slow_count(subject, records, census.batch, side=side)
        assert {name: getattr(census, name) for name in expected} == expected
        assert 0 < census.n_altered <= census.n_pairs
        assert 0 < census.owned_work < census.correction_work


@pytest.mark.parametrize("seed", range(20))
def test_one_planted_loud_record_alters_every_other(seed: int) -> None:
    family = "llama" if seed % 2 else "gpt2"
    subject = model_subject(decoder(seed, family=family, precision=STOCK), precision=STOCK)
    (loud, *others), spares = loud_records(seed)
    records = (*others[: seed % 4], loud, *others[seed % 4 :], *spares)
    found = run_census(subject, records, batch_sizes=(2, 8))
    assert found is not None
    first = found.layers[0]
    assert first.unions == (1, 1)
    assert first.n_altered == 7
    assert found.largest.n_foreign >= 7
    with torch.no_grad(), observe_outliers(subject.model) as log:
        subject.forward(records, width=12)
    (row, column) = log.forwards[0][first.name].own.nonzero()[0].tolist()
    assert (row, column) == (records.index(loud), COLUMN)


@pytest.mark.parametrize("seed", range(5))
def test_records_with_the_same_outlier_columns_are_never_altered(seed: int) -> None:
    table = random_table(seed, hidden=16)
    table[PAD] = 0.0
    table[:, 3] = torch.where(torch.arange(64) == PAD, 0.0, 20.0)
    records, spares = quiet_records(seed)
    found = run_census(one_layer(table), (*records, *spares), batch_sizes=(1, 2, 4, 8))
    assert found is not None
    for census in found.batches:
        assert (census.n_pairs, census.n_columns, census.n_altered) == (8, 8, 0)
        assert census.saved_share == census.foreign_share == census.altered_share == 0.0
    assert found.layers[0].n_altered == 0


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_record_alone_without_padding_has_no_foreign_column(side: str) -> None:
    subject = model_subject(decoder(1, precision=LOW), precision=LOW, padding_side=side)
    records, _ = quiet_records(2, lengths=(9, 9, 9, 9))
    found = run_census(subject, records, batch_sizes=(1,))
    assert found is not None
    assert found.largest.n_columns > 0
    assert found.largest.n_altered == found.largest.n_foreign == found.largest.n_padding == 0


def test_padding_alone_alters_records_that_have_no_outlier() -> None:
    subject = model_subject(decoder(1, precision=STOCK, loud_padding=True), precision=STOCK)
    found = run_census(subject, quiet_records(2)[0], batch_sizes=(2,))
    assert found is not None
    first = found.layers[0]
    assert (first.unions, first.n_altered) == ((1,), 4)
    assert found.largest.n_padding == found.largest.n_foreign >= 4


def test_a_stack_that_runs_one_record_at_a_time_is_never_altered() -> None:
    model = decoder(1, precision=LOW, loud_padding=True)
    subject = model_subject(model, precision=LOW, physical_batch=1)
    records, _ = quiet_records(2)
    found = run_census(subject, records, batch_sizes=(2, 4))
    assert found is not None
    assert all(census.n_pairs > 0 and census.n_altered == 0 for census in found.batches)


def test_a_record_owned_stack_says_what_the_union_would_have_done() -> None:
    records, _ = loud_records(0)
    taken, owned = (
        run_census(
            model_subject(decoder(0, precision=spec), precision=spec), records, batch_sizes=(4,)
        )
        for spec in (STOCK, OWNED)
    )
    assert taken is not None
    assert owned is not None
    assert (taken.takes_union, owned.takes_union) == (True, False)
    assert owned.layers[0].n_altered == taken.layers[0].n_altered == 3


@pytest.mark.parametrize(
    "spec",
    [
        PrecisionSpec(),
        PrecisionSpec(backbone="bitsandbytes-int8", threshold=0.0),
        PrecisionSpec(backbone="bitsandbytes-int8", training_mode=True),
        PrecisionSpec(backbone="int8", outlier_rule="calibrated"),
        PrecisionSpec(backbone="nf4"),
    ],
    ids=["float32", "threshold 0", "training mode", "calibrated", "nf4"],
)
def test_a_stack_without_outliers_has_no_census(spec: PrecisionSpec) -> None:
    subject = model_subject(decoder(0, precision=spec), precision=spec)
    assert run_census(subject, quiet_records(0)[0], batch_sizes=(2, 4)) is None


def test_a_callable_has_no_census() -> None:
    subject = layer_subject(lambda x: x, random_table(0, hidden=4))
    assert run_census(subject, quiet_records(0)[0], batch_sizes=(2,)) is None


class Shown(Subject):
    """A subject of somebody else's that shows its model."""

    name = "shown"

    def __init__(self, inner: ModelSubject) -> None:
        self.inner = inner

    def evaluate(self, records: Sequence[TokenisedRecord], *, width: int) -> Evaluation:
        return self.inner.evaluate(records, width=width)

    def facts(self) -> SubjectFacts:
        return self.inner.facts()

    def traced_model(self) -> nn.Module:
        return self.inner.model

    def mask(self, records: Sequence[TokenisedRecord], *, width: int) -> Tensor:
        return self.inner.mask(records, width=width)


def without_time(result: CensusResult | None) -> dict[str, object]:
    assert result is not None
    return {**vars(result), "seconds": 0.0}


def test_another_subject_that_shows_its_model_gives_the_same_census() -> None:
    subject = model_subject(decoder(1, precision=LOW), precision=LOW)
    records, _ = quiet_records(2)
    own = run_census(subject, records, batch_sizes=(2, 4))
    shown = run_census(Shown(subject), records, batch_sizes=(2, 4))
    assert without_time(own) == without_time(shown)


def test_it_repeats_exactly_and_leaves_subject_and_generators_as_they_were() -> None:
    subject = model_subject(decoder(1, precision=LOW), precision=LOW)
    records, _ = quiet_records(2)
    before = subject.evaluate(records, width=12).gradients
    state = torch.get_rng_state()
    runs = [without_time(run_census(subject, records, batch_sizes=(2, 4))) for _ in range(2)]
    assert runs[0] == runs[1]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(subject.evaluate(records, width=12).gradients, before)


def test_forward_runs_the_physical_batches_of_a_step_without_gradients() -> None:
    model = OneLayer(random_table(0, hidden=8), out=2)
    records, _ = quiet_records(0, lengths=(4, 4, 4, 4, 4))
    model_subject(model, physical_batch=2).forward(records, width=4)
    assert model.seen == [2, 2, 1]


def test_layers_that_share_an_input_are_told() -> None:
    subject = model_subject(decoder(1, family="llama", precision=LOW), precision=LOW)
    found = run_census(subject, quiet_records(2)[0], batch_sizes=(4,))
    assert found is not None
    kinds = ["self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj"]
    assert [layer.kind for layer in found.distinct_inputs] == kinds
    assert {layer.block for layer in found.layers} == {0}
    query = found.distinct_inputs[0]
    assert [layer.kind.rpartition(".")[2] for layer in found.sharing(query)] == [
        "q_proj",
        "k_proj",
        "v_proj",
    ]
    for layer in found.layers:
        same = next(one for one in found.distinct_inputs if one.name == layer.source)
        assert (layer.unions, layer.n_altered) == (same.unions, same.n_altered)


def test_a_name_outside_the_blocks_has_no_block() -> None:
    subject, records = by_hand()
    found = run_census(subject, records, batch_sizes=(2,))
    assert found is not None
    assert (found.layers[0].block, found.layers[0].kind) == (None, "layer")


def test_nothing_counted_is_a_share_of_zero() -> None:
    empty = BatchCensus(
        batch=2,
        n_batches=1,
        n_layers=0,
        n_pairs=0,
        n_altered=0,
        n_columns=0,
        n_foreign=0,
        n_padding=0,
        largest_union=0,
        correction_work=0,
        owned_work=0,
    )
    shares = (empty.altered_share, empty.foreign_share, empty.padding_share, empty.saved_share)
    assert shares == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("sizes", [(3,), (2, 2), (), (8,)])
def test_sizes_that_do_not_divide_the_records_are_refused(sizes: tuple[int, ...]) -> None:
    subject, records = by_hand()
    with pytest.raises(InvalidArgumentError, match=r"distinct divisors .* 4, got batch_sizes="):
        run_census(subject, records, batch_sizes=sizes)


def test_a_size_below_one_is_refused() -> None:
    subject, records = by_hand()
    with pytest.raises(InvalidArgumentError, match="batch_sizes must be an integer >= 1"):
        run_census(subject, records, batch_sizes=(0,))


@given(seed=st.integers(0, 2**31), share=st.sampled_from([0.0, 0.005, 0.1]))
@settings(max_examples=25, deadline=None)
def test_sums_keep_their_order_on_any_table(seed: int, share: float) -> None:
    """Larger batches only add columns where nothing upstream depends on the batch."""
    generator = torch.Generator().manual_seed(seed)
    loud = torch.rand(64, 12, generator=generator) < share
    table = random_table(seed % 1000, hidden=12).clamp(-5, 5).masked_fill(loud, 9.0)
    records, spares = quiet_records(seed)
    found = run_census(one_layer(table), (*records, *spares), batch_sizes=(1, 2, 4, 8))
    assert found is not None
    for census in found.batches:
        assert 0 <= census.n_altered <= census.n_pairs <= 8
        assert 0 <= census.n_padding <= census.n_foreign <= census.n_columns
        assert 0 <= census.owned_work <= census.correction_work
    for small, large in zip(found.batches, found.batches[1:], strict=False):
        assert small.largest_union <= large.largest_union
        assert small.n_altered <= large.n_altered
        assert small.n_foreign <= large.n_foreign
        assert small.owned_work == large.owned_work


def test_insulars_batched_rule_gives_the_stock_layers_census() -> None:
    subject, records = by_hand()
    stock = without_time(run_census(subject, records, batch_sizes=(2, 4)))
    old = subject.model.layer
    weight = old.weight.float() * old.state.SCB.unsqueeze(1) / 127
    subject.model.layer = Int8Linear(
        weight, None, rule=BatchedOutliers(6.0), ownership=RowOwnership()
    )
    assert without_time(run_census(subject, records, batch_sizes=(2, 4))) == stock


def test_a_loud_token_needs_no_magnitude_above_the_threshold_in_float32() -> None:
    """5.9999 is 6.0 in float16, which is what bitsandbytes compares."""
    table = torch.zeros(5, 4)
    table[1, 0] = 5.9999
    found = run_census(one_layer(table), (record("a", 1), record("b", 4)), batch_sizes=(2,))
    assert found is not None
    assert (found.largest.largest_union, found.largest.n_altered) == (1, 1)


@pytest.mark.pretrained
def test_natural_text_on_a_pretrained_decoder_is_coupled_as_in_the_trials() -> None:
    """Earlier trials, batch 16: 96 to 102 of 210 layers, 40 to 44% altered, 69 to 81% foreign."""
    loaded = load_decoder("smollm2")
    text = "\n".join(one.text for one in read_packaged("wikipedia").records[:40])
    tokens = loaded.encode(text)[: 16 * 48]
    apply_precision(loaded.model, STOCK, layers=block_linears(loaded.model))
    subject = model_subject(loaded.model, precision=STOCK)
    records = [record(f"window-{i}", *tokens[48 * i : 48 * (i + 1)]) for i in range(16)]
    found = run_census(subject, records, batch_sizes=(16,))
    assert found is not None
    assert len(found.layers) == 210
    assert 91 <= found.largest.n_layers <= 107
    assert 0.35 <= found.largest.altered_share <= 0.49
    assert 0.64 <= found.largest.foreign_share <= 0.86
    assert 0.64 <= found.largest.saved_share <= 0.85
    assert found.largest.n_padding == 0
    widest = max(found.layers, key=lambda layer: layer.unions)
    assert widest.kind == "mlp.down_proj"

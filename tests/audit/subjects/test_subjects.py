"""What a subject must be, and what is refused with one clear line."""

import pytest
import torch

from audit import centred_subject
from audit.rigs import Rig, decoder, model_subject, quiet_records, record
from insular.audit.subjects.callable_subject import CallableSubject, parameter_kind
from insular.errors import SubjectError

BASE, SPARES = quiet_records(0)


def evaluate(function, records=BASE):
    return CallableSubject(function, name="mine").evaluate(records, width=12)


def test_records_go_in_and_gradients_come_out_in_the_same_order():
    subject = model_subject(decoder(0))
    forward = subject.evaluate(BASE, width=12)
    backward = subject.evaluate(BASE[::-1], width=12)
    assert torch.allclose(forward.gradients.flip(0), backward.gradients, rtol=1e-4, atol=1e-7)
    assert torch.allclose(forward.losses.flip(0), backward.losses)
    assert torch.equal(forward.mask.flip(0), backward.mask)
    ids = []
    evaluate(lambda batch: (ids.append(batch.record_ids), torch.ones(4, 2))[1])
    assert ids == [tuple(one.id for one in BASE)]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda batch: [1.0], r"must return a float tensor \[record, param\], got list"),
        (lambda batch: None, r"must return a float tensor \[record, param\], got NoneType"),
        (lambda batch: torch.ones(4, 2).long(), r"float tensor .*, got torch.int64"),
        (lambda batch: torch.ones(3, 2), r"shape \[4, param\], got \[3, 2\]; stack"),
        (lambda batch: torch.ones(4), r"shape \[4, param\], got \[4\]; stack"),
        (lambda batch: torch.ones(4, 2, 2), r"shape \[4, param\], got \[4, 2, 2\]; stack"),
    ],
)
def test_a_wrong_result_is_refused(result, message):
    with pytest.raises(SubjectError, match=rf"subject mine must return .*{message}|{message}"):
        evaluate(result)


def test_a_changing_width_is_refused():
    subject = CallableSubject(lambda batch: torch.ones(batch.shape), name="mine")
    subject.evaluate(BASE, width=12)
    with pytest.raises(SubjectError, match="same number of coordinates each time, got 13 after 12"):
        subject.evaluate(BASE, width=13)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda tokens: None, r"one parameter named batch or texts, got \(tokens\)"),
        (lambda batch, texts: None, r"one parameter named .*, got \(batch, texts\)"),
        (lambda: None, r"one parameter named .*, got \(\)"),
        (3, "must be callable, got int; return a function"),
    ],
)
def test_a_wrong_function_is_refused(function, message):
    with pytest.raises(SubjectError, match=f"subject mine must .*{message}|{message}"):
        CallableSubject(function, name="mine")


def test_the_parameters_name_says_what_comes_in():
    assert parameter_kind(lambda batch: None, name="mine") == "batch"
    assert parameter_kind(lambda texts: None, name="mine") == "texts"


def test_texts_are_decoded_in_order():
    seen = []

    def gradients(texts):
        seen.extend(texts)
        return torch.ones(len(texts), 1)

    subject = CallableSubject(gradients, name="mine", decode=lambda t: "".join(map(chr, t)))
    subject.evaluate([record("a", 97, 98), record("b", 99)], width=2)
    assert seen == ["ab", "c"]


def test_texts_without_a_decoder_are_refused():
    with pytest.raises(SubjectError, match="subject mine takes texts, and needs decode="):
        evaluate(lambda texts: None)


def test_a_batch_comes_padded_with_its_mask():
    shapes = []
    result = evaluate(lambda batch: (shapes.append(batch.shape), torch.ones(4, 1))[1])
    assert shapes == [(4, 12)]
    assert result.mask.sum(dim=1).tolist() == [len(one.tokens) for one in BASE]


def test_a_failure_inside_is_told_without_the_text():
    def gradients(texts):
        raise ValueError(texts[0])

    subject = CallableSubject(gradients, name="mine", decode=lambda _: "secret")
    with pytest.raises(SubjectError, match="subject mine failed with ValueError at") as caught:
        subject.evaluate(BASE, width=12)
    assert "secret" not in str(caught.value)


def test_physical_batches_give_what_records_give_alone():
    model = decoder(0)
    alone = [model_subject(model).evaluate([one], width=len(one.tokens)) for one in BASE]
    split = model_subject(model, physical_batch=1).evaluate(BASE, width=12)
    assert torch.equal(split.gradients, torch.cat([one.gradients for one in alone]))
    assert split.logits.shape[:2] == split.mask.shape == (4, 12)


def test_a_linear_model_on_centred_counts_is_coupled():
    subject = CallableSubject(
        centred_subject.make_subject(), name="mine", decode=lambda t: "".join(map(chr, t))
    )
    result = Rig(subject=subject, base=BASE, spares=SPARES).audit()
    assert result.verdict == "coupled"
    assert result.axis("content").n_moved == result.axis("content").n_comparisons == 12

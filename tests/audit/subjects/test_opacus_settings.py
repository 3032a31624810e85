"""Settings and clipping are those of the objects that make_private returned."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from insular.audit.subjects.opacus_settings import facts_of_privacy_engine, privacy_engine_clipper
from insular.errors import SubjectError

opacus = pytest.importorskip("opacus")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off:UserWarning"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning"),
]


def private(**settings: object) -> tuple[nn.Module, object, object]:
    """A tiny linear model made private."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    data = TensorDataset(torch.randn(40, 4), torch.zeros(40, dtype=torch.int64))
    defaults = {"noise_multiplier": 0.7, "max_grad_norm": 0.05}
    return opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=10, shuffle=True),
        **defaults | settings,
    )


def test_settings_are_read_from_the_objects():
    _, optimizer, loader = private()
    facts = facts_of_privacy_engine(optimizer, loader)
    assert (facts.clip_norm, facts.noise_multiplier) == (0.05, 0.7)
    assert (facts.expected_batch_size, facts.loss_reduction) == (10, "mean")
    assert (facts.sampler, facts.sample_rate) == ("UniformWithReplacementSampler", 0.25)
    assert facts.poisson
    assert facts.clipping_text == "Opacus flat: min(1, C / (|g| + 1e-06)), C = 0.05"
    assert facts.loss_text == "mean over records, divisor expected_batch_size = 10"
    assert "(Poisson), accounted sample rate 0.25" in facts.sampler_text


def test_a_sampler_that_is_not_poisson_is_named():
    _, optimizer, loader = private(poisson_sampling=False, loss_reduction="sum")
    facts = facts_of_privacy_engine(optimizer, loader)
    assert not facts.poisson
    assert facts.sample_rate == 0.25
    assert facts.sampler_text == "RandomSampler (not Poisson), accounted sample rate 0.25"
    assert facts.loss_text == "sum over records, no divisor"


def test_clipping_equals_what_the_optimizer_sums():
    model, optimizer, _ = private(loss_reduction="sum")
    model(torch.randn(6, 4)).square().sum().backward()
    samples = [p.grad_sample.reshape(6, -1) for p in model.parameters()]
    gradients = torch.cat(samples, dim=1) * torch.logspace(-5, 2, 6).unsqueeze(1)
    for p, part in zip(
        model.parameters(), gradients.split([s.shape[1] for s in samples], dim=1), strict=True
    ):
        p.grad_sample = part.reshape(6, *p.shape)
    clipped = privacy_engine_clipper(optimizer)(gradients)
    optimizer.clip_and_accumulate()
    summed = torch.cat([p.summed_grad.flatten() for p in model.parameters()])
    assert torch.allclose(clipped.sum(dim=0), summed, rtol=1e-6, atol=1e-8)
    norms = gradients.norm(dim=1)
    short = (norms < 0.04).unsqueeze(1)
    assert short.any()
    assert not short.all()
    assert torch.equal(clipped[short.squeeze()], gradients[short.squeeze()])


def test_stabiliser_keeps_a_clipped_norm_below_the_bound():
    _, optimizer, _ = private()
    gradients = torch.zeros(1, 23)
    gradients[0, 0] = 1e-3
    optimizer.max_grad_norm = 1e-3
    (clipped,) = privacy_engine_clipper(optimizer)(gradients)
    assert clipped.norm().item() == pytest.approx(1e-3 * 1e-3 / (1e-3 + 1e-6), rel=1e-6)


def test_wrong_number_of_coordinates_is_refused():
    _, optimizer, _ = private()
    with pytest.raises(SubjectError, match="optimizer's 23 coordinates, got 5"):
        privacy_engine_clipper(optimizer)(torch.zeros(2, 5))


@pytest.mark.parametrize("read", [privacy_engine_clipper, lambda o: facts_of_privacy_engine(o, [])])
def test_another_clipping_is_refused(read):
    _, optimizer, _ = private(clipping="per_layer", max_grad_norm=[0.05] * 4)
    with pytest.raises(SubjectError, match=r'got DPPerLayerOptimizer; .*clipping="flat"'):
        read(optimizer)

"""Where the norm stands: the measurements agree with theory, with autograd and with the library's layers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from addnorm_lib.chapters.ch04_postln_vs_preln import measures
from addnorm_lib.experiments import data, placement_training, stacked
from addnorm_lib.experiments.placement_net import PlacementNet
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import build, train
from addnorm_lib.layers import Encoder


def network(seed=0, **options):
    return build(Run(PlacementNet, options, dtype="float64"), seed)


@pytest.mark.parametrize("place", ["post", "pre"])
@pytest.mark.parametrize("one_target", [False, True])
def test_gradients_are_those_of_a_loss_on_the_librarys_layers(place, one_target):
    measured = measures.gradient_by_layer(
        (place,), 3, seeds=(2,), tokens=4, one_target=one_target, d_model=16, n_heads=2
    )
    _net, state = stacked.Family([3], [2], {"d_model": 16, "d_ff": 16, "vocabulary": 16, "n_heads": 2}).member(place, 3)
    library = Encoder(3, 16, 2, 16, placement=place, final_norm=place == "pre")
    library.load_state_dict({n.removeprefix("encoder."): v[0] for n, v in state.items() if n.startswith("encoder")})
    x = stacked.normal([2], 1, 4, 16, salt=1_000_003)[0]
    targets = torch.randint(16, (4,), generator=torch.Generator().manual_seed(2))
    targets = targets[:1].expand(4) if one_target else targets
    logits = F.linear(library(x)[0], state["readout.weight"][0], state["readout.bias"][0])
    weights = [layer.feed_forward.linear2.weight for layer in library.layers]
    whole = torch.autograd.grad(F.cross_entropy(logits, targets), weights, retain_graph=True)
    np.testing.assert_allclose(measured.norm[place][0], [float(g.norm()) for g in whole], rtol=1e-4)
    single = [
        torch.autograd.grad(F.cross_entropy(logits[t], targets[t]), weights[-1], retain_graph=True)[0].norm()
        for t in range(4)
    ]
    rms = torch.stack(single).square().mean().sqrt().item()
    assert measured.per_token[place][0, -1] == pytest.approx(rms, rel=1e-4)
    unit = F.normalize(library(x)[0], dim=1)
    similarity = ((unit @ unit.T).sum() - 4).item() / 12
    assert measured.similarity[place][0, 0] == pytest.approx(similarity, abs=1e-5)


def test_the_last_gradient_falls_with_depth_in_pre_and_not_in_post():
    measured = measures.gradient_against_depth(depths=(2, 4, 8, 16), d_model=32)
    assert abs(measured.slope("post").value) < 0.1
    assert -0.6 < measured.slope("pre").value < -0.3
    bare = measures.gradient_against_depth(("pre",), (2, 4, 8, 16), d_model=32, final_norm=False)
    assert bare.slope("pre").value > measured.slope("pre").value + 0.2


def test_the_stream_obeys_lemma_2():
    simplified = {"init": "simplified", "n_heads": 1, "seeds": range(16)}
    post = measures.stream_statistics("post", 8, **simplified)
    np.testing.assert_allclose(post.square_norm[:, 1:], 1, rtol=1e-3)
    np.testing.assert_allclose(post.before_norm.mean(), 1.5, rtol=0.1)
    pre = measures.stream_statistics("pre", 8, **simplified)
    mean, l = pre.square_norm.mean(0), pre.layers
    assert np.all(mean > 0.9 * (1 + l / 2)) and np.all(mean < 1.1 * (1 + 1.5 * l))


def test_stream_statistics_are_those_of_the_librarys_layers():
    net = network(3, placement="sandwich", depth=2).float()
    measured = measures.stream_statistics("sandwich", 2, seeds=(3,), batch=2, tokens=5, d_model=32)
    states = [stacked.normal([3], 2, 5, 32)[0]]
    for layer in net.encoder.layers:
        states.append(layer(states[-1]))
    for l, h in enumerate(states):
        assert measured.variance[0, l] == pytest.approx(h.var(-1, correction=0).mean().item(), rel=1e-4)
        assert measured.square_norm[0, l] == pytest.approx(h.square().mean().item(), rel=1e-4)
    cosine = F.cosine_similarity(states[0], states[1], dim=-1).mean().item()
    assert measured.cosine[0, 0] == pytest.approx(cosine, abs=1e-5)
    pairs = [F.cosine_similarity(states[2][:, i], states[2][:, j], dim=-1) for i in range(5) for j in range(i)]
    assert measured.similarity[0, 2] == pytest.approx(torch.stack(pairs).mean().item(), abs=1e-5)


def test_growth_is_linear_in_pre_and_logarithmic_when_scaled():
    grown = {place: measures.stream_statistics(place, 16).variance.mean(0)[-1] for place in ("post", "pre", "scaled")}
    assert grown["post"] == pytest.approx(1, rel=1e-3)
    assert grown["pre"] > 10 and grown["scaled"] < 5


def test_noise_grows_with_depth_in_post_and_not_in_deepnorm():
    change = measures.noise_amplification(depths=(2, 4, 8, 16), noise=0.003, d_model=32)
    growth = {place: (values.mean(0)[-1] / values.mean(0)[0]) for place, values in change.items()}
    assert growth["post"] > 1.5 * growth["pre"] > 1.5 * growth["deepnorm"]
    assert growth["deepnorm"] == pytest.approx(1, rel=0.2)


def test_ranks_collapse_without_the_skip():
    alone = measures.rank_collapse(5, skip=False)
    assert np.all(alone[:, -1] < 1e-12) and np.all(alone[:, 0] > 0.9)
    order = np.log(alone[:, 3]) / np.log(alone[:, 2])
    assert np.all((order > 2.5) & (order < 4.5))
    assert np.all(measures.rank_collapse(5, skip=True)[:, -1] > 0.7)
    assert np.all(measures.rank_collapse(16, skip=True, branch_scale="1/sqrt(L)")[:, -1] > 0.9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: measures.gradient_against_depth(depths=(4,)),
        lambda: measures.gradient_against_depth(seeds=()),
        lambda: measures.noise_amplification(depths=(0, 2)),
        lambda: measures.rank_collapse(skip=True, seeds=()),
    ],
)
def test_measurements_name_what_they_want(call):
    with pytest.raises(ValueError, match="wanted, got"):
        call()


def test_trained_streams_are_measured_before_and_after():
    runs = placement_training.training_grid(("pre",), (2,), (0,), steps=30, seeds=(0, 1), keep_state=True)
    record = train(runs, workers=1)[0]
    assert record.activation_std.shape == (2, 1, 2)
    before, after = (measures.stream_of_record(record, trained=trained) for trained in (False, True))
    fresh = stacked.initial_weights(dict(record.run.options), (0, 1))
    x = torch.from_numpy(data.load("reverse", length=6, vocabulary=8).x_test[:128])
    embedded = fresh["embedding.weight"][1][x] + fresh["position"][1]
    assert before.variance[1, 0] == pytest.approx(embedded.var(-1, correction=0).mean().item(), rel=1e-4)
    assert np.all(after.variance[:, -1] > before.variance[:, -1])
    with pytest.raises(ValueError, match="keep_state=True"):
        measures.stream_of_record(train(placement_training.ablation(1, steps=1, seeds=(0,))[3], workers=1)[0])

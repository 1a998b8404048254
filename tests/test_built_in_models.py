"""The networks that come with the package: their sizes, their parts, their arguments."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dsgt.problems import lenet, mlp, resnet20, transformer
from dsgt.problems.named import BUILT_IN, named_model, named_problem


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_resnet20_has_the_papers_layers_and_parameters():
    for norm in ("batch", "group"):
        made = resnet20(norm=norm)
        weighted = [m for m in made.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        assert len(weighted) == 20
        assert size(made) == 269_722  # the paper's 0.27 million: 3x3 kernels, two numbers a map, 64 x 10 + 10
        assert made(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert {type(m) for m in resnet20(norm="batch").modules()} & {nn.GroupNorm} == set()
    assert resnet20(channels=1, classes=3)(torch.zeros(1, 1, 8, 8)).shape == (1, 3)


def test_resnet20_computes_with_a_pixels_maps_beside_each_other():
    made, images = resnet20(width=4), torch.rand(2, 3, 8, 8)
    formats = []
    for layer in made.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(
                lambda _, given, out: formats.append(out.is_contiguous(memory_format=torch.channels_last))
            )
    answer = made(images)
    assert len(formats) == 19
    assert all(formats)
    torch.testing.assert_close(answer, nn.Sequential(*made)(images))  # the same function as in the usual order


def test_a_block_of_resnet20_without_residual_keeps_its_input():
    """Every second pixel, and zeros for the new maps: the identity costs no parameter."""
    block = next(m for m in resnet20(width=4).modules() if getattr(m, "new", 0))
    nn.init.zeros_(block.residual[-1].weight)
    nn.init.zeros_(block.residual[-1].bias)
    x = torch.rand(2, 4, 6, 6)
    y = block(x)
    assert torch.equal(y[:, 2:6], x[..., ::2, ::2])
    assert not y[:, [0, 1, 6, 7]].any()


def test_attention_is_that_of_torch():
    layer = transformer(width=8, heads=2).layers[0]
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    theirs.in_proj_weight, theirs.in_proj_bias = layer.asks.weight, layer.asks.bias
    theirs.out_proj.weight, theirs.out_proj.bias = layer.joins.weight, layer.joins.bias
    x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
    read = layer.before(x)
    seen = x + theirs(read, read, read, need_weights=False)[0]
    assert torch.allclose(layer(x), seen + layer.thinks(seen), atol=1e-6)


def test_the_order_of_the_patches_matters_to_a_transformer():
    made = transformer(channels=1, size=8)
    x = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert not torch.allclose(made(x), made(x.roll(4, dims=-1)), atol=1e-4)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_network_trains_on_the_digits_from_the_seed(name: str):
    torch.manual_seed(5)
    here = torch.random.get_rng_state()

    def made(seed: int):
        return named_problem("digits", name, nodes=2, partition="equal", batch=8, seed=seed)

    problem = made(0)
    x = problem.start(0)
    assert torch.equal(torch.random.get_rng_state(), here)
    assert not torch.equal(x, made(1).start(1))
    g = problem.oracle(0)(x.expand(2, -1).clone(), 0).mean(0)
    assert 0 < float(g.norm()) < float("inf")
    assert float(problem.loss(x - 1e-3 * problem.gradient(x))) < float(problem.loss(x))


def test_arguments_of_networks_are_written_behind_their_names():
    problem = named_problem("digits", "mlp:hidden=5,layers=2", nodes=2, partition="equal", batch=8, seed=0)
    assert problem.dim == (64 * 5 + 5) + (5 * 5 + 5) + (5 * 10 + 10)
    assert size(mlp(features=64, hidden=5, layers=2)) == problem.dim


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("resnet20:norm=layer", "norm is 'layer'; expected batch or group"),
        ("resnet20:nrom=batch", "no argument of resnet20 called 'nrom'; did you mean 'norm'"),
        ("resnet20:classes=3", "no argument of resnet20 called 'classes'"),
        ("mlp:hidden", "'hidden' in 'mlp:hidden' is not key=value"),
        ("mlp:dropout=1.5", "dropout is a share"),
        ("logistic:norm=1", "no model called 'logistic:norm=1'"),
        ("resnet", "no model called 'resnet'; did you mean 'resnet20'"),
    ],
)
def test_a_network_that_cannot_be_made_is_told_in_a_sentence(text: str, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        named_problem("digits", text, nodes=2, partition="equal", batch=8, seed=0)


def test_networks_for_images_want_square_ones():
    for make in (lenet, resnet20, transformer):
        assert named_model(make.__name__) == make.__name__
    with pytest.raises(ValueError, match="size is a multiple of the patch"):
        transformer(size=30)

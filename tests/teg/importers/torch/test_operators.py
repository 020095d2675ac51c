"""Tests of torch's operators, family by family, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cases import one_in
from tests.teg.importers.torch.live import check, check_joint, torch

F = torch.nn.functional
torch.manual_seed(0)
X, Y = torch.randn(3, 4, 5), torch.randn(3, 4, 5)
IMAGE = torch.randn(2, 4, 9, 8)
INTEGERS = torch.randint(-9, 9, (3, 4))


def arithmetic(x: Any, y: Any) -> Any:
    return (
        *(x + y, x - y, x * y, x / y, torch.maximum(x, y), torch.fmod(x, y), torch.remainder(x, y)),
        *(x**2, x.abs() ** 0.5, 2**x, torch.addcmul(x, x, y, value=0.3), torch.lerp(x, y, 0.3)),
        *(
            torch.clamp(x, -0.1, 0.3),
            x.masked_fill(y > 0, -1e9),
            torch.where(x > y, x, 0.0),
            (x > 0) | (y > 0),
        ),
    )


def integers(i: Any) -> Any:
    return (
        *(i + 2.5, i // 4, torch.div(i, 4, rounding_mode="trunc"), i / 4, i % 4, torch.fmod(i, 4), i & 3),
        *(~i, torch.sqrt(i.abs()), i.to(torch.int32) + i, (i > 0).sum(1), i.float().mean()),
    )


def activations(x: Any) -> Any:
    return (
        *(F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.hardswish(x), F.hardsigmoid(x)),
        *(
            F.relu6(x),
            F.selu(x),
            F.elu(x, 0.7),
            F.celu(x, 1.3),
            F.leaky_relu(x, 0.2),
            F.hardtanh(x, -0.5, 0.6),
        ),
        *(
            F.softplus(x, 2, 1.0),
            F.hardshrink(x),
            F.softshrink(x),
            F.logsigmoid(x),
            F.glu(x[..., :4]),
            F.relu(x),
        ),
    )


def movements(x: Any) -> Any:
    return (
        *(x.view(12, 5), x.permute(2, 0, 1), x.transpose(0, 2), x[:, 1], x[1:, ::2, -1], x.flip(0, 2)),
        *(x.roll((1, 2), (0, 2)), x.roll(5), x.repeat(2, 1, 3), x.expand(2, 3, 4, 5), x.split(2, 1)),
        *(
            torch.cat([x, x * 2], 1),
            torch.stack([x, x], -1),
            x.repeat_interleave(3, 1),
            x.tril(1),
            x.triu(-1),
        ),
        *(x.diagonal(1, 0, 2), x.unfold(2, 3, 1), x.chunk(3, 2), x.unbind(1), x.movedim(0, 2)),
        *(
            F.pad(x, (1, -1, 2, 0), value=3.0),
            F.pad(x, (2, 1), mode="reflect"),
            F.pad(x, (2, 1), mode="circular"),
        ),
    )


def scatters(x: Any, y: Any) -> Any:
    return (
        *(torch.slice_scatter(x, y[:, :2], 1, 1, 3), torch.slice_scatter(x, y[:, :2], 1, 0, 4, 2)),
        *(torch.select_scatter(x, y[:, 0], 1, 2), torch.zeros_like(x).slice_scatter(y[:, :2], 1, 1, 3)),
    )


def products(a: Any, b: Any) -> Any:
    return (
        *(torch.bmm(a, b), a[None] @ b, torch.matmul(a, b[0]), torch.baddbmm(a @ b, a, b, alpha=0.1, beta=2)),
        *(
            torch.einsum("...ij,...jk->...ik", a, b),
            torch.einsum("bij,bjk->ki", a, b),
            torch.mv(a[0], b[0, :, 0]),
        ),
    )


def reductions(x: Any) -> Any:
    return (
        *(torch.cdist(x, x + 1), torch.pdist(x[0])),
        *(x.sum(), x.sum((0, 2), keepdim=True), x.mean(-1), x.var(1), x.var((0, 1), correction=0), x.std(2)),
        *(torch.var_mean(x, 1), x.amax(1), x.amin((0, 1)), x.max(), x.prod(1), (x > 0).any(), (x > 0).all(1)),
        *(x.logsumexp(1), x.norm(), torch.linalg.vector_norm(x, 3, dim=1), x.softmax(1), x.log_softmax(-1)),
    )


def norms(x: Any) -> Any:
    weight, bias = x[0, :, 0, 0], x[1, :, 0, 0]
    return (
        *(F.layer_norm(x, (8,), x[0, 0, 0], x[0, 0, 1]), F.layer_norm(x, (9, 8)), F.rms_norm(x, (8,))),
        *(
            F.group_norm(x, 2, weight, bias),
            F.instance_norm(x),
            F.batch_norm(x, bias.detach(), weight.detach().abs() + 0.1),
        ),
        F.batch_norm(x, None, None, weight, bias, True),
    )


def convolutions(x: Any, w: Any, b: Any) -> Any:
    return (
        *(F.conv2d(x, w, b), F.conv2d(x, w, b, 2, 1), F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2))),
        *(
            F.conv2d(x, w, b, padding="same"),
            F.conv2d(x, w[:, :2], b, 2, 1, 1, 2),
            F.conv1d(x[:, :, 0], w[:, :, 0]),
        ),
        *(F.conv_transpose2d(x, w[:4], None, 2, 1, 1), F.conv_transpose2d(x, w[:4, :3], None, 3, 0, 1, 2, 2)),
    )


def pools(x: Any) -> Any:
    return (
        *(F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.max_pool2d(x, (2, 3), 1, 0, 2)),
        *(F.max_pool2d(x, 3, 2, 1, return_indices=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
        *(F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 2, divisor_override=3)),
        *(F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 5)), F.adaptive_max_pool2d(x, (3, 4))),
    )


def indices(x: Any, i: Any, j: Any) -> Any:
    return (
        *(x[i], x[:, i], x[i, i], x[i, :, i], x[i[:, None], :, i], x[:, torch.tensor([3, 1, 0])], x.take(i)),
        *(x.gather(1, j), x.gather(1, j[:2, :, :3]), torch.take_along_dim(x, j, 1), F.embedding(i % 3, x[0])),
        *(
            x.scatter_add(1, j, x[:, :2]),
            x.scatter(1, j[:, :1], 2.5),
            x.scatter_reduce(1, j, x[:, :2], "amax"),
        ),
        *(x.index_put((i,), x[:1] + 1, accumulate=True), x.index_put((x > 0,), torch.tensor(0.0))),
        *(x.index_add(0, i % 3, x[[0, 1, 2, 0]]), x.masked_scatter(x > 0, x + 1)),
    )


def orders(x: Any) -> Any:
    return (
        *(
            x.cumsum(1),
            x.cumprod(-1),
            x.argmax(),
            x.argmax(1),
            x.argmin(2, keepdim=True),
            x.max(1),
            x.sort(1),
        ),
        *(
            x.sort(-1, descending=True),
            x.topk(2, 1),
            x.topk(3, -1, largest=False),
            x.kthvalue(2, 1),
            x.median(1),
        ),
        *(x.cummax(1), x.logcumsumexp(1), F.one_hot((x[0] > 0).long(), 3)),
    )


def attentions(q: Any, k: Any) -> Any:
    attend = F.scaled_dot_product_attention
    return (
        *(attend(q, k, k), attend(q, k, k, is_causal=True), attend(q, k, k, attn_mask=q @ k.mT, scale=0.3)),
        *(
            attend(q, k, k, attn_mask=torch.ones(6, 6).tril().bool()),
            attend(q, k[:, :1], k[:, :1], enable_gqa=True),
        ),
    )


def losses(x: Any, t: Any) -> Any:
    y = x.detach().flip(0).sigmoid()
    return (
        *(F.cross_entropy(x, t), F.cross_entropy(x, t, reduction="sum", ignore_index=2), F.nll_loss(x, t)),
        *(F.cross_entropy(x, t, label_smoothing=0.1, weight=y[0]), F.cross_entropy(x, y), F.mse_loss(x, y)),
        *(F.smooth_l1_loss(x, y, beta=0.5), F.huber_loss(x, y), F.binary_cross_entropy_with_logits(x, y)),
        *(F.binary_cross_entropy(x.sigmoid(), y), F.kl_div(x.log_softmax(1), y, reduction="batchmean")),
    )


def resizes(x: Any) -> Any:
    return (
        *(
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, size=(11, 5)),
            F.interpolate(x, size=(4, 3), mode="area"),
        ),
        *(
            F.interpolate(x, scale_factor=(1.5, 2.0), mode="bilinear"),
            F.interpolate(x, size=(9, 5), mode="bicubic"),
        ),
        *(F.interpolate(x, size=(12, 5), mode="bilinear", align_corners=True), F.pixel_shuffle(x, 2)),
        *(F.interpolate(x, size=(4, 3), mode="bilinear", antialias=True), F.unfold(x, 3, padding=1)),
        F.fold(F.unfold(x, 2, stride=1), (9, 8), 2),
    )


def samples(x: Any, g: Any) -> Any:
    modes = (("bilinear", "zeros"), ("bilinear", "border"), ("nearest", "zeros"), ("bicubic", "reflection"))
    return tuple(F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=False) for m, p in modes)


def spectra(x: Any) -> Any:
    return (
        *(
            torch.fft.rfft(x),
            torch.fft.irfft(torch.fft.rfft(x), 5),
            torch.fft.fft2(x).imag,
            torch.fft.ifft(x).abs(),
        ),
        *(torch.view_as_real(torch.complex(x, x) * 2), torch.fft.fftn(x, norm="ortho").angle()),
    )


def matrices(x: Any) -> Any:
    square = x[:, :, :4]
    definite = square @ square.mT + torch.eye(4)
    return (
        *(torch.linalg.det(square), torch.linalg.inv(definite), torch.linalg.cholesky(definite)),
        *(torch.linalg.solve(definite, x), torch.linalg.solve_triangular(definite.triu(), x, upper=True)),
    )


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arithmetic": (arithmetic, (X, Y)),
    "integers": (integers, (INTEGERS,)),
    "activations": (activations, (X,)),
    "movements": (movements, (X,)),
    "scatters": (scatters, (X, Y)),
    "products": (products, (X, Y.transpose(1, 2).contiguous())),
    "reductions": (reductions, (X,)),
    "norms": (norms, (IMAGE,)),
    "convolutions": (convolutions, (IMAGE, torch.randn(6, 4, 3, 3), torch.randn(6))),
    "pools": (pools, (IMAGE,)),
    "indices": (indices, (X, torch.randint(-3, 3, (4,)), torch.randint(0, 4, (3, 2, 5)))),
    "orders": (orders, (X,)),
    "attentions": (attentions, (torch.randn(2, 2, 6, 4), torch.randn(2, 2, 6, 4))),
    "losses": (losses, (torch.randn(6, 5), torch.randint(0, 5, (6,)))),
    "resizes": (resizes, (IMAGE,)),
    "samples": (samples, (IMAGE, torch.rand(2, 4, 5, 2) * 2.6 - 1.3)),
    "spectra": (spectra, (X,)),
    "matrices": (matrices, (X,)),
}


@pytest.mark.parametrize("name", one_in(4, CASES))
def test_a_family_gives_what_torch_gives(name: str) -> None:
    function, arguments = CASES[name]
    check(function, *arguments)


JOINT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "activations": (activations, (X,)),
    "products": (products, (X, Y.transpose(1, 2).contiguous())),
    "softmax": (lambda x: (x.softmax(1), x.log_softmax(-1)), (X,)),
    "norms": (norms, (IMAGE,)),
    "convolutions": (convolutions, CASES["convolutions"][1]),
    "pools of maxima": (lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2)), (IMAGE,)),
    "attentions": (attentions, (torch.randn(2, 2, 6, 4), torch.randn(2, 2, 6, 4))),
    "losses": (lambda x: losses(x, torch.tensor([0, 1, 4, 2, 2, 3])), (torch.randn(6, 5),)),
    "resizes": (lambda x: resizes(x * x), (IMAGE,)),
    "movements": (movements, (X,)),
    "average pools": (
        lambda x: (F.avg_pool2d(x * x, 3, 2, 1), F.adaptive_avg_pool2d(x * x, (4, 5))),
        (IMAGE,),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", JOINT)
def test_gradients_are_what_torch_gives(name: str) -> None:
    function, arguments = JOINT[name]
    check_joint(function, *arguments)

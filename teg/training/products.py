"""Rules of differentiation for contractions, convolutions and functions of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.training.rule import BlockGradients, NotDifferentiable
from tapestry.teg.training.writing import FIRST, SECOND, GradientWriter


def contract(b: BlockGradients) -> Sequence[str | None]:
    """Contract the gradient with the other inputs."""
    w, labels, output = b.writer, b.attribute("labels"), b.attribute("output")
    found: list[str | None] = []
    for k, own in enumerate(labels):
        if not b.wanted[k]:
            found.append(None)
            continue
        others = [n for n in range(len(labels)) if n != k]
        known = {*output, *(name for n in others for name in labels[n])}
        kept = [name for name in own if name in known]
        factors = [w.conjugate(b.inputs[n]) for n in others]
        made = w.contract([b.gradient, *factors], [output, *(labels[n] for n in others)], kept)
        sizes = dict(zip(own, w.shape(b.inputs[k]), strict=True))
        found.append(_like(w, w.broadcast(made, kept, sizes), b.inputs[k]))
    return found


def _like(w: GradientWriter, gradient: str, tensor: str) -> str:
    """Convert a gradient to the element type of its tensor."""
    if w.is_complex(gradient) and not w.is_complex(tensor):
        gradient = w.pointwise(("real", FIRST), gradient, dtype=w.dtype(tensor))
    return w.cast(gradient, w.dtype(tensor))


def conv(b: BlockGradients) -> Sequence[str | None]:
    """Convolve the gradient with the kernel turned around, and the input with the gradient."""
    if b.writer.is_complex(b.output):
        raise NotDifferentiable("it convolves complex numbers")
    return (_of_image(b) if b.wanted[0] else None), (_of_kernel(b) if b.wanted[1] else None)


def _of_image(b: BlockGradients) -> str:
    w, (image, kernel), groups = b.writer, b.inputs, b.attribute("groups")
    shape, taps = w.shape(image), w.shape(kernel)[2:]
    rank = len(taps)
    strides, dilations, pads = (b.attribute(name) for name in ("strides", "dilations", "pads"))
    spread = b.gradient
    for k, stride in enumerate(strides):
        spread = w.dilated(spread, 2 + k, stride)
    low = [dilations[k] * (taps[k] - 1) - pads[k] for k in range(rank)]
    high = [shape[2 + k] + pads[k] - w.shape(spread)[2 + k] for k in range(rank)]
    # Negative padding cuts off what no element of the image was read for.
    spread = w.pad(spread, [0, 0, *(min(n, 0) for n in low)], [0, 0, *(min(n, 0) for n in high)])
    turned = kernel
    for k, count in enumerate(taps):
        turned = w.slice(turned, 2 + k, count - 1, -1, -1)
    out, inner = w.shape(kernel)[0] // groups, w.shape(kernel)[1]
    if groups == 1:
        turned = w.transposed(turned, (1, 0, *range(2, 2 + rank)))
    else:
        turned = w.reshape(turned, (groups, out, inner, *taps))
        turned = w.transposed(turned, (0, 2, 1, *range(3, 3 + rank)))
        turned = w.reshape(turned, (groups * inner, out, *taps))
    return w.apply(
        "conv",
        spread,
        turned,
        strides=(1,) * rank,
        pads=(*(max(n, 0) for n in low), *(max(n, 0) for n in high)),
        dilations=dilations,
        groups=groups,
    )


def _of_kernel(b: BlockGradients) -> str:
    """Convolve with the samples as channels: the gradient is the kernel, its stride the dilation."""
    w, (image, kernel), groups = b.writer, b.inputs, b.attribute("groups")
    shape, taps, windows = w.shape(image), w.shape(kernel)[2:], w.shape(b.gradient)[2:]
    rank, spatial = len(taps), tuple(range(2, 2 + len(taps)))
    strides, dilations, pads = (b.attribute(name) for name in ("strides", "dilations", "pads"))
    if groups == 1:
        samples = w.transposed(image, (1, 0, *spatial))
    else:
        inner = shape[1] // groups
        samples = w.reshape(image, (shape[0], groups, inner, *shape[2:]))
        samples = w.transposed(samples, (2, 1, 0, *(1 + k for k in spatial)))
        samples = w.reshape(samples, (inner, groups * shape[0], *shape[2:]))
    reach = [
        (count - 1) * stride + 1 + dilation * (tap - 1) - size - low
        for count, stride, dilation, tap, size, low in zip(
            windows, strides, dilations, taps, shape[2:], pads, strict=False
        )
    ]
    samples = w.pad(samples, (0,) * (2 + rank), [0, 0, *(min(n, 0) for n in reach)])
    made = w.apply(
        "conv",
        samples,
        w.transposed(b.gradient, (1, 0, *spatial)),
        strides=dilations,
        pads=(*pads[:rank], *(max(n, 0) for n in reach)),
        dilations=strides,
        groups=groups,
    )
    return w.transposed(made, (1, 0, *spatial))


def linalg(b: BlockGradients) -> Sequence[str | None]:
    """Differentiate a function of matrices, by Giles's formulas (Oxford NA-08/01, 2008)."""
    if b.writer.is_complex(b.output):
        raise NotDifferentiable("its matrices are of complex numbers")
    return _MATRICES[b.attribute("function")](b)


def _times(w: GradientWriter, a: str, c: str, *, left: bool = False, right: bool = False) -> str:
    """Multiply stacks of matrices, of which the `left` or `right` one is transposed."""
    stack = tuple(f"s{k}" for k in range(len(w.shape(a)) - 2))
    first = (*stack, "k", "i") if left else (*stack, "i", "k")
    second = (*stack, "j", "k") if right else (*stack, "k", "j")
    return w.contract([a, c], [first, second], (*stack, "i", "j"))


def _swapped(w: GradientWriter, a: str) -> str:
    rank = len(w.shape(a))
    return w.transposed(a, (*range(rank - 2), rank - 1, rank - 2))


def _scaled(w: GradientWriter, a: str, factor: float) -> str:
    return w.pointwise(("mul", FIRST, ("const", factor)), a)


def _triangle(w: GradientWriter, a: str, lower: bool, diagonal: float = 1.0) -> str:
    """Keep a triangle; its diagonal is multiplied."""
    shape = w.shape(a)
    names = [f"d{k}" for k in range(len(shape))]
    row, column = ("index", names[-2]), ("index", names[-1])
    inside = ("gt", row, column) if lower else ("lt", row, column)
    on_it = ("where", ("eq", row, column), ("mul", FIRST, ("const", diagonal)), ("const", 0.0))
    return w.cell(
        ("where", inside, FIRST, on_it), (a,), (names,), dict(zip(names, shape, strict=True)), w.dtype(a)
    )


def _det(b: BlockGradients) -> Sequence[str | None]:
    w = b.writer
    inverse = w.apply("linalg", b.inputs[0], function="inverse")
    scale = w.pointwise(("mul", FIRST, SECOND), b.gradient, b.output)
    names = [f"d{k}" for k in range(len(w.shape(scale)))]
    scale = w.rearranged(scale, names, [*names, "", ""])
    return (w.pointwise(("mul", FIRST, SECOND), _swapped(w, inverse), scale),)


def _inverse(b: BlockGradients) -> Sequence[str | None]:
    w, y = b.writer, b.output
    made = _times(w, _times(w, y, b.gradient, left=True), y, right=True)
    return (_scaled(w, made, -1.0),)


def _cholesky(b: BlockGradients) -> Sequence[str | None]:
    w = b.writer
    is_lower = b.attribute("lower", True)
    factor = b.output if is_lower else _swapped(w, b.output)
    gradient = b.gradient if is_lower else _swapped(w, b.gradient)
    inner = _triangle(w, _times(w, factor, _triangle(w, gradient, True), left=True), True, 0.5)
    back = w.apply("linalg", _swapped(w, factor), inner, function="triangular_solve", lower=False)
    made = _swapped(
        w, w.apply("linalg", _swapped(w, factor), _swapped(w, back), function="triangular_solve", lower=False)
    )
    made = w.pointwise(("mul", ("const", 0.5), ("add", FIRST, SECOND)), made, _swapped(w, made))
    # Only one triangle of the matrix is read, and the other one is taken to be its mirror image.
    return (_triangle(w, w.pointwise(("mul", ("const", 2.0), FIRST), made), is_lower, 0.5),)


def _solve(b: BlockGradients) -> Sequence[str | None]:
    w, (matrix, _) = b.writer, b.inputs
    options = {name: value for name, value in b.block.definition.attributes if name != "function"}
    if "lower" in options or b.attribute("function") == "triangular_solve":
        options["lower"] = not options.get("lower", True)
    right = w.apply("linalg", _swapped(w, matrix), b.gradient, function=b.attribute("function"), **options)
    if not b.wanted[0]:
        return None, right
    of_matrix = _scaled(w, _times(w, right, b.output, right=True), -1.0)
    if b.attribute("function") == "triangular_solve":
        diagonal = 0.0 if b.attribute("unit_diagonal", False) else 1.0
        of_matrix = _triangle(w, of_matrix, b.attribute("lower", True), diagonal)
    return of_matrix, right


_MATRICES = {
    "det": _det,
    "inverse": _inverse,
    "cholesky": _cholesky,
    "solve": _solve,
    "triangular_solve": _solve,
}


def fft(b: BlockGradients) -> Sequence[str | None]:
    """Transform the gradient back: the transform's matrix is symmetric, and its conjugate the inverse times n."""
    w, axis, inverse = b.writer, b.attribute("axis"), b.attribute("inverse", False)
    size = w.shape(b.gradient)[axis]
    made = w.apply("fft", b.gradient, axis=axis, inverse=not inverse)
    factor = 1 / size if inverse else float(size)
    return (w.pointwise(("mul", FIRST, ("const", factor)), made),)

"""Programs of GPT for training: a layer forward and backward, and a whole step with its loss and updates by Adam.

Kernels are fused as Megatron-LM fuses them: scale, mask and softmax; dropout and residual; the update of a parameter
with its moments. Biases, which take no time of their own, are left out. With `fused` attention nothing of one element
per pair of positions is stored. Programs are timed, never run: a derivative, or a constant, may stand for one of as
much work. Dimensions are: b batch, s and t positions, h width, a heads, d and e width of a head and of its queries,
keys and values, f features, v words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measurements.named_programs import STATE, NamedBuilder, W, X, Y, Z

EXPANSION = 4  # width of the feed-forward part over that of the layer (arXiv:2005.14165, section 2.1)
STORED, SELECTIVE, FULL = "stored", "selective", "full"
AGAIN = ".again"  # ending of the names of what is computed again
WEIGHTS = {"scale1": "h", "bias1": "h", "wqkv": "hae", "wo": "adh"}
WEIGHTS |= {"scale2": "h", "bias2": "h", "w1": "hf", "w2": "fh"}

SCORE = ("mul", X, ("const", 0.125))
MASKED = ("where", ("le", ("index", "t"), ("index", "s")), SCORE, ("const", -1e4))
KEPT = ("lt", ("random_uniform", ("const", 1), ("index", "s")), ("const", 0.9))
DROPPED = ("mul", X, Y)
HIT = ("eq", ("index", "v"), Y)

# The core of attention, which selective recomputation computes again, and all that a layer makes.
_CORE = frozenset(("e", "p", "u", "u.kept"))
_MADE = _CORE | frozenset(
    ("n1", "qkv", "q", "k", "v", "c", "o", "r1", "r1.kept", "n2", "f1", "g", "f2", "y", "y.kept")
)
RECOMPUTED: Mapping[str, frozenset[str]] = {STORED: frozenset(), SELECTIVE: _CORE, FULL: _MADE}


def layer_sizes(hidden: int, heads: int, length: int, batch: int) -> dict[str, int]:
    """Return the sizes of the dimensions of a layer."""
    sizes = {"b": batch, "s": length, "t": length, "h": hidden, "a": heads, "f": EXPANSION * hidden}
    return sizes | {"d": hidden // heads, "e": 3 * (hidden // heads)}


@dataclass(frozen=True)
class Layer:
    """A layer of a program: the prefix of the names of its tensors, and the name of its input."""

    b: NamedBuilder
    x: str
    prefix: str = ""
    recompute: str = STORED
    is_fused: bool = False

    def weights(self) -> dict[str, str]:
        """Append sources of the parameters; return the names of their dimensions."""
        found = {f"{self.prefix}{name}": names for name, names in WEIGHTS.items()}
        for name, names in found.items():
            self.b.source(name, names, "parameter")
        return found

    def forward(self, again: frozenset[str] = frozenset()) -> str:
        """Append the layer, perhaps once again: the names of those tensors end in `AGAIN`."""
        b, n = self.b, self._names(again)
        self._normalized(n("n1"), n("x"), 1)
        b.contract(n("qkv"), n("n1"), n("wqkv"), "bsh,hae->base")
        for number, (part, names) in enumerate({"q": "basd", "k": "batd", "v": "batd"}.items()):
            b.view(n(part), n("qkv"), number, "d", names)
        self._attention(n)
        b.contract(n("o"), n("c"), n("wo"), "basd,adh->bsh")
        self._residual(n, "r1", n("o"), n("x"))
        self._normalized(n("n2"), n("r1"), 2)
        b.contract(n("f1"), n("n2"), n("w1"), "bsh,hf->bsf")
        b.cells(n("g"), ("gelu", X), n("f1"))
        b.contract(n("f2"), n("g"), n("w2"), "bsf,fh->bsh")
        return self._residual(n, "y", n("f2"), n("r1"))

    def backward(self, dy: str) -> str:
        """Append what is computed again and the gradients, from that of `y` to that of `x`, which is returned."""
        b, n = self.b, self._names(RECOMPUTED[self.recompute])
        if self.recompute == FULL:
            self.forward(_MADE)
        b.cells(n("df2"), DROPPED, dy, n("y.kept"))
        b.contract(n("dw2"), n("g"), n("df2"), "bsf,bsh->fh")
        b.contract(n("dg"), n("df2"), n("w2"), "bsh,fh->bsf")
        b.cells(n("df1"), ("mul", X, ("tanh", Y)), n("dg"), n("f1"))
        b.contract(n("dn2"), n("df1"), n("w1"), "bsf,hf->bsh")
        b.contract(n("dw1"), n("n2"), n("df1"), "bsh,bsf->hf", again=n("n2"))
        self._normalized_gradients(n, "dr1", dy, n("r1"), 2)
        b.cells(n("do"), DROPPED, n("dr1"), n("r1.kept"))
        b.contract(n("dwo"), n("c"), n("do"), "basd,bsh->adh")
        b.contract(n("dc"), n("do"), n("wo"), "bsh,adh->basd")
        self._attention_gradients(n)
        b.joined(n("dqkv"), "base", n("dq"), n("dk"), n("dv"))
        b.contract(n("dn1"), n("dqkv"), n("wqkv"), "base,hae->bsh")
        b.contract(n("dwqkv"), n("n1"), n("dqkv"), "bsh,base->hae", again=n("n1"))
        return self._normalized_gradients(n, "dx", n("dr1"), n("x"), 1)

    def _names(self, recomputed: frozenset[str]) -> Callable[[str], str]:
        def name(short: str) -> str:
            return self.x if short == "x" else f"{self.prefix}{short}{AGAIN if short in recomputed else ''}"

        return name

    def _normalized(self, made: str, tensor: str, number: int) -> None:
        weights = (f"{self.prefix}scale{number}", f"{self.prefix}bias{number}")
        self.b.along_rows("layer_norm", made, tensor, *weights, eps=1e-5)

    def _normalized_gradients(
        self, n: Callable[[str], str], made: str, rest: str, tensor: str, number: int
    ) -> str:
        """Append the gradients of a normalization, and add that of its input to the residual's."""
        gradient, scale = n(f"dn{number}"), n(f"scale{number}")
        self.b.cells(n(made), _NORMALIZED, gradient, rest, tensor, scale, early=gradient)
        results = {n(f"dscale{number}"): 1, n(f"dbias{number}"): 2}
        self.b.fused(n(f"dscale{number}"), (gradient, tensor), _SCALE_GRADIENTS, results)
        return n(made)

    def _residual(self, n: Callable[[str], str], name: str, tensor: str, rest: str) -> str:
        """Append dropout and residual as one kernel, which stores what is kept in a byte per element."""
        steps = ((KEPT, "bsh", (), "bool"), (("add", DROPPED, Z), "bsh", (0, 2, 1)))
        return self.b.fused(n(name), (tensor, rest), steps, {n(name): 1, n(f"{name}.kept"): 0})

    def _attention(self, n: Callable[[str], str]) -> None:
        """Append the core of attention: scores, mask and softmax, dropout, and the weighted sum."""
        b = self.b
        if self.is_fused:
            b.fused(n("c"), (n("q"), n("k"), n("v")), (*_SCORES, ("contract", "basd", (5, 2))), {n("c"): 3})
            return
        self._shares(n)
        b.contract(n("c"), n("u"), n("v"), "bast,batd->basd")

    def _shares(self, n: Callable[[str], str]) -> None:
        b = self.b
        b.contract(n("e"), n("q"), n("k"), "basd,batd->bast")
        b.fused(n("p"), (n("e"),), ((MASKED, "bast", (0,)), ("softmax", "bast", (1,))), {n("p"): 1})
        kept = ((KEPT, "bast", (), "bool"), (DROPPED, "bast", (0, 1)))
        b.fused(n("u"), (n("p"),), kept, {n("u"): 1, n("u.kept"): 0})

    def _attention_gradients(self, n: Callable[[str], str]) -> None:
        """Append the gradients of queries, keys and values from that of the weighted sum, `dc`."""
        b = self.b
        if self.is_fused:
            names = {n("dq"): 8, n("dk"): 9, n("dv"): 3}
            b.fused(n("dq"), (n("q"), n("k"), n("v"), n("dc")), _FUSED_GRADIENTS, names)
            return
        if self.recompute == SELECTIVE:
            self._shares(n)
        b.contract(n("du"), n("dc"), n("v"), "basd,batd->bast")
        b.contract(n("dv"), n("u"), n("dc"), "bast,basd->batd")
        b.cells(n("dp"), DROPPED, n("du"), n("u.kept"))
        b.fused(n("de"), (n("p"), n("dp")), _SOFTMAX_GRADIENT, {n("de"): 2})
        b.contract(n("dq"), n("de"), n("k"), "bast,batd->basd")
        b.contract(n("dk"), n("de"), n("q"), "bast,basd->batd")


@dataclass(frozen=True)
class Step:
    """A training step: layers with embeddings before and the loss behind, their gradients, and updates by Adam.

    `parts[k]` is the part of the pipeline with layer k, in ascending order. Positions that come from another part are
    divided `along` these sub-axes while they are sent.
    """

    b: NamedBuilder
    parts: Sequence[int]
    recompute: str = STORED
    is_fused: bool = False
    along: tuple[str, ...] = ()

    def append(self) -> None:
        """Append the whole step."""
        b = self.b
        weights = {"words": "vh", "places": "sh", "scale": "h", "bias": "h"}
        for name, b.part in (("tokens", 0), ("targets", self.parts[-1])):
            b.source(name, "bs", dtype="int32")
        homes = self._sources(weights)
        layers: list[Layer] = []
        x = self._embedded()
        for number, part in enumerate(self.parts):
            x = self._sent(x, f"{number}.x", part)
            layer = Layer(b, x, f"{number}.", self.recompute, self.is_fused)
            added = layer.weights()
            weights |= added
            homes |= dict.fromkeys(added, part)
            layers.append(layer)
            x = layer.forward()
        dy = self._loss(x)
        for number in reversed(range(len(layers))):
            dy = self._sent(dy, f"{number}.dy", self.parts[number])
            dy = layers[number].backward(dy)
        self._embedding_gradients(self._sent(dy, "dx", 0))
        for name, names in weights.items():
            b.part = homes[name]
            self._update(name, names)

    def _sources(self, weights: Mapping[str, str]) -> dict[str, int]:
        """Append the parameters outside of layers; return their parts."""
        homes = {}
        for name, names in weights.items():
            homes[name] = self.b.part = self.parts[-1] if name in ("scale", "bias") else 0
            self.b.source(name, names, "parameter")
        self.b.part = 0
        return homes

    def _sent(self, tensor: str, name: str, part: int) -> str:
        """Go on in a part; what comes from another is copied there."""
        is_sent = part != self.b.part
        self.b.part = part
        return self.b.cells(name, X, tensor, along=self.along) if is_sent and self.along else tensor

    def _embedded(self) -> str:
        b = self.b
        b.gather("found", "words", "tokens")
        steps = ((KEPT, "bsh", (), "bool"), (("mul", ("add", X, Y), Z), "bsh", (0, 1, 2)))
        return b.fused("embedded", ("found", "places"), steps, {"embedded": 1, "embedded.kept": 0})

    def _loss(self, x: str) -> str:
        """Append logits, cross-entropy and the gradients of both; return that of the last layer's result."""
        b = self.b
        b.along_rows("layer_norm", "n", x, "scale", "bias", eps=1e-5)
        b.contract("logits", "n", "words", "bsh,vh->bsv")
        b.reduce("largest", "max", "logits", "bs")
        powers = ((("exp", ("sub", X, Y)), "bsv", (0, 1), "float32"), ("sum", "bs", (2,)))
        b.fused("total", ("logits", "largest"), powers, {"total": 1})
        hits = ((("where", HIT, X, ("const", 0.0)), "bsv", (0, 1), "float32"), ("sum", "bs", (2,)))
        b.fused("score", ("logits", "targets"), hits, {"score": 1})
        b.cells("losses", ("sub", ("log", X), Y), "total", "score")
        b.reduce("loss", "sum", "losses", "")
        b.sink("loss")
        share = ("div", ("exp", ("sub", X, Z)), W)
        gradient = ("sub", share, ("where", HIT, ("const", 1.0), ("const", 0.0)))
        b.cells("dlogits", gradient, "logits", "targets", "largest", "total")
        b.contract("dn", "dlogits", "words", "bsv,vh->bsh")
        b.contract("dwords.head", "n", "dlogits", "bsh,bsv->vh", again="n")
        b.fused("dscale", ("dn", x), _SCALE_GRADIENTS, {"dscale": 1, "dbias": 2})
        return b.cells("dlast", ("mul", Z, ("mul", X, Y)), "dn", x, "scale")

    def _embedding_gradients(self, dx: str) -> None:
        b = self.b
        b.cells("dembedded", DROPPED, dx, "embedded.kept")
        b.scatter("dwords.rows", "tokens", "dembedded", "v")
        b.reduce("dplaces", "sum", "dembedded", "sh")
        b.cells("dwords", ("add", X, Y), "dwords.head", "dwords.rows")

    def _update(self, name: str, names: str) -> None:
        """Append the update of a parameter by Adam, in float32 with a master copy."""
        b, prefix = self.b, name.rpartition(".")
        gradient = f"{prefix[0]}{prefix[1]}d{prefix[2]}"
        states = [
            b.source(f"{name}.{kind}", names, STATE, "float32") for kind in ("master", "mean", "square")
        ]
        results = {
            f"{name}.next": 3,
            **{f"{state}.next": k for state, k in zip(states, (2, 0, 1), strict=True)},
        }
        b.fused(f"{name}.next", (gradient, *states), _adam(names, b.dtype), results, spread=True)
        b.sink(f"{name}.next", name)
        for state in states:
            b.sink(f"{state}.next", state)


def _adam(names: str, dtype: str) -> tuple[tuple[object, ...], ...]:
    """Return steps that make the mean, the square, the master copy and the parameter of gradient and states."""
    blend = ("add", ("mul", X, ("const", 0.1)), ("mul", Y, ("const", 0.9)))
    square = ("add", ("mul", ("mul", X, X), ("const", 0.05)), ("mul", Y, ("const", 0.95)))
    moved = ("sub", X, ("mul", ("const", 1e-4), ("div", Y, ("add", ("sqrt", Z), ("const", 1e-8)))))
    return (
        (blend, names, (0, 2), "float32"),
        (square, names, (0, 3), "float32"),
        (moved, names, (1, 4, 5), "float32"),
        (X, names, (6,), dtype),
    )


# Steps of fused blocks, after their inputs.
_NORMALIZED = ("add", Y, ("mul", W, ("mul", X, Z)))
_SCALE_GRADIENTS = ((("mul", X, Y), "bsh", (0, 1)), ("sum", "h", (2,)), ("sum", "h", (0,)))
_SCORES = (("contract", "bast", (0, 1)), (MASKED, "bast", (3,)), ("softmax", "bast", (4,)))  # of q, k, v
_SOFTMAX_GRADIENT = (
    (("mul", X, Y), "bast", (0, 1)),
    ("sum", "bas", (2,)),
    (("mul", ("const", 0.125), ("mul", X, ("sub", Y, Z))), "bast", (0, 1, 3)),
)
_FUSED_GRADIENTS = (  # of q, k, v, dc
    ("contract", "bast", (0, 1)),
    (MASKED, "bast", (4,)),
    ("softmax", "bast", (5,)),
    ("contract", "batd", (6, 3)),
    ("contract", "bast", (3, 2)),
    (("mul", X, Y), "bast", (6, 8)),
    ("sum", "bas", (9,)),
    (("mul", X, ("sub", Y, Z)), "bast", (6, 8, 10)),
    ("contract", "basd", (11, 1)),
    ("contract", "batd", (11, 0)),
)

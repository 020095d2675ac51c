"""Reader of StableHLO: text, MLIR bytecode or portable artifacts, parsed by jaxlib's own bindings."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.stablehlo.attributes import AttributeReader, type_of
from tapestry.teg.importers.stablehlo.module import Function, Module, Operation, Port, Region

LIMIT_BYTES = 1 << 30
NESTING_LIMIT = 100
TEXT_NESTING_LIMIT = 1000
BYTECODE = b"ML\xefR"
GZIP = b"\x1f\x8b"
TERMINATORS = ("return", "func.return", "stablehlo.return", "mhlo.return", "sdy.return")
INSTALL = "reading StableHLO needs jaxlib, which is not installed; pip install 'tapestry[jax]'"


def bindings() -> SimpleNamespace:
    """Load jaxlib's MLIR bindings.

    Raises:
        ImportFailure: jaxlib is not installed, or of a version without them.
    """
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo
    except ImportError as error:
        raise ImportFailure(f"{INSTALL} ({error})") from None
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    return SimpleNamespace(ir=ir, stablehlo=stablehlo, sdy=sdy, context=context)


def read_module(source: str | bytes | Path, name: str | None = None) -> Module:
    """Read the module from a text, bytes or a file (`.mlir`, also `.gz`); a text of one line is a path.

    Raises:
        ImportFailure: there is no such file, it is no StableHLO module, or it is not static.
    """
    parsed, label, mlir = parse_module(source)
    return module_of(parsed, mlir, label, name)


def parse_module(source: str | bytes | Path) -> tuple[Any, str, SimpleNamespace]:
    """Parse a module; return it, how messages call it, and jaxlib's bindings, which parsed it.

    Raises:
        ImportFailure: there is no such file, jaxlib is not installed, or it is no StableHLO module.
    """
    content, label = _load(source)
    _check_nesting(content, label)
    mlir = bindings()
    with mlir.context:
        try:
            if content.startswith(BYTECODE) and b"StableHLO" in content[:64]:
                return mlir.stablehlo.deserialize_portable_artifact(mlir.context, content), label, mlir
            return mlir.ir.Module.parse(content), label, mlir
        except (mlir.ir.MLIRError, ValueError, UnicodeDecodeError) as error:
            raise ImportFailure(f"{label} is not a StableHLO module: {_one_line(error)}") from None


def numbered_results(parsed: Any, mlir: SimpleNamespace) -> dict[tuple[str, int], Any]:
    """Return the values of each function of a parsed module, by the numbers that its plain form gives them."""
    found = {}
    for operation in (o.operation for o in parsed.body.operations):
        if operation.name == "func.func" and operation.regions[0].blocks:
            reader = _FunctionReader(mlir)
            function = reader.function(operation)
            found.update({(function.name, number): value for value, number in reader.numbers.items()})
    return found


def _load(source: str | bytes | Path) -> tuple[bytes, str]:
    if isinstance(source, str) and ("\n" in source or "{" in source):
        try:
            return source.encode(), "the given text"
        except UnicodeEncodeError as error:
            raise ImportFailure(
                f"the given text is no Unicode at character {error.start}: {error.reason}"
            ) from None
    if isinstance(source, bytes):
        return _unpacked(source, "the given file"), "the given file"
    path = Path(source)
    try:
        if path.stat().st_size > LIMIT_BYTES:
            raise ImportFailure(
                f"file {str(path)!r} is larger than {LIMIT_BYTES} bytes, the limit for StableHLO"
            )
        content = path.read_bytes()
    except FileNotFoundError:
        raise ImportFailure(f"there is no file {str(path)!r}") from None
    except OSError as error:
        raise ImportFailure(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except ValueError as error:  # a zero byte, or a text that is no Unicode
        raise ImportFailure(f"{str(path)[:80]!r} is no path of a file, and no module: {error}") from None
    return _unpacked(content, f"file {str(path)!r}"), f"file {str(path)!r}"


def _unpacked(content: bytes, label: str) -> bytes:
    """Decompress the content if it is gzip-compressed, up to the limit."""
    if not content.startswith(GZIP):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            plain = file.read(LIMIT_BYTES + 1)
    except (OSError, EOFError) as error:
        raise ImportFailure(f"{label} cannot be unpacked: {error}") from None
    if len(plain) > LIMIT_BYTES:
        raise ImportFailure(f"{label} unpacks to more than {LIMIT_BYTES} bytes, the limit for StableHLO")
    return plain


def _check_nesting(content: bytes, label: str) -> None:
    """Check that a text is not nested too deep for the parser's stack, before it is parsed."""
    if content.startswith(BYTECODE):
        return
    text = np.frombuffer(content, np.uint8)
    steps = np.isin(text, np.frombuffer(b"([{<", np.uint8)).astype(np.int32)
    steps -= np.isin(text, np.frombuffer(b")]}>", np.uint8))
    steps[1:][(text[1:] == ord(">")) & (text[:-1] == ord("-"))] = 0
    if int(np.cumsum(steps).max(initial=0)) > TEXT_NESTING_LIMIT:
        raise ImportFailure(
            f"{label} is nested more than {TEXT_NESTING_LIMIT} brackets deep; expected flat regions"
        )


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "error:" in line] or str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__


def module_of(parsed: Any, mlir: SimpleNamespace, label: str, name: str | None = None) -> Module:
    """Convert the parsed module to plain values."""
    functions: dict[str, Function] = {}
    public = []
    for found in parsed.body.operations:
        operation = found.operation
        if operation.name == "func.func":
            function = _FunctionReader(mlir).function(operation)
            functions[function.name] = function
            private = "sym_visibility" in operation.attributes
            public += (
                []
                if private and "private" in str(operation.attributes["sym_visibility"])
                else [function.name]
            )
    main = "main" if "main" in functions else (public[0] if len(public) == 1 else "")
    if not main:
        raise ImportFailure(
            f"{label} has no function @main, and {len(public)} public ones; expected one to be the program"
        )
    named = parsed.operation.attributes
    stated = named["sym_name"].value if "sym_name" in named else ""
    return Module(name or stated or label, functions, main, meshes_of(parsed, mlir))


def meshes_of(parsed: Any, mlir: SimpleNamespace) -> dict[str, dict[str, int]]:
    """Return the sizes of the axes of each mesh whose devices are in order."""
    found = {}
    for operation in (o.operation for o in parsed.body.operations):
        if operation.name == "sdy.mesh":
            mesh = mlir.sdy.MeshAttr(operation.attributes["mesh"])
            if not list(mesh.device_ids):
                axes = [mlir.sdy.MeshAxisAttr(axis) for axis in mesh.axes]
                found[str(operation.attributes["sym_name"].value)] = {a.name: a.size for a in axes}
    return found


class _FunctionReader:
    """A reader that numbers the values of one function and converts its operations to records."""

    def __init__(self, mlir: SimpleNamespace) -> None:
        self.ir = mlir.ir
        self.attributes = AttributeReader(mlir.ir, mlir.stablehlo, mlir.sdy)
        self.numbers: dict[Any, int] = {}

    def function(self, operation: Any) -> Function:
        name = operation.attributes["sym_name"].value
        where = f"function @{name}"
        if not operation.regions[0].blocks:
            raise ImportFailure(f"{where} has no body")
        block = operation.regions[0].blocks[0]
        given = self._port_attributes(operation, "arg_attrs", len(block.arguments), where)
        arguments = tuple(
            Port(type_of(str(a.type), f"{where}, argument {k}"), given[k], _name(a.location))
            for k, a in enumerate(block.arguments)
        )
        body = self.region(operation.regions[0], where, 0)
        types = [
            type_of(str(t), f"{where}, a result") for t in operation.attributes["function_type"].value.results
        ]
        made = self._port_attributes(operation, "res_attrs", len(types), where)
        return Function(name, arguments, tuple(Port(t, a) for t, a in zip(types, made, strict=True)), body)

    def _port_attributes(self, operation: Any, which: str, count: int, where: str) -> list[Mapping[str, Any]]:
        if which not in operation.attributes:
            return [{}] * count
        return list(self.attributes.value(operation.attributes[which], where))

    def region(self, region: Any, where: str, depth: int) -> Region:
        """Read the one block of a region."""
        if len(region.blocks) != 1:
            raise ImportFailure(
                f"{where}: a region of {len(region.blocks)} blocks is unsupported; expected one"
            )
        if depth > NESTING_LIMIT:
            raise ImportFailure(f"{where}: regions are nested more than {NESTING_LIMIT} deep")
        block = region.blocks[0]
        arguments = tuple(self.number(a) for a in block.arguments)
        operations: list[Operation] = []
        results: tuple[int, ...] = ()
        for found in block.operations:
            operation = found.operation
            if operation.name in TERMINATORS:
                results = tuple(self.number(v) for v in operation.operands)
            else:
                operations.append(self.operation(operation, depth))
        return Region(arguments, tuple(operations), results)

    def operation(self, operation: Any, depth: int) -> Operation:
        line = _place(operation.location)
        where = f"{operation.name} ({line})" if line else operation.name
        return Operation(
            operation.name,
            tuple(self.number(v) for v in operation.operands),
            tuple(self.number(v) for v in operation.results),
            tuple(type_of(str(v.type), where) for v in operation.results),
            self.attributes.all_of(operation, where),
            tuple(self.region(r, where, depth + 1) for r in operation.regions),
            line,
        )

    def number(self, value: Any) -> int:
        """Return the number of a value; a new value gets the next number."""
        return self.numbers.setdefault(value, len(self.numbers))


Reader = Callable[[str], Module]


def _name(location: Any) -> str:
    return str(getattr(location, "name_str", ""))


def _place(location: Any) -> str:
    """Return the origin of an operation: the name that a front end gave it, or its line in the text."""
    line = getattr(location, "start_line", 0)
    return _name(location) or (f"line {line}" if line else "")

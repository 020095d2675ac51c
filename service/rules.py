"""The rules as JSON, as the command line and the API list them; the other catalogs load much more."""

from __future__ import annotations

from typing import Any

from tapestry.rewrites import PLACEMENT, catalog
from tapestry.rewrites.rules import family_of


def rules() -> list[dict[str, Any]]:
    """List structural rules, those of plug-ins included, then placement rules."""
    structural = [_rule(r.name, r.kind, r.domain, r.doc, r.source) for r in catalog().values()]
    return structural + [_rule(r.name, "placement", "exact", r.doc, r.source) for r in PLACEMENT]


def _rule(name: str, kind: str, domain: str, doc: str, source: str) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "family": "placement" if kind == "placement" else family_of(name),
        "domain": domain,
        "summary": doc.partition("\n")[0],
        "doc": doc,
        "source": source,
    }

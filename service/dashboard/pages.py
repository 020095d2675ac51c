"""The handlers of the pages. They read no runs, graphs or plans: a page's script requests these from `/v1`."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, HTTPException, Query, Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from starlette.templating import Jinja2Templates

from tapestry.hardware.layouts import NOTATIONS
from tapestry.hardware.simulator.backend import BACKENDS
from tapestry.optimizer.run.options import OPTIONS, RunOptions
from tapestry.optimizer.run.plan import REASONS
from tapestry.service.api import device_tasks
from tapestry.service.api.context import Parts
from tapestry.service.api.plan_exports import EXPORTS, INTO_PROGRAMS, KINDS
from tapestry.service.dashboard.bundles import Bundle, page_script, style_sheet
from tapestry.service.examples import DEMO_MODEL, example_model
from tapestry.service.scheduling import HIGHEST, LOWEST
from tapestry.teg.arrays import is_installed
from tapestry.teg.importers.files import GraphFileError

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
SCRIPTS = STATIC / "scripts"
STYLES = STATIC / "styles"
BUNDLES = "/static/bundles"
FOR_A_YEAR = "public, max-age=31536000, immutable"
SHEETS = (
    *("tokens", "base", "layout", "controls", "signs", "tables", "runs", "run", "form", "plan", "charts"),
    *("drawing", "sharding", "rules", "devices", "layouts", "compare", "help"),
)
EXAMPLES = "/examples"
DEMO_MESH = "dgx-h100"
DEMO_SECONDS = 8.0  # of searching
KEY_COOKIE = "tapestry_key"  # set by the API's login; commands to copy then show where the key goes

# What happened, in the words of an error page.
EXPLANATIONS = {
    404: ("There is no such page", "The address may be mistyped, or what it named may be gone."),
    500: ("Something went wrong in this program", "Its log says more. Trying again may help."),
}

router = APIRouter()
_templates = Jinja2Templates(FOLDER / "templates")


def script_url(page: str) -> str:
    """Return the address of a page's script; another text has another address."""
    return f"{BUNDLES}/{page}.js?v={page_script(SCRIPTS, page).digest}"


def styles_url() -> str:
    """Return the address of the style sheet; another text has another address."""
    return f"{BUNDLES}/styles.css?v={style_sheet(STYLES, SHEETS).digest}"


_templates.env.globals.update(script_url=script_url, styles_url=styles_url)


def _page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    shared = {
        "version": version("tapestry"),
        "has_key": KEY_COOKIE in request.cookies,
    }
    return _templates.TemplateResponse(
        request, template, {**shared, **values}, status, headers={"Cache-Control": "no-cache"}
    )


def error_page(request: Request, status: int, detail: str = "") -> Response:
    """Render an error as a page for people; programs get problem documents.

    It needs no bundle: that one cannot be joined may be the error.
    """
    title, explanation = EXPLANATIONS.get(status, ("This did not work", "The address cannot be shown."))
    words = {"title": title, "detail": detail or explanation}
    return _page(request, "error.html", status, plain_styles=f"{BUNDLES}/styles.css", **words)


def example_names() -> list[str]:
    """Return the names of the models supplied with this installation; the demo's first."""
    try:
        folder = example_model(DEMO_MODEL).parent
    except GraphFileError:
        return []
    names = sorted(path.name for path in folder.glob("*.onnx"))
    return sorted(names, key=lambda name: name != DEMO_MODEL)


def demo_request() -> dict[str, Any] | None:
    """Return the model and the request of the demo's run; None where this installation lacks the model."""
    if DEMO_MODEL not in example_names():
        return None
    options = RunOptions(seconds=DEMO_SECONDS).to_request()
    return {"model": f"{EXAMPLES}/{DEMO_MODEL}", "run": {"mesh": DEMO_MESH, **options}}


@router.get("/")
def runs_page(request: Request) -> Response:
    """Render the page of all runs, or an invitation to start the first."""
    return _page(request, "runs.html", demo=demo_request())


@router.get("/tour")
def tour_page(request: Request) -> Response:
    """Render what the tour shows, with the button that starts it."""
    return _page(request, "tour.html", demo=demo_request())


@router.get("/runs")
def runs_address() -> Response:
    """Redirect to the list of runs, for users who shorten a run's address."""
    return RedirectResponse("/", 308)


@router.get("/runs/new")
def new_run_page(request: Request) -> Response:
    """Render the form for a run."""
    return _page(
        request,
        "new_run.html",
        examples=example_names(),
        options=OPTIONS,
        defaults=RunOptions(),
        priorities=(LOWEST, HIGHEST),
    )


@router.post("/runs/new/mesh")
def mesh_fields(text: Annotated[str, Body(embed=True)], parts: Parts) -> Response:
    """Return the fields of a mesh file, which is TOML, as the form for a run sends them; the API checks them."""
    fields, fault = parts.pool.do(device_tasks.read_mesh_file, text)
    if fault:
        raise HTTPException(422, f"This is no TOML: {fault}")
    return Response(fields, media_type="application/json")


@router.get("/runs/{run_id}")
def run_page(request: Request, run_id: str) -> Response:
    """Render the page of one run, live."""
    explanations = {option.title: option.description for option in OPTIONS}
    return _page(request, "run.html", run_id=run_id, option_explanations=explanations, reasons=REASONS)


@router.get("/batches")
def batches_page(request: Request) -> Response:
    """Render the page of all batches."""
    return _page(request, "batches.html")


@router.get("/batches/{batch_id}")
def batch_page(request: Request, batch_id: str) -> Response:
    """Render the page of one batch: its progress and its table."""
    return _page(request, "batch.html", batch_id=batch_id)


@router.get("/compare")
def compare_page(request: Request) -> Response:
    """Render the page that compares runs or plans, which its address names."""
    return _page(request, "compare.html")


@router.get("/plans/{plan_id}")
def plan_page(request: Request, plan_id: str) -> Response:
    """Render the page of one plan: costs, checks, decisions, executions."""
    return _page(
        request,
        "plan.html",
        plan_id=plan_id,
        backends={name: is_installed(name) for name in BACKENDS},
        exports={kind: [export for export in EXPORTS if export.kind == kind] for kind in KINDS},
        into_programs=INTO_PROGRAMS,
    )


@router.get("/graphs/{graph_id}")
def graph_page(request: Request, graph_id: str) -> Response:
    """Render the page of one program and its runs."""
    return _page(request, "graph.html", graph_id=graph_id)


@router.get("/rules")
def rules_page(request: Request) -> Response:
    """Render the page of the rules, and of what runs have learned of them."""
    return _page(request, "rules.html")


@router.get("/devices")
def devices_page(request: Request) -> Response:
    """Render the page of devices and meshes: their figures, and the times that follow from them."""
    return _page(request, "devices.html")


@router.get("/layouts")
def layouts_page(request: Request) -> Response:
    """Render the page of physical layouts: a text, its figures, its picture."""
    examples = [{"title": n.title, "texts": n.examples} for n in NOTATIONS]
    return _page(request, "layouts.html", examples=examples)


@router.get("/login")
def login_page(
    request: Request,
    next: Annotated[str, Query(max_length=2000)] = "/",
    wrong: Annotated[str, Query(max_length=8)] = "",
) -> Response:
    """Render the login form for the key; the API receives what it sends."""
    return _page(request, "login.html", next=next, wrong=bool(wrong))


@router.get("/favicon.ico")
def favicon() -> Response:
    """Serve the icon where browsers look when a page names none, such as beside a JSON document."""
    return FileResponse(STATIC / "favicon.svg", media_type="image/svg+xml")


@router.get(EXAMPLES + "/{name}")
def example(name: str) -> Response:
    """Serve a model supplied with this installation, for the demo and the form."""
    if name not in example_names():
        raise HTTPException(404, f"there is no example {name!r}; there are {', '.join(example_names())}")
    return FileResponse(example_model(name), media_type="application/octet-stream", filename=name)


@router.get(BUNDLES + "/styles.css")
def styles(request: Request) -> Response:
    """Serve the style sheet of all pages."""
    return _bundle(request, style_sheet(STYLES, SHEETS), "text/css")


@router.get(BUNDLES + "/{page}.js")
def script(request: Request, page: str) -> Response:
    """Serve the script of a page with all that it imports."""
    if not (SCRIPTS / "pages" / f"{page}.js").is_file():
        raise HTTPException(404, f"no page has the script {page!r}")
    return _bundle(request, page_script(SCRIPTS, page), "text/javascript")


def _bundle(request: Request, bundle: Bundle, media_type: str) -> Response:
    """Serve a bundle, gzipped for clients that accept it; browsers keep what they requested by its digest."""
    is_named = request.query_params.get("v") == bundle.digest
    headers = {"Cache-Control": FOR_A_YEAR if is_named else "no-cache", "Vary": "Accept-Encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(bundle.text, headers=headers, media_type=media_type)
    headers["Content-Encoding"] = "gzip"
    return Response(bundle.packed, headers=headers, media_type=media_type)

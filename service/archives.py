"""Programs with their data in other files: several parts of a form, or a `.zip`, laid out in a private folder."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from tapestry.service.temporary import is_full
from tapestry.teg.importers import ImportFailure
from tapestry.teg.printable import is_printable

ZIP = ".zip"
PROGRAM = ".onnx"
MOST_FILES = 10_000
LONGEST_PLACE = 500


def place_in(folder: Path, name: str) -> Path:
    """Return the place of a file of this name in a folder, and make the folders that lead there.

    Raises:
        ImportFailure: the name leads out of the folder, or is no name of a file.
    """
    parts = PurePosixPath(name).parts
    is_plain = is_printable(name) and not {"\\", ":"} & set(name) and len(name) <= LONGEST_PLACE
    if not parts or not is_plain or name.startswith("/") or ".." in parts:
        raise ImportFailure(f"{name[:80]!r} is no name of a file beside the program, such as weights.bin")
    place = folder.joinpath(*parts)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if is_full(error):
            raise
        raise ImportFailure(f"{name[:80]!r} lies in a folder that is a file") from None
    return place


def unpack(archive: Path, folder: Path, most_bytes: int) -> Path:
    """Unpack a `.zip` into an empty folder and return the ONNX program in it.

    What its directory states is checked before anything is written, and what comes out is counted.

    Raises:
        ImportFailure: it is damaged, too large, or has not exactly one program.
    """
    try:
        with zipfile.ZipFile(archive) as packed:
            members = [info for info in packed.infolist() if not info.is_dir()]
            _check(members, most_bytes)
            programs = [info.filename for info in members if info.filename.lower().endswith(PROGRAM)]
            if len(programs) != 1:
                named = f": {', '.join(map(repr, sorted(programs)[:5]))}" if programs else ""
                raise ImportFailure(f"expected one {PROGRAM} file in the archive, not {len(programs)}{named}")
            for info in members:
                with packed.open(info) as content, place_in(folder, info.filename).open("xb") as target:
                    shutil.copyfileobj(content, target)
    except FileExistsError:
        raise ImportFailure("the archive has two files of one name") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, IndexError) as error:
        # Python's own module fails with an IndexError for a file without a name.
        if is_full(error):
            raise
        raise ImportFailure(f"the archive cannot be unpacked: {' '.join(str(error).split())}") from None
    return place_in(folder, programs[0])


def _check(members: list[zipfile.ZipInfo], most_bytes: int) -> None:
    if len(members) > MOST_FILES:
        raise ImportFailure(f"the archive has {len(members):,} files; at most {MOST_FILES:,} are unpacked")
    size = sum(info.file_size for info in members)
    if size > most_bytes:
        raise ImportFailure(
            f"the archive unpacks to {size:,} bytes; at most {most_bytes:,} are accepted here"
        )
    for info in members:
        if stat.S_ISLNK(info.external_attr >> 16):
            raise ImportFailure(f"{info.filename[:80]!r} is a link; put the file itself into the archive")

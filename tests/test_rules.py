"""The house rules that no linter knows: sizes, names, docstrings, state, machine paths, pins, documented metrics."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter import names

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "exporter").rglob("*.py"))
METRICS = [value for value in vars(names).values() if isinstance(value, names.Metric)]

FILE_LINES, FILE_LINES_MAX = 300, 400
FUNCTION_LINES, FUNCTION_LINES_MAX = 40, 60
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "models", "manager"}
MUTABLE_CALLS = {"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict"}
# Written in two parts, so that this file does not hold what it forbids.
FORBIDDEN_TEXT = re.compile(
    "|".join(
        re.escape(first + second)
        for first, second in (
            ("/wo", "rk/"),
            ("/ro", "ot/"),
            ("py", "pi.org"),
            ("python", "hosted.org"),
            ("deb.deb", "ian.org"),
            ("registry.", "npmjs"),
        )
    )
)
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b")
RECORDED = ROOT / "tests" / "captures"  # bytes of real engines: what they say is not ours


class Size(NamedTuple):
    """A thing of the code and its length in lines."""

    name: str
    lines: int


def tracked_files() -> list[Path]:
    """Every file that git tracks or would add; of a source archive without git, every file."""
    if not (ROOT / ".git").exists():
        paths = [path for path in ROOT.rglob("*") if ".venv" not in path.parts]
        return [path for path in paths if path.is_file() and RECORDED not in path.parents]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    paths = [ROOT / name for name in listing.split("\0") if name]
    return [path for path in paths if path.is_file() and RECORDED not in path.parents]


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def file_sizes() -> list[Size]:
    return [Size(label(path), len(path.read_text().splitlines())) for path in MODULES]


def function_sizes() -> Iterator[Size]:
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Size(f"{label(path)}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1)


def over(sizes: list[Size], limit: int) -> list[str]:
    return [f"{size.name}: {size.lines} lines" for size in sizes if size.lines > limit]


def test_files_keep_to_the_size_limit() -> None:
    sizes = file_sizes()
    for line in over(sizes, FILE_LINES):
        print(f"over the {FILE_LINES} lines aimed at: {line}")
    assert not over(sizes, FILE_LINES_MAX)


def test_functions_keep_to_the_size_limit() -> None:
    sizes = list(function_sizes())
    for line in over(sizes, FUNCTION_LINES):
        print(f"over the {FUNCTION_LINES} lines aimed at: {line}")
    assert not over(sizes, FUNCTION_LINES_MAX)


def test_no_file_or_folder_has_a_vague_name() -> None:
    parts = {part.removesuffix(".py") for path in MODULES for part in path.relative_to(ROOT).parts}
    assert not parts & VAGUE_NAMES


def test_every_module_says_what_it_does() -> None:
    assert not [label(path) for path in MODULES if not (ast.get_docstring(tree(path)) or "").strip()]


def mutable_names(module: ast.Module) -> Iterator[str]:
    """Names bound at module level to a value that can change; an UPPER_CASE literal table is a constant."""
    for node in module.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        literal = isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
        called = value.func if isinstance(value, ast.Call) else None
        call = isinstance(called, ast.Name) and called.id in MUTABLE_CALLS
        for target in targets:
            name = ast.unparse(target)
            empty = literal and not any(ast.iter_child_nodes(value))
            if call or empty or (literal and name != "__all__" and not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", name)):
                yield name


def test_no_module_holds_state() -> None:
    found = [f"{label(path)}: {name}" for path in MODULES for name in mutable_names(tree(path))]
    found += [
        f"{label(path)}:{node.lineno} global"
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Global)
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("cache = {}", ["cache"]),
        ("CACHE: dict[str, int] = {}", ["CACHE"]),
        ("_seen = set()", ["_seen"]),
        ("SEEN = deque()", ["SEEN"]),
        ("edges = [1, 2]", ["edges"]),
        ("EDGES = [1, 2]", []),
        ("_ROWS = {'a': 1}", []),
        ("__all__ = ['a']", []),
        ("EDGES = (1, 2)", []),
        ("def f():\n    rows = []", []),
    ],
)
def test_the_state_rule_bites(source: str, found: list[str]) -> None:
    assert list(mutable_names(ast.parse(source))) == found


def test_core_imports_the_standard_library_and_msgspec_only() -> None:
    allowed = {*sys.stdlib_module_names, "msgspec", "exporter"}
    found = []
    for path in (ROOT / "exporter" / "core").rglob("*.py"):
        for node in ast.walk(tree(path)):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            found += [f"{label(path)}: {module}" for module in modules if module.split(".")[0] not in allowed]
    assert not found


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("core/ending.py", "import time", "core is pure"),
        ("core/ending.py", "import exporter.names, aiohttp", "aiohttp only in"),
        ("names.py", "import exporter.core", "app and cli over the rooms"),
        ("views/__init__.py", "import exporter.relay", "app and cli over the rooms"),
        ("views/__init__.py", "import exporter.cli", "app and cli over the rooms"),
        ("views/__init__.py", "import exporter.settings", "settings are read by app and cli only"),
        ("relay/__init__.py", "import prometheus_client", "prometheus_client only in views and lab"),
        ("lab/__init__.py", "import pydantic", "pydantic only in settings"),
    ],
)
def test_the_import_contracts_bite(tmp_path: Path, file: str, line: str, contract: str) -> None:
    shutil.copytree(ROOT / "exporter", tmp_path / "exporter")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module in ("app.py", "settings.py"):
        (tmp_path / "exporter" / module).touch()
    with (tmp_path / "exporter" / file).open("a") as broken:
        broken.write(f"\n{line}\n")
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    broken_contracts = [row for row in done.stdout.splitlines() if row.endswith("BROKEN")]
    assert any(row.startswith(contract) for row in broken_contracts), done.stdout


def test_tracked_files_name_no_machine_no_registry_and_nothing_unfinished() -> None:
    found = []
    for path in tracked_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            if FORBIDDEN_TEXT.search(line) or UNFINISHED.search(line):
                found.append(f"{label(path)}:{number}: {line.strip()[:100]}")
    assert not found


def requirement_name(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def test_constraints_pin_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(item for extra in project["optional-dependencies"].values() for item in extra),
    ]
    lines = (ROOT / "constraints.txt").read_text().split()
    assert not [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[^=\s]+", line)]
    pinned = {requirement_name(line) for line in lines}
    assert {requirement_name(item) for item in wanted} <= pinned


def documented_metrics() -> dict[str, tuple[str, str]]:
    """The rows of docs/metrics.md: name without prefix -> (type, labels)."""
    rows = {}
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) >= 4:
            rows[cells[0].strip("`")] = (cells[1], cells[2])
    return rows


def test_docs_describe_every_metric_and_no_other() -> None:
    expected = {
        metric.name: (metric.kind, ", ".join(f"`{label}`" for label in metric.labels) or "none") for metric in METRICS
    }
    assert documented_metrics() == expected


@pytest.mark.parametrize("page", ["README.md", "docs/metrics.md", "docs/architecture.md"])
def test_metrics_named_in_the_docs_exist(page: str) -> None:
    known = {names.PREFIX + metric.name for metric in METRICS}
    named = re.findall(r"`(stallwatch_[a-z_]+?)(?:_bucket|_sum|_count)?[`{\[]", (ROOT / page).read_text())
    assert set(named) <= known


def test_links_between_the_docs_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())]
    assert links
    assert not [f"{label(page)}: {link}" for page, link in links if not (page.parent / link).exists()]

"""What the package promises to those who install it."""

import ast
from importlib import metadata, resources
from pathlib import Path

import vtrr_queue

SOURCE = Path(__file__).parents[2] / "src"


def imported_packages():
    """Return the top-level names that any module imports."""
    nodes = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    chosen = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in plain + chosen}


def test_it_needs_celery_and_redis_only():
    required = [line for line in metadata.requires("vtrr-queue") if "extra ==" not in line]
    assert sorted(line.replace(" ", "") for line in required) == ["celery>=5.4", "redis<9,>=5"]


def test_it_states_licence_and_python():
    about = metadata.metadata("vtrr-queue")
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.11"


def test_it_is_typed_and_brings_its_scripts():
    package = resources.files("vtrr_queue")
    assert (package / "py.typed").is_file()
    assert (package / "scripts" / "lease.lua").is_file()


def test_the_public_names_come_from_the_package():
    assert {vtrr_queue.VTRRQueue.__name__, vtrr_queue.VTRRTask.__name__} == {
        "VTRRQueue",
        "VTRRTask",
    }


def test_no_module_imports_django():
    assert not imported_packages() & {"django", "django_redis", "django_celery_beat"}

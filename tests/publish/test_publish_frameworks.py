"""Tests of other frameworks on a clone, as docs/tests.md has them.

They run in an environment made here, and are skipped where its packages cannot be fetched.
"""

import os
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from psycopg import conninfo

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PAGE = (Path(__file__).parents[2] / "docs/tests.md").read_text(encoding="utf-8")
PACKAGES = ("pytest-postgresql>=7", "django>=5", "alembic>=1.13")


def written(name: str) -> str:
    """A file as the page has it."""
    (text,) = re.findall(rf"```python\n# {name}\n(.*?)```", PAGE, flags=re.S)
    return text


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """Python of an environment with other frameworks, and with what this one has."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin/python"
    (here,) = folder.glob("lib/python*/site-packages")
    ours = [str(Path(__file__).parents[2]), *filter(None, sys.path), *site.getsitepackages()]
    (here / "ours.pth").write_text("\n".join(item for item in ours if Path(item).is_dir()))
    install = [python, "-m", "pip", "install", "--quiet", "--retries", "1", *PACKAGES]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"packages cannot be fetched: {done.stderr.strip()[-200:]}")
    return python


@pytest.fixture
def call(python, model, surroundings, tmp_path):
    """``call(*command)``: a command of Python, in a folder with the model, which has to succeed."""
    shutil.copy(model, tmp_path / "prod.privbench")

    def run(*command: str, environment: Mapping[str, str] = surroundings) -> str:
        done = subprocess.run(
            [python, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_pytest_postgresql_has_the_clone_as_its_template(call, make_database, tmp_path):
    dsn = conninfo.conninfo_to_dict(make_database())
    server = {"host": dsn["host"], "port": int(dsn.get("port", 5432)), "user": dsn["user"]}
    (tmp_path / "test_it.py").write_text(f"""
import pytest
from pytest_postgresql import factories
from privbench.testing import loader

server = factories.postgresql_noproc(
    **{server}, dbname="frameworks", load=[loader("prod.privbench", scale=2)]
)
database = factories.postgresql("server")

@pytest.mark.parametrize("number", range(3))
def test_alone(database, number):
    count = "SELECT count(*) FROM customer"
    (before,) = database.execute(count).fetchone()
    assert before > 80
    database.execute("DELETE FROM customer WHERE id = (SELECT max(id) FROM customer)")
    database.commit()
""")
    assert "3 passed" in call("pytest", "test_it.py", environment=os.environ)


def test_djangos_runner_copies_the_clone(call, python, tmp_path):
    (tmp_path / "settings.py").write_text(
        written("settings.py") + "\nINSTALLED_APPS = ['shop']\nSECRET_KEY = 'none'\n"
    )
    (tmp_path / "manage.py").write_text(
        "import os, sys\nfrom django.core.management import execute_from_command_line\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'settings'\nexecute_from_command_line(sys.argv)\n"
    )
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    (tmp_path / "shop/models.py").write_text("""
from django.db import models

class Region(models.Model):
    code = models.TextField(primary_key=True)
    title = models.TextField()
    class Meta:
        db_table = "region"

class Wish(models.Model):
    region = models.ForeignKey(Region, models.CASCADE)
""")
    (tmp_path / "shop/tests.py").write_text("""
from django.test import TestCase
from shop.models import Region, Wish

class Alone(TestCase):
    def check(self):
        assert Region.objects.count() == 4
        Wish.objects.create(region=Region.objects.create(code="zz", title="new"))

    test_one = test_other = check
""")
    serve = ["privbench", "serve", "prod.privbench", "--on", "embedded", "--"]
    assert "Ran 2 tests" in call(*serve, str(python), "manage.py", "test", "--parallel", "2")


def test_alembic_migrates_up_and_down(call, tmp_path):
    call("alembic", "init", "migrations")
    for name, before, up, down in (
        ("1a2b", None, "pass", "pass"),
        (
            "3c4d",
            "1a2b",
            "op.execute('ALTER TABLE customer ADD COLUMN visits integer NOT NULL DEFAULT 0')",
            "op.drop_column('customer', 'visits')",
        ),
    ):
        (tmp_path / f"migrations/versions/{name}.py").write_text(f"""
from alembic import op
revision, down_revision = {name!r}, {before!r}
def upgrade(): {up}
def downgrade(): {down}
""")
    for name in ("test_migrations.py", "test_locks.py"):
        (tmp_path / name).write_text(written(name))
    words = [
        "-p",
        "privbench.testing",
        "--privbench-model",
        "prod.privbench",
        "--privbench-on",
        "embedded",
        "-rP",
    ]
    printed = call("pytest", *words, "test_migrations.py", "test_locks.py")
    assert "2 passed" in printed
    assert "locked for" in printed

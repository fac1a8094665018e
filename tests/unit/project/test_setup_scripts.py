"""What set-up says about a machine that lacks something, and what it does with a wrong jar."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import jars

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
OLD_PYTHON = "exit 1"
REAL_PYTHON = f'exec "{sys.executable}" "$@"'


def java(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


def python_of(*version: int) -> str:
    """A program that runs what it is told as this Python, and takes itself for another one."""
    lie = f"import sys; sys.version_info = {(*version, 'final', 0)}; exec(sys.argv[1])"
    return f'exec {shlex.quote(sys.executable)} -c {shlex.quote(lie)} "$2"'


def python_built(*arguments: str) -> str:
    """A program that runs what it is told, and says that it was built with these arguments."""
    lie = (
        "import sys, sysconfig; sys.executable = sys._base_executable = sys.argv[2]; "
        f"sysconfig.get_config_vars()['CONFIG_ARGS'] = {' '.join(arguments)!r}; exec(sys.argv[1])"
    )
    return f'exec {shlex.quote(sys.executable)} -c {shlex.quote(lie)} "$2" "$0"'


def preflight(folder: Path, what: str, programs: dict[str, str], **environment: str):
    return script("preflight.sh", folder, what, programs, **environment)


def script(name: str, folder: Path, what: str, programs: dict[str, str], **environment: str):
    """Run a script on a machine that has these programs only."""
    for program, body in programs.items():
        path = folder / program
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(SCRIPTS / name), what],
        env={"PATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def one_sentence(text: str) -> str:
    assert text.startswith("waybill: ")
    assert text.count("\n") == 1
    return text


@pytest.mark.parametrize(
    "programs", [{}, {"python3": OLD_PYTHON}, {"python3": python_of(3, 11, 1)}]
)
def test_no_usable_python(tmp_path, programs):
    done = preflight(tmp_path, "python", programs)
    assert done.returncode == 1
    wanted = "Python 3.11 (from 3.11.2 on), 3.12 or 3.13 was not found; install"
    assert wanted in one_sentence(done.stderr)


def test_a_python_that_is_not_the_first_is_found(tmp_path):
    done = preflight(tmp_path, "python", {"python3": OLD_PYTHON, "python3.12": REAL_PYTHON})
    assert done.returncode == 0
    found = Path(done.stdout.strip())
    assert found.is_file()
    assert found != Path(sys.executable), "the interpreter itself, not a link in an environment"


def test_a_python_that_is_just_new_enough(tmp_path):
    assert preflight(tmp_path, "python", {"python3": python_of(3, 11, 2)}).returncode == 0


def test_a_python_that_is_compiled_with_optimizations_goes_first(tmp_path):
    programs = {"python3": python_built(), "python3.11": python_built("--enable-optimizations")}
    done = preflight(tmp_path, "python", programs)
    assert (done.stdout, done.stderr) == (f"{tmp_path}/python3.11\n", "")
    named = preflight(tmp_path, "python", programs, PYTHON=f"{tmp_path}/python3")
    assert (named.stdout, named.stderr) == (f"{tmp_path}/python3\n", "")


def test_a_slow_python_will_do_if_there_is_no_other(tmp_path):
    done = preflight(tmp_path, "python", {"python3": python_built("--enable-shared")})
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/python3\n")
    assert "was compiled without optimizations" in one_sentence(done.stderr)


def test_a_wrong_choice_of_python_is_not_passed_over(tmp_path):
    done = preflight(tmp_path, "python", {"python3": REAL_PYTHON}, PYTHON="/nowhere/python")
    assert done.returncode == 1
    assert "PYTHON=/nowhere/python" in one_sentence(done.stderr)


@pytest.mark.parametrize("version", ["17", "17.0.15", "21-ea", "25.0.1"])
def test_a_java_that_will_do(tmp_path, version):
    done = preflight(tmp_path, "java", {"java": java(version)})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.2", 11), ("16", 16)])
def test_a_java_that_is_too_old(tmp_path, version, major):
    done = preflight(tmp_path, "java", {"java": java(version)})
    assert done.returncode == 1
    assert f"Java {major} on the PATH is too old; install" in one_sentence(done.stderr)


def test_no_java(tmp_path):
    done = preflight(tmp_path, "java", {})
    assert done.returncode == 1
    assert "Java 17 or newer was not found on the PATH; install" in one_sentence(done.stderr)


def test_java_home_goes_before_the_path(tmp_path):
    done = preflight(tmp_path, "java", {"java": java("17")}, JAVA_HOME="/nowhere")
    assert done.returncode == 1
    assert "JAVA_HOME=/nowhere" in one_sentence(done.stderr)


CHROMIUM = "echo Chromium 156"
APT = """\
echo "$*" >> "$0.asked"
case "$*" in
*update) exit 0 ;;
*) [ "$(grep -c . "$0.asked")" -ge 3 ] || exit 100 ;;
esac
printf '#!/bin/sh\\necho Chromium 156\\n' > "${0%apt-get}chromium"
/bin/chmod +x "${0%apt-get}chromium"
"""
"""An `apt-get` that knows the package after an update, and then puts a browser beside itself."""


@pytest.fixture
def machine():
    """What the script needs of any machine."""
    return {name: f'exec /usr/bin/env -i PATH=/usr/bin:/bin {name} "$@"' for name in ("grep", "id")}


def test_a_browser_that_does_not_run_is_passed_over(tmp_path):
    programs = {"chromium": "exit 1", "google-chrome": CHROMIUM}
    done = script("browser.sh", tmp_path, "find", programs)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/google-chrome\n")


def test_no_browser_is_one_sentence_that_says_what_to_install(tmp_path, machine):
    for what in ("find", "install"):
        done = script("browser.sh", tmp_path, what, machine)
        assert done.returncode == 1
        assert "install it (on Debian the package chromium)" in one_sentence(done.stderr)


def test_a_wrong_choice_of_browser_is_not_passed_over(tmp_path):
    chosen = {"WAYBILL_CHROMIUM": "/nowhere/chromium"}
    done = script("browser.sh", tmp_path, "install", {"chromium": CHROMIUM}, **chosen)
    assert done.returncode == 1
    assert "WAYBILL_CHROMIUM=/nowhere/chromium" in one_sentence(done.stderr)


@pytest.mark.parametrize("root", [True, False])
def test_a_browser_is_installed_where_that_can_be(tmp_path, machine, root):
    programs = {**machine, "id": f"echo {0 if root else 1000}", "apt-get": APT}
    programs["env"] = 'shift; exec "$@"'
    programs["sudo"] = '[ "$1" = -n ] && shift && exec "$@"'
    done = script("browser.sh", tmp_path, "install", programs)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"{tmp_path}/chromium\n")
    (tmp_path / "sudo").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "chromium").unlink()
    (tmp_path / "apt-get.asked").unlink()
    again = script("browser.sh", tmp_path, "install", {})
    assert again.returncode == (0 if root else 1)


def test_a_jar_that_is_not_the_locked_one_is_deleted(tmp_path):
    folder, lock = tmp_path / "jars", tmp_path / "jars.lock"
    folder.mkdir()
    good = hashlib.sha256(b"good").hexdigest()
    lock.write_text(f"# jars\n\norg.acme:thing:1.0 sha256:{good}\n", encoding="utf-8")
    jar, stale, packed = (folder / f"thing-{end}" for end in ("1.0.jar", "0.9.jar", "all.tar.gz"))

    jar.write_bytes(b"good")
    stale.write_bytes(b"old")
    packed.write_bytes(b"old")
    jars.fetch(lock, folder)
    assert [path.name for path in folder.iterdir()] == ["thing-1.0.jar"]

    jar.write_bytes(b"evil")
    with pytest.raises(jars.JarError, match=r"thing-1\.0\.jar was deleted"):
        jars.fetch(lock, folder)
    assert not jar.exists()


def test_a_jar_without_a_sum_is_refused(tmp_path):
    (tmp_path / "thing-1.0.jar").write_bytes(b"any")
    with pytest.raises(jars.JarError, match="run 'make lock'"):
        jars.check(jars.Jar("org.acme", "thing", "1.0", None), tmp_path)


def test_a_broken_line_of_the_list_is_named():
    with pytest.raises(jars.JarError, match="line 2"):
        jars.read_lock("# jars\norg.acme thing 1.0\n")


def test_one_of_several_jars_of_a_version_is_named():
    (jar,) = jars.read_lock("org.acme:thing:1.0:all-in-one\n")
    assert (jar.name, jar.sum) == ("thing-1.0-all-in-one.jar", None)
    locked = jars.Jar("org.acme", "thing", "1.0", "0" * 64, "all-in-one")
    assert jars.read_lock(locked.line()) == [locked]
    assert jars._found(Path("org.acme/thing/1.0/jar/thing-all-in-one")) == jar
    assert jars._found(Path("org.acme/thing/1.0/jar/thing")).classifier is None


def test_a_program_that_comes_packed():
    (packed,) = jars.read_lock("org.acme:thing:1.0:all@tar.gz\n")
    assert packed.name == "thing-1.0-all.tar.gz"
    assert jars._found(Path("org.acme/thing/1.0/tar.gz/thing-all")) == packed
    locked = jars.Jar("org.acme", "thing", "1.0", "0" * 64, "all", "tar.gz")
    assert jars.read_lock(locked.line()) == [locked]
    with pytest.raises(jars.JarError, match="does not have the form"):
        jars.read_lock("org.acme:thing:1.0:all@exe\n")


def test_what_a_list_was_made_from_is_not_fetched_itself():
    text = "from org.acme:thing:1.0\norg.acme:thing:1.0\norg.acme:need:2.0\n"
    assert [jar.name for jar in jars.read_lock(text)] == ["thing-1.0.jar", "need-2.0.jar"]


def test_missing_jars_are_fetched_in_one_go(tmp_path, monkeypatch):
    """One look-up for all: a Java process a jar would take minutes for a server's."""
    lock = tmp_path / "jars.lock"
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b", "c")}
    lines = [f"org.acme:{name}:1.0 sha256:{found}\n" for name, found in sums.items()]
    lock.write_text("".join(lines), encoding="utf-8")
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "b-1.0.jar").write_bytes(b"b")
    asked, settings = [], []

    def ivy(command, **_):
        settings.append("-settings" in command)
        module = Path(command[command.index("-ivy") + 1]).read_text(encoding="utf-8")
        asked.append(module)
        pattern = command[command.index("-retrieve") + 1]
        for name in ("a", "c"):
            words = {"organisation": "org.acme", "module": name, "revision": "1.0", "ext": "jar"}
            place = pattern.replace("(-[classifier])", "")
            for word, value in words.items():
                place = place.replace(f"[{word}]", value)
            Path(place).parent.mkdir(parents=True)
            Path(place).write_bytes(name.encode())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(jars.subprocess, "run", ivy)
    jars.fetch(lock, folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "a-1.0.jar",
        "b-1.0.jar",
        "c-1.0.jar",
    ]
    assert len(asked) == 1
    assert 'name="b"' not in asked[0]
    assert asked[0].count('transitive="false"') == 2
    assert settings == [True]


def test_what_becomes_the_lock_is_checked_by_the_sums_of_others(tmp_path, monkeypatch):
    """Nothing but Ivy's own settings holds a jar against what its registry says of it."""
    lock = tmp_path / "jars.lock"
    lock.write_text("org.acme:thing:1.0\n", encoding="utf-8")
    given = []

    def ivy(command, **_):
        given.append(command)
        return subprocess.CompletedProcess(command, 1, "", "")

    monkeypatch.setattr(jars.subprocess, "run", ivy)
    with pytest.raises(jars.JarError):
        jars.relock(lock, tmp_path / "jars")
    assert ["-settings" in command for command in given] == [False]


def test_a_jar_that_does_not_come_is_named(tmp_path, monkeypatch, capsys):
    lock = tmp_path / "jars.lock"
    lock.write_text(f"org.acme:thing:1.0 sha256:{'0' * 64}\n", encoding="utf-8")
    done = subprocess.CompletedProcess([], 0, "why", "")
    monkeypatch.setattr(jars.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(jars.JarError, match=r"thing-1\.0\.jar could not be fetched"):
        jars.fetch(lock, tmp_path / "jars")
    assert "why" in capsys.readouterr().err
    assert list((tmp_path / "jars").iterdir()) == []

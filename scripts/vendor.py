"""Fetches the page's libraries into app/static/vendor, and those of its tests into tests/dashboard/vendor, as `make
vendor` does.

The page has no build step, so its libraries are checked in: files of npm packages in the versions below, each with its
license, and unchanged except for imports by bare name: browsers resolve those only with an inline import map, so they
are replaced by relative paths. A CommonJS file is made a module by a line at each end. `manifest.json` records the
origin and SHA-256 of each file, and a test verifies them.
Needs npm; nothing is built and no package's script runs.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
VENDOR = ROOT / "app" / "static" / "vendor"
TEST_VENDOR = ROOT / "tests" / "dashboard" / "vendor"
LANGUAGES = (
    *("bash", "c", "cpp", "css", "diff", "dockerfile", "go", "ini", "java", "javascript", "json", "makefile"),
    *("markdown", "python", "ruby", "rust", "shell", "sql", "typescript", "xml", "yaml"),
)


@dataclass(frozen=True, slots=True)
class Package:
    """A package of npm: its version, its license file, and the files to take, each with its new name."""

    name: str
    version: str
    license: str
    files: dict[str, str]


PACKAGES = (
    Package("preact", "11.2.0", "LICENSE", {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "preact-hooks.js"}),
    Package("@preact/signals-core", "1.14.5", "LICENSE", {"dist/signals-core.mjs": "signals-core.js"}),
    Package("@preact/signals", "2.11.4", "LICENSE", {"dist/signals.mjs": "signals.js"}),
    Package("htm", "3.1.1", "LICENSE", {"dist/htm.mjs": "htm.js"}),
    Package("ignore", "7.0.16", "LICENSE-MIT", {"index.js": "ignore.js"}),
    Package("marked", "18.2.1", "LICENSE", {"lib/marked.esm.js": "marked.js"}),
    Package(
        "@tanstack/virtual-core",
        "3.19.11",
        "LICENSE",
        {
            f"dist/esm/{name}.js": f"virtual/{name}.js"
            for name in ("index", "lazy-measurements", "utils", "scroll-classifier", "ios-gesture")
        },
    ),
    Package("uplot", "1.6.32", "LICENSE", {"dist/uPlot.esm.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"}),
    Package(
        "diff",
        "9.0.0",
        "LICENSE",
        {f"libesm/{name}": f"diff/{name}" for name in ("diff/base.js", "diff/line.js", "util/params.js")},
    ),
    Package(
        "@highlightjs/cdn-assets",
        "11.12.0",
        "LICENSE",
        {
            "es/core.min.js": "highlight/core.js",
            **{f"es/languages/{name}.min.js": f"highlight/{name}.js" for name in LANGUAGES},
        },
    ),
)
DOCS = Package(
    "swagger-ui-dist",
    "5.35.0",
    "LICENSE",
    {f"swagger-ui{name}": f"swagger-ui/swagger-ui{name}" for name in ("-bundle.js", ".css")},
)
"""Shows the API at `/docs`."""
TEST_PACKAGES = (
    Package(
        "axe-core",
        "4.14.1",
        "LICENSE",
        {"axe.min.js": "axe.js", "LICENSE-3RD-PARTY.txt": "licenses/axe-core-3rd-party.txt"},
    ),
)
"""Finds accessibility problems; used only in tests."""

IMPORTS = {
    "preact": "preact.js",
    "preact/hooks": "preact-hooks.js",
    "@preact/signals-core": "signals-core.js",
}
"""The file for each bare import name."""

_IMPORT = re.compile(rf"""((?:\bfrom|\bimport)\s*)(["'])({"|".join(map(re.escape, IMPORTS))})\2""")
_SOURCE_MAP = re.compile(rb"\n?//# sourceMappingURL=\S+\s*$")


def with_relative_imports(text: str, depth: int) -> str:
    """The module with relative imports; `depth` is its number of folders below the vendor folder."""

    def replaced(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}{'../' * depth or './'}{IMPORTS[match[3]]}{match[2]}"

    return _IMPORT.sub(replaced, text)


def as_module(text: str) -> str:
    """The module with what a CommonJS file exports as its default export; other modules are unchanged."""
    if "module.exports = " not in text:
        return text
    return f"const module = {{ exports: {{}} }};\n{text}\nexport default module.exports;\n"


def unpacked(package: Package, folder: Path) -> Path:
    """Fetches the package with npm; returns its folder."""
    spec = f"{package.name}@{package.version}"
    command = ["npm", "pack", spec, "--silent", "--ignore-scripts", "--pack-destination", str(folder)]
    archive = folder / subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
    target = folder / archive.stem
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    return target / "package"


def take(package: Package, root: Path, vendor: Path) -> dict[str, dict[str, str]]:
    """Copies the package's files and its license; returns their manifest entries."""
    license = vendor / "licenses" / f"{package.name.removeprefix('@').replace('/', '-')}.txt"
    shutil.copyfile(root / package.license, license)
    entries = {}
    for source, name in package.files.items():
        content = _SOURCE_MAP.sub(b"\n", (root / source).read_bytes())
        if name.endswith(".js"):
            content = as_module(with_relative_imports(content.decode(), name.count("/"))).encode()
        (vendor / name).parent.mkdir(parents=True, exist_ok=True)
        (vendor / name).write_bytes(content)
        entries[name] = {
            "package": package.name,
            "version": package.version,
            "file": source,
            "license": str(license.relative_to(vendor)),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    return entries


def fetch(packages: tuple[Package, ...], vendor: Path) -> None:
    """Recreates the folder with these packages' files and its manifest."""
    shutil.rmtree(vendor, ignore_errors=True)
    (vendor / "licenses").mkdir(parents=True)
    manifest: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number, package in enumerate(packages):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            manifest |= take(package, unpacked(package, folder), vendor)
            print(f"{package.name} {package.version}")
    (vendor / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def main() -> None:
    fetch((*PACKAGES, DOCS), VENDOR)
    fetch(TEST_PACKAGES, TEST_VENDOR)


if __name__ == "__main__":
    main()

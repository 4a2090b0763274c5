"""`nix/apps/update-pins.py`, on an invented release. These tests do not need Nix."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.nix.test_scripts import NIX, run


class TestUpdatePins:
    SCRIPT = NIX / "apps" / "update-pins.py"
    VERSION = "9.8.7"
    COMMIT = "0123456789abcdef0123456789abcdef01234567"
    ARCHIVES = ("onnx", "re2")

    @pytest.fixture
    def release(self, tmp_path: Path) -> Path:
        """An invented release: its source and archives under the paths of their URLs, and a wheel for one system."""
        base = tmp_path / "base"

        def lay(url: str, data: bytes) -> None:
            path = base / url.split("/", 3)[3]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

        rows = []
        for name in (*self.ARCHIVES, "of-another-build"):
            url = f"https://github.com/some/{name}/archive/{name}.zip"
            lay(url, name.encode())
            rows.append(f"{name};{url};{hashlib.sha1(name.encode()).hexdigest()}")
        files = {
            "cmake/deps.txt": "#Name;Url;SHA1\n" + "\n".join(rows) + "\n",
            "include/onnxruntime/core/session/onnxruntime_c_api.h": "#define ORT_API_VERSION 98\n",
        }
        buffer = io.BytesIO()
        with tarfile.open(
            fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": self.COMMIT}
        ) as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(f"onnxruntime-{self.VERSION}/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content.encode()))
        lay(f"https://github.com/microsoft/onnxruntime/archive/refs/tags/v{self.VERSION}.tar.gz", buffer.getvalue())
        wheel = tmp_path / "index" / f"onnxruntime-{self.VERSION}-cp312-cp312-manylinux_2_28_x86_64.whl"
        wheel.parent.mkdir()
        with zipfile.ZipFile(wheel, "w") as package:
            folder = f"onnxruntime-{self.VERSION}.dist-info"
            package.writestr(
                f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {self.VERSION}\n"
            )
            package.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nTag: cp312-cp312-manylinux_2_28_x86_64\n")
        return tmp_path

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "pins" / "9.8.7.nix"

    def update(self, release: Path, archives: tuple[str, ...] = ARCHIVES) -> subprocess.CompletedProcess[str]:
        (release / "pins").mkdir(exist_ok=True)
        base, file = (release / "base").as_uri(), release / "pins" / f"{self.VERSION}.nix"
        # pip sees the invented wheel and no index.
        return run(
            *(sys.executable, self.SCRIPT, self.VERSION),
            *("--base", base, "--file", file, "--archives", ",".join(archives)),
            PIP_NO_INDEX="1",
            PIP_FIND_LINKS=str(release / "index"),
        )

    def test_file_has_every_version_url_and_hash(self, release: Path, file: Path) -> None:
        done = self.update(release)
        assert done.returncode == 0, done.stderr
        text = file.read_text()
        assert f'version = "{self.VERSION}";' in text
        assert f'revision = "{self.COMMIT}";' in text
        assert 'apiVersion = "98";' in text
        for name in self.ARCHIVES:
            assert hashlib.sha1(name.encode()).hexdigest() in text
        assert "of-another-build" not in text
        wheel = next((release / "index").iterdir())
        assert 'platform = "manylinux_2_28_x86_64";' in text
        assert hashlib.sha256(wheel.read_bytes()).hexdigest() in text
        for absent in ("aarch64-linux", "aarch64-darwin", "x86_64-linux-cuda"):
            assert f"{self.VERSION} for {absent}\n" in done.stderr
            assert f" {absent} = {{" not in text
        assert f'+  version = "{self.VERSION}";' in done.stdout

    def test_files_of_the_repository_are_as_the_command_writes_them(self) -> None:
        """The same lines in the same order: what one of them lacks there is no record of."""
        for file in (NIX / "pins").iterdir():
            lines = file.read_text().splitlines()
            assert (lines[0], lines[1], lines[-1]) == ("{", f'  version = "{file.stem}";', "}")
            heads = [line.split()[0] for line in lines if re.match(r"  \w", line)]
            known = ["version", "revision", "apiVersion", "source", "archives", "wheels"]
            assert heads == [head for head in known if head in heads]

    def test_second_update_changes_nothing(self, release: Path, file: Path) -> None:
        self.update(release)
        once = file.read_text()
        done = self.update(release)
        assert done.returncode == 0, done.stderr
        assert (file.read_text(), done.stdout) == (once, "")
        assert [path.name for path in file.parent.iterdir()] == [file.name]

    def test_full_disk_leaves_no_second_file(self, release: Path, file: Path) -> None:
        self.update(release)
        before = file.read_text()
        # The new file has more than 4 KiB.
        command = f'ulimit -f 4; exec "{sys.executable}" "$@"'
        archives = ",".join(self.ARCHIVES * 20)
        options = ("--base", (release / "base").as_uri(), "--file", file, "--archives", archives)
        variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(release / "index")}
        done = run("bash", "-c", command, "", self.SCRIPT, self.VERSION, *options, **variables)
        assert "File too large" in done.stderr
        assert [path.name for path in file.parent.iterdir()] == [file.name]
        assert file.read_text() == before

    @pytest.mark.parametrize(
        ("broken", "words"),
        [("index/*", "pip cannot fetch onnxruntime 9.8.7:"), ("**/re2.zip", "deps.txt says")],
        ids=["no wheel", "another hash than upstream names"],
    )
    def test_broken_file_changes_nothing(self, release: Path, file: Path, broken: str, words: str) -> None:
        self.update(release)
        before = file.read_text()
        next(release.glob(broken)).write_bytes(b"something else")
        done = self.update(release)
        assert done.returncode == 1
        assert words in done.stderr
        assert file.read_text() == before

    def test_archive_that_upstream_does_not_name_is_refused(self, release: Path, file: Path) -> None:
        done = self.update(release, ("onnx", "other"))
        assert done.returncode == 1
        assert "other is not in deps.txt of 9.8.7" in done.stderr
        assert not file.exists()

    def test_release_that_does_not_exist_is_named(self, release: Path, file: Path) -> None:
        next(release.rglob("v9.8.7.tar.gz")).unlink()
        done = self.update(release)
        assert done.returncode == 1
        assert "v9.8.7.tar.gz: [Errno 2]" in done.stderr
        assert not file.exists()

    def test_command_outside_a_checkout_says_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        done = run(sys.executable, self.SCRIPT, "9.8.7", "--archives", "onnx")
        assert done.returncode == 2
        assert "there is no folder nix/pins: start in a checkout, or name a file with --file" in done.stderr

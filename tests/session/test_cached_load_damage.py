"""Entries of the cache that are damaged, or that do not load, and those that stay."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

import zrt
from tests.session.cached import at_once as at_once
from tests.session.cached import entries
from tests.session.cached import folder as folder
from tests.session.cached import load as load
from tests.session.cached import model as model
from tests.session.cached import settle as settle
from tests.session.chains import chain
from tests.support import models
from zrt.loading import cache, cache_entry
from zrt.loading.model_source import Source
from zrt.providers.default_selection import parse
from zrt.session import cached_load


class TestDamage:
    @pytest.mark.parametrize("place", [0, 31, 32, 40, 4095, 4096, 60_000, -200, -1])
    def test_changed_byte_is_noticed(self, load, model, folder, place, caplog):
        load(model)
        [entry] = entries(folder)
        good = entry.read_bytes()
        damaged = bytearray(good)
        damaged[place] ^= 1
        entry.write_bytes(damaged)
        assert load(model) == "miss"
        assert "thrown away" in caplog.text
        assert load(model) == "hit"
        assert entry.read_bytes() == good

    def test_damage_after_the_checksum_was_noted(self, load, model, folder, settle):
        load(model)
        [entry] = entries(folder)
        settle(model, entry)
        assert [load(model), load(model)] == ["hit", "hit"]
        state = entry.stat()
        with entry.open("r+b") as file:
            file.seek(5000)
            file.write(b"damage")
        os.utime(entry, ns=(state.st_atime_ns, state.st_mtime_ns))
        assert load(model) == "miss"

    def test_entry_that_changes_while_it_is_read_stays(self, load, model, folder, monkeypatch):
        """As one does that another process has replaced."""
        load(model)
        [entry] = entries(folder)
        digest = cache_entry.digest

        def changed(file):
            found = digest(file)
            while entry.stat().st_ctime_ns == before:
                entry.chmod(0o600)
            return found

        before = entry.stat().st_ctime_ns
        with monkeypatch.context() as patch:
            patch.setattr(cache_entry, "digest", changed)
            assert load(model) == f"{str(entry)!r} changes while it is read"
        assert load(model) == "hit"

    def test_entry_that_others_remove_and_make_anew_during_the_load_stays(
        self, load, model, folder, tmp_path, monkeypatch, caplog
    ):
        """As `zrt cache clear` removes it, and the next load makes it."""
        load(model)
        [entry] = entries(folder)
        in_entry, require_lasting_place = cache.in_entry, cache.require_lasting_place

        def removed(*arguments):
            entry.rename(tmp_path / "aside")
            return in_entry(*arguments)

        def made_anew(*arguments):
            (tmp_path / "aside").rename(entry)
            require_lasting_place(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(cache, "in_entry", removed)
            patch.setattr(cache, "require_lasting_place", made_anew)
            assert load(model) == "miss"
        assert (entries(folder), load(model)) == ([entry], "hit")
        assert not caplog.records

    def test_entry_stays_where_the_model_itself_does_not_load(self, load, model, folder, caplog):
        def lacking(*_):
            raise zrt.errors.AllocationError("no thread can be started")

        load(model)
        [entry] = entries(folder)
        options = zrt.SessionOptions(cache=folder, intra_op_num_threads=1)
        with Source(model) as source, pytest.raises(zrt.errors.AllocationError):
            cached_load.load(model, source, options, None, parse(None), lacking)
        assert (entries(folder), load(model)) == ([entry], "hit")
        assert "thrown away" not in caplog.text

    @pytest.mark.parametrize("size", [0, 31, 100, 4096, 50_000])
    def test_truncated_entry(self, load, model, folder, size):
        load(model)
        os.truncate(entries(folder)[0], size)
        assert [load(model), load(model)] == ["miss", "hit"]

    def test_swapped_and_foreign_entries(self, load, model, folder, tmp_path):
        other = tmp_path / "other.onnx"
        other.write_bytes(chain(2))
        load(model)
        [mine] = entries(folder)
        load(other, 320)
        [its] = set(entries(folder)) - {mine}
        content = mine.read_bytes()
        its.write_bytes(content)
        assert [load(other, 320), load(model)] == ["miss", "hit"]
        mine.write_bytes(model.read_bytes())
        assert load(model) == "miss"
        for foreign in (lambda: mine.symlink_to(model), lambda: os.mkfifo(mine)):
            mine.unlink()
            foreign()
            assert [load(model), load(model)] == ["miss", "hit"]
        mine.unlink()
        (mine / "inside").mkdir(parents=True)
        assert load(model) == "miss"
        assert (mine / "inside").exists()

    def test_damaged_note_is_not_believed(self, load, model, folder, settle):
        load(model)
        settle(model, *entries(folder))
        load(model)
        notes = list((folder / ".zrt-notes").iterdir())
        assert len(notes) == 2
        for note in notes:
            content = note.read_bytes()
            note.write_bytes(content.replace(b"0", b"1"))
        assert load(model) == "hit"

    @pytest.mark.parametrize("content", ["[]", "5", "{}", '{"identity": IDENTITY}'])
    def test_note_of_another_form_is_not_believed(self, load, model, folder, settle, content):
        """Another version of zrt may note other things, with a right checksum."""
        load(model)
        settle(model, *entries(folder))
        load(model)
        for note in (folder / ".zrt-notes").iterdir():
            noted = json.loads(note.read_bytes().partition(b"\n")[2])
            text = content.replace("IDENTITY", json.dumps(noted["identity"])).encode()
            note.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
        assert load(model) == "hit"

    def test_good_checksum_of_a_bad_graph_does_no_harm(self, load, model, folder):
        load(model)
        [entry] = entries(folder)
        with entry.open("w+b") as file:
            cache_entry.write_head(file, {"name": entry.name, "graph": [0, 100]})
        assert [load(model), load(model)] == ["miss", "hit"]

    def test_bad_entry_goes_although_no_other_is_made(self, load, folder, tmp_path, monkeypatch):
        """A model in memory whose weights are in the current folder is not for the cache."""
        path = models.save_apart(chain(1), tmp_path / "apart.onnx", "weights")
        load(path)
        [entry] = entries(folder)
        with entry.open("w+b") as file:
            cache_entry.write_head(file, {"name": entry.name, "graph": [0, 100]})
        monkeypatch.chdir(tmp_path)
        assert "current folder" in load(path.read_bytes())
        assert not entries(folder)

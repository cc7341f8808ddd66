"""One log file: complete lines once and in order, and new generations where the file is another one."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

from recorder.eventlog.reached import Reached
from recorder.reading.tail import CHECK, HEAD, LONGEST, MOST_LINES, LongLine, Opened, Tail, open_tail, opened


class Memory:
    """Positions as the event log keeps them."""

    def __init__(self) -> None:
        self.known: dict[str, Reached] = {}

    def reached(self, generation: str) -> Reached | None:
        return self.known.get(generation)

    def all_reached(self) -> list[Reached]:
        return list(self.known.values())


def read(path: Path, memory: Memory, tail: Tail | None = None) -> tuple[list[bytes], str]:
    """What is new, by a tail that is kept or found again; with the generation it is of."""
    found: list[bytes] = []
    with opened(str(path)) as file:
        if tail is None or not tail.holds(file):
            tail = open_tail(str(path), file, memory)
        if tail is None:
            return [], ""
        for piece in tail.read(file):
            found += [line for line in piece.lines if isinstance(line, bytes)]
            assert piece.reached is not None
            memory.known[tail.generation] = piece.reached
    return found, tail.generation


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_a_half_written_last_line_waits(tmp_path: Path) -> None:
    """What has no newline yet is not handed on, and comes whole when it has one."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"one\ntw")
    first, _ = read(path, memory)
    append(path, b"o\nthr")

    assert (first, read(path, memory)[0], read(path, memory)[0]) == ([b"one"], [b"two"], [])


def test_nothing_is_read_before_the_first_line_is_whole(tmp_path: Path) -> None:
    """A file is not known before its first line is, so that it is not known as something else later."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"the first li")
    assert read(path, memory) == ([], "")

    append(path, b"ne\n")
    assert read(path, memory)[0] == [b"the first line"]


def test_lines_are_split_at_newlines_alone(tmp_path: Path) -> None:
    """Empty lines, carriage returns and Unicode line separators are content."""
    path = tmp_path / "a"
    content = "a\r\n\n\u2028b\x0b\n\n".encode()
    path.write_bytes(content)

    assert content.split(b"\n")[:-1] == read(path, Memory())[0]


def test_truncated_file_is_a_new_generation(tmp_path: Path) -> None:
    """A file that became shorter is read from its start."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"one\ntwo\nthree\n")
    _, before = read(path, memory)
    os.truncate(path, 8)
    found, after = read(path, memory)

    assert (found, before != after) == ([b"one", b"two"], True)


def test_rewrite_in_place_with_another_first_line(tmp_path: Path) -> None:
    """The same inode with another first line is another file, however long."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"one\ntwo\n")
    _, before = read(path, memory)
    with path.open("r+b") as file:
        file.write(b"uno\ntwo\nthree\n")
    found, after = read(path, memory)

    assert (found, before != after) == ([b"uno", b"two", b"three"], True)


def test_rewrite_in_place_of_the_first_line_alone(tmp_path: Path) -> None:
    """Also where everything that follows is as it was."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"one\n" + b"x" * 5000 + b"\n")
    with opened(str(path)) as file:
        tail = open_tail(str(path), file, memory)
        assert tail is not None
        assert len(list(tail.read(file))) == 1
    with path.open("r+b") as writing:
        writing.write(b"uno")
    with opened(str(path)) as file:
        assert not tail.holds(file)


def test_rewrite_in_place_with_another_tail(tmp_path: Path) -> None:
    """The same first line, grown, but with other bytes where the reading had stopped."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"one\ntwo\n")
    _, before = read(path, memory)
    with path.open("r+b") as file:
        file.write(b"one\nTWO\nthree\n")
    found, after = read(path, memory)

    assert (found, before != after) == ([b"one", b"TWO", b"three"], True)
    append(path, b"four\n")
    assert ([b"four"], after) == read(path, memory)


def test_rewrite_in_place_where_lines_end_alike(tmp_path: Path) -> None:
    """A change some hundred bytes before the position is seen, also by a tail that is found again."""
    path, memory = tmp_path / "a", Memory()
    end = b"the end of every line is the same" * 12
    append(path, b"one\ntwo" + end + b"\n")
    read(path, memory)
    with path.open("r+b") as file:
        file.write(b"one\nTWO")

    assert [b"one", b"TWO" + end] == read(path, memory)[0]


def test_atomic_rename_over_the_file(tmp_path: Path) -> None:
    """A new file under the old name is read from its start, even with the same content."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"one\n")
    with opened(str(path)) as file:
        tail = open_tail(str(path), file, memory)
        assert tail is not None
        assert len(list(tail.read(file))) == 1
    before = tail.generation
    (tmp_path / "b").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").replace(path)
    found, after = read(path, memory, tail)

    assert (found, before != after) == ([b"one", b"two"], True)


def test_deleted_and_created_again(tmp_path: Path) -> None:
    """Also where the file system gives the new file the old inode."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"one\ntwo\n")
    read(path, memory)
    path.unlink()
    append(path, b"one\nthree\n")

    assert read(path, memory)[0] == [b"one", b"three"]


def test_renamed_file_keeps_generation_and_position(tmp_path: Path) -> None:
    """A live log that moves goes on where it was."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"one\n")
    _, before = read(path, memory)
    path.rename(tmp_path / "b")
    append(tmp_path / "b", b"two\n")

    assert ([b"two"], before) == read(tmp_path / "b", memory)


def test_bytes_read_grow_with_bytes_appended(tmp_path: Path) -> None:
    """A thousand appends to a large log cost their own bytes and a small check each, not the log."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"head\n" + b"x" * 999 + b"\n" + (b"y" * 99 + b"\n") * 50_000)
    with opened(str(path)) as file:
        tail = open_tail(str(path), file, memory)
        assert tail is not None
        assert sum(len(piece.lines) for piece in tail.read(file)) == 50_002
        assert file.bytes_read <= file.size + HEAD
    total = 0
    for _ in range(1000):
        append(path, b"z" * 499 + b"\n")
        with opened(str(path)) as file:
            assert tail.holds(file)
            assert sum(len(piece.lines) for piece in tail.read(file)) == 1
            total += file.bytes_read

    assert total <= 1000 * (500 + CHECK + len("head\n"))


def test_a_long_line_that_comes_in_bits_is_not_read_again_for_each(tmp_path: Path) -> None:
    """While a line grows only its new bytes are searched; whole, it is read once more."""
    path, memory = tmp_path / "a", Memory()
    append(path, b"one\n")
    tail: Tail | None = None
    total = 0
    for bit in [b"x" * 100_000] * 40 + [b"\n"]:
        append(path, bit)
        with opened(str(path)) as file:
            tail = tail or open_tail(str(path), file, memory)
            assert tail is not None
            assert tail.holds(file)
            found = list(tail.read(file))
            total += file.bytes_read

    assert [len(line) for piece in found for line in piece.lines] == [4_000_000]  # type: ignore[arg-type]
    assert total < 2.1 * 4_000_000


def pieces_of(path: Path) -> tuple[list[bytes | LongLine], list[int], Opened]:
    with opened(str(path)) as file:
        tail = open_tail(str(path), file, Memory())
        assert tail is not None
        pieces = list(tail.read(file))
    return [line for piece in pieces for line in piece.lines], [len(piece.lines) for piece in pieces], file


def test_lines_come_in_small_pieces(tmp_path: Path) -> None:
    """Many lines are handed on some at a time, each byte read once, with offsets that fit."""
    path = tmp_path / "a"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(300_000)))
    found, sizes, file = pieces_of(path)

    assert [b"%d" % number for number in range(300_000)] == found
    assert max(sizes) <= MOST_LINES
    assert file.bytes_read <= file.size + HEAD


def test_a_line_of_tens_of_megabytes_is_a_line(tmp_path: Path) -> None:
    """It is handed on whole, alone, and reading it takes little more memory than it has bytes."""
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(b"one\n")
        file.truncate(40 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    tracemalloc.start()
    found, _, opened_file = pieces_of(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [b"one", bytes((40 << 20) - 4), b"last"] == found
    assert peak < 2.3 * (40 << 20)
    assert opened_file.bytes_read <= opened_file.size + HEAD


def test_a_line_of_a_hundred_megabytes_is_measured_and_let_go(tmp_path: Path) -> None:
    """Its size and digest are told, the lines after it are read, and it is not held in memory."""
    path = tmp_path / "a"
    size = 100 << 20
    with path.open("wb") as file:
        file.write(b"one\n")
        file.truncate(4 + size)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    tracemalloc.start()
    with opened(str(path)) as content:
        tail = open_tail(str(path), content, Memory())
        assert tail is not None
        found = [line for piece in tail.read(content) for line in piece.lines]
        total, offset = content.bytes_read, tail.offset
        assert tail.holds(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    long = found[1]
    assert isinstance(long, LongLine)
    assert (b"one", b"last", size, path.stat().st_size) == (found[0], found[2], long.size, offset)
    assert peak < 1.2 * LONGEST
    assert total <= size + 2 * HEAD


def test_position_moves_when_the_next_piece_is_asked_for(tmp_path: Path) -> None:
    """A piece that its taker could not store is given again."""
    path, memory = tmp_path / "a", Memory()
    path.write_bytes(b"one\n" * 400)
    with opened(str(path)) as file:
        tail = open_tail(str(path), file, memory)
        assert tail is not None
        first = next(tail.read(file))
        again = next(tail.read(file))
    assert first == again


def test_a_read_looks_no_further_than_the_file_was(tmp_path: Path) -> None:
    """What is appended while lines are taken belongs to the next look, with its own time."""
    path, memory = tmp_path / "a", Memory()
    path.write_bytes(b"one\n")
    with opened(str(path)) as file:
        append(path, b"two\n")
        tail = open_tail(str(path), file, memory)
        assert tail is not None
        assert [piece.lines for piece in tail.read(file)] == [[b"one"]]
    with opened(str(path)) as file:
        assert [piece.lines for piece in tail.read(file)] == [[b"two"]]

"""Real transcripts of Claude Code 2.1.332 and 2.1.197, and what they are known to hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from recorder.sources.base import BadLine, Record
from recorder.sources.claude import SOURCE
from recorder.sources.claude_lines import UNCHAINED

SAMPLES = Path(__file__).parents[1] / "samples" / "claude"
TRANSCRIPTS = sorted(path for path in SAMPLES.glob("*.jsonl") if path.name != "history.jsonl")
CHILDREN = sorted((SAMPLES / "subagents").glob("*.jsonl"))
LONG = "interactive_long_rewind_subagents_compact_queue_bang_interrupt"

PROMPTS = {
    "api_error": ["sdk: x @@"],
    "bash_edits_untracked": ["typed: sed %%sed"],
    "external_edit_note": ["sdk: p1 @@", "sdk: p2 @@"],
    "forked_headless_then_continue": ["sdk: time it", "sdk: again", "sdk: fork @@", "sdk: cont @@"],
    "interactive_after_clear": ["typed: post clear"],
    "interactive_branch_forkedFrom": [
        "typed: first prompt",
        "typed: fourth prompt after rewind",
        "typed: fifth",
        "typed: use subagents",
        "typed: after compact",
        "typed: slow one",
        "absorbed: queued while busy",
        "typed: slow two",
    ],
    LONG: [
        "typed: first prompt",
        "typed: second prompt",
        "typed: third prompt",
        "typed: fourth prompt after rewind",
        "typed: fifth",
        "typed: use subagents",
        "typed: after compact",
        "typed: slow one",
        "absorbed: queued while busy",
        "typed: slow two",
    ],
    "interactive_permission_dialogs": ["typed: perm"],
    "interactive_rewind": [
        "typed: first prompt",
        "typed: second prompt",
        "typed: third prompt",
        "typed: fourth prompt after rewind",
    ],
    "interactive_summarize_from_here": ["typed: prompt 1", "typed: prompt 2", "typed: prompt 3"],
    "linear": ["sdk: @@"],
    "multi_tool_headless": ["sdk: multi-tool please"],
    "resumed_headless": ["sdk: time it", "sdk: again"],
    "sdk_checkpoints_rewind_files_resume_at": ["sdk: ck one", "sdk: ck two", "sdk: third branch"],
    "slash_command_plugin": ["sdk: /recorder:rewind two"],
    "subagent_foreground_background_bash": ["sdk: t @@"],
    "v2.1.197_interactive_rewind": ["typed: prompt 1", "typed: prompt 2", "typed: after rewind"],
    "v2.1.197_sdk_checkpoints": ["sdk: ck one", "sdk: ck two"],
    "worktree_enter_exit_relocated": ["sdk: wt3"],
    "worktree_flag": ["sdk: wt @@"],
}
"""How each prompt was given, and how it begins, in the order of the file."""

REWOUND = {
    "interactive_branch_forkedFrom": {},
    LONG: {"fourth prompt after rewind": ["second prompt", "third prompt"]},
    "interactive_rewind": {"fourth prompt after rewind": ["second prompt", "third prompt"]},
    "sdk_checkpoints_rewind_files_resume_at": {"third branch": ["ck two"]},
    "v2.1.197_interactive_rewind": {"after rewind": ["prompt 2"]},
}
"""The prompts that a prompt left on a branch of their own; no other sample has any."""

SETTLED = {
    "api_error": ["error"],
    "bash_edits_untracked": ["done", "done"],
    "external_edit_note": ["done", "done"],
    "forked_headless_then_continue": ["done", "done", "done", "done"],
    "interactive_after_clear": ["done", "done"],
    "interactive_branch_forkedFrom": ["done"] * 18 + ["interrupted"],
    LONG: ["done"] * 22 + ["interrupted"],
    "interactive_permission_dialogs": ["done", "done"],
    "interactive_rewind": ["done"] * 8,
    "interactive_summarize_from_here": ["done"] * 6,
    "linear": ["done"],
    "multi_tool_headless": ["done"],
    "resumed_headless": ["done", "done"],
    "sdk_checkpoints_rewind_files_resume_at": ["done", "done", "done"],
    "slash_command_plugin": ["done"],
    "subagent_foreground_background_bash": ["done", "done"],
    "v2.1.197_interactive_rewind": ["done"] * 6,
    "v2.1.197_sdk_checkpoints": ["done", "done"],
    "worktree_enter_exit_relocated": ["done"],
    "worktree_flag": ["done"],
}
"""The ends of runs: in the terminal the last answer's line and one more, headless the answer's alone."""


def read(path: Path) -> list[Record | BadLine]:
    reader = SOURCE.reader(path)
    return [reader.read(line) for line in path.read_bytes().splitlines()]


def records(path: Path) -> list[Record]:
    return [record for record in read(path) if isinstance(record, Record)]


def sample(name: str) -> list[Record]:
    return records(SAMPLES / f"{name}.jsonl")


def left_by(found: list[Record]) -> dict[str, list[str]]:
    """For each prompt the earlier ones, not left before, that are not among its ancestors."""
    parents = {record.entry: record.parent or record.logical_parent for record in found if record.in_tree}
    standing: list[Record] = []
    left = {}
    for record in found:
        if record.prompt is None:
            continue
        ancestors, at = set(), record.entry
        while at is not None and at not in ancestors:
            ancestors.add(at)
            at = parents.get(at)
        gone = [prompt for prompt in standing if prompt.entry not in ancestors]
        if gone:
            left[record.text] = [prompt.text for prompt in gone]
        standing = [prompt for prompt in standing if prompt not in gone] + [record]
    return left


@pytest.mark.parametrize("path", [*TRANSCRIPTS, *CHILDREN], ids=lambda path: path.stem)
def test_every_line_is_read_and_understood(path: Path) -> None:
    """Each line of each sample becomes a record of a known kind, and none is lost or odd."""
    found = read(path)

    assert len(found) == len(path.read_bytes().splitlines())
    assert [record for record in found if isinstance(record, BadLine)] == []
    assert [record.raw_type for record in records(path) if not record.understood] == []


@pytest.mark.parametrize("path", [*TRANSCRIPTS, *CHILDREN], ids=lambda path: path.stem)
def test_a_file_is_claimed_and_named_by_its_content(path: Path) -> None:
    """Whatever its name, a transcript is claimed by its first line and says whose session it is."""
    lines = path.read_bytes().splitlines()

    assert SOURCE.claims(Path("/x/some.jsonl"), lines[0])
    assert SOURCE.session_of(Path("/x/some.jsonl"), lines) in {record.session for record in records(path)}


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_prompts_are_what_a_person_or_a_program_gave(path: Path) -> None:
    """Tool results, meta lines, notifications, `!` commands, /compact and /clear are no prompts."""
    expected = PROMPTS[path.stem]
    given = [f"{record.prompt}: {record.text}" for record in records(path) if record.prompt]

    assert [text[: len(start)] for text, start in zip(given, expected, strict=True)] == expected


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_rewinds_show_in_the_ancestry_of_prompts_and_nowhere_else(path: Path) -> None:
    """Parents, also over a compaction, tell of each rewind; parallel tool calls look like none."""
    expected = REWOUND.get(path.stem, {})
    left = {
        text.split(" %%")[0].split(" @@")[0]: [gone.split(" %%")[0].split(" @@")[0] for gone in prompts]
        for text, prompts in left_by(records(path)).items()
    }

    assert left == expected


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_runs_settle_where_they_ended(path: Path) -> None:
    """Answers that call tools settle nothing; final ones, errors and interruptions do."""
    assert [record.settles for record in records(path) if record.settles] == SETTLED[path.stem]


def test_the_last_prompt_before_an_interruption_has_no_done() -> None:
    """A run that was interrupted is not also done."""
    found = sample(LONG)
    last = max(index for index, record in enumerate(found) if record.prompt)

    assert [record.settles for record in found[last:] if record.settles] == ["interrupted"]


def test_parallel_calls_keep_their_parents_and_share_their_step() -> None:
    """Each block of an answer has its own line and id; all of them are one step."""
    found = sample("multi_tool_headless")
    steps = Counter(record.step for record in found if record.step)
    pair = [record for record in found if [call.tool for call in record.calls] == ["Write"]]
    results = [record for record in found if record.kind == "result"]

    assert sorted(steps.values()) == [1, 1, 1, 1, 2, 4]
    assert pair[1].parent == pair[0].entry
    assert {pair[0].entry, pair[1].entry} <= {record.parent for record in results}


def test_a_headless_fork_marks_what_it_took_over() -> None:
    """`--fork-session` copies the lines before; they and the parent session are told from its own."""
    found = sample("forked_headless_then_continue")
    prompts = [record for record in found if record.prompt]

    assert [record.copied for record in prompts] == [True, True, False, False]
    assert {record.parent_session for record in found} == {None, "b277bd53-05d1-4386-b8ab-cd3455532834"}
    assert not any(record.copied for record in found[found.index(prompts[2]) :])
    own = {record.entry for record in sample("resumed_headless") if record.in_tree}
    assert {record.entry for record in found if record.copied} <= own


def test_a_branch_marks_what_it_took_over() -> None:
    """`/branch` names the session before on each line that it copied."""
    found = sample("interactive_branch_forkedFrom")

    assert all(record.copied for record in found if record.prompt)
    assert {record.parent_session for record in found if record.copied} == {
        "7d9e1dce-8144-4b7a-9b55-d80bd3ae5978"
    }
    assert [record.raw_type for record in found if record.in_tree and not record.copied] == [
        "assistant",
        "system/local_command",
        "system/local_command",
    ]


@pytest.mark.parametrize(
    "path",
    [path for path in TRANSCRIPTS if "fork" not in path.stem],
    ids=lambda path: path.stem,
)
def test_nothing_else_looks_like_a_fork(path: Path) -> None:
    """Sessions that began, were resumed, cleared or compacted took nothing over."""
    assert not any(record.copied or record.parent_session for record in records(path))


def test_a_compaction_keeps_the_way_to_what_was_before() -> None:
    """The boundary has no parent, but a logical one and the entry from which it kept all."""
    found = sample(LONG)
    boundary = next(record for record in found if record.kind == "compaction")
    summary = next(record for record in found if record.kind == "summary")

    assert boundary.parent is None
    assert boundary.logical_parent == "6ab1a011-b0b6-4113-b1a4-d839f92c69bd"
    assert boundary.kept_from == "7903c617-d2b2-447b-8846-13818c8029b6"
    assert summary.parent == boundary.entry and summary.prompt is None


def test_a_summary_from_here_leaves_the_prompts_that_it_summed_up() -> None:
    """The logical parent lies before the prompts that were summed up."""
    found = sample("interactive_summarize_from_here")
    boundary = next(record for record in found if record.kind == "compaction")
    second = next(record for record in found if record.text.startswith("prompt 2"))

    assert boundary.logical_parent == second.parent


def test_a_shell_command_of_the_user_is_no_prompt() -> None:
    """`!cmd` is a command with its text, and what it printed a note."""
    found = sample(LONG)
    command = next(record for record in found if record.kind == "command")

    assert command.text == "echo bang > bang.txt"
    assert command.prompt is None


def test_the_zero_leaf_is_no_pointer() -> None:
    """After a rewind the agent writes an explicit zero id with the next prompt: no place to go on from."""
    assert [record.leaf for record in sample(LONG) if record.leaf] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("interactive_branch_forkedFrom", "mybranch"),
        ("interactive_after_clear", "mybranch"),
        ("v2.1.197_interactive_rewind", "Fake title"),
        ("linear", None),
    ],
)
def test_names_of_sessions(name: str, expected: str | None) -> None:
    """Titles, given or made up, are the session's name."""
    names = [record.name for record in sample(name) if record.name]

    assert (names[-1] if names else None) == expected


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_versions_and_folders(path: Path) -> None:
    """Each line of the tree says the version and the folder; none of these sessions is foreign."""
    found = records(path)
    expected = "2.1.197" if path.stem.startswith("v2.1.197") else "2.1.332"

    assert {record.agent_version for record in found if record.in_tree} == {expected}
    assert all(record.cwd for record in found if record.in_tree)
    assert not any(record.foreign for record in found)


def test_a_session_that_enters_a_worktree_says_where_it_is() -> None:
    """The folder of the lines moves into the work tree and back."""
    folders = [record.cwd for record in sample("worktree_enter_exit_relocated") if record.cwd]
    moves = [folder for folder, before in zip(folders, [None, *folders], strict=False) if folder != before]

    assert moves == ["/home/dev/wt", "/home/dev/wt/.claude/worktrees/feat3", "/home/dev/wt"]


@pytest.mark.parametrize(
    ("path", "call"),
    list(zip(CHILDREN, ["toolu_01671f39528447f1820da873", "toolu_6e715bfe464e453296e7cfe0"], strict=True)),
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_a_child_agents_lines_work_for_the_call_that_started_it(path: Path, call: str) -> None:
    """They belong to the parent's session, stand outside its tree and have no prompts or ends of runs."""
    found = records(path)
    chained = [record for record in found if record.within]

    assert {record.within for record in chained} == {call}
    assert {record.session for record in found} == {"7d9e1dce-8144-4b7a-9b55-d80bd3ae5978"}
    assert not any(record.in_tree or record.prompt or record.settles for record in found)
    assert any(record.calls for record in chained) and any(record.returns for record in chained)
    assert all(record.raw_type.startswith("api-request") for record in found if not record.within)


def test_lines_without_an_id_get_the_same_one_each_time() -> None:
    """Made ids depend on the line and its place in the conversation alone."""
    path = SAMPLES / f"{LONG}.jsonl"
    made = [record.entry for record in records(path) if record.raw_type in UNCHAINED]

    assert made == [record.entry for record in records(path) if record.raw_type in UNCHAINED]
    assert all(entry.startswith("~") for entry in made)
    assert len(set(made)) > len(made) * 0.8


def test_the_history_of_prompts_is_no_transcript() -> None:
    """`history.jsonl` lies near the transcripts and is not one."""
    path = SAMPLES / "history.jsonl"

    assert not SOURCE.claims(path, path.read_bytes().splitlines()[0])

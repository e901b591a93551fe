"""Which names are recognised, what they belong to, in what order, and how a summary lists them."""

from __future__ import annotations

import pytest

from tests.kit import result, said, use, user
from ullage.facts import collect
from ullage.facts.names import NameKind, command_heads, find_names, homes_in, is_well_known, plain
from ullage.summarizers.lines import candidates, names, names_tokens


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("set cfg.Source, then", [("cfg.Source", NameKind.SYMBOL)]),
        ("std::collections::HashMap", [("std::collections::HashMap", NameKind.SYMBOL)]),
        ("run --no-verify --jobs=4", [("--no-verify", NameKind.OPTION), ("--jobs", NameKind.OPTION)]),
        ("+func (s *Store) saveAll", [("saveAll", NameKind.SYMBOL)]),
        ("see src/main.go:12:4: undefined", [("src/main.go", NameKind.PATH)]),
        ("tests/test_a.py::test_it fails", [("tests/test_a.py", NameKind.PATH), ("test_it", NameKind.SYMBOL)]),
        ("docs/a.md#some-heading", [("docs/a.md", NameKind.PATH)]),
        ("./cmd/tool.go", [("cmd/tool.go", NameKind.PATH)]),
        (".github/workflows/ci.yml and .gitignore", [(".github/workflows/ci.yml", NameKind.PATH), (".gitignore", NameKind.PATH)]),
        ("error E0433 here", [("E0433", NameKind.SYMBOL)]),
        (r"\nBody\tother_name", [("other_name", NameKind.SYMBOL)]),
        ("请看src/größe.py文件", [("src/größe.py", NameKind.PATH)]),
        ("once once_more once once_more", [("once_more", NameKind.SYMBOL)]),
    ],
)  # fmt: skip
def test_what_is_recognised(text, found):
    assert find_names(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/a/b.html",
        "</closing-tag>",
        "me@example.org",
        "12/34/56",
        "v1.2.3/4",
        "1.25.3",
        "well-known words",
        "toolu_01ABCdefGHI",
        "x" * 300,
        "dGhpc0lzQmFzZTY0NjQ1NDM1NDM1",
        "e.g. this, i.e. that",
        "----------",
        "--",
        "... and so on",
    ],
)
def test_what_is_not(text):
    assert find_names(text) == []


@pytest.mark.parametrize(
    ("command", "heads"),
    [
        ("cd /w && go test ./... | tail -3", ["go test"]),
        ("npm run build && git push origin main", ["npm run build", "git push"]),
        ("FOO=1 cargo test --all; ls -la", ["cargo test"]),
        ("grep -rn word src", []),
        ("cat file.txt\nmise run lint\n", ["mise run lint"]),
        ("(docker compose up)", ["docker compose"]),
        ("", []),
    ],
)
def test_heads_of_commands(command, heads):
    assert command_heads(command) == heads


def test_a_long_command_is_read_in_linear_time():
    assert command_heads("A=1 " * 20_000 + "git push") == []
    assert command_heads("a b " * 20_000) == ["a b"]


SESSION = [
    user("Make cfg.Source optional."),
    said([use("a", "Read", file_path="/w/app/core/config.go")]),
    user([result("a", "func loadConfig(cfg.Source string) { fmt.Errorf }\nvar defaultSource")]),
    said([use("b", "Bash", command="go test --run TestSource ./app/core")]),
    user([result("b", "ok app/core/config_test.go 0.01s")]),
]


def test_names_know_the_file_or_command_that_they_belong_to():
    found = {name.text: name for name in collect(SESSION).names}
    assert found["loadConfig"].home == "/w/app/core/config.go"
    assert found["--run"].home == "go test"
    assert found["go test"].kind is NameKind.COMMAND
    assert (found["fmt.Errorf"].well_known, found["cfg.Source"].well_known) == (True, False)


def test_the_edited_file_outranks_the_one_that_was_read():
    edited = said(
        [use("c", "Edit", file_path="/w/b.go", old_string="x", new_string="loadConfig()")]
    )
    found = {name.text: name.home for name in collect([*SESSION, edited]).names}
    assert (found["loadConfig"], found["defaultSource"]) == ("/w/b.go", "/w/app/core/config.go")


def test_spellings_of_one_path_are_one_name():
    facts = collect(
        [user("see core/config.go and app/core/config.go"), said("in /w/app/core/config.go")]
    )
    assert [(name.text, name.uses) for name in facts.names] == [("/w/app/core/config.go", 3)]
    apart = collect([user("core/config.go, /v/core/config.go, /w/core/config.go")])
    assert [name.text for name in apart.names] == ["/w/core/config.go", "/v/core/config.go"]


def test_of_two_names_used_alike_the_shorter_comes_first():
    facts = collect([user("a_rather_long_name_of_something and short_name")])
    assert [name.text for name in facts.names] == ["short_name", "a_rather_long_name_of_something"]


def test_hashes_of_a_listing_are_not_names():
    listing = "\n".join(f"{number:07x}a1 blob" for number in range(1, 40))
    items = [
        said([use("a", "Bash", command="git cat-file --batch")]),
        user([result("a", listing)]),
    ]
    kinds = {name.kind for name in collect(items).names}
    assert NameKind.COMMIT not in kinds


def test_the_list_groups_names_without_what_any_model_knows():
    facts = collect(SESSION)
    assert names(candidates(facts), "", 400)[0].split("\n") == [
        "- Paths: app/core, /w/app/core/config.go, app/core/config_test.go",
        "- Names in core/config.go: cfg.Source, defaultSource, loadConfig",
        "- Names: TestSource",
        "- Options: --run",
    ]  # fmt: skip
    assert names_tokens(candidates(facts)) == 18  # all but the name that only one result has


@pytest.mark.parametrize("tokens", [0, 5, 20, 60, 200])
def test_the_list_stays_within_its_room(tokens):
    text = " ".join(
        f"/w/some/folder{n % 7}/file_{n}.py name_{n} pkg{n}.Name{n}" for n in range(300)
    )
    facts = collect(
        [
            said([use("a", "Read", file_path="/w/x.py")]),
            user([result("a", text)]),
            user(text[:2000]),
        ]
    )
    listed, every = names(candidates(facts), "", tokens)
    assert len(listed) <= tokens * 4
    assert every == (listed == names(candidates(facts), "", 100_000)[0])


def test_names_that_stand_elsewhere_are_not_listed_again():
    facts = collect(SESSION)
    assert names(candidates(facts), "cfg.Source core/config.go", 400)[0].startswith(
        "- Paths: app/core, app/core/config_test.go\n"
    )


def test_the_next_compaction_reads_the_list_again():
    text = (
        "- Paths under /w/app: core/config.go, core/a.go\n"
        "- Names in core/config.go: loadConfig, defaultSource\n- Names: cfg.Source\n- Options of go test: --run, --count"
    )
    assert plain(text).split() == [
        "/w/app/core/config.go",
        "/w/app/core/a.go",
        "-",
        "Names:",
        "cfg.Source",
    ]
    assert homes_in(text) == [
        ("core/config.go", "loadConfig, defaultSource"),
        ("go test", "--run, --count"),
    ]


def test_well_known_names_by_kind():
    assert is_well_known("git status", NameKind.COMMAND)
    assert not is_well_known("mise run lint", NameKind.COMMAND)
    assert is_well_known("--json", NameKind.OPTION)
    assert not is_well_known("--window-tokens", NameKind.OPTION)
    assert is_well_known("go.mod", NameKind.PATH)
    assert not is_well_known("fmt", NameKind.SYMBOL)

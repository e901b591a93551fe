"""Writes `vectors.json`: requests with the rules that they break. Run: python tests/golden/make_vectors.py

Each vector has:

- `id`, `about`; `rule`: the rule that it is about.
- `provider`, `model`; `request`: the body as it would be sent.
- `version`, `betas`: of the headers; `resume`: `pause_turn` or `compaction` if it resumes such a stop.
- `original`: the request as the model saw it, where thinking is compared with it.
- `window`: context window in tokens, where it is not the model's own; `strict`: an OpenAI-compatible
  server that asks for more than OpenAI does.
- `repeat`: pairs of a path into the request and a count: the string or list there stands so often.
- `errors`: rules that must be reported as errors; `any`: at least one of these; `also`: further
  errors that a checker may report; `warnings`: rules that must be reported as warnings. A vector
  with neither `errors` nor `any` is legal: any error that is not in `also` is wrong.

`ours`: not for the second checker, which has other eyes. `wire` false: keys of responses may stay, as a sender leaves them out. Vectors with `compare` are two requests of one conversation; `how` are arguments of `compare_requests`
(`render` names a template of the tests). Vectors with `before` and `after` are what an operation did to
the messages; where `after` is a string it names an operation of the tests. `around`: of the request.

Vectors about the classifier of answers have `error` (`status`, `text`) and `overflow` instead.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from vectors import anthropic_rules, classic, openai_rules, other_rules, rewrites, sites  # noqa: E402

PATH = HERE / "vectors.json"


def text() -> str:
    """The file's content: one vector per line, so that a change shows as one."""
    groups = (classic, anthropic_rules, openai_rules, other_rules, rewrites, sites)
    made = [vector for group in groups for vector in group.VECTORS]
    names = [vector["id"] for vector in made]
    assert len(names) == len(set(names)), sorted({n for n in names if names.count(n) > 1})
    return "[\n" + ",\n".join(map(_line, made)) + "\n]\n"


def _line(vector: dict[str, object]) -> str:
    line = json.dumps(vector, ensure_ascii=False)
    # What UTF-8 cannot hold is written as escapes.
    return line if _is_utf8(line) else json.dumps(vector)


def _is_utf8(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    print(f"{PATH.name}: {len(json.loads(PATH.read_text(encoding='utf-8')))} vectors")

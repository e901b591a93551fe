"""Code of the made-up projects: blocks in four languages, filled in by name.

Each block defines exactly one symbol, `%(fn)s`, and its first line is unique in the project, so
that an edit can name it.
"""

from __future__ import annotations

EXTENSIONS = {"python": "py", "typescript": "ts", "go": "go", "rust": "rs"}

TEST_COMMANDS = {
    "python": "uv run pytest -q %s",
    "typescript": "npx vitest run %s",
    "go": "go test ./%s -run .",
    "rust": "cargo test --quiet --test %s",
}

HEADS = {
    "python": '"""%(title)s."""\n\nfrom __future__ import annotations\n\nimport logging\n\nlog = logging.getLogger(__name__)\n',
    "typescript": '// %(title)s\nimport { logger } from "../lib/logger";\nimport type { Row, Scope } from "../types";\n',
    "go": 'package %(package)s\n\nimport (\n\t"context"\n\t"errors"\n\t"fmt"\n)\n\n// %(title)s.\n',
    "rust": "//! %(title)s.\n\nuse std::collections::BTreeMap;\n\nuse crate::error::{Error, Result};\n",
}

_PYTHON = (
    '''def %(fn)s(%(arg)s: dict[str, object], *, limit: int = %(n)d) -> list[str]:
    """%(doc)s."""
    seen: set[str] = set()
    kept = []
    for key, value in sorted(%(arg)s.items()):
        if key in seen or value is None:
            continue
        seen.add(key)
        kept.append(f"{key}={value}")
        if len(kept) >= limit:
            break
    return kept
''',
    '''async def %(fn)s(client, %(arg)s_id: int, attempts: int = %(small)d) -> bytes | None:
    """%(doc)s; gives up after `attempts` tries."""
    for attempt in range(attempts):
        response = await client.get(f"/v1/%(word)s/{%(arg)s_id}")
        if response.status_code == 404:
            return None
        if response.status_code < 500:
            return response.content
        log.warning("%(fn)s: try %%d of %%d failed", attempt + 1, attempts)
        await client.pause(0.05 * 2**attempt)
    raise TimeoutError(f"%(fn)s: {%(arg)s_id} did not answer")
''',
    '''def %(fn)s(%(arg)s: list[float]) -> float:
    """%(doc)s, as a share between 0 and 1."""
    if not %(arg)s:
        return 0.0
    total = sum(%(arg)s)
    peak = max(%(arg)s)
    if total <= 0 or peak > %(n)d:
        raise ValueError(f"%(fn)s: out of range: {peak}")
    return round(%(call)s(%(arg)s) / total, %(small)d)
''',
    '''class %(cls)s:
    """%(doc)s."""

    def __init__(self, %(arg)s: str, *, size: int = %(n)d) -> None:
        self.%(arg)s = %(arg)s
        self._size = size
        self._pending: list[tuple[int, str]] = []

    def push(self, order: int, line: str) -> None:
        self._pending.append((order, line))
        if len(self._pending) >= self._size:
            self.flush()

    def flush(self) -> int:
        done = len(self._pending)
        for _, line in sorted(self._pending):
            %(call)s(line)
        self._pending.clear()
        return done


def %(fn)s(%(arg)s: str) -> %(cls)s:
    return %(cls)s(%(arg)s, size=%(n)d)
''',
)

_TYPESCRIPT = (
    """export async function %(fn)s(%(arg)s: string[], scope: Scope): Promise<Row[]> {
  const rows = await scope.db.query<Row>("SELECT * FROM %(word)s WHERE id = ANY($1)", [%(arg)s]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return %(arg)s.flatMap((id) => {
    const row = byId.get(id);
    if (!row) logger.warn("%(fn)s: no row", { id });
    return row ? [row] : [];
  });
}
""",
    """export function %(fn)s(%(arg)s: number, now = Date.now()): boolean {
  // %(doc)s
  const age = Math.floor((now - %(arg)s) / 1000);
  if (Number.isNaN(age) || age < 0) {
    throw new RangeError(`%(fn)s: bad timestamp ${%(arg)s}`);
  }
  return age > %(n)d && %(call)s(age);
}
""",
    """export const %(fn)s = (%(arg)s: Row[]): Record<string, number> =>
  %(arg)s.reduce<Record<string, number>>((sums, row) => {
    const key = row.%(word)s ?? "none";
    sums[key] = (sums[key] ?? 0) + (row.amount ?? 0) * %(small)d;
    return sums;
  }, {});
""",
)

_GO = (
    """func %(fn)s(ctx context.Context, %(arg)s []string) (map[string]int, error) {
\tcounts := make(map[string]int, len(%(arg)s))
\tfor i, item := range %(arg)s {
\t\tif err := ctx.Err(); err != nil {
\t\t\treturn nil, fmt.Errorf("%(fn)s: stopped at %%d: %%w", i, err)
\t\t}
\t\tif item == "" {
\t\t\tcontinue
\t\t}
\t\tcounts[item]++
\t}
\tif len(counts) > %(n)d {
\t\treturn nil, errors.New("%(fn)s: too many kinds of %(word)s")
\t}
\treturn counts, nil
}
""",
    """func %(fn)s(%(arg)s string) (string, bool) {
\t// %(doc)s.
\tif len(%(arg)s) > %(n)d {
\t\treturn %(arg)s[:%(n)d], true
\t}
\tfor range %(small)d {
\t\tif next, ok := %(call)s(%(arg)s); ok {
\t\t\treturn next, true
\t\t}
\t}
\treturn %(arg)s, false
}
""",
)

_RUST = (
    """pub fn %(fn)s(%(arg)s: &[u8], limit: usize) -> Result<BTreeMap<u32, usize>> {
    let mut out = BTreeMap::new();
    for (at, piece) in %(arg)s.chunks(%(n)d).enumerate() {
        if at >= limit {
            return Err(Error::TooLong { what: "%(fn)s", limit });
        }
        let key = piece.iter().fold(%(small)du32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
        *out.entry(key).or_insert(0) += piece.len();
    }
    Ok(out)
}
""",
    """/// %(doc)s.
pub(crate) fn %(fn)s(%(arg)s: &str) -> Option<&str> {
    let start = %(arg)s.find("%(word)s:")? + %(small)d;
    let rest = %(arg)s.get(start..)?;
    let end = rest.find([',', '\\n']).unwrap_or(rest.len());
    (end <= %(n)d).then(|| %(call)s(&rest[..end])).flatten()
}
""",
)

BLOCKS = {"python": _PYTHON, "typescript": _TYPESCRIPT, "go": _GO, "rust": _RUST}

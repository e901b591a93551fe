"""Whether the gateway breaks the provider's cached prefix only where that pays.

    python benches/proxy_cache.py [--tokens 170000] [--seeds 5 11 23]

Whole sessions in Claude Code's form (marks on the system prompt and on the two newest user messages) go through the gateway to a
server that keeps a prompt cache by the provider's rules. Three gateways see each: one without levels, the default, and one whose
levels never wait. A request *breaks* the prefix if it reads less than the one before it had left in the cache. Prices are those of
the model in Ullage's table: each token of a prompt is written, read or neither.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tests.proxy.cache_kit import Asked, breaks, paid_after, run
from ullage.policy import Policy
from ullage.proxy.fitter import gateway_policy
from ullage.testing import conversation


def show(name: str, asked: Sequence[Asked], whole: Sequence[Asked]) -> None:
    places = breaks(asked)
    again = sum(asked[at - 1].read + asked[at - 1].written - asked[at].read for at in places)
    saved = sum(each.dollars for each in whole) - sum(each.dollars for each in asked)
    print(
        f"  {name:<22} {sum(each.changed for each in asked):4} of {len(asked)} requests changed, {len(places):3} break the prefix, "
        f"{again:9,} tokens written again, ${sum(each.dollars for each in asked):6.2f} ({saved:+.2f} saved)"
    )
    found = [(paid_after(asked, whole, at), len(asked) - at - 1) for at in places]
    if found:
        late = [f"{after:.0f} of {left}" for after, left in found]
        print(f"    breaks pay after so many of the requests that follow: {', '.join(late)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=170_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[5, 11, 23])
    args = parser.parse_args()
    eager = gateway_policy(Policy.buffered())
    for seed in args.seeds:
        items = conversation(seed, tokens=args.tokens)
        while items[-1]["role"] == "assistant":
            items.pop()
        whole = run(items, levels=False)
        print(f"session {seed}: {len(items)} messages")
        show("without levels", whole, whole)
        show("the gateway", run(items), whole)
        show("levels that never wait", run(items, policy=eager), whole)


if __name__ == "__main__":
    main()

"""Screenshots in tool results over the number of images that a request may hold: the oldest are left out, once and for good (PIPE-5).

Verification would replace them in every request again, one more each time, and each time the provider's cache would end at the first.
"""

from __future__ import annotations

from ullage.levels.level import NEVER, Context, Level, Rest
from ullage.levels.view import Decision, StageReport, fresh_from

STAGE = "image_limit"
# A quarter of the limit goes at once: dropping one image at a time would rewrite the cached prefix at each of them.
BATCH_SHARE = 4
# Images in a request of Anthropic's form where the model's row names no other number.
API_LIMIT = 100


def limit_of(context: Context) -> int:
    """Images that a request may hold; 0: any number."""
    listed = context.model.max_images if context.model is not None else 0
    return listed or (API_LIMIT if context.provider.internal else 0)


def run(context: Context) -> StageReport | None:
    """Leave out the oldest images that the model has seen; `None` if there is room for all."""
    view, limit = context.view, limit_of(context)
    images = view.images() if limit else 0
    if images <= limit:
        return None
    excess = images - limit + limit // BATCH_SHARE
    chosen = []
    for result in view.results(0, fresh_from(view.ledger)):
        if excess <= 0:
            break
        within = view.images_in(result) if result.has_media and not result.replaced else 0
        if within:
            excess -= within
            text = f"{view.text(result)}\n[image left out: a request holds at most {limit:,}]"
            chosen.append((result, Decision(result.id, STAGE, text.lstrip("\n"))))
    return view.report(STAGE, f"more than {limit:,} images", chosen) if chosen else None


def rest(context: Context) -> Rest:
    """Until there is one image too many."""
    limit = limit_of(context)
    return Rest(images=limit) if limit else NEVER


LEVEL = Level(STAGE, run, rest=rest)

"""What people and models say in a generated session."""

from __future__ import annotations

REQUESTS: dict[str, dict[str, tuple[str, ...]]] = {
    "en": {
        "fix": (
            "`{fn}` fails in production since this morning, please find out why and fix it. Error: {error}",
            "The tests around {fn} are red again ({error}). Fix the cause, not the test.",
            "customers report wrong totals, I suspect {fn} in {file}. can you check and fix?",
        ),
        "build": (
            "Add a function {new} next to {fn} in {file}, with tests.",
            "We need {new}: same contract as {fn}, but it must cope with empty input. Write the tests first.",
        ),
        "explore": (
            "How does {fn} work, and who calls it? Don't change anything yet.",
            "Explain {file} to me.",
        ),
        "logs": ("Look through the service log for what happened around the {fn} failures.",),
        "review": ("Here is a screenshot of the page. Why is the total cut off? Probably {file}.",),
        "research": (
            "Read up on rate limits of the provider and write down what applies to {fn}.",
        ),
        "plan": ("Before you start on {fn}: make a list of the steps and work through it.",),
        "ask": ("Make {fn} faster. Ask me if there is more than one way.",),
        "chat": (
            "Thanks! Before we go on: what would you do about {fn} in the long run?",
            "ok, next: {fn}",
        ),
    },
    "de": {
        "fix": (
            "`{fn}` wirft seit heute früh {error}. Bitte die Ursache finden und beheben, nicht nur den Test.",
        ),
        "explore": (
            "Erkläre mir bitte, wie {fn} funktioniert und wer es aufruft – noch nichts ändern!",
        ),
    },
    "fr": {
        "fix": (
            "Depuis ce matin `{fn}` échoue ({error}). Trouve la cause et corrige-la, s'il te plaît.",
        )
    },
    "es": {
        "fix": (
            "¿Puedes arreglar `{fn}`? En producción aparece «{error}» desde ayer por la noche.",
        )
    },
    "pt": {"build": ("Precisamos de {new} ao lado de {fn} em {file}; escreva também os testes.",)},
    "ru": {
        "fix": (
            "После обновления `{fn}` падает с ошибкой {error}. Найди причину и исправь, пожалуйста.",
        )
    },
    "zh": {
        "fix": ("`{fn}` 从今天早上开始报错：{error}。请找出原因并修复，不要只改测试。",),
        "explore": ("请解释一下 {file} 里的 {fn} 是怎么工作的，先不要改代码。",),
    },
    "ja": {
        "fix": (
            "今朝から `{fn}` が {error} で失敗します。原因を調べて直してください。テストは変えないで。",
        )
    },
    "ko": {"build": ("{file}의 {fn} 옆에 {new} 함수를 추가하고 테스트도 작성해 주세요.",)},
    "ar": {"fix": ("الدالة `{fn}` تفشل منذ الصباح: {error}. من فضلك ابحث عن السبب وأصلحه.",)},
    "he": {"explore": ("תסביר לי בבקשה איך {fn} עובדת ומי קורא לה, בלי לשנות כלום עדיין.",)},
    "hi": {"fix": ("`{fn}` सुबह से {error} दे रहा है। कृपया कारण खोजकर ठीक करें।",)},
    "emoji": {"fix": ("🔥🔥 {fn} is down 😱 ({error}) pls fix asap 🙏🏽 👩‍👩‍👧‍👦",)},
}

LANGUAGES = tuple(REQUESTS)

INSTRUCTIONS = (
    ("Always use pnpm, never npm.", "pnpm"),
    ("From now on always run commands through `just`.", "just"),
    ("Immer `uv` statt pip benutzen, auch später.", "uv"),
    ("请始终用 pnpm，不要用 npm。", "pnpm"),
)

PLANS = (
    "reproduce the failure of {fn}",
    "read {file} and its callers",
    "change {fn}",
    "run the tests of {fn}",
    "update the changelog",
    "check {fn} against the staging log",
)

THOUGHTS = (
    "The error points at {fn}, but the value is already wrong when it arrives there.",
    "I should look at the callers of {fn} before I change its contract.",
    "Two explanations fit: the limit is off by one, or {file} is read before the cursor moves.",
    "The user asked for the cause, so the test must stay as it is.",
    "If I run the tests of {fn} first I know whether the failure is still there.",
    "{file} has changed since I read it, so the line numbers may be off.",
)

ANSWERS = (
    "I'll look at {fn} first.",
    "`{fn}` in {file} is the place. Let me see who calls it.",
    "The test still fails, now for another reason; I'll read {file} again.",
    "Running the tests of {fn}.",
)

CLOSINGS = (
    "Done: `{fn}` in {file} is fixed and its tests pass. The cause was {error}.",
    "`{fn}` works again. I left the tests as they were; the guard in {file} is the only change.",
    "Finished. {file} now holds the change, `{fn}` keeps its contract.",
)

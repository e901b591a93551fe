"""Made talks without tools, with plain facts of the user's in small talk: by style, in twelve languages, and with corrected values."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ullage import estimate_tokens

Messages = list[dict[str, str]]

PEOPLE = "Priya Marco Wen Alice Kenji Olu Sofia Tomas Ingrid Yusuf Chloe Dmitri".split()
THINGS = "billing gateway catalogue ledger search intake mobile export archive invoice".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
COLOURS = "blue green amber violet teal crimson ivory slate".split()

FACTS = {
    "planning": [
        "{p} owns the {t} service; {q} owns the {u}.",
        "The migration window is {d} 0{h}:00 UTC, ticket OPS-{n}.",
        "We decided on the {c} theme. {C} is out.",
        "The offsite is in room {n}, and {p} brings the projector.",
        "Budget for {t} is {n} euros until the end of the quarter.",
        "{p} is on leave from {d} on; {q} stands in.",
        "The {t} launch moves to {d}, the {h}th.",
        "Legal wants the {t} contract signed by {p} before {d}.",
    ],
    "support": [
        "My order number is {n}-{c}.",
        "I live at {n} {T} Street, third floor, the bell says {p}.",
        "The {t} app shows code {h}{n} when I sign in.",
        "It began on {d} after the update to version {h}.{n}.",
        "My account is registered to {p}, not to {q}.",
        "The parcel went to {q} at number {n} by mistake.",
        "I paid {n} crowns by bank transfer on {d}.",
        "Please call after {h} pm, {d} is best.",
    ],
    "pair work": [
        "{p} becomes the reviewer of {t}.",
        "We settled on {c} for the {t} labels.",
        "The {t} table has {n} rows, and column {c}_{h} is the key.",
        "The demo is on {d}, {q} presents.",
        "The staging host is {t}-{n}, port {h}0{h}.",
        "{q} found that {t} is slow because of {c} caching.",
        "We drop the {t} report; nobody reads it, says {p}.",
        "The cut is {n} items a page.",
    ],
}  # fmt: skip
TALK = [
    "By the way, do you read much fiction?",
    "I was thinking about lunch earlier.",
    "I just remembered I need to send someone an email later.",
]
OPENING = "Honestly, Anyway, Funny thing: Oh well, You know, By the way, So yes, Hm,".split(", ")
DOING = "reading about|talking about|thinking of|laughing about|reminded of|tired of|curious about".split("|")  # fmt: skip
ABOUT = "old trains|the weather|my garden|that film|long walks|good bread|the neighbours' cat|rainy weekends|chess|cold coffee|the news".split("|")  # fmt: skip
WHEN = "this morning|the other day|again|on the way here|last night|for a while|with a friend".split("|")  # fmt: skip
REPLIES = ["Noted.", "Sounds good.", "I see.", "That is nice to hear.", "Understood."]

LANGUAGES: dict[str, tuple[list[str], list[str]]] = {
    "de": (["Übrigens, liest du gerne Romane?", "Ich dachte vorhin ans Mittagessen.", "Das Wetter ist heute wirklich schön."],
           ["Petra betreut die Abrechnung, Jonas das Lager {n}.", "Der Umzug ist am Samstag um 3 Uhr, Vorgang OPS-{n}.", "Wir haben uns für Blau entschieden, Rot fällt weg.", "Das Budget sind {n} Euro."]),
    "fr": (["Au fait, tu lis beaucoup de romans ?", "Je pensais au déjeuner tout à l'heure.", "Il fait vraiment beau aujourd'hui."],
           ["Chloé s'occupe de la facturation, Marc du dépôt {n}.", "La migration a lieu samedi à 3 h, ticket OPS-{n}.", "Nous avons choisi le bleu, le rouge est écarté.", "Le budget est de {n} euros."]),
    "es": (["Por cierto, ¿lees muchas novelas?", "Antes estaba pensando en la comida.", "Hoy hace muy buen tiempo."],
           ["Sofía lleva la facturación y Mario el almacén {n}.", "La migración es el sábado a las 3, ticket OPS-{n}.", "Nos quedamos con el azul, el rojo queda fuera.", "El presupuesto es de {n} euros."]),
    "pt": (["Aliás, você lê muitos romances?", "Eu estava pensando no almoço.", "O tempo está muito bom hoje."],
           ["A Joana cuida da cobrança e o Rui do armazém {n}.", "A migração é no sábado às 3h, chamado OPS-{n}.", "Escolhemos o azul, o vermelho está fora.", "O orçamento é de {n} euros."]),
    "ru": (["Кстати, ты много читаешь?", "Я недавно думал об обеде.", "Сегодня очень хорошая погода."],
           ["Ирина отвечает за счета, Павел за склад {n}.", "Перенос в субботу в 3 часа, заявка OPS-{n}.", "Мы выбрали синий, красный отпадает.", "Бюджет {n} евро."]),
    "tr": (["Bu arada çok roman okur musun?", "Az önce öğle yemeğini düşünüyordum.", "Bugün hava gerçekten güzel."],
           ["Faturalama Elif'te, {n} numaralı depo Murat'ta.", "Taşıma cumartesi saat 3'te, kayıt OPS-{n}.", "Mavide karar kıldık, kırmızı olmuyor.", "Bütçe {n} avro."]),
    "vi": (["À mà, bạn có hay đọc tiểu thuyết không?", "Lúc nãy tôi nghĩ đến bữa trưa.", "Hôm nay trời đẹp thật."],
           ["Lan phụ trách hóa đơn, Minh phụ trách kho {n}.", "Chuyển hệ thống lúc 3 giờ thứ bảy, phiếu OPS-{n}.", "Chúng tôi chọn màu xanh, bỏ màu đỏ.", "Ngân sách là {n} euro."]),
    "hi": (["वैसे, क्या तुम उपन्यास पढ़ते हो?", "मैं अभी दोपहर के खाने के बारे में सोच रहा था।", "आज मौसम बहुत अच्छा है।"],
           ["बिलिंग प्रिया देखती है, गोदाम {n} रवि देखता है।", "स्थानांतरण शनिवार 3 बजे है, टिकट OPS-{n}।", "हमने नीला चुना, लाल नहीं चलेगा।", "बजट {n} यूरो है।"]),
    "ar": (["بالمناسبة، هل تقرأ الروايات كثيرا؟", "كنت أفكر في الغداء قبل قليل.", "الطقس جميل اليوم."],
           ["سارة مسؤولة عن الفواتير وكريم عن المخزن {n}.", "النقل يوم السبت الساعة 3، التذكرة OPS-{n}.", "اخترنا اللون الأزرق واستبعدنا الأحمر.", "الميزانية {n} يورو."]),
    "zh": (["对了，你平时看小说吗？", "我刚才在想午饭。", "今天天气真好。"],
           ["李娜负责账单，王强负责{n}号仓库。", "迁移时间是周六凌晨三点，工单OPS-{n}。", "我们决定用蓝色，不用红色。", "预算是{n}欧元。"]),
    "ja": (["ところで、小説はよく読みますか？", "さっき昼ご飯のことを考えていました。", "今日はとてもいい天気ですね。"],
           ["請求は佐藤さん、倉庫{n}は田中さんの担当です。", "移行は土曜の3時、チケットはOPS-{n}です。", "青に決めました。赤はなしです。", "予算は{n}ユーロです。"]),
    "ko": (["그런데 소설 많이 읽으세요?", "아까 점심 생각을 하고 있었어요.", "오늘 날씨가 정말 좋네요."],
           ["청구는 지민이, {n}번 창고는 현우가 맡아요.", "이전은 토요일 3시, 티켓은 OPS-{n}입니다.", "파란색으로 정했고 빨간색은 빠집니다.", "예산은 {n}유로예요."]),
}  # fmt: skip

CORRECTIONS = [
    ("The deploy port is 8029.", "Correction: the deploy port is 2296."),
    ("Keep the API at /v1.", "I have thought again, the API lives at /v2."),
    ("The demo is on Tuesday.", "The demo moved to Friday."),
    ("Marta reviews the export.", "Not Marta, Deniz reviews the export."),
    ("Use the bucket logs-old.", "Scratch that, use the bucket logs-new instead."),
    ("The limit is 30 requests a minute.", "Actually the limit is 45 requests a minute."),
    ("Budget is 4000 euros.", "Sorry, budget is 5200 euros, I misread it."),
    ("The host is amber.internal.", "The host is no longer amber.internal, it is cobalt.internal."),
    ("Name the branch release-a.", "Please rename it: the branch is release-b now."),
    ("The call is at 9.", "Update: the call is at 11."),
    ("Paint the header green.", "On second thought, paint the header violet."),
    ("Send the report to Olga.", "I was wrong about the report, it goes to Hamid."),
]
"""An old value and a new one, in the wordings of people."""


def chat(seed: int, style: str, tokens: int, *, repeated: bool) -> tuple[Messages, list[str]]:
    """Small talk with eight facts of the user's in its first nine tenths."""
    rng = random.Random(f"chat {seed} {style} {tokens} {repeated}")
    facts = [_filled(rng, each) for each in FACTS[style]]

    def line() -> str:
        if repeated:
            return rng.choice(TALK)
        return f"{rng.choice(OPENING)} I was {rng.choice(DOING)} {rng.choice(ABOUT)} {rng.choice(WHEN)}."

    return _talk(rng, facts, line, tokens), facts


def _filled(rng: random.Random, text: str) -> str:
    p, q = rng.sample(PEOPLE, 2)
    t, u = rng.sample(THINGS, 2)
    c, other = rng.sample(COLOURS, 2)
    return text.format(p=p, q=q, t=t, u=u, T=t.title(), c=c, C=other.title(), d=rng.choice(DAYS), h=rng.randint(2, 9), n=rng.randint(1000, 9999))  # fmt: skip


def _talk(rng: random.Random, facts: Sequence[str], line: Callable[[], str], tokens: int) -> Messages:  # fmt: skip
    said: Messages = []
    for text in (line() for _ in range(100_000)):
        said += [
            {"role": "user", "content": text},
            {"role": "assistant", "content": rng.choice(REPLIES)},
        ]
        if len(said) % 64 == 0 and estimate_tokens(said) >= tokens:
            break
    places = sorted(rng.sample(range(len(said) * 9 // 20), len(facts)))
    for at, fact in zip(places, facts, strict=True):
        said[2 * at]["content"] = fact
    return [*said, {"role": "user", "content": line()}]


def in_language(seed: int, language: str, tokens: int) -> tuple[Messages, list[str]]:
    """The same in another language, four facts."""
    rng = random.Random(f"{language} {seed}")
    lines, templates = LANGUAGES[language]
    facts = [each.format(n=rng.randint(1000, 9999)) for each in templates]
    return _talk(rng, facts, lambda: rng.choice(lines), tokens), facts


def corrected(at: int) -> tuple[Messages, str, str]:
    """A talk in which a value is corrected; the old sentence and the new one."""
    old, new = CORRECTIONS[at]
    added = {3: old, 10: new}
    said: Messages = []
    for turn in range(18):
        said += [
            {"role": "user", "content": f"Look at part {turn} of the work. {added.get(turn, '')}".strip()},
            {"role": "assistant", "content": "I looked at the module and the tests pass. " * 12},
        ]  # fmt: skip
    return said, old, new


def is_corrected(text: str, old: str, new: str) -> bool:
    """Whether the new value stands, and the old one does not stand after it or alone."""
    lines = [line for line in text.split("\n") if old in line and new not in line]
    unmarked = [line for line in lines if "(replaced by" not in line]
    return new in text and (not unmarked or text.rfind(old) < text.rfind(new))

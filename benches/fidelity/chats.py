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

UNSEEN: dict[str, list[str]] = {
    "terse": ["gate code {n}", "ivo: no nuts", "vet thursday 9:40", "rent to halina, 3rd", "boat is the Petrel", "keys under the fern", "milk -> oat", "size {h}{h}, green soles"],
    "rambling": ["the plumber Radek can only come on the 1{h}th after lunch", "my aunt keeps the deed in the piano stool", "we promised the Okafors the cabin for the second week of August",
                 "the allergist said no penicillin for Ines, ever", "the choir meets in the old customs house now", "our landlord wants {n} for the deposit", "Bruno quit and Nadia runs the bakery", "the spare tyre is a 205"],
    "lists": ["- flight KL{n}, seat 14C", "- hotel: Villa Serena, paid", "- Otto gets the aisle", "- visa photo still missing", "- dinner for six at Anselm's", "- adapter type G", "- cash in the blue sock", "- train back 17:0{h}"],
    "code words": ["When I say heron, I mean the reserve plan.", "The password hint is grandmother's orchard.", "Tangerine stands for the second flat.", "We call the buyer Walrus.",
                   "Lantern means that nobody answers the phone.", "The fund is filed under Pickles.", "Call the surprise party Tuesday soup.", "Basil is the dog, not the herb."],
    "mixed languages": ["Mi hermana Lucía guarda la llave del sótano.", "Die Heizung wird am 1{h}. abgelesen.", "Le code du portail est {n}B.", "Wyjeżdżamy do Gdańska pierwszego maja.",
                        "Il nonno non mangia formaggio.", "De fiets staat bij Joost in de schuur.", "Пароль от склада знает Вера.", "鍵は隣の森さんに預けました。"],
    "names last": ["Waters the plants while we are away: Gudrun.", "Has the only copy of the will, my cousin Emeka.", "Signs for deliveries at number {n}: Mr Haddad.", "Lends us the tent, Fiona.",
                   "Teaches the small ones on Fridays: Aroha.", "Takes over the shop in spring, probably Lars.", "Drives the second van: Mbali.", "Hates surprises, our Tove."],
    "questions": ["Could you remember that Halina pays the electricity?", "Did I say that the wedding is in Ghent on the 2{h}th?", "You know that I can't eat shellfish, don't you?", "Isn't it odd that the meter showed {n} yesterday?",
                  "Would you note that Pavel has the projector?", "Shall we say a quarter past six at the lighthouse?", "Do you know that my blood type is AB negative?", "Can we take it as settled that the piano goes to Mei?"],
    "several at once": ["Jakob is nine and Elin is twelve.", "The car is at Moreau's garage, and the bill is {n}.", "Dr. Adeyemi moved to Tulip Street 8.", "My shift ends at half past {h}.",
                        "The tenant upstairs is called Ruiz.", "The cello was insured with Helvar.", "Grandpa's heart pills are the yellow ones.", "The allotment number is 7{h}."],
    "confirmed": ["the ferry leaves pier C at 06:4{h}", "Zoltan keeps the receipts", "the deposit was {n}", "the cat goes to Mrs Brandt", "you stay until the 1{h}th", "the tickets are in Rania's name", "the cake has no eggs", "the meeting point is the red kiosk"],
}  # fmt: skip
"""Facts by the way they are worded, written before it was seen which of them get lost."""
_LEADS = "Guess what,|Well,|My neighbour says|It turns out|Can you believe it,|Every week|Once more|As usual|Somehow|In the end".split(
    "|"
)
_MIDDLES = "I burned the toast|the bus came late|we watched football|my sister sang too loud|the soup was too salty|the kids built a fort|I lost at cards|the concert was fun|I slept badly|we baked pancakes".split(
    "|"
)
_TAILS = "and nobody cared|which made me smile|but that is life|so I went for a walk|as one does|if you ask me|and then it rained|for the third time|because of the heat|while the radio was on".split(
    "|"
)
_TERSE = "lol|same here|so tired|nice one|rain again|hm|coffee first|busy day|no idea why|oh well|what a day|love that song|too hot|back soon|funny old world".split(
    "|"
)
_ABROAD = ["Was für ein Tag, ich bin müde.", "Hoy hace mucho calor, ¿verdad?", "Ach, der Kaffee ist schon kalt.", "Quelle journée, je suis fatigué.", "Dziś znowu pada deszcz.", "Che bella giornata oggi!", "It is so warm today.", "Het regent alweer.", "Сегодня так жарко.", "今日は暑いですね。", "I could sleep all day.", "Mir ist so langweilig heute."]  # fmt: skip

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


def unseen(seed: int, style: str, tokens: int) -> tuple[Messages, list[str]]:
    """Eight facts of `UNSEEN` in small talk of their own kind: between other sentences, in one list, or said by the assistant and confirmed."""
    rng = random.Random(f"unseen {seed} {style}")
    facts = [text.format(n=rng.randint(1000, 9999), h=rng.randint(2, 9)) for text in UNSEEN[style]]

    def line() -> str:
        if style == "terse":
            return " ".join(rng.sample(_TERSE, rng.randint(1, 3)))
        if style == "mixed languages":
            return " ".join(rng.sample(_ABROAD, 2))
        said = (
            " ".join(map(rng.choice, (_LEADS, _MIDDLES, _TAILS)))
            for _ in range(4 if style == "rambling" else 1)
        )
        return ". ".join(said) + "."

    texts = [
        fact if style != "rambling" else f"{line()} Oh, {fact}, by the way. {line()}"
        for fact in facts
    ]
    size = {"lists": 4, "several at once": 2}.get(style, 1)
    join = "\n" if style == "lists" else " "
    texts = [join.join(texts[at : at + size]) for at in range(0, len(texts), size)]
    if style != "confirmed":
        return _talk(rng, texts, line, tokens), facts
    agreed = ("Yes.", "Right.", "Exactly.", "Yes, that's it.")
    said = _talk(rng, [""] * len(facts), line, tokens)
    places = [at for at, item in enumerate(said) if not item["content"]]
    for at, fact in zip(places[::-1], facts[::-1], strict=True):
        said[at] = {"role": "user", "content": rng.choice(agreed)}
        ask = {"role": "assistant", "content": f"So {fact}, is that right?"}
        said[at - 1 : at] = [ask] if at else [{"role": "user", "content": line()}, ask]
    return said, facts


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

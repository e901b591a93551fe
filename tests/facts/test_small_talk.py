"""Small talk in the form of a rule binds nobody, and gives way to what few messages say."""

from __future__ import annotations

import pytest

from ullage import compact, estimate_tokens
from ullage.facts import collect

FORMS = {
    "en": (
        "I always forget my keys, {} again.|Oh, the tram was late {}.|You should see my cat, she sat there {}.|I never sleep well {}.",
        "on Sunday|before lunch|after the game|in the rain|with the kids|at school|on the pier",
        "The invoice goes to Halvorsen.|The alarm code is 4471.|Beata takes over the choir.",
        "Never push to main.",
    ),
    "fr": (
        "J'oublie toujours mes clés, {} encore.|Non, on a mangé de la soupe {}.|Je ne dors jamais bien {}.|La mer était calme {}.",
        "dimanche|avant midi|après le match|sous la pluie|avec les enfants|chez ma tante|en ville",
        "La facture part chez Halvorsen.|Le code d'alarme est 4471.|Béatrice reprend la chorale.",
        "Ne pousse jamais sur main.",
    ),
    "zh": (
        "我总是忘记钥匙，{}又忘了。|你应该看看我的猫，{}它坐在那里。|{}电车晚点了。|我周一从来睡不好，{}也是。",
        "星期天|早饭前|比赛后|下雨时|和孩子们|在阿姨家|昨天晚上",
        "发票开给哈佛森公司。|报警密码是4471。|账目由贝塔接手。",
        "不要推送到main分支。",
    ),
}  # fmt: skip


def talk(language: str) -> tuple[list[dict[str, str]], list[str]]:
    forms, ends, facts, rule = FORMS[language]
    said = [form.format(end) for end in ends.split("|") for form in forms.split("|")] * 3
    planted = [*facts.split("|"), rule]
    for at, text in enumerate(planted):
        said.insert(5 + 7 * at, text)
    return [
        each
        for text in said
        for each in ({"role": "user", "content": text}, {"role": "assistant", "content": "I see."})
    ], planted


@pytest.mark.parametrize("language", FORMS)
def test_small_talk_worded_as_a_rule_does_not_bind(language):
    items, planted = talk(language)
    assert {rule.text for rule in collect(items).standing} == {planted[-1]}


def test_a_rule_that_is_said_again_and_again_binds():
    said = [f"Fix the {n} first. Never push to main." for n in "abcdefghijklmnopqrstuvwxyz"]
    facts = collect([{"role": "user", "content": text} for text in said])
    assert "Never push to main." in {rule.text for rule in facts.standing}


@pytest.mark.parametrize("language", FORMS)
def test_facts_stand_where_small_talk_takes_a_tenth_of_its_room(language):
    items, planted = talk(language)
    target = max(estimate_tokens(items) // 10, 200)
    text = str(compact(items, keep=0, target_tokens=target).messages)
    assert [each for each in planted if each not in text] == []


def test_rules_in_one_form_bind_all():
    rooms = "billing search mail export ledger intake".split()
    rules = [f"Do not touch the {room} module without asking me first." for room in rooms]
    work = [f"Look at the {room} module and fix part {n}." for n in range(12) for room in rooms]
    facts = collect([{"role": "user", "content": text} for text in [*rules, *work]])
    assert {rule.text for rule in facts.standing} >= set(rules)


@pytest.mark.parametrize("rule", ["Please do not touch the schema.", "Never push to main."])
def test_one_message_that_is_said_all_the_time_is_talk_unless_it_forbids(rule):
    idle = "I just remembered I need to send someone an email later."
    said = [text for n in range(20) for text in (idle, rule, f"Look at part {n} of the harbour.")]
    facts = collect([{"role": "user", "content": text} for text in said])
    assert {each.text for each in facts.standing} == {rule}


def test_messages_keep_their_numbers_where_the_newest_gave_way():
    items, context = talk("en")[0], []
    parts = [
        items[:61],
        items[61:121],
        items[121:181],
    ]  # each ends with a message of the user, which stays
    for part in parts:
        context = list(compact([*context, *part], keep=0, target_tokens=220).messages)
    last = [each["content"] for each in parts[-1] if each["role"] == "user"][-1]
    (entry,) = [each for each in collect(context).inputs if each.text == last][-1:]
    assert entry.number == sum(each["role"] == "user" for part in parts for each in part)

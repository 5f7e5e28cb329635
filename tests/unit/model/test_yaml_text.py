"""YAML that people write: what it means, its limits, and every failure in one sentence."""

import pytest

from vgpu_operator.model import errors, yaml_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        (
            "[1, 1_000, 0x10, -0, 1.5, yes, Off, ~, '5', x]",
            [1, 1000, 16, 0, 1.5, True, False, None, "5", "x"],
        ),
        (
            "[2026-01-15, 2026-99-99, 1:30, =, 1e3]",
            ["2026-01-15", "2026-99-99", "1:30", "=", "1e3"],
        ),
        ("{5: a, true: b, ~: c}", {"5": "a", "true": "b", "~": "c"}),
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}", {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}),
        ("[!!int '5', !!str 5, !!bool 'on']", [5, "5", True]),
    ],
)
def test_a_text_means_what_it_means_to_kubernetes(text: str, value: object) -> None:
    assert yaml_text.read(text).value == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!timestamp abc", "line 1: !!timestamp is none of the types that JSON has; leave it "),
        ("a:\n  b: !!int ''", "line 2: '' cannot be read as a whole number; correct it, or put "),
        ("a: " + "9" * 5000, "line 1: '" + "9" * 60 + "…' cannot be read as a whole number"),
        ("a: !!bool x", "line 1: 'x' cannot be read as true or false"),
        ("a: !!float x", "line 1: 'x' cannot be read as a number"),
        ("a: 0b_", "line 1: '0b_' cannot be read as a whole number"),
        ("a: !!binary x", "line 1: !!binary is none of the types"),
        ("a: !!python/name:os.system x", "line 1: !!python/name:os.system is none of the types"),
        ("!!map x", "line 1: a mapping is wanted here"),
        ("? [a]\n: b", "line 1: a name is wanted, not a list or mapping"),
        ("a: 1\nb: 2\na: 3", "line 3: a is already given in line 1; leave one of them out"),
        ("a: 1\n---\nb: 2", "line 2: a second document begins here"),
        ("a: *b", "line 1: it is no YAML: found undefined alias"),
        ("a:\n\t- b", "line 2: it is no YAML: "),
        ("\0", "it is no YAML: "),
        ("[" * 3000, "line 1: lists and objects are nested deeper than 100 levels"),
        ("{a: " * 3000, "line 1: lists and objects are nested deeper than 100 levels"),
        ("&a [x, *a]", "line 1: *a stands within &a itself, which never ends"),
        ("a: &a\n  <<: *a", "line 2: *a stands within &a itself, which never ends"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_line(text: str, words: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        yaml_text.read(text)

    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ('{"a": ', "}")])
def test_100_levels_are_read_and_101_are_not(opening: str, closing: str) -> None:
    fits, too_deep = (opening * n + "1" + closing * n for n in (100, 101))

    assert list(yaml_text.read_all(fits))
    with pytest.raises(errors.SettingsError, match="deeper than 100 levels"):
        list(yaml_text.read_all(too_deep))


def test_levels_behind_aliases_count() -> None:
    """Each line adds a level: line n stands for n of them."""
    lines = ["a1: &a1 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(2, 101))]

    assert yaml_text.read("\n".join(lines[:99])).value["a99"]
    with pytest.raises(errors.SettingsError, match=r"^line 100: .* deeper than 100 levels"):
        yaml_text.read("\n".join(lines))


def test_aliases_stand_for_100000_values_at_most() -> None:
    """A list of 99 numbers is 100 values, so that 1000 aliases of it are 100000."""
    few = "a: &a [" + "1, " * 98 + "1]\nb: [" + "*a, " * 999 + "*a]"

    assert len(yaml_text.read(few).value["b"]) == 1000
    with pytest.raises(errors.SettingsError, match="more than 100000 values; write out"):
        yaml_text.read(few + "\nc: *a")


def test_a_billion_laughs_are_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]

    with pytest.raises(errors.SettingsError, match=r"^line 6: the aliases up to [*]a4 stand for"):
        yaml_text.read("\n".join(lines))


def test_a_long_text_without_aliases_has_no_limit_of_values() -> None:
    assert len(yaml_text.read("- 1\n" * 150_000).value) == 150_000


def test_many_documents_follow_one_another_and_json_is_one() -> None:
    assert list(yaml_text.read_all("a: 1\n---\n---\n- b")) == [{"a": 1}, None, ["b"]]
    assert list(yaml_text.read_all(' {"a": "\\ud83d\\ude00"}')) == [{"a": "\U0001f600"}]
    assert list(yaml_text.read_all("{a: 1}\n---\n{b: 2}")) == [{"a": 1}, {"b": 2}]


def test_a_number_of_5000_digits_in_json_is_told_with_its_line() -> None:
    with pytest.raises(errors.SettingsError, match=r"^line 2: '999.*' cannot be read as a whole"):
        list(yaml_text.read_all('{"a":\n' + "9" * 5000 + "}"))


def test_a_place_is_known_by_its_line() -> None:
    document = yaml_text.read("a:\n- b: 1\n- b: 2\nc: &c {d: 1}\n")

    assert [document.line_of(path) for path in [("a", 1, "b"), ("c", "d"), ("c", "x"), ()]] == [
        3,
        4,
        4,
        1,
    ]
    assert (document.holds(("c", "d")), document.holds(("c", "x"))) == (True, False)

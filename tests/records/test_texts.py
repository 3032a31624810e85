import re

import pytest

from insular.errors import AssetError, InvalidArgumentError
from insular.records import read_packaged, texts
from insular.records._plays import utterances
from insular.records._wikitext import drop_nested, paragraphs


@pytest.fixture(scope="module")
def wikipedia():
    return read_packaged("wikipedia")


@pytest.fixture(scope="module")
def shakespeare():
    return read_packaged("shakespeare")


@pytest.mark.parametrize(
    ("markup", "plain"),
    [
        ("'''Bold''' and ''italic'' &amp; done", ["Bold and italic & done"]),
        ("[[Link]]s and [[Target|a label]]", ["Links and a label"]),
        ("a{{t|{{u|x}}|y}}b {{open", ["ab {{open"]),
        ("{| class=x\n| cell {| inner |} \n|}\nafter", ["after"]),
        ("a<ref>note [[x]]</ref>b<ref name=n/>c<!-- no\n -->d", ["abcd"]),
        ("[[File:a.png|thumb|see [[this|that]] [http://x.org y]]]text", ["text"]),
        ("[[Image:a.png|thumb|a [sic] caption]]text", ["text"]),
        ("[[Category:A]][[de:B]]text [[:Category:C]]", ["text Category:C"]),
        ("[http://x.org the label] [https://y.org]", ["the label"]),
        ("== Heading ==\nfirst\nline\n\nsecond<br/>part", ["first line", "second part"]),
        ("* one\n* two\n:: three", ["one", "two", "three"]),
        ("x ({{lang|el|y}}, ) z {{t}}.", ["x z."]),
        ("<math>a<b</math><nowiki>plain</nowiki> 1 < 2", ["plain 1 < 2"]),
        ("__NOTOC__\n\n \n", []),
    ],
)
def test_wiki_markup_by_example(markup, plain):
    assert list(paragraphs(markup)) == plain


def test_drop_nested_is_linear_in_unclosed_marks():
    assert len(drop_nested("{{" * 50_000, opening="{{", closing="}}")) == 100_000


def test_wikipedia_records(wikipedia):
    assert wikipedia.unit == "owner"
    assert wikipedia.n_owners > 90
    assert wikipedia.n_records > 4000
    assert all(len(record.text) >= 200 for record in wikipedia.records)
    assert all(record.id.startswith(f"{record.owner}:") for record in wikipedia.records)
    first = wikipedia.records[0]
    assert (first.id, first.owner) == ("wikipedia:12:1", "wikipedia:12")
    assert first.text.startswith("Anarchism is a political philosophy that advocates self-governed")


def test_wikipedia_has_no_markup_left(wikipedia):
    marks = re.compile(r"\{\{|\}\}|\[\[|\]\]|'''|<ref|</|&[a-z]+;|\n")
    assert [record.id for record in wikipedia.records if marks.search(record.text)] == []


def test_source_says_where_it_came_from(wikipedia, shakespeare):
    assert wikipedia.source.package == "gensim"
    assert wikipedia.source.licence == "CC BY-SA 3.0"
    assert shakespeare.source.version == "0.6"
    assert len(shakespeare.source.sha256) == 64


def test_utterances_by_example():
    play = (
        "A PLAY\n\nADAM.\nA servant.\n\nACT I.\n\nSCENE I. A wood.\n\n[Enter ADAM\nand EVE.]\n\n"
        "ADAM.\nSpeak, [aside] Eve!\n  Now.\n\n[Exit.]\n\nStay.\n\nLADY EVE.\nI do.\n\n"
        "BOTH\nFarewell.\n\nMARIA.\n\n[Sings.]\n\nA song\n\nExeunt.\n\nACT II.\n\nlost\n"
    )
    assert list(utterances(play)) == [
        ("adam", "Speak,  Eve!\nNow.\nStay."),
        ("lady eve", "I do."),
        ("both", "Farewell."),
        ("maria", "A song\nExeunt."),
    ]


def test_names_with_small_letters_where_a_play_writes_them_so():
    play = "Act I.\n\nHam.\nWords.\n\nLady Eve.\nI do [Exit\n"
    assert list(utterances(play)) == [("ham", "Words."), ("lady eve", "I do")]


def test_shakespeare_records(shakespeare):
    plays = {record.id.split(":")[1] for record in shakespeare.records}
    assert len(plays) == 37
    assert "sonnets" not in plays
    assert shakespeare.n_owners > 1000
    assert shakespeare.n_records > 25_000
    hamlet = [r for r in shakespeare.records if r.owner == "shakespeare:hamlet:ham"]
    assert any("To be, or not to be,--that is the question" in record.text for record in hamlet)
    assert not any("[Exit" in record.text for record in shakespeare.records)


def test_the_records_are_the_same_again(shakespeare):
    assert read_packaged("shakespeare").digest == shakespeare.digest


def test_refuses_unknown_name():
    with pytest.raises(InvalidArgumentError, match="name must be one of wikipedia, shakespeare; "):
        read_packaged("bible")


def test_unreadable_archive_is_one_line(monkeypatch, tmp_path):
    path = tmp_path / "x.tar.gz"
    path.write_bytes(b"no archive")
    monkeypatch.setattr(texts, "fetch", lambda file, progress: path)
    with pytest.raises(AssetError, match=r"shakespeare==0\.6: x\.tar\.gz cannot be read"):
        read_packaged("shakespeare")

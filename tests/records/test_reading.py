import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from insular.errors import InvalidArgumentError, RecordError
from insular.records import read_corpus

BOM = b"\xef\xbb\xbf"
USERS = b"user_id,text\nu1,a b c\n,d e f\nu2,g h i\n  ,j k l\nNaN,m n o\nu1,p q r\n"


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def texts(corpus):
    return [record.text for record in corpus.records]


def test_windows_text_file(write):
    path = write("a.txt", bytes.fromhex("efbbbf616c7068610d0a0d0a626574610d0a2020200d0a67616d6d61"))
    corpus = read_corpus(path)
    assert texts(corpus) == ["alpha", "beta", "gamma"]
    assert (corpus.n_records, corpus.blank_lines, corpus.unit) == (3, 2, "record")
    assert [record.id for record in corpus.records] == ["a:1", "a:3", "a:5"]


def test_windows_jsonl_file(write):
    content = bytes.fromhex("efbbbf7b2274657874223a202261227d0d0a0d0a7b2274657874223a202262227d")
    corpus = read_corpus(write("a.jsonl", content))
    assert texts(corpus) == ["a", "b"]
    assert (corpus.n_records, corpus.blank_lines) == (2, 1)


def test_bytes_that_are_not_in_encoding_are_an_error(write):
    path = write("a.txt", bytes.fromhex("6f6b206c696e650a636166e920616c70680a656e640a"))
    with pytest.raises(RecordError) as caught:
        read_corpus(path)
    message = str(caught.value)
    assert message.startswith("a.txt line 2: byte 0xe9 at byte offset 11 is not utf-8")
    assert "encoding='latin-1'" in message
    assert "caf" not in message
    assert caught.value.__cause__ is None
    corpus = read_corpus(path, encoding="latin-1")
    assert texts(corpus) == ["ok line", "café alph", "end"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1"])
def test_other_encodings(write, encoding):
    path = write("a.txt", "eins\r\n\r\nzwölf\r\n".encode(encoding))
    assert texts(read_corpus(path, encoding=encoding)) == ["eins", "zwölf"]


def test_utf_16_read_as_utf_8_names_the_right_encoding(write):
    with pytest.raises(RecordError, match=r"line 1: byte 0xff at byte offset 0 .*'utf-16'"):
        read_corpus(write("a.csv", "text\nx\n".encode("utf-16")))


def test_truncated_utf_16_names_the_line(write):
    with pytest.raises(RecordError, match="line 2.*is not utf-16-le"):
        read_corpus(write("a.txt", "a\nb".encode("utf-16-le")[:-1]), encoding="utf-16-le")


def test_bad_byte_after_byte_order_mark_and_lone_cr(write):
    with pytest.raises(RecordError, match="line 3: byte 0xe9 at byte offset 7 "):
        read_corpus(write("a.txt", BOM + b"a\rb\r\xe9\n"))


@pytest.mark.parametrize("encoding", ["nope", "hex"])
def test_refuses_unknown_encoding(write, encoding):
    with pytest.raises(InvalidArgumentError, match=f"encoding='{encoding}'"):
        read_corpus(write("a.txt", b"x"), encoding=encoding)


def test_lines_of_missing_owners_are_listed(write):
    with pytest.raises(RecordError) as caught:
        read_corpus(write("a.csv", USERS), owner_field="user_id")
    assert "a.csv: column 'user_id' gives no owner on lines 3, 5, 6; " in str(caught.value)
    assert "'drop'" in str(caught.value)
    assert "'own'" in str(caught.value)


def test_missing_owners_dropped(write):
    corpus = read_corpus(write("a.csv", USERS), owner_field="user_id", missing_owner="drop")
    assert texts(corpus) == ["a b c", "g h i", "p q r"]
    assert (corpus.n_owners, corpus.dropped_without_owner, corpus.owned_alone) == (2, 3, 0)
    assert corpus.missing_owner == "drop"


def test_missing_owners_own_themselves(write):
    corpus = read_corpus(write("a.csv", USERS), owner_field="user_id", missing_owner="own")
    assert (corpus.n_records, corpus.n_owners) == (6, 5)
    assert (corpus.dropped_without_owner, corpus.owned_alone) == (0, 3)
    assert corpus.missing_owner == "own"
    assert [record.owner for record in corpus.records][:3] == ["u1", "unowned:a:3", "u2"]


@pytest.mark.parametrize("value", ["null", '""', '"  "', '"NaN"', '"None"', '"NULL"', "NaN"])
def test_spellings_of_no_owner(write, value):
    path = write("a.jsonl", f'{{"text": "a", "u": 1}}\n{{"text": "b", "u": {value}}}\n')
    with pytest.raises(RecordError, match="no owner on line 2; "):
        read_corpus(path, owner_field="u")


def test_many_missing_owners_are_summed_up(write):
    path = write("a.csv", "u,text\nx,y\n" + ",z\n" * 13)
    with pytest.raises(RecordError, match="lines 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 3 more"):
        read_corpus(path, owner_field="u")


def test_nothing_left_after_dropping(write):
    path = write("a.csv", b"u,text\n,y\n\n")
    with pytest.raises(RecordError, match=r"got none \(1 blank, 1 without owner\)"):
        read_corpus(path, owner_field="u", missing_owner="drop")


def test_byte_order_mark_never_enters_a_column_name(write):
    content = "efbbbf757365725f69642c746578740a75312c68656c6c6f0a75312c776f726c640a75322c666f6f0a"
    corpus = read_corpus(write("a.csv", bytes.fromhex(content)), owner_field="user_id")
    assert [record.owner for record in corpus.records] == ["u1", "u1", "u2"]
    assert corpus.unit == "owner"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("missing_owner", ["error", "drop", "own"])
def test_with_owner_field_the_unit_is_the_owner_or_reading_fails(write, name, missing_owner):
    content = b"text\nx\ny\n" if name == "a.csv" else b'{"text": "x"}\n{"text": "y"}\n'
    with pytest.raises(RecordError, match="no column 'user' in any row"):
        read_corpus(write(name, content), owner_field="user", missing_owner=missing_owner)


def test_column_that_differs_in_case_is_suggested(write):
    path = write("a.csv", b" User ,Text\nx,y\n")
    with pytest.raises(RecordError, match="line 2: no column 'text' .*did you mean 'Text'"):
        read_corpus(path)
    with pytest.raises(RecordError, match="no column 'user' .*did you mean ' User '"):
        read_corpus(path, text_field="Text", owner_field="user", missing_owner="own")


def test_one_person_does_not_become_two_owners(write):
    rows = [{"text": "t", "u": owner} for owner in (3, 3.0, "3", " 3 ")]
    path = write("a.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_corpus(path, owner_field="u").n_owners == 1


@pytest.mark.parametrize("owner", [[1], {"a": 1}, True, 1.5])
def test_refuses_owners_of_other_types(write, owner):
    path = write("a.jsonl", json.dumps({"text": "t", "u": owner}))
    with pytest.raises(RecordError, match=r"a\.jsonl line 1: owner column 'u' must hold"):
        read_corpus(path, owner_field="u", missing_owner="own")


def test_json_list_and_parquet_and_tsv_agree_with_csv(write, tmp_path):
    rows = [{"id": "r1", "u": "a", "text": "x y"}, {"id": "r2", "u": "b", "text": "line\nend"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    paths = [
        tmp_path / "a.parquet",
        write("a.json", BOM + json.dumps(rows).encode()),
        write("a.jsonl", "\r\n".join(map(json.dumps, rows))),
        write("a.csv", 'id,u,text\r\nr1,a,x y\r\n\r\nr2,b,"line\r\nend"\r\n'),
        write("a.tsv", 'id\tu\ttext\nr1\ta\tx y\nr2\tb\t"line\nend"'),
    ]
    for path in paths:
        corpus = read_corpus(path, id_field="id", owner_field="u")
        assert [(r.id, r.owner, r.text) for r in corpus.records] == [
            ("r1", "a", "x y"),
            ("r2", "b", "line\nend"),
        ]
        assert corpus.source.name == path.name
        assert corpus.source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_ids_count_lines_and_quoted_line_ends(write):
    corpus = read_corpus(write("tickets.csv", b'text\n"a\nb"\nc\n'))
    assert [record.id for record in corpus.records] == ["tickets:2", "tickets:4"]


def test_each_row_is_a_record_duplicates_and_very_long_ones_too(write):
    long = "x" * 300_000
    corpus = read_corpus(write("a.csv", f"text\n{long}\nsame\nsame\n"))
    assert texts(corpus) == [long, "same", "same"]


def test_rows_without_text_are_skipped_and_counted(write):
    corpus = read_corpus(write("a.csv", b"u,text\nx,\nx,y\n,\n"), owner_field="u")
    assert (corpus.n_records, corpus.blank_texts, corpus.blank_lines) == (1, 1, 1)


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=5))
def test_jsonl_returns_what_was_written(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("j") / "a.jsonl"
    lines = (json.dumps({"text": text}, ensure_ascii=False) for text in ["first", *written])
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
    kept = [text for text in ["first", *written] if text.strip()]
    assert texts(read_corpus(path)) == kept


BAD = [
    ("a.jsonl", b'{"text": "a"}\n{"text": secret}\n', "a.jsonl line 2: not valid JSON"),
    ("a.jsonl", b'{"text": "a"}\n["secret"]\n', "a.jsonl line 2: a record must be a JSON object"),
    ("a.jsonl", b'{"body": "secret"}\n', "a.jsonl line 1: no column 'text' among 1 columns"),
    ("a.jsonl", b'{"text": 5}\n', "a.jsonl line 1: field 'text' must be a string, got int"),
    ("a.jsonl", b'{"text": null}\n', "a.jsonl line 1: field 'text' must be a string, got NoneType"),
    ("a.jsonl", b'{"text": "\\ud800 secret"}\n', "a.jsonl line 1: field 'text' holds half of a"),
    ("a.jsonl", b'{"text": ' + b"9" * 5000 + b"}", "a.jsonl line 1: JSON that cannot be read"),
    ("a.jsonl", b"[" * 100_000, "a.jsonl line 1: "),
    ("a.jsonl", b"", "a.jsonl must hold at least one record, got none"),
    ("a.txt", b"\n \n", "a.txt must hold at least one record, got none (2 blank"),
    ("a.json", b'{"text": "secret"}', "a.json must hold one JSON list of objects, got dict"),
    ("a.json", b'[{"text": "a"}, "secret"]', "a.json item 2: a record must be a JSON object"),
    ("a.json", b'[\n{"text": secret}]', "a.json: not valid JSON (Expecting value, line 2"),
    ("a.json", b"", "a.json must hold at least one record"),
    ("a.csv", b"u,text\nsecret\n", "a.csv line 2: a row must have 2 fields as the header, got 1"),
    ("a.csv", b"u,text\nu1,secret,b\n", "a.csv line 2: a row must have 2 fields"),
    ("a.csv", b'u,text\nu1,"secret\n', "a.csv line 2: not valid CSV"),
    ("a.csv", b"text,text\na,b\n", "a.csv line 1: column names must differ"),
    ("a.csv", b"text\n", "a.csv must hold at least one record"),
    ("a.csv", b"u1,secret\nu2,more\n", "a.csv line 2: no column 'text' among 2 columns"),
    ("a.parquet", b"PAR1 no PAR1", "a.parquet: not a readable Parquet file"),
    ("a.xlsx", b"x", "a.xlsx must end in one of .jsonl"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_bad_files_name_file_and_place_and_quote_no_text(write, name, content, message):
    with pytest.raises(RecordError) as caught:
        read_corpus(write(name, content))
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_duplicate_ids_name_both_lines(write):
    path = write("a.jsonl", b'{"k": 1, "text": "a"}\n\n{"k": "1", "text": "b"}\n')
    with pytest.raises(RecordError, match=r"a\.jsonl line 3: id '1' stands on line 1 already"):
        read_corpus(path, id_field="k")


def test_blank_id_is_an_error(write):
    with pytest.raises(RecordError, match="line 1: id column 'k' must hold"):
        read_corpus(write("a.jsonl", b'{"k": " ", "text": "a"}'), id_field="k")
    with pytest.raises(RecordError, match="no column 'id' .*or leave id_field empty to count"):
        read_corpus(write("a.jsonl", b'{"k": "1", "text": "a"}'), id_field="id")


def test_missing_file_and_folder(tmp_path):
    for name in ("none.jsonl", "none"):
        with pytest.raises(RecordError, match=f"{name} does not exist; check the path"):
            read_corpus(tmp_path / name)
    (tmp_path / "dir.csv").mkdir()
    for path in (tmp_path, tmp_path / "dir.csv"):
        with pytest.raises(RecordError, match="must be a file of records, got a folder"):
            read_corpus(path)


def test_file_format_overrides_the_suffix(write):
    path = write("a.log", b'{"text": "a"}\n')
    assert texts(read_corpus(path, file_format="jsonl")) == ["a"]
    with pytest.raises(InvalidArgumentError, match="file_format must be one of jsonl, json"):
        read_corpus(path, file_format="xml")


def test_plain_text_has_no_columns(write):
    with pytest.raises(InvalidArgumentError, match="owner_field must be empty for plain text"):
        read_corpus(write("a.txt", b"x"), owner_field="user")


def test_refuses_unknown_missing_owner(write):
    # The type checker that the suite may run under refuses it first.
    refused = (InvalidArgumentError, TypeCheckError)
    message = "missing_owner must be one of error, drop, own|parameter 'missing_owner'"
    with pytest.raises(refused, match=message):
        read_corpus(write("a.txt", b"x"), missing_owner="pool")

"""Records, their owners, and the files and batches that hold them. Imports no torch.

Reading order: ``corpus`` (what a record is), ``reading`` (files), ``packaged`` and ``texts``
(texts that come inside packages), ``tokens`` (tokenised records), ``batches`` (tensors; import
it by its own name, since it needs torch).
"""

from insular.records.corpus import Corpus, Record, Source
from insular.records.packaged import PackagedFile, fetch
from insular.records.reading import read_corpus
from insular.records.texts import read_packaged
from insular.records.tokens import TokenisedCorpus, TokenisedRecord, tokenise

__all__ = [
    "Corpus",
    "PackagedFile",
    "Record",
    "Source",
    "TokenisedCorpus",
    "TokenisedRecord",
    "fetch",
    "read_corpus",
    "read_packaged",
    "tokenise",
]

"""What an audit reads before it runs: records, the model's tokeniser, a callable under test."""

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from insular.errors import InsularError, SubjectError
from insular.evidence import InputFact
from insular.recipes.spec import AuditSpec
from insular.recipes.text import AuditText, check_context, choose_records, load_corpus

CHARACTERS_A_TOKEN = 4
"""Length of a text under test for each of ``tokens``, where the subject takes texts."""

Progress = Callable[[str, str], None]
"""Called with the name of an arm and a short line."""


def load_subject(path: str) -> Callable[..., Any]:
    """The callable that ``module:factory`` names; the factory takes nothing and returns it.

    The current folder is searched first, as with ``python -m``.

    Args:
        path: ``module:factory``.

    Returns:
        The callable under test.

    Raises:
        SubjectError: If there is no such module or factory, or it fails.
        InsularError: What the factory raised of ours, unchanged.
    """
    module_name, _, factory_name = path.partition(":")
    if not module_name or not factory_name:
        raise SubjectError(f"subject must be module:factory, got subject={path!r}.")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        factory = getattr(importlib.import_module(module_name), factory_name)
    except ImportError as error:
        raise SubjectError(f"subject {path}: module cannot be imported: {error}.") from error
    except AttributeError as error:
        raise SubjectError(
            f"subject {path}: module {module_name} has no {factory_name}."
        ) from error
    try:
        return factory()
    except InsularError:
        raise
    except Exception as error:
        raise SubjectError(
            f"subject {path}: the factory failed with {type(error).__name__}: {error}."
        ) from error


def prepare_inputs(
    spec: AuditSpec, report: Progress
) -> tuple[AuditText, tuple[InputFact, ...], Callable[[Sequence[int]], str]]:
    """Read and tokenise what an audit needs.

    Args:
        spec: Names text and model.
        report: Called with a line before long steps.

    Returns:
        The records, facts on what was read, and a function from tokens back to text.
    """
    report("", f"reading {spec.text}")
    corpus = load_corpus(spec, progress=lambda line: report("", line))
    if spec.subject and _takes_texts(spec.subject):
        in_characters = replace(spec, tokens=CHARACTERS_A_TOKEN * spec.tokens)
        text = choose_records(corpus, lambda value: [ord(c) for c in value], in_characters)
        return text, (text.fact,), lambda tokens: "".join(chr(t) for t in tokens)
    from insular.models.loading import load_decoder

    report("", f"loading {spec.model}")
    decoder = load_decoder(spec.model, progress=lambda line: report("", line))
    check_context(spec, context_tokens=decoder.context_tokens)
    text = choose_records(corpus, decoder.encode, spec)
    model = InputFact(name="model", source=spec.model, sha256=decoder.digest)
    tokenizer = decoder.tokenizer  # only this is kept: the workers load the weights themselves
    return text, (text.fact, model), lambda tokens: tokenizer.decode(list(tokens))


def _takes_texts(path: str) -> bool:
    """Whether a callable under test takes texts rather than tokens."""
    from insular.audit.callable_subject import parameter_kind

    return parameter_kind(load_subject(path), name=path) == "texts"

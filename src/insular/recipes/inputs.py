"""What an audit reads before it runs: records, the model's tokeniser, a callable under test."""

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from insular.errors import InsularError, SubjectError
from insular.evidence import InputFact
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.text import AuditText, check_context, choose_records, load_corpus

if TYPE_CHECKING:
    from insular.audit.subjects.subject import Subject

CHARACTERS_A_TOKEN = 4
"""Length of a text under test for each of ``tokens``, where the subject takes texts."""

Progress = Callable[[str, str], None]
"""Called with the name of an arm and a short line."""


@final
@dataclass(frozen=True, kw_only=True)
class AuditInputs:
    """What an audit read."""

    text: AuditText
    """Base batch and spares."""
    facts: tuple[InputFact, ...]
    """Names and digests, for the manifest."""
    under_test: "Subject | None"
    """What ``spec.subject`` names, a callable as a subject; None for a built stack."""


def load_subject(path: str) -> "Callable[..., Any] | Subject":
    """What ``module:factory`` names: the factory takes nothing and returns a callable or a subject.

    The current folder is searched first, as with ``python -m``.

    Args:
        path: ``module:factory``.

    Returns:
        The callable, or the :class:`~insular.audit.subjects.subject.Subject`, under test.

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
        from insular.audit.subjects.callable_subject import kind_and_place

        raise SubjectError(
            f"subject {path}: the factory failed with {kind_and_place(error)}."
        ) from error


def prepare_inputs(spec: AuditSpec, report: Progress) -> AuditInputs:
    """Read and tokenise what an audit needs, and load what is under test.

    Args:
        spec: Names text, model and subject.
        report: Called with a line before long steps.

    Returns:
        The inputs.
    """
    report("", f"reading {spec.text}")
    corpus = load_corpus(spec, progress=lambda line: report("", line))
    under_test = load_subject(spec.subject) if spec.subject else None
    if under_test is not None and _takes_texts(under_test, spec.subject):
        in_characters = replace(spec, tokens=CHARACTERS_A_TOKEN * spec.tokens)
        text = choose_records(corpus, lambda value: [ord(c) for c in value], in_characters)
        return AuditInputs(
            text=text,
            facts=(text.fact,),
            under_test=_as_subject(
                under_test, spec, decode=lambda tokens: "".join(chr(t) for t in tokens)
            ),
        )
    from insular.models.loading import load_decoder

    report("", f"loading {spec.model}")
    decoder = load_decoder(spec.model, progress=lambda line: report("", line))
    check_context(spec.tokens, context_tokens=decoder.context_tokens)
    text = choose_records(corpus, decoder.encode, spec)
    model = InputFact(name="model", source=spec.model, sha256=decoder.digest)
    tokenizer = decoder.tokenizer  # only this is kept: the workers load the weights themselves
    return AuditInputs(
        text=text,
        facts=(text.fact, model),
        under_test=None
        if under_test is None
        else _as_subject(under_test, spec, decode=lambda tokens: tokenizer.decode(list(tokens))),
    )


def silent(arm: str, line: str) -> None:
    """Say nothing.

    Args:
        arm: Name of an arm.
        line: A short line.
    """


def _takes_texts(under_test: "Callable[..., Any] | Subject", name: str) -> bool:
    """Whether what is under test takes texts rather than tokens."""
    from insular.audit.subjects.callable_subject import parameter_kind
    from insular.audit.subjects.subject import Subject

    return not isinstance(under_test, Subject) and parameter_kind(under_test, name=name) == "texts"


def _as_subject(
    under_test: "Callable[..., Any] | Subject",
    spec: AuditSpec,
    *,
    decode: Callable[[Sequence[int]], str],
) -> "Subject":
    """What is under test as a subject; a callable gets its texts from ``decode``."""
    from insular.audit.subjects.callable_subject import CallableSubject
    from insular.audit.subjects.subject import Subject

    if isinstance(under_test, Subject):
        return under_test
    return CallableSubject(under_test, name=spec.subject, decode=decode)

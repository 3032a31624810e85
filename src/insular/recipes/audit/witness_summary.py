"""The constructed witnesses for the terminal."""

from typing import TYPE_CHECKING

from insular.audit.witnesses.results import WitnessCase, WitnessResult

if TYPE_CHECKING:
    from rich.console import RenderableType

_WITNESSES = {"operator": "operator", "lora": "LoRA"}


def witness_blocks(result: WitnessResult) -> "tuple[RenderableType, ...]":
    """Lay the witnesses out for :func:`insular.reports.terminal.results_console`.

    Args:
        result: What was found.

    Returns:
        What the console prints, in order.
    """
    from insular.reports import terminal

    good = result.exit_code == 0
    lines = [
        f"On {result.device_name or result.device} the stock LLM.int8 operator couples records as"
        " published, and every control stays inside its bound: this machine's audits can see the"
        " defect."
        if good
        else f"On {result.device_name or result.device} the witnesses do not come out as"
        " published: do not trust an audit of LLM.int8 on this machine before you know why.",
        f"Per-record gradients: {result.engine}. A CPU result says nothing of CUDA.",
    ]
    word = "as published" if good else "not as published"
    return (
        terminal.verdict_panel(word, kind="good" if good else "bad", lines=lines),
        terminal.table(
            ("Witness", "Arm", "Mode", "Relation", "Ratio", "Expected", "Bound"),
            [_row(case) for case in result.cases],
            numeric=(4,),
        ),
    )


def _row(case: WitnessCase) -> tuple[str, ...]:
    """One case."""
    expected = "at most 1" if case.expected_ratio is None else f"{case.expected_ratio:.6g}"
    return (
        _WITNESSES.get(case.witness, case.witness),
        case.arm,
        case.mode,
        case.relation,
        f"{case.ratio:.6f}",
        expected,
        "kept" if case.within_bound else "broken",
    )

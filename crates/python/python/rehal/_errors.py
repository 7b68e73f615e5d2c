"""Errors of rehal."""

from __future__ import annotations

from typing import Any

from ._options import in_python


class Error(Exception):
    """What failed, where, and what to do about it.

    ``code`` is the name of an IREE status code, such as ``NOT_FOUND``; ``context`` says where, innermost
    first; ``advice`` says what to do, or is ``None``.
    """

    code: str
    message: str
    context: list[str]
    advice: str | None

    def __init__(
        self, code: str, message: str, context: list[str] | None = None, advice: str | None = None
    ) -> None:
        super().__init__(code, message, context, advice)
        self.code = code
        self.message = message
        self.context = list(context or [])
        self.advice = advice

    def __str__(self) -> str:
        text = f"{self.code}; {self.message}"
        if self.context:
            text += "\n  at: " + ", ".join(self.context)
        if self.advice:
            text += "\n  try: " + self.advice
        return text

    @classmethod
    def _of_json(cls, error: dict[str, Any], verb: str = "") -> Error:
        """The error of a verb, whose flags are arguments here."""
        advice = error.get("advice")
        context = [in_python(line, verb) for line in error.get("context") or []]
        message = in_python(error["message"], verb)
        return cls(error["code"], message, context, advice and in_python(advice, verb))

    @classmethod
    def _of_report(cls, report: str, verb: str = "") -> Error:
        """The error whose lines a tool prints on standard error: ``CODE; message``, then ``at:`` and
        ``try:``."""
        lines = in_python(report, verb).splitlines()
        starts = [
            i
            for i, line in enumerate(lines)
            if "; " in line and line.split("; ", 1)[0].replace("_", "").isupper()
        ]
        if not starts:
            return cls("UNKNOWN", report.strip() or "rehal ended without a message")
        message: list[str] = []
        context: list[str] = []
        advice: list[str] = []
        code, first = lines[starts[-1]].split("; ", 1)
        message.append(first)
        target = message
        for line in lines[starts[-1] + 1 :]:
            if line.startswith("  at: "):
                context, target = [line[6:]], []
            elif line.startswith("  try: "):
                advice = [line[7:]]
                target = advice
            else:
                target.append(line)
        return cls(code, "\n".join(message), context, "\n".join(advice) or None)


class Crash(Error):
    """The process that ran captured code ended by itself: a kernel crashed, or ended it.

    ``status`` is its exit status, or the negative number of the signal that ended it.
    """

    status: int

    def __init__(
        self,
        code: str,
        message: str,
        context: list[str] | None = None,
        advice: str | None = None,
        status: int = 0,
    ) -> None:
        super().__init__(code, message, context, advice)
        # A copy, such as that of another process, is made from these.
        self.args = (*self.args, status)
        self.status = status

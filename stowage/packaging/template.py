"""Objects with holes, printed as text in which Helm fills them.

A hole is a name that stands in an object where Helm shall put a value, or lines of its own. The
text of the objects is YAML only once Helm has rendered it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from stowage.console import yamltext

NAMESPACE = "hole-namespace"
"""Stands for the namespace of the release, also inside of an argument."""
IMAGE = "hole-image"

dump = functools.partial(yamltext.dump, width=100)
"""Objects as one YAML text, as `stowage install --dry-run` prints them."""
_WORDS = {NAMESPACE: "{{ .Release.Namespace }}", IMAGE: '{{ include "stowage.image" . }}'}
_LINE = re.compile(r"(?m)^(?P<before> *)(?:- )?hole-(?P<number>\d+)(?:: null)?$")
_VALUE = re.compile(r"hole-(\d+)")
_WHOLE = re.compile(r"(?m)(?<=[:-] )hole-namespace$")


class Holes:
    """The holes of one file, by number."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def value(self, expression: str) -> str:
        """Return what stands for one value, such as `.Values.ui.replicas`."""
        return self._hole(f"{{{{ {expression} }}}}")

    def lines(self, text: str) -> str:
        """Return what stands for lines, as a key whose value is None or as an item of a list.

        `@0` in the text becomes the number of spaces before the line, `@2` two more, and so on.
        """
        return self._hole(text)

    def optional(self, key: str, value: str) -> str:
        """Return what stands for an entry `key`, which is left out where the value is empty."""
        return self.lines(
            f"{{{{- with {value} }}}}\n{key}:\n  {{{{- toYaml . | nindent @2 }}}}\n{{{{- end }}}}"
        )

    def text(self, objects: Iterable[Mapping[str, Any]]) -> str:
        """Return the objects as Helm reads them; braces of their own stay what they are."""
        text = dump(objects).replace("{{", '{{ "{{" }}')
        text = _LINE.sub(self._filled, text)
        text = _VALUE.sub(lambda found: self._texts[int(found[1])], text)
        text = _WHOLE.sub("{{ .Release.Namespace | quote }}", text)
        for word, expression in _WORDS.items():
            text = text.replace(word, expression)
        return text

    def _hole(self, text: str) -> str:
        self._texts.append(text)
        return f"hole-{len(self._texts) - 1}"

    def _filled(self, found: re.Match[str]) -> str:
        before = found["before"]
        text = self._texts[int(found["number"])]
        text = re.sub(r"@(\d)", lambda each: str(len(before) + int(each[1])), text)
        return "\n".join(before + line for line in text.splitlines())


def when(condition: str, text: str) -> str:
    """Return text that is there where the condition holds."""
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"

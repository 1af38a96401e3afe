"""`Provenance`: when a file was made, by which version, from which data and with which verdict.

It is JSON in the metadata of the file, and has numbers and a fingerprint of the data, but nothing
of their content. The time is that in SOURCE_DATE_EPOCH, if it is set: the same data and seed then
give the same bytes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Self

import numpy as np

from nearfar import __version__
from nearfar.typing import Ints

_KEY = "provenance"
_FINGERPRINT_BYTES = 6


@dataclass(frozen=True)
class Provenance:
    """Where a file comes from; prints as one or two lines.

    Attributes
    ----------
    made : str
        Date and time in UTC, as "2026-11-18T14:20:00Z".
    nearfar : str
        Version of nearfar.
    data : dict of str to int
        How many rows, or queries and documents, it was learned from.
    fingerprint : str
        The same for the same rows, in any order.
    verdict : str
        What was found when it was compared; empty if it was not.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.runtime.provenance import Provenance
    >>> made = Provenance.now({"rows": 3}, np.array([7, 1, 5]), "probably better")
    >>> made.fingerprint == Provenance.now({"rows": 3}, np.array([1, 5, 7])).fingerprint
    True
    >>> Provenance.read(made.metadata) == made
    True
    """

    made: str
    nearfar: str
    data: dict[str, int]
    fingerprint: str
    verdict: str = ""

    @classmethod
    def now(cls, data: Mapping[str, int], digests: Ints, verdict: str = "") -> Self:
        """Return where a file comes from that is made now; `digests` are those of its rows."""
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
        content = np.sort(digests).astype("<i8").tobytes()
        fingerprint = blake2b(content, digest_size=_FINGERPRINT_BYTES).hexdigest()
        return cls(made, __version__, dict(data), fingerprint, verdict)

    @classmethod
    def read(cls, metadata: Mapping[str, str]) -> Self | None:
        """Return what the metadata of a file say; None if they do not, as in earlier files."""
        if _KEY not in metadata:
            return None
        try:
            entry = json.loads(metadata[_KEY])
            data = {str(name): int(number) for name, number in entry["data"].items()}
            return cls(**entry | {"data": data})
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"its entry {_KEY!r} is damaged; learn it again") from error

    @property
    def metadata(self) -> dict[str, str]:
        """What a file keeps."""
        return {_KEY: json.dumps(asdict(self))}

    def __str__(self) -> str:
        *first, last = (f"{number:,} {name}" for name, number in self.data.items())
        data = f"{', '.join(first)} and {last}" if first else last
        made = f"Made {self.made} by nearfar {self.nearfar} from {data}"
        verdict = f"\nVerdict: {self.verdict}" if self.verdict else ""
        return f"{made} (fingerprint {self.fingerprint}).{verdict}"

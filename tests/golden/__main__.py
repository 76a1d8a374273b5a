"""Write the expected timeline of every capture beside this file: `python -m tests.golden`.

With `--check` nothing is written; exit 1 names what would change.
"""

import base64
import json
import sys
from pathlib import Path

from tests.golden.derive import derive

HERE = Path(__file__).parent
CAPTURES = HERE.parent / "captures"


def lines(value: dict[str, object]) -> str:
    """JSON with one key a line, so that a change reads well in a diff."""
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value[key])}" for key in value) + "\n}\n"


def main(check: bool) -> int:
    """Derive all; 0 when the files are as derived (or were written), 1 when `check` finds a difference."""
    stale = []
    for path in sorted(CAPTURES.glob("*/*.json")):
        reads = json.loads(path.read_text())
        pieces = [(read["t_ns"], base64.b64decode(read["data_base64"])) for read in reads]
        text = lines(derive(pieces, path.with_suffix(".request").read_bytes()))
        target = HERE / path.parent.name / path.name
        if not target.exists() or target.read_text() != text:
            stale.append(target)
        if not check:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text)
    for target in stale:
        print(f"{target.relative_to(HERE)} {'differs' if check else 'written'}", file=sys.stderr)
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))

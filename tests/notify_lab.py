"""The commands of docs/notifications.md."""

from __future__ import annotations

EXAMPLES = {
    "smtp": """sh -c 'printf "To: %s\\nSubject: %s\\n\\n%s\\n" admin@lab.example "$GPUMON_TITLE" "$GPUMON_TEXT" | curl -fsS --crlf smtp://localhost --mail-from gpumon@lab.example --mail-rcpt admin@lab.example -T -'""",
    "mail": """sh -c 'echo "$GPUMON_TEXT" | mail -s "$GPUMON_TITLE" admin@lab.example'""",
    "curl": """sh -c 'curl -fsS -H "Title: $GPUMON_TITLE" --data-raw "$GPUMON_TEXT" https://ntfy.lab.example/gpus'""",
}

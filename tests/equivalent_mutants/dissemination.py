"""Of `protocol/dissemination.py`."""

_NO_REPORTS = "a shortcut: without reports there are none to look at"

EQUIVALENT = {
    (
        "Dissemination.fan_out",
        "or (share.recipients is not recipients and share.recipients != recipients)",
        "operand:1→True",
    ): "a shortcut: what is the same is equal",
    (
        "Dissemination.complaint_about",
        "if ack.reports and not ack.reports.keys() <= copy.recipients.keys():",
        "operand:1→True",
    ): _NO_REPORTS,
    (
        "Dissemination.acknowledged",
        "if copy is None or copy.child != sender or (ack.reports and self.complaint_about(sender, ack)):",
        "operand:1→True",
    ): _NO_REPORTS,
    ("Dissemination.acknowledged", "if ack.reports:", "condition:True"): _NO_REPORTS,
    (
        "Dissemination.send_ack",
        "if local.dead:",
        "condition:True",
    ): "with nobody dead it leaves out an acknowledgement to an earlier incarnation, which nobody would look at",
}

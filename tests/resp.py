"""Finds where one RESP2 or RESP3 frame ends; enough to pair commands with replies."""

_LINE_END = b"\r\n"
_BULK = b"$=!"
_AGGREGATE = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}


def frame_end(buffer: bytes | bytearray, start: int = 0) -> int | None:
    """Return the index behind the frame that begins at start, or None while it is incomplete."""
    position, frames = start, 1
    while frames:
        line_end = buffer.find(_LINE_END, position)
        if line_end < 0:
            return None
        kind = bytes(buffer[position : position + 1])
        end_of_line = line_end + len(_LINE_END)
        frames -= 1
        if kind in _AGGREGATE:
            frames += _AGGREGATE[kind] * max(0, int(buffer[position + 1 : line_end]))
        elif kind in _BULK:
            length = int(buffer[position + 1 : line_end])
            if length >= 0:
                end_of_line += length + len(_LINE_END)
        position = end_of_line
    return position if position <= len(buffer) else None


def command_name(frame: bytes) -> str:
    """Return the upper-case name of a command frame (`*3 $3 SET ...`)."""
    return frame.split(_LINE_END, 3)[2].decode().upper()


def is_out_of_band(frame: bytes) -> bool:
    """Tell a push or an attribute, which answer no command, from a reply."""
    return frame[:1] in b">|"

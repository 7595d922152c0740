"""Byte streams as training jobs write them, each with what a reader is to see."""

from typing import Final

LONG_LINE: Final = b"overrides: [" + b"'k=" + b"x" * 300_000 + b"']\nTraceback (most recent call last):\n"
GBK: Final = "训练开始\n".encode() + "警告 显存不足 已切换\n".encode("gbk") + "损失 0.42 ✅\n".encode()
INVALID: Final = (
    b"loss=0.5\n\xff\xfe\xfa garbage \xc3( \xe2\x82 end\nlog \xed\xa0\x80 half\n\xf8\x88\x80\x80\x80\nloss=0.4\n"
)
NULS: Final = b"step 1\n" + bytes(4096) + b"\nstep 2\nmodel=Orin\0 end\n"
RANKS: Final = (
    b"11: [rank11]:[E617 15:17:35.519 NCCL.cpp:681] timed out.\n"
    b"3: [rank3]: Traceback (most recent call last):\n"
    b"7: [rank7]: Trace[rank5]: Traceback (most recent call last):\n"
    b"back (most recent call last):\n"
    b"3: [rank3]: ValueError: bad sample 77\n"
    b'[rank7]:   File "a.py", line 9[rank5]:   File "a.py", line 9\n\n'
)
STAMPED: Final = (
    b"2025-07-03T14:20:51.565839352Z Traceback (most recent call last):\n2025-07-03T14:20:52Z KeyError: 'a'\n"
)
NUMBERED: Final = (
    b"[80746] [rank0]:[E321 02:07:08.408 NCCL.cpp:607] Watchdog caught a timeout\n[1744] \n"
    b"[1745]   1%|          | 10/1752\n108751 10.48.119.83: values: tensor([[-0.6758,  0.4805]],\n"
)
SEPARATORS: Final = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n".encode() + b"second\r\nthird\rfourth\n"
BURST: Final = (
    b"".join(b"Indexing.cu:1146: block: [%d,0,0] Assertion failed.\n" % n for n in range(6000)) + b"CUDA error\n"
)
PROGRESS: Final = b"".join(b"\r%3d%%|%s|" % (n, b"#" * (n // 10)) for n in range(101)) + b"\ndone\n"
COLOURED: Final = (
    b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain \x1b[2Jkept \x1b]52;c;ZXZpbA==\x07\x1b[38;5;46mgreen\nnext\n"
)

ALL: Final = {
    "long line": LONG_LINE,
    "gbk": GBK,
    "invalid": INVALID,
    "nuls": NULS,
    "ranks": RANKS,
    "stamped": STAMPED,
    "numbered": NUMBERED,
    "separators": SEPARATORS,
    "burst": BURST,
    "progress": PROGRESS,
    "coloured": COLOURED,
}

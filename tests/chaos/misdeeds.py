"""A hundred kinds of servers that misbehave: KINDS is the table, name -> function of a parts.Connection.

Most of them are a true RTSP camera up to one request (OPTIONS, DESCRIBE, SETUP, PLAY), where they do something else.
"""

import re
import socket
import struct
import threading
import time

STAGES = ("OPTIONS", "DESCRIBE", "SETUP", "PLAY")


class Gone(Exception):
    """The other side has closed the connection."""


def read_message(sock, rest):
    """One RTSP message: (head, body, what follows)."""
    while True:
        while rest[:1] == b"$" and len(rest) >= 4 and len(rest) >= 4 + struct.unpack(">H", rest[2:4])[0]:
            rest = rest[4 + struct.unpack(">H", rest[2:4])[0]:]  # RTP between the messages
        end = rest.find(b"\r\n\r\n")
        if end >= 0 and rest[:1] != b"$":
            head = rest[:end + 4]
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if len(rest) >= end + 4 + length:
                return head, rest[end + 4:end + 4 + length], rest[end + 4 + length:]
        data = sock.recv(65536)
        if not data:
            raise Gone
        rest += data


def cseq(head):
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"cseq:"):
            return line.split(b":")[1].strip()
    return b"1"


def until_gone(connection):
    """Takes what comes, answers nothing."""
    while connection.client.recv(65536):
        pass


def answer(connection, head, text, body=b""):
    connection.client.sendall(b"RTSP/1.0 " + text + b"\r\nCSeq: " + cseq(head) + b"\r\n" + body)


def endless(connection, chunk):
    while True:
        connection.client.sendall(chunk)
        if connection.proxy.endless_pause_s:
            time.sleep(connection.proxy.endless_pause_s)


def slowly(connection, data, pause=0.05):
    for byte in data:
        connection.client.sendall(bytes([byte]))
        time.sleep(pause)


# ---- What is done instead of an answer: function(connection, head of the request, the true answer)

def silence(connection, head, true):
    until_gone(connection)


def close(connection, head, true):
    pass


def reset(connection, head, true):
    connection.close(reset=True)


def garbage(connection, head, true):
    connection.client.sendall(connection.proxy.random.randbytes(4096))
    until_gone(connection)


def zeros(connection, head, true):
    endless(connection, bytes(4096))


def endless_header(connection, head, true):
    connection.client.sendall(b"RTSP/1.0 200 OK\r\nCSeq: " + cseq(head) + b"\r\n")
    endless(connection, b"X-More: " + b"m" * 1000 + b"\r\n")


def endless_line(connection, head, true):
    connection.client.sendall(b"RTSP/1.0 200 OK\r\nX-Long: ")
    endless(connection, b"m" * 4096)


def huge_body(connection, head, true):
    answer(connection, head, b"200 OK", b"Content-Type: application/sdp\r\nContent-Length: 4294967295\r\n\r\nv=0\r\n")
    until_gone(connection)


def huge_body_sent(connection, head, true):
    answer(connection, head, b"200 OK", b"Content-Type: application/sdp\r\nContent-Length: 2000000000\r\n\r\n")
    endless(connection, b"a=more:" + b"m" * 4000 + b"\r\n")


def negative_body(connection, head, true):
    answer(connection, head, b"200 OK", b"Content-Length: -1\r\n\r\n")
    until_gone(connection)


def body_is_no_number(connection, head, true):
    answer(connection, head, b"200 OK", b"Content-Length: many\r\n\r\n")
    until_gone(connection)


def slow_bytes(connection, head, true):
    slowly(connection, true)


def half(connection, head, true):
    connection.client.sendall(true[:len(true) // 2])


def half_and_silence(connection, head, true):
    connection.client.sendall(true[:len(true) // 2])
    until_gone(connection)


def refusal(status):
    def deed(connection, head, true):
        answer(connection, head, status, b"\r\n")
        until_gone(connection)
    return deed


def login(connection, head, true):
    rest = b""
    while True:  # whatever the login
        answer(connection, head, b"401 Unauthorized", b'WWW-Authenticate: Digest realm="r", nonce="n"\r\n\r\n')
        head, _, rest = read_message(connection.client, rest)


def redirect_to_itself(connection, head, true):
    url = b"rtsp://127.0.0.1:" + str(connection.proxy.port).encode() + b"/live"
    answer(connection, head, b"302 Found", b"Location: " + url + b"\r\n\r\n")
    until_gone(connection)


def another_number(connection, head, true):
    answer(connection, b"CSeq: 999999", b"200 OK", b"\r\n")
    until_gone(connection)


def another_protocol(connection, head, true):
    connection.client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    until_gone(connection)


def another_version(connection, head, true):
    connection.client.sendall(b"RTSP/9.9 200 OK\r\nCSeq: " + cseq(head) + b"\r\n\r\n")
    until_gone(connection)


def not_text(connection, head, true):
    connection.client.sendall(true.replace(b"RTSP", b"\xff\x00\xfe\r"))
    until_gone(connection)


def request_instead(connection, head, true):
    endless(connection, b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")


def channels_instead(connection, head, true):
    endless(connection, b"$\x07\x04\x00" + bytes(1024))


DEEDS = {
    "silence": silence, "close": close, "reset": reset, "garbage": garbage, "zeros": zeros,
    "endless header": endless_header, "endless line": endless_line, "4 GB body announced": huge_body,
    "2 GB body sent": huge_body_sent, "negative body": negative_body, "body's length is no number": body_is_no_number,
    "slow bytes": slow_bytes, "half an answer, closed": half, "half an answer, silence": half_and_silence,
    "404": refusal(b"404 Not Found"), "453": refusal(b"453 Not Enough Bandwidth"),
    "500": refusal(b"500 Internal Server Error"), "503": refusal(b"503 Service Unavailable"),
    "status without a number": refusal(b"OK"), "login never right": login, "redirect to itself": redirect_to_itself,
    "answer of another request": another_number, "HTTP": another_protocol, "another version": another_version,
    "no text": not_text, "requests instead": request_instead, "endless channels": channels_instead,
}


def method(head):
    return head.split(b" ", 1)[0].decode(errors="replace")


def record(port):
    """What the camera at this port answers to each request, by its method."""
    answers, rest, session = {}, b"", b""
    url = b"rtsp://127.0.0.1:" + str(port).encode() + b"/live"
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        for number, stage in enumerate(STAGES, start=1):
            target = url + (b"/stream=0" if stage == "SETUP" else b"")
            more = {"SETUP": b"Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n", "PLAY": session}.get(stage, b"")
            sock.sendall(stage.encode() + b" " + target + b" RTSP/1.0\r\nCSeq: " + str(number).encode() + b"\r\n" + more +
                         b"\r\n")
            head, body, rest = read_message(sock, rest)
            if b" 200 " not in head[:20]:
                raise RuntimeError(f"the camera answers {stage} with {head[:60]!r}")
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"session:"):
                    session = line + b"\r\n"
            answers[stage] = (head, body)
    return answers


def recorded_answer(answers, head):
    """The recorded answer to this request; one without contents where none was recorded."""
    answer_head, body = answers.get(method(head), (b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n", b""))
    return re.sub(rb"(?im)^cseq:[^\r]*", b"CSeq: " + cseq(head), answer_head, count=1) + body


def at(stage, deed):
    """A true camera up to the request `stage`, or what was recorded of one."""

    def serve(connection):
        try:
            answers = connection.proxy.recorded
            if not answers:
                connection.open_upstream()
            rest, upstream_rest = b"", b""
            while True:
                head, body, rest = read_message(connection.client, rest)
                if answers:
                    true = recorded_answer(answers, head)
                else:
                    connection.upstream.sendall(head + body)
                    answer_head, answer_body, upstream_rest = read_message(connection.upstream, upstream_rest)
                    true = answer_head + answer_body
                if method(head) == stage:
                    connection.proxy.on_misdeed()
                    deed(connection, head, true)
                    return
                connection.client.sendall(true)
        except Gone:
            pass
    return serve


# ---- What is sent instead of a stream, after PLAY

def bytes_then(data, then=until_gone):
    def deed(connection, head, true):
        connection.client.sendall(true + data)
        then(connection)
    return deed


def spoilt_stream(spoil):
    """Every RTP packet of the true camera, as `spoil` makes it."""

    def deed(connection, head, true):
        connection.client.sendall(true)
        threading.Thread(target=forward_requests, args=(connection,), daemon=True).start()
        rest = b""
        while data := connection.upstream.recv(65536):
            rest += data
            while len(rest) >= 4:
                length = 4 + struct.unpack(">H", rest[2:4])[0]
                if rest[:1] != b"$" or len(rest) < length:
                    break
                packet, rest = rest[:length], rest[length:]
                connection.client.sendall(spoil(packet))
    return deed


def forward_requests(connection):
    try:
        while data := connection.client.recv(65536):
            connection.upstream.sendall(data)
    except OSError:
        pass
    connection.close()  # a camera that sends nothing just then would be kept for good


STREAMS = {
    "silence": bytes_then(b""), "garbage": bytes_then(bytes(range(256)) * 16),
    "half a packet": bytes_then(b"$\x00\xff\xff" + bytes(100)), "empty packets": bytes_then(b"$\x00\x00\x00" * 1000),
    "packets of no channel": bytes_then(b"$\xfe\x00\x04abcd" * 1000),
    "endless garbage": bytes_then(b"", lambda connection: endless(connection, b"\x00\xff" * 2048)),
    "RTP of another version": spoilt_stream(lambda packet: packet[:4] + b"\x40" + packet[5:]),
    "RTP of another kind": spoilt_stream(lambda packet: packet[:5] + b"\x7f" + packet[6:]),
    "RTP cut short": spoilt_stream(lambda packet: packet[:2] + b"\x00\x0c" + packet[4:16] if len(packet) > 16 else packet),
    "RTP of zeros": spoilt_stream(lambda packet: packet[:16] + bytes(len(packet) - 16) if len(packet) > 16 else packet),
    "one picture's number for all": spoilt_stream(lambda packet: packet[:6] + b"\x00\x01" + packet[8:]),
}


# ---- Servers that are no RTSP at all

def at_once(deed):
    def serve(connection):
        connection.proxy.on_misdeed()
        deed(connection)
    return serve


def nothing(connection):
    until_gone(connection)


def closed_at_once(connection):
    pass


def reset_at_once(connection):
    connection.close(reset=True)


def speaks_first(connection):
    connection.client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    until_gone(connection)


def echo(connection):
    while data := connection.client.recv(65536):
        connection.client.sendall(data)


KINDS = {"nothing": at_once(nothing), "closed at once": at_once(closed_at_once), "reset at once": at_once(reset_at_once),
         "speaks first": at_once(speaks_first), "echo": at_once(echo)}
for _stage in STAGES:
    for _name, _deed in DEEDS.items():
        KINDS[f"{_stage}: {_name}"] = at(_stage, _deed)
for _name, _deed in STREAMS.items():
    KINDS[f"stream: {_name}"] = at("PLAY", _deed)
SPOILT_STREAMS = frozenset(f"stream: {name}" for name in STREAMS if name.startswith(("RTP", "one picture's")))  # of a true camera

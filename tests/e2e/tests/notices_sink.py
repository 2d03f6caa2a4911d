"""A web hook or a mail server on loopback for the tests of notices: sink.py KIND PORT TOLD [CERTIFICATE KEY] [-- ANSWERS...]

KIND: http, https, smtp, starttls. What it is told it appends to TOLD as lines of JSON. ANSWERS of a web hook, one after the other, the
last one for all that follow: a status, or `hang`.
"""
import http.server, json, socketserver, ssl, sys, threading, time

kind, port, told = sys.argv[1], int(sys.argv[2]), sys.argv[3]
rest = sys.argv[4:]
split = rest.index("--") if "--" in rest else len(rest)
files, answers = rest[:split], rest[split + 1:] or ["200"]
lock = threading.Lock()
context = None
if files:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[0], files[1])


def note(**what):
    with lock, open(told, "a") as out:
        out.write(json.dumps(what) + "\n")


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with lock:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        note(answer=answer, authorization=self.headers["authorization"], body=json.loads(body))
        if answer == "hang":
            time.sleep(60)
        self.send_response(int(answer))
        self.end_headers()
        self.wfile.write(b"as it was told\n")

    def log_message(self, *_):
        pass


class Mail(socketserver.BaseRequestHandler):
    def handle(self):
        self.lines, secure, login = self.request.makefile("rb"), False, None
        self.say("220 sink")
        while line := self.lines.readline().decode().strip():
            verb = line.split(" ")[0].upper()
            if verb == "EHLO":
                extras = ["STARTTLS"] if kind == "starttls" and not secure else ["AUTH PLAIN"] if secure else []
                names = ["sink"] + extras
                for name in names[:-1]:
                    self.say("250-" + name)
                self.say("250 " + names[-1])
            elif verb == "STARTTLS":
                self.say("220 go on")
                self.request = context.wrap_socket(self.request, server_side=True)
                self.lines, secure = self.request.makefile("rb"), True
            elif verb == "AUTH":
                login = line.split(" ")[-1]
                self.say("235 welcome")
            elif verb == "DATA":
                self.say("354 go on")
                text = []
                while (row := self.lines.readline().decode().rstrip("\r\n")) != ".":
                    text.append(row)
                note(secure=secure, login=login, mail="\n".join(text))
                self.say("250 taken as 42")
            elif verb == "QUIT":
                return self.say("221 bye")
            else:
                self.say("250 ok")

    def say(self, line):
        self.request.sendall((line + "\r\n").encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


server = Server(("127.0.0.1", port), Hook if kind.startswith("http") else Mail)
if kind == "https":
    server.socket = context.wrap_socket(server.socket, server_side=True)
print("listening", flush=True)
server.serve_forever()

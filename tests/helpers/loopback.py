"""A site on loopback that serves files, and repositories as the Hugging Face hub does."""

import contextlib
import hashlib
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENT = random.Random(0).randbytes(700_001)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
COMMIT = hashlib.sha1(b"the newest one").hexdigest()
GATED = {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to model owner/gated is restricted"}


class Site(ThreadingHTTPServer):
    """Serves `files`; `faults` lists, by path, what goes wrong next: a status, or bytes until it breaks."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}
        self.faults = {}
        self.resumes = True
        self.etag = '"v1"'
        self.login = None  # what the header of a request for a file has to say
        self.requests = []
        self.models = {}  # files by name, of each repository
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Stay quiet when a client leaves."""


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        site = self.server
        if not self.path.startswith("/api/"):  # the hub's library asks it things that are not about files
            self.server.requests.append((self.command, self.path, self.headers.get("Range")))
        faults = site.faults.get(self.path if body else f"HEAD {self.path}", [])
        fault = faults.pop(0) if faults else None
        if isinstance(fault, str):
            return self.say(int(fault))
        if "/resolve/" in self.path:
            return self.answer_as_hub(body, fault)
        if site.login not in (None, self.headers.get("Authorization")):
            return self.say(401)
        if self.path not in site.files:
            return self.say(404)
        return self.send(site.files[self.path], body, fault, {"ETag": site.etag})

    def answer_as_hub(self, body, cut):
        """/datasets/<owner>/<name>/resolve/<revision>/<path>, models without /datasets."""
        repository, _, rest = self.path.removeprefix("/datasets").partition("/resolve/")
        revision, _, name = rest.partition("/")
        common = {"X-Repo-Commit": COMMIT}
        if repository == "/owner/gated":
            allowed = self.headers.get("Authorization") == "Bearer hf_good"
            status = 401 if "Authorization" not in self.headers else 403
            return self.send(b"{}", body, None, common | {"ETag": '"c"'}) if allowed else self.say(status, GATED)
        if repository == "/owner/narrow":  # a token that may not read it
            return self.say(403, {"X-Error-Message": "Please enable access to public gated repositories"})
        if (files := self.server.models.get(repository.removeprefix("/"))) is not None:
            if name not in files:
                return self.say(404, common | {"X-Error-Code": "EntryNotFound"})
            return self.send(files[name], body, cut, common | {"ETag": f'"{hashlib.sha1(files[name]).hexdigest()}"'})
        if repository != "/owner/corpus":
            return self.say(401 if repository == "/owner/private" else 404, {"X-Error-Code": "RepoNotFound"})
        if revision not in ("main", COMMIT):
            return self.say(404, {"X-Error-Code": "RevisionNotFound"})
        if name == "vocab.txt":
            return self.send(b"[PAD]\n[UNK]\n", body, None, common | {"ETag": '"' + "b" * 40 + '"'})
        if name != "data/train-00000-of-00001.parquet":
            return self.say(404, common | {"X-Error-Code": "EntryNotFound"})
        linked = {"X-Linked-Size": str(len(CONTENT)), "X-Linked-Etag": f'"{SHA256}"'}
        # Large files live on another host, reached by a redirect.
        return self.say(302, common | linked | {"Location": f"http://localhost:{self.server.server_port}/cdn/large"})

    def say(self, status, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send(self, content, body, cut, headers):
        start = 0
        asked = self.headers.get("Range")
        unchanged = self.headers.get("If-Range") in (None, headers.get("ETag"))
        if asked and self.server.resumes and unchanged:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                return self.say(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if body:
            self.wfile.write(content[start : None if cut is None else start + cut])
        return None


@contextlib.contextmanager
def serving():
    """Serve from another thread, meanwhile."""
    server = Site()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

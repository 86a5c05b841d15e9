"""A small MCP server without dependencies: JSON-RPC lines on stdio, or HTTP."""

import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAMES = ["pid", "environment", "fail", "die", "child", "picture", "flood", "odd name/x", "more", "user", "refuse", "echo"]
listed = list(NAMES)


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def call(name):
    if name == "pid":
        return text(f"pid={os.getpid()}")
    if name == "environment":
        return text("\n".join(sorted(os.environ)))
    if name == "user":
        return text(f"user={os.getuid()}")
    if name == "fail":
        return text("it does not work", isError=True)
    if name == "die":
        print("the last words", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "child":
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        return text(f"child={child.pid} pid={os.getpid()}")
    if name == "picture":
        return {"content": [{"type": "image", "data": "QUJD", "mimeType": "image/png"}]}
    if name == "flood":
        return text("x" * 1_000_000)
    if name == "odd name/x":
        return text("odd but called")
    if name == "more":
        listed.append("another")
        return text("changed")
    if name == "another":
        return text("the new one")
    return text("unknown", isError=True)


def answer(request):
    method = request.get("method")
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "small", "version": "1"},
        }
    if method == "tools/list":
        schema = {"type": "object"}
        return {"tools": [{"name": n, "description": n, "inputSchema": schema} for n in listed]}
    if method == "tools/call":
        return call(request["params"]["name"])
    return {}


def on_stdio():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}
        if request.get("params", {}).get("name") == "more":
            change = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            print(json.dumps(change), flush=True)
        print(json.dumps(reply), flush=True)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("X-Key") != "open sesame":
            return self.send_error(403)
        if request.get("params", {}).get("name") == "refuse":
            return self.send_error(500)
        if request.get("params", {}).get("name") == "echo":
            return self.echo(400)
        if "id" not in request:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def echo(self, status):
        body = f"you sent {self.path} with {dict(self.headers)}".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(405)

    def log_message(self, *_):
        pass


mode = sys.argv[1] if len(sys.argv) > 1 else "stdio"
if mode == "http":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
elif mode == "broken":
    print("no licence was found", file=sys.stderr, flush=True)
    sys.exit(4)
elif mode == "silent":
    while True:
        time.sleep(1)
else:
    on_stdio()

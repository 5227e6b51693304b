"""A server that a test may kill."""

import json
import os
import shutil
import socket
import subprocess
import tempfile


class OwnServer:
    """Started on a port that stays the same when it is killed and started again."""

    def __init__(self, *options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.data = tempfile.mkdtemp(prefix="astrarium-py-")
        self.options = options
        self.process = None
        self.start()

    def start(self):
        command = [os.environ["ASTRARIUM_BIN"], "serve", "--port", str(self.port)]
        command += ["--data-dir", self.data, "--ready-json", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready = json.loads(self.process.stdout.readline())
        assert ready["event"] == "ready"
        self.endpoint = ready["endpoint"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)

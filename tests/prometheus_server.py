"""A real Prometheus server on a free loopback port, for tests: started, asked, and ended by its pid.

Targets are added while it runs, through a folder of target files that Prometheus watches. All calls block: from a
coroutine use `await asyncio.to_thread(server.wait_for, ...)`, so that the target being scraped can answer.
"""

import http.client
import json
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path
from typing import NamedTuple

CONFIG = """\
global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
scrape_configs:
  - job_name: tests
    file_sd_configs: [{files: ["targets/*.json"], refresh_interval: 1s}]
"""


class Series(NamedTuple):
    """One series of an instant query: its labels (`__name__` among them) and its value."""

    labels: dict[str, str]
    value: float


def free_port() -> int:
    """Give a loopback port that was free a moment ago; for servers that can't be told to bind port 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class PrometheusServer:
    """One Prometheus process; `folder` gets its config, targets, data and log."""

    def __init__(self, command: str, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        (folder / "targets").mkdir()
        (folder / "prometheus.yml").write_text(CONFIG)
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                command,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--enable-feature=exemplar-storage",
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def get(self, path: str) -> tuple[int, bytes]:
        """GET a path of the server: status and body. OSError when it does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def wait_ready(self, seconds: float = 60) -> None:
        """Return when the server answers ready. RuntimeError with its log when it ended or took longer."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                if self.get("/-/ready")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"prometheus is not ready: {(self.folder / 'prometheus.log').read_text()}")

    def scrape(self, job: str, address: str, path: str = "/metrics") -> None:
        """Scrape `address` (host:port) from now on under the label job=`job`."""
        target = [{"targets": [address], "labels": {"job": job, "__metrics_path__": path}}]
        unfinished = self.folder / "targets" / f"{job}.json.new"
        unfinished.write_text(json.dumps(target))
        unfinished.rename(unfinished.with_suffix(""))

    def forget(self, job: str) -> None:
        """Stop scraping a job."""
        (self.folder / "targets" / f"{job}.json").unlink()

    def query(self, expr: str) -> list[Series]:
        """Evaluate `expr` now: the series of an instant vector. ValueError when Prometheus refuses it."""
        status, body = self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expr}))
        if status != 200:
            raise ValueError(f"{expr}: {body.decode()}")
        result = json.loads(body)["data"]["result"]
        return [Series(series["metric"], float(series["value"][1])) for series in result]

    def wait_for(self, expr: str, seconds: float = 60) -> list[Series]:
        """Evaluate `expr` until it gives a series. TimeoutError, with the targets' state, when it never does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if series := self.query(expr):
                return series
            time.sleep(0.1)
        raise TimeoutError(f"no series for {expr}: {self.get('/api/v1/targets')[1].decode()}")

    def stop(self) -> None:
        """End the server and wait for it."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

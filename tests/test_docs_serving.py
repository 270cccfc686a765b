"""docs/serving.md: its client and its exchange of a model run, its unit files and commands can be read, and every
option and counter that it names is there."""
from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from command_lines import read
from paths import ROOT
from recognition_cases import PACKAGE, SOUNDS
from server_runs import log_until, running

from nnet3py.cli.main import load
from nnet3py.cli.process.options import Options
from nnet3py.recognition.model_folder import demo_folder
from nnet3py.recognition.server.metrics import Metrics
from nnet3py.recognition.server.options import ServerOptions
from nnet3py.recognition.server.protocol import MOST_PHRASE_WORDS
from nnet3py.recognition.server.server import origin_is_allowed

pytest.importorskip("websockets")
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
SERVE = load("serve")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def units() -> list[configparser.ConfigParser]:
    found = []
    for text in blocks("ini"):
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str      # type: ignore[assignment,method-assign]
        unit.read_string(text)
        found.append(unit)
    return found


def server_commands() -> list[list[str]]:
    """What follows ``nnet3py serve`` wherever the page starts a server."""
    lines = "".join(blocks("bash") + blocks("text")).splitlines()
    lines += [unit["Service"]["ExecStart"] for unit in units()]
    found = [shlex.split(line.partition("nnet3py serve ")[2]) for line in lines if "nnet3py serve " in line]
    assert len(found) == 3
    return found


def parsed(words: list[str]) -> tuple[list[str], Options]:
    return read(SERVE.declared, [word.replace("%i", "1") for word in words], detached_values=True)


@pytest.mark.parametrize("words", server_commands(), ids=" ".join)
def test_commands_are_understood(words: list[str]) -> None:
    args, options = parsed(words)
    assert len(args) == 1 and options.default_model == "ko"


def test_unit_files(tmp_path: Path) -> None:
    for unit, text in zip(units(), blocks("ini"), strict=True):
        service = unit["Service"]
        assert set(unit.sections()) == {"Unit", "Service", "Install"} and "MemoryDenyWriteExecute" not in service
        assert service["ExecReload"].split()[1:] == ["-HUP", "$MAINPID"]
        assert service["KillMode"] == "mixed", "signals are for the first process"
        assert float(service["TimeoutStopSec"]) > ServerOptions().drain_seconds + 5
        assert service["Environment"] == "NNET3PY_CACHE=%C/" + service["CacheDirectory"]
        if shutil.which("systemd-analyze") is None:
            continue
        path = tmp_path / ("nnet3py@.service" if "%i" in text else "nnet3py.service")
        path.write_text(text.replace("/opt/nnet3py/bin/nnet3py", sys.executable))
        name = path.with_name("nnet3py@1.service")
        if "%i" in text:
            name.symlink_to(path.name)
        done = subprocess.run(["systemd-analyze", "verify", str(name if "%i" in text else path)], capture_output=True,
                              text=True, check=False)
        assert not [line for line in done.stderr.splitlines() if "nnet3py" in line], done.stderr


def test_the_proxy_is_let_through() -> None:
    """Its address is allowed as the origin of pages, its ports are those of the processes."""
    proxy = blocks("nginx")[0]
    name = re.search(r"server_name (\S+);", proxy)
    assert name and proxy.count("{") == proxy.count("}")
    for words in server_commands()[1:]:
        allowed = parsed(words)[1].allow_origin
        assert origin_is_allowed([f"https://{name[1]}"], name[1], True, allowed)
        assert not origin_is_allowed([f"https://{name[1]}"], name[1], True, ())
    assert re.findall(r"127.0.0.1:(\d+);", proxy) == ["2700"]
    assert next(words for words in server_commands() if "--port=2700" in words)


def test_the_proxy_s_file_by_nginx(tmp_path: Path) -> None:
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("nginx is not installed")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout",
                    tmp_path / "key.pem", "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    text = re.sub(r"/etc/letsencrypt\S*/fullchain.pem", str(tmp_path / "cert.pem"), blocks("nginx")[0])
    text = re.sub(r"/etc/letsencrypt\S*/privkey.pem", str(tmp_path / "key.pem"), text)
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\n{text}}}\n")
    subprocess.run(["nginx", "-t", "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)], check=True)


def test_the_client_and_another_version(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from websockets.exceptions import ConnectionClosedError

    models = here / "models"
    shutil.copytree(PACKAGE, models / "ko")
    shutil.copytree(demo_folder(), models / "en")
    shutil.copytree(demo_folder(), here / "new-version")
    shutil.copy(SOUNDS[0], here / "a.wav")
    exchange = blocks("sh")[0].replace("/srv/models", str(models))
    assert exchange.splitlines()[-1].startswith("systemctl reload nnet3py ")
    with running("--default-model=ko", model=str(models)) as (process, port):
        client = compile(blocks("python")[0].replace("2700", str(port)), "docs/serving.md", "exec")
        exec(client, {})
        assert capfd.readouterr().out == "five two nine five\n"
        subprocess.run(["sh", "-ec", "\n".join(exchange.splitlines()[:-1])], check=True)
        process.send_signal(signal.SIGHUP)
        assert "model ko is read again" in log_until(process, "looked at again")
        exec(client, {})
        assert len(capfd.readouterr().out.split()) >= 3
        check = blocks("sh")[1].replace("2700", str(port)).replace("python3", shlex.quote(sys.executable))
        assert subprocess.run(["sh", "-c", check], check=False).returncode == 0
        with urlopen(f"http://127.0.0.1:{port}/health") as page:
            assert json.load(page)["models"] == ["ko", "en"]
        wrong = blocks("python")[0].replace("2700", str(port)).replace('"model": "ko"', '"model": "ru"')
        # leaving `with connect(…)` raises when the server's end is closed already: the reason is the same
        with pytest.raises((SystemExit, ConnectionClosedError)) as refused:
            exec(compile(wrong, "docs/serving.md", "exec"), {})
        assert re.findall(r"# such as: (.*)", PAGE)[0] in str(refused.value)
    assert (models / ".old" / "am" / "final.mdl").exists()


def test_options_have_the_values_that_are_named() -> None:
    defaults = {option.name: option.default for option in SERVE.declared}
    text = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    others = {"inplace", "model", "vosk-server", "signal"}      # of rsync, of the benchmark, of docker
    for name, value in re.findall(r"(?<!enable )--([a-z][a-z-]+)(?:=(\d[\w.]*))?", text):
        assert name in defaults or name in others, name
        if value and name in defaults and name != "host":
            assert float(value) == defaults[name], name
    assert f"{MOST_PHRASE_WORDS:,} words" in PAGE


def test_counters_are_counted() -> None:
    metrics = Metrics()
    metrics.count("reloads_total", label="failed")
    metrics.count("refused_total", label="full")
    text = metrics.text()
    named = set(re.findall(r"\b(?:nnet3py|process)_[a-z_]+", PAGE))
    assert len(named) >= 8
    if not os.path.exists("/proc/self"):
        named.discard("process_resident_memory_bytes")
    for name in named:
        assert re.search(rf"^{name}(?:_bucket)?[ {{]|^# TYPE {name} ", text, re.MULTILINE), name
    for label in re.findall(r"nnet3py_\w+(\{[^}]+\})", PAGE):
        assert label in text


def test_rules_for_alerts() -> None:
    yaml = pytest.importorskip("yaml")
    rules = yaml.safe_load(blocks("yaml")[0])["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [
        "SpeechIsSlow", "SpeechProcessEnded", "SpeechModelNotRead", "SpeechIsFull"]

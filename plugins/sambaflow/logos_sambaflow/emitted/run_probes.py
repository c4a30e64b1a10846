# mypy: ignore-errors
"""Runs the probes beside it, each compile and each run in a process of its own, and writes support.toml: what SambaFlow
on this machine does with LOGOS's spellings and with torch's operators.

    python run_probes.py                            every probe that has no result yet
    python run_probes.py --only silu                these alone
    python run_probes.py -- --graphamp-preset mp0   what follows -- goes to every compile.py

It takes Python from 3.7 on. Interrupted or killed, it goes on where it ended. Exit codes: 0 done, whatever was found,
1 nothing could be probed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = "results.json"
SUPPORT = "support.toml"
VERIFIED, FALLS_BACK, WRONG, FAILED = "verified", "falls back", "wrong", "failed"
FALLBACK = re.compile(r"f[ae]ll(s|en|ing)?[ _-]?back", re.IGNORECASE)
NO_FALLBACK = re.compile(r"\b(no|without|0|zero)\s+(\w+\s+)?f[ae]ll", re.IGNORECASE)
LONGEST = 300


class ProbeError(Exception):
    """What keeps every probe from running, in words."""


def main(argv):
    own, more = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    options = parsed(own)
    if options.versions:
        print(json.dumps(versions()))
        return 0
    # A job that its queue ends is to end what it started, as one that a person ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        index = listed()
        machine = found_versions(options.timeout)
        state = opened(machine, more, options.fresh)
        run_all(index, state, chosen(index["probes"], options.only), options)
    except ProbeError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


def parsed(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], usage="%(prog)s [options] [-- ARGUMENTS]")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="silu, or silu-float32; repeatable")
    parser.add_argument("--timeout", type=float, default=900, metavar="SECONDS", help="for one compile or run [900]")
    parser.add_argument("--retry", action="store_true", help="probe again what failed")
    parser.add_argument("--fresh", action="store_true", help="forget the results that are there")
    parser.add_argument("--versions", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def versions():
    """What is installed, asked in a process of its own."""
    import torch

    # SambaFlow API unverified
    import sambaflow

    # SambaFlow API unverified
    version = getattr(sambaflow, "__version__", None)
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    found["sambaflow"] = str(version or installed_version("sambaflow"))
    return found


def installed_version(name):
    try:
        from importlib.metadata import version  # from Python 3.8 on

        return version(name)
    except Exception:  # whatever the machine's packages raise: the probes do not depend on it
        return "unknown"


def found_versions(timeout):
    command = [sys.executable, os.path.abspath(__file__), "--versions"]
    asked = subprocess.Popen(
        command, cwd=HERE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        out, err = asked.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        asked.kill()
        raise ProbeError("importing sambaflow did not end within %g s" % timeout) from None
    if asked.returncode:
        raise ProbeError("this Python cannot import torch and sambaflow: " + last_words(err.decode("utf-8", "replace")))
    return json.loads(out.decode("utf-8").strip().split("\n")[-1])


def listed():
    """probes.json; every file of every probe is to be there before the first is run."""
    try:
        index = read_json(os.path.join(HERE, "probes.json"))
        for probe in index["probes"]:
            digest(probe)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProbeError("the folder is not whole (%r); copy it anew" % error) from None
    return index


def opened(machine, arguments, fresh):
    """The results so far: of this machine and these arguments, or none."""
    path = os.path.join(HERE, RESULTS)
    state = {"machine": machine, "arguments": arguments, "results": {}}
    if fresh or not os.path.exists(path):
        return state
    try:
        known = read_json(path)
        for result in known["results"].values():
            result["digest"], result["finding"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProbeError("%s cannot be read (%s); give --fresh to begin anew" % (RESULTS, error)) from None
    for key in ("machine", "arguments"):
        if known.get(key) != state[key]:
            what = "%s is of another %s: %s, not %s" % (RESULTS, key.rstrip("s"), known.get(key), state[key])
            raise ProbeError(what + "; move it away with support.toml to keep both, or give --fresh")
    return known


def chosen(probes, only):
    unknown = [name for name in only if not any(is_named(probe, name) for probe in probes)]
    if unknown:
        raise ProbeError("--only %s: there is no such probe; probes.json lists them" % unknown[0])
    return [probe for probe in probes if not only or any(is_named(probe, name) for name in only)]


def is_named(probe, name):
    return name in (probe["name"], probe["name"] + "-" + probe["dtype"], probe["folder"])


def run_all(index, state, probes, options):
    due = [probe for probe in probes if is_due(state["results"].get(probe["folder"]), probe, options.retry)]
    print("%d of %d probes to run; results in %s" % (len(due), len(probes), os.path.join(HERE, SUPPORT)), flush=True)
    began = time.time()
    for number, probe in enumerate(due, 1):
        result = probed(probe, state["arguments"], options.timeout)
        state["results"][probe["folder"]] = result
        write_text(os.path.join(HERE, RESULTS), json.dumps(state, indent=1) + "\n")
        write_text(os.path.join(HERE, SUPPORT), support_text(index, state))
        left = (time.time() - began) / number * (len(due) - number)
        named = "%s %s %s" % (probe["kind"], probe["name"], probe["dtype"])
        print("[%d/%d] %s: %s (%.0f s left)" % (number, len(due), named, said(result), left), flush=True)
    write_text(os.path.join(HERE, SUPPORT), support_text(index, state))
    found = [result["finding"] for result in state["results"].values()]
    counts = ["%d %s" % (found.count(finding), finding) for finding in (VERIFIED, FALLS_BACK, WRONG, FAILED)]
    print(", ".join(counts))


def is_due(known, probe, retry):
    return known is None or known["digest"] != digest(probe) or (retry and known["finding"] == FAILED)


def digest(probe):
    """Of what is run: a probe that was written anew is run anew."""
    whole = hashlib.sha256()
    for name in ("module.py", "compile.py", "values.json"):
        with open(os.path.join(HERE, probe["folder"], name), "rb") as file:
            whole.update(hashlib.sha256(file.read()).digest())
    return whole.hexdigest()


def probed(probe, arguments, timeout):
    """The result of one probe: always one, whatever happens to its processes."""
    folder = os.path.join(HERE, probe["folder"])
    result = {"digest": digest(probe), "compiled": False, "fell_back": False}
    began = time.time()
    pef = os.path.join("out", "probe", "probe.pef")
    remove(os.path.join(folder, "outputs.json"))
    compiling = ["compile", "--inference", "--pef-name", "probe", *arguments]
    failure, log = ended(folder, compiling, "compile.log", timeout)
    if failure is None:
        result["compiled"] = True
        failure, more = ended(folder, ["run", "--inference", "--pef", pef, *arguments], "run.log", timeout)
        log += "\n" + more
    lines = [line.strip() for line in log.split("\n")]
    fallbacks = [line for line in lines if FALLBACK.search(line) and not NO_FALLBACK.search(line)]
    if fallbacks:
        result.update(fell_back=True, log=fallbacks[0][:LONGEST])
    if failure is None:
        failure, far = compared(folder)
        if failure is None:
            result.update(difference=far, bound=probe["bound"])
    if failure is not None:
        result.update(finding=FAILED, message=failure[:LONGEST])
    elif not result["difference"] <= probe["bound"]:
        result["finding"] = WRONG
    else:
        result["finding"] = FALLS_BACK if fallbacks else VERIFIED
    result["seconds"] = round(time.time() - began, 3)
    return result


def ended(folder, arguments, log, timeout):
    """Runs compile.py: what went wrong (None: nothing), and what it said."""
    path = os.path.join(folder, log)
    with open(path, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "compile.py", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                # With what it started: a compiler that goes on would slow every probe that follows.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    with open(path, "rb") as file:
        words = file.read().decode("utf-8", "replace")
    if code is None:
        return "%s did not end within %g s" % (arguments[0], timeout), words
    if code < 0:
        return "%s: ended by signal %d" % (arguments[0], -code), words
    if code:
        return "%s: %s" % (arguments[0], last_words(words) or "exit code %d" % code), words
    return None, words


def last_words(text):
    """The last line that speaks of an error, else the last line."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    errors = [line for line in lines if re.search("error|exception", line, re.IGNORECASE)]
    return (errors or lines or [""])[-1]


def compared(folder):
    """What is wrong with the outputs' form (None: nothing), and how far they lie from what is due: the largest
    difference over all elements, divided by the largest value that is due."""
    try:
        outputs = read_json(os.path.join(folder, "outputs.json"))
    except (OSError, ValueError) as error:
        return "run: no outputs were written (%s)" % error, None
    due = read_json(os.path.join(folder, "values.json"))["expected"]
    if len(outputs) != len(due):
        return "run: %d outputs; %d are due" % (len(outputs), len(due)), None
    for number, (found, expected) in enumerate(zip(outputs, due)):
        if shape(found) != shape(expected):
            return "run: output %d has shape %s; %s is due" % (number, shape(found), shape(expected)), None
    return None, max(difference(flat(expected), flat(found)) for found, expected in zip(outputs, due))


def shape(values):
    return [len(values), *shape(values[0])] if isinstance(values, list) else []


def flat(values):
    return [one for part in values for one in flat(part)] if isinstance(values, list) else [values]


def difference(due, found):
    if due == found:
        return 0.0
    if not all(math.isfinite(one) for one in found):
        return math.inf
    largest = max(abs(one) for one in due)
    return max(abs(a - b) for a, b in zip(due, found)) / largest if largest else math.inf


def said(result):
    if result["finding"] == FAILED:
        return "failed: " + result["message"]
    far = "%.3g of %.3g, %.1f s" % (result["difference"], result["bound"], result["seconds"])
    return "%s, %s%s" % (result["finding"], far, ": " + result["log"] if result["finding"] == FALLS_BACK else "")


def support_text(index, state):
    """support.toml: the probes in their order, every finding's keys in one order."""
    lines = ["# What SambaFlow on this machine does, as run_probes.py found it. For [target.rdu-sambaflow]: support."]
    head = {key: index[key] for key in ("schema", "version", "generator")}
    lines += pairs(dict(head, arguments=state["arguments"]))
    lines += ["", "[machine]", *pairs({key: state["machine"][key] for key in ("python", "torch", "sambaflow")})]
    for probe in index["probes"]:
        result = state["results"].get(probe["folder"])
        if result is not None:
            lines += ["", "[%s]" % ".".join(toml_key(probe[key]) for key in ("kind", "name", "dtype"))]
            order = ("finding", "compiled", "fell_back", "difference", "bound", "seconds", "log", "message")
            lines += pairs({key: probe[key] for key in ("op", "digest") if key in probe})
            lines += pairs({key: result[key] for key in order if key in result})
    return "\n".join(lines) + "\n"


def pairs(values):
    return ["%s = %s" % (toml_key(key), toml_value(value)) for key, value in values.items()]


def toml_key(key):
    return key if re.match(r"[A-Za-z0-9_-]+\Z", key) else toml_value(key)


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(one) for one in value) + "]"
    if isinstance(value, str):
        return '"' + "".join(map(toml_character, value)) + '"'
    return repr(value)


def toml_character(character):
    if character in '"\\':
        return "\\" + character
    if not character.isprintable():
        return "\\U%08X" % (ord(character) if not 0xD800 <= ord(character) < 0xE000 else 0xFFFD)
    return character


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_text(path, text):
    """Whole or not at all, whenever the process ends."""
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def remove(path):
    if os.path.exists(path):
        os.remove(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""logos_local: the Python and the LOGOS that are installed on this machine, as the logos_tool @NAME//:logos."""

_BUILD = """\
load("@rules_logos//:logos.bzl", "logos_tool")

package(default_visibility = ["//visibility:public"])

filegroup(
    name = "files",
    srcs = glob(["python/**"]),
)

logos_tool(
    name = "logos",
    arguments = ["-I", "-m", "logos"],
    command = "python/bin/python3",
    # No bytecode is written where inputs lie; PATH is where executors have a shell and a host compiler.
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
    files = [":files"],
)
"""

def _logos_local_impl(ctx):
    python = ctx.attr.python or ctx.os.environ.get("LOGOS_PYTHON") or ctx.which("python3")
    if not python:
        fail("there is no python3 on PATH: say which with logos_local(python = ...), or in LOGOS_PYTHON")
    gather = ctx.path(ctx.attr._gather)
    ran = ctx.execute([python, "-I", gather, ctx.path("python")] + ctx.attr.distributions, timeout = 1800)
    if ran.return_code != 0:
        fail(ran.stderr)
    if ran.stderr:
        print(ran.stderr)  # buildifier: disable=print
    ctx.file("BUILD.bazel", _BUILD, executable = False)

logos_local = repository_rule(
    implementation = _logos_local_impl,
    doc = "Copies an interpreter, its standard library and LOGOS with all that it needs.",
    attrs = {
        "distributions": attr.string_list(
            default = ["logos-build"],
            doc = "Installed distributions to take, each with those it requires: plugins, nvidia-cuda-nvcc.",
        ),
        "python": attr.string(doc = "An interpreter by its path; else LOGOS_PYTHON, else the python3 on PATH."),
        "_gather": attr.label(default = "@rules_logos//:gather.py", allow_single_file = True),
    },
    environ = ["LOGOS_PYTHON"],
    configure = True,
)

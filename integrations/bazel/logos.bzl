"""Rules that build LOGOS's programs: logos_program and logos_artifact; logos_tool is the command that they run.

An action declares all that it reads, so it runs in a sandbox and on remote executors.
"""

LogosProgramInfo = provider(
    doc = "A program and where its weights come from.",
    fields = {
        "checkpoint": "the checkpoint's first file, or None",
        "family": "whose naming decides which variables are weights; empty: the checkpoint's",
        "files": "depset of every file that a build of the program reads",
        "src": "the program's file",
        "weights": "the path of the folder of weight files, or None",
    },
)

LogosToolInfo = provider(
    doc = "The command `logos` with all that it reads.",
    fields = {
        "arguments": "what stands before the command's own arguments",
        "env": "the whole environment of its actions",
        "executable": "its file",
        "files": "depset of every file that it reads",
    },
)

def _folder(files):
    """The path of the one folder in which files lie."""
    if len(files) == 1 and files[0].is_directory:
        return files[0].path
    folders = {file.dirname: None for file in files}
    if len(folders) > 1:
        fail("the files of one folder are a program's weights, not of several: " + ", ".join(folders.keys()), "weights")
    return folders.keys()[0] if folders else None

def _logos_program_impl(ctx):
    checkpoint = ctx.files.checkpoint
    files = [ctx.file.src] + checkpoint + ctx.files.weights
    return [
        DefaultInfo(files = depset([ctx.file.src])),
        LogosProgramInfo(
            src = ctx.file.src,
            checkpoint = checkpoint[0] if checkpoint else None,
            weights = _folder(ctx.files.weights),
            family = ctx.attr.family,
            files = depset(files),
        ),
    ]

logos_program = rule(
    implementation = _logos_program_impl,
    doc = "A program, with the checkpoint or the weight files that its weights come from.",
    attrs = {
        "checkpoint": attr.label_list(allow_files = True, doc = "The checkpoint's file; its first shard, then the others."),
        "family": attr.string(doc = "As `logos build --family`."),
        "src": attr.label(allow_single_file = True, mandatory = True, doc = "The program."),
        "weights": attr.label_list(allow_files = True, doc = "The weight files of one folder."),
    },
)

def _logos_artifact_impl(ctx):
    program = ctx.attr.program[LogosProgramInfo]
    logos = ctx.attr.logos[LogosToolInfo]
    out = ctx.actions.declare_directory(ctx.label.name)

    args = ctx.actions.args()
    args.add_all(logos.arguments)
    args.add_all(["build", program.src, "--target", ctx.attr.target, "--once", "-q"])
    args.add_all([out], before_each = "--out", expand_directories = False)
    args.add("-j", ctx.attr.jobs)
    if program.checkpoint:
        args.add_all([program.checkpoint], before_each = "--checkpoint", expand_directories = False)
    if program.weights:
        args.add("--weights", program.weights)
    if program.family:
        args.add("--family", program.family)
    for key, value in ctx.attr.options.items():
        args.add("-D", key + "=" + value)
    for label, key in ctx.attr.option_files.items():
        if len(label.files.to_list()) != 1:
            fail("%s is not one file" % label.label, "option_files")
        args.add("-D", label.files.to_list()[0], format = key + "=%s")
    args.add_all(ctx.attr.hold, before_each = "--hold")

    ctx.actions.run(
        outputs = [out],
        inputs = depset(ctx.files.option_files, transitive = [program.files]),
        executable = logos.executable,
        tools = logos.files,
        arguments = [args],
        env = logos.env,
        mnemonic = "LogosBuild",
        progress_message = "Building %s for %s" % (ctx.label, ctx.attr.target),
        execution_requirements = {"block-network": "1"},
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

logos_artifact = rule(
    implementation = _logos_artifact_impl,
    doc = "The artifact of a program for a target: one folder, the bytes that `logos build` makes.",
    attrs = {
        "hold": attr.string_list(doc = "Fusion steps that are not to act."),
        "jobs": attr.int(default = 1, doc = "How many steps of the artifact run at once."),
        "logos": attr.label(
            cfg = "exec",
            default = "@logos//:logos",
            doc = "The logos_tool that builds it.",
            providers = [LogosToolInfo],
        ),
        "option_files": attr.label_keyed_string_dict(
            allow_files = True,
            doc = "Options of the target that take a file, such as {\":tune.toml\": \"tune\"}.",
        ),
        "options": attr.string_dict(doc = "Options of the target."),
        "program": attr.label(providers = [LogosProgramInfo], mandatory = True),
        "target": attr.string(mandatory = True, doc = "The target's name, as `logos targets` lists it."),
    },
)

def _logos_tool_impl(ctx):
    command = ctx.attr.command[DefaultInfo]
    return [LogosToolInfo(
        arguments = ctx.attr.arguments,
        env = ctx.attr.env,
        executable = ctx.executable.command,
        files = depset(ctx.files.files, transitive = [command.files, command.default_runfiles.files]),
    )]

logos_tool = rule(
    implementation = _logos_tool_impl,
    doc = "The command `logos` with all that it reads: an executable target with its runfiles, or an interpreter.",
    attrs = {
        "arguments": attr.string_list(doc = "What stands before the command's own arguments."),
        "command": attr.label(executable = True, allow_files = True, cfg = "exec", mandatory = True),
        "env": attr.string_dict(doc = "The whole environment of its actions."),
        "files": attr.label_list(allow_files = True, doc = "What it reads beside its runfiles: packages, a CUDA toolkit."),
    },
)

"""What a target is told of what was asked for."""

from __future__ import annotations

from pathlib import Path

from logos import Job, Request, make_job, make_manager


def test_a_job_names_the_steps_that_are_held(tmp_path: Path) -> None:
    program = tmp_path / "p.lg"
    program.write_text("Let x be a 1 by 2 tensor of Real.\nLet y be x plus x.\n", encoding="utf-8")
    for hold in ((), ("glue",)):
        _, job = make_job(make_manager(), Request(program, hold=hold), "rdu-sambaflow")
        assert job.hold == hold
    assert Job(job.graph, job.binding, job.options).hold == ()

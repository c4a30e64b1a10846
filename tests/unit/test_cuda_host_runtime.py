"""The CUDA runtime's functions on the host: limits, errors, streams, events and graphs, as CUDA documents them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_host import ORDERS, build, text

LAUNCHES = """\
cudaPeekAtLastError(): cudaErrorInvalidConfiguration
cudaGetLastError(): cudaErrorInvalidConfiguration
cudaGetLastError(): cudaSuccess
cudaGetLastError(): cudaErrorInvalidConfiguration
cudaGetLastError(): cudaErrorInvalidConfiguration
cudaGetLastError(): cudaErrorInvalidConfiguration
cudaGetLastError(): cudaErrorInvalidConfiguration
cudaGetLastError(): cudaErrorInvalidConfiguration
cudaGetLastError(): cudaErrorInvalidValue
cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449): cudaErrorInvalidValue
cudaGetLastError(): cudaErrorInvalidValue
cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448): cudaSuccess
cudaGetLastError(): cudaSuccess
cudaMemcpy(first, x, sizeof first, cudaMemcpyDeviceToHost): cudaSuccess
57 56
1 299 299
"""

COPIES = """\
cudaMemcpy(x, mine, sizeof mine, cudaMemcpyHostToDevice): cudaSuccess
cudaMemset(x + 1, 1, 4): cudaSuccess
cudaMemcpy(mine, x, 8, cudaMemcpyDefault): cudaSuccess
1 16843009 0
cudaMemcpy(mine, x, 257 * 4, cudaMemcpyDeviceToHost): cudaErrorInvalidValue
cudaMemcpy(x, x + 255, 8, cudaMemcpyDeviceToDevice): cudaErrorInvalidValue
cudaMemset(x + 255, 0, 8): cudaErrorInvalidValue
cudaMemcpy(mine, mine + 2, 4, cudaMemcpyHostToDevice): cudaErrorInvalidValue
cudaFree(x + 1): cudaErrorInvalidValue
cudaFreeHost(x): cudaErrorInvalidValue
cudaFree(nullptr): cudaSuccess
cudaMalloc(&none, 0): cudaSuccess
1
cudaSetDevice(0): cudaSuccess
cudaSetDevice(99): cudaErrorInvalidDevice
invalid device ordinal, no error
"""

STREAMS = """\
5
cudaEventElapsedTime(&milliseconds, from, to): cudaErrorNotReady
cudaEventSynchronize(to): cudaSuccess
1
cudaEventElapsedTime(&milliseconds, from, to): cudaSuccess
1
cudaEventDestroy(from): cudaSuccess
cudaStreamDestroy(stream): cudaSuccess
cudaFreeHost(pinned): cudaSuccess
"""

CAPTURES = """\
cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal): cudaErrorStreamCaptureUnsupported
cudaStreamEndCapture(stream, &graph): cudaErrorIllegalState
cudaMalloc(&memory, 4): cudaErrorStreamCaptureUnsupported
cudaStreamEndCapture(stream, &graph): cudaErrorStreamCaptureInvalidated
0
cudaMemcpy(&mine, x, 4, cudaMemcpyDeviceToHost): cudaErrorStreamCaptureImplicit
cudaStreamEndCapture(stream, &graph): cudaErrorStreamCaptureInvalidated
0
cudaStreamSynchronize(stream): cudaErrorStreamCaptureUnsupported
cudaStreamEndCapture(stream, &graph): cudaErrorStreamCaptureInvalidated
0
cudaDeviceSynchronize(): cudaErrorStreamCaptureUnsupported
cudaStreamEndCapture(stream, &graph): cudaErrorStreamCaptureInvalidated
0
count_up: cudaErrorStreamCaptureImplicit
cudaStreamEndCapture(stream, &graph): cudaErrorStreamCaptureInvalidated
0
add: cudaErrorInvalidConfiguration
cudaStreamEndCapture(stream, &graph): cudaErrorStreamCaptureInvalidated
0
cudaMalloc(&memory, 4): cudaSuccess
cudaStreamEndCapture(stream, &graph): cudaSuccess
1
cudaStreamEndCapture(stream, &graph): cudaErrorStreamCaptureUnjoined
cudaStreamEndCapture(stream, &graph): cudaErrorStreamCaptureUnjoined
cudaStreamSynchronize(stream): cudaSuccess
cudaGetLastError(): cudaSuccess
"""


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "sanitized"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("runtime", tmp_path_factory.mktemp("cuda"), sanitize=request.param)


@pytest.mark.parametrize(
    ("case", "said"),
    [("launches", LAUNCHES), ("copies", COPIES), ("streams", STREAMS), ("captures", CAPTURES)],
)
def test_the_runtime_answers_as_cuda_does(program: Path, case: str, said: str) -> None:
    assert text(program, case) == said


def steps(count: int) -> int:
    """The sum that `replays` prints, by the recurrence of its two kernels."""
    row = [0] * 256
    for counter in range(count):
        row = [(3 * x + counter) % 2**32 for x in row]
    return sum(x * (2 * i + 1) for i, x in enumerate(row)) % 2**32


def test_replays_of_a_graph_equal_plain_launches(program: Path) -> None:
    for order in ORDERS:
        lines = text(program, "replays", order=order).splitlines()
        (printed,) = [line for line in lines if not line.startswith("cuda")]
        assert printed == f"2 {steps(64)} {steps(64)}"
        assert all(line.endswith(": cudaSuccess") for line in lines if line != printed)

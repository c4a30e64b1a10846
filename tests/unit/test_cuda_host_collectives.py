"""What threads of a block exchange on the host: against CUDA's rules, under sanitizers and in several orders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cuda_host import ORDERS, build, numbers, run


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["plain", "sanitized"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("collectives", tmp_path_factory.mktemp("cuda"), sanitize=request.param)


def shuffle_source(kind: int, lane: int, argument: int, width: int) -> int:
    """The lane that `shfl.sync` reads, as the PTX manual's pseudo-code has it."""
    segment = (32 - width) & 31
    clamp = 0 if kind == 1 else 31
    most = (lane & segment) | (clamp & ~segment)
    b = argument & 31
    source, inside = {
        0: ((lane & segment) | (b & ~segment), True),
        1: (lane - b, lane - b >= most),
        2: (lane + b, lane + b <= most),
        3: (lane ^ b, lane ^ b <= most),
    }[kind]
    return source if inside else lane


def test_shuffles_bring_the_value_of_the_lane_that_ptx_names(program: Path) -> None:
    printed = numbers(program, "shuffles")
    assert len(printed) == 4 * 6 * 35
    for name, got in printed.items():
        kind, width, argument = map(int, name.split(","))
        assert got == [10 * shuffle_source(kind, lane, argument, width) + 3 for lane in range(32)], name


def test_two_masks_at_one_place_are_two_gatherings(program: Path) -> None:
    for order in ORDERS:
        got = np.reshape(numbers(program, "halves", order=order)["halves"], (5, 64))
        thread = np.arange(64)
        lane, first = thread % 32, thread // 32 * 32
        low = lane < 12
        votes = [sum(1 << i for i in range(32) if (w * 32 + i) % 3 == 0) for w in range(2)]
        masks = np.where(low, 0xFFF, 0xFFFFF000)
        assert got[0].tolist() == ((1 << 40) + first + np.where(low, 11, 12)).tolist()
        assert got[1].tolist() == (np.array(votes)[thread // 32] & masks).tolist()
        assert got[2].tolist() == low.astype(int).tolist()
        assert got[3].tolist() == (~low).astype(int).tolist()
        assert got[4].tolist() == np.where(low, lane ^ 1, lane).tolist()


@pytest.mark.parametrize("threads", [33, 100])
def test_a_block_whose_last_warp_is_not_whole(program: Path, threads: int) -> None:
    for order in ORDERS:
        got = np.reshape(numbers(program, "partial", order=order)[str(threads)], (6, threads))
        thread = np.arange(threads)
        lanes = np.minimum(32, threads - thread // 32 * 32)
        assert got[0].tolist() == lanes.tolist()
        assert got[1].tolist() == (thread // 32 * 32 + lanes - 1).tolist()
        assert got[2].tolist() == [threads // 2] * threads
        assert got[3:].tolist() == [[1] * threads, [0] * threads, [1] * threads]


def test_threads_that_have_returned_are_not_waited_for(program: Path) -> None:
    for order in ORDERS:
        got = np.reshape(numbers(program, "early", order=order)["early"], (3, 128))
        there = np.arange(128) < 45
        assert got[0].tolist() == np.where(there, 45 - np.arange(128), 0).tolist()
        assert got[1].tolist() == np.where(there, 45, 0).tolist()
        assert got[2].tolist() == np.where(there & (np.arange(128) % 2 == 0), 1, 0).tolist()


def test_the_lanes_of_a_branch_are_the_active_ones(program: Path) -> None:
    for order in ORDERS:
        got = np.reshape(numbers(program, "active", order=order)["active"], (3, 32))
        thirds = sum(1 << lane for lane in range(0, 32, 3))
        assert got[0].tolist() == [30 if lane % 3 == 0 else 100 for lane in range(32)]
        assert got[1].tolist() == [thirds if lane % 3 == 0 else 0xFFFFFFFF ^ thirds for lane in range(32)]
        assert got[2].tolist() == got[0][::-1].tolist()


def unpacked(words: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    return np.array(words, dtype=np.uint32).view(np.int8)


def test_mma_multiplies_by_the_layout_of_the_ptx_manual(program: Path) -> None:
    """m16n8k32 of .s8: the row and column of each element of a lane's fragments, from the manual's formulas."""
    printed = numbers(program, "multiply")
    for warp in range(2):
        a = unpacked(printed["a"]).reshape(2, 32, 16)[warp]
        b = unpacked(printed["b"]).reshape(2, 32, 8)[warp]
        c, d = (np.reshape(printed[name], (2, 32, 4))[warp] for name in "cd")
        A, B = np.zeros((16, 32), np.int64), np.zeros((32, 8), np.int64)
        for lane in range(32):
            group, place = lane >> 2, lane % 4
            for i in range(16):
                row = group if i < 4 or 8 <= i < 12 else group + 8
                A[row, place * 4 + (i & 3) + (0 if i < 8 else 16)] = a[lane, i]
            for i in range(8):
                B[place * 4 + (i & 3) + (0 if i < 4 else 16), group] = b[lane, i]
        product = A @ B
        for lane in range(32):
            group, place = lane >> 2, lane % 4
            for i in range(4):
                exact = int(c[lane, i]) + product[group if i < 2 else group + 8, place * 2 + (i & 1)]
                assert d[lane, i] == (exact + 2**31) % 2**32 - 2**31


def test_matrices_are_loaded_by_the_layout_of_the_ptx_manual(program: Path) -> None:
    """ldmatrix.m8n8.x4: lane 4 g + t has the t-th four bytes of row g of each matrix, 8 i + g being that row's lane."""
    for order in ORDERS:
        got = np.reshape(numbers(program, "matrices", order=order)["matrices"], (32, 4))
        assert got.tolist() == [[4 * (8 * i + lane // 4) + lane % 4 for i in range(4)] for lane in range(32)]


def test_where_a_copy_goes_is_poison_until_it_lands(program: Path) -> None:
    """What lay there, be it another step's data, is nobody's to read."""
    printed = run(program, "copies", poison=True).stdout.split()
    got = np.reshape([int(word) for word in printed[1:]], (4, 64))
    assert set(got[0].tolist()) == {np.array([0xFB, 0x7F, 0xFB, 0x7F], np.uint8).view(np.int32)[0]}
    assert got[1].tolist() == (4 * (63 - np.arange(64))).tolist()


def test_a_copy_lands_at_the_wait_that_covers_its_group(program: Path) -> None:
    for order in ORDERS:
        got = np.reshape(numbers(program, "copies", order=order)["copies"], (4, 64))
        thread = np.arange(64)
        assert got[0].tolist() == [-1] * 64
        assert got[1].tolist() == (4 * (63 - thread)).tolist()
        assert got[2].tolist() == [-1] * 64
        assert got[3].tolist() == (256 + 4 * (63 - thread) + 2).tolist()


def test_every_thread_knows_its_place_and_shares_its_blocks_arrays(program: Path) -> None:
    for order in ORDERS:
        got = np.reshape(numbers(program, "places", order=order)["places"], (12, 60))
        assert got.tolist() == [[1000 * block + 10 * (59 - t) + 7 for t in range(60)] for block in range(12)]


def test_blocks_and_warps_run_in_the_order_asked_for(program: Path) -> None:
    got = {order: numbers(program, "tickets", order=order, threads=1)["tickets"] for order in ORDERS}
    assert got["forward"] == [*range(100), 100, *[1] * 100]
    assert got["reverse"] == [*range(99, -1, -1), 100, *[0] * 100]
    for order in ORDERS[2:]:
        assert sorted(got[order][:100]) == list(range(100))
        assert set(got[order][101:]) == {0, 1}
    assert len({tuple(printed) for printed in got.values()}) == len(ORDERS)


def test_threads_take_turns_anew_after_a_barrier(program: Path) -> None:
    turns = {order: np.reshape(numbers(program, "turns", order=order)["turns"], (2, 64)) for order in ORDERS}
    assert turns["forward"].tolist() == np.arange(128).reshape(2, 64).tolist()
    assert turns["reverse"].tolist() == np.arange(128).reshape(2, 64)[:, ::-1].tolist()
    for order in ORDERS[2:]:
        before, after = turns[order]
        assert sorted(before.tolist()) == list(range(64))
        assert sorted(after.tolist()) == list(range(64, 128))
        # Lanes are shuffled anew, not only warps.
        within = [[row[w * 32 : w * 32 + 32].argsort().tolist() for w in range(2)] for row in (before, after)]
        assert within[0] != within[1]


def test_an_order_shows_a_missing_barrier_and_no_order_a_barrier_that_is_there(program: Path) -> None:
    right = [(t + 21) % 64 for t in range(64)]
    wrong = {order: numbers(program, "race", order=order)["race"] for order in ORDERS}
    assert all(got != right for got in wrong.values())
    assert len({tuple(got) for got in wrong.values()}) == len(ORDERS)
    assert [numbers(program, "barrier", order=order)["barrier"] for order in ORDERS] == [right] * len(ORDERS)
    assert numbers(program, "race", order="shuffle:1")["race"] == wrong["shuffle:1"]

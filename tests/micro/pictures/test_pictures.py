"""Do the pictures show what the model says, are they all there, and are equal pictures equal to the byte?"""

from __future__ import annotations

import numpy as np
import pytest

from micro.model.banks import BANKS, Kind, kstep_wavefronts
from micro.model.variants import VARIANTS
from micro.pictures import draw as pictures
from micro.pictures.banks import Access, load_figure, schedule
from micro.pictures.layout import swizzle_figure
from micro.pictures.style import RAMP, ink_on
from stats.base.errors import UserError

ACCESSES = [
    Access(load.addresses, load.bytes_per_lane, load.kind, 64, swizzle)
    for variant in VARIANTS.values()
    for swizzle in (True, False)
    for load in kstep_wavefronts(variant, swizzle).loads
]


def test_every_access_is_drawn_as_the_model_counts_it():
    for access in ACCESSES:
        boxes, phases = schedule(access)
        cells = [(box.wavefront, bank) for box in boxes for bank in range(box.first_bank, box.first_bank + box.banks)]
        assert len(set(cells)) == len(cells), "two words in one bank and wavefront"
        assert max(bank for _, bank in cells) < BANKS
        assert len({wavefront for wavefront, _ in cells}) == access.cost.total
        assert sum(count for _, count in phases) == access.cost.total
        assert {lane for box in boxes for lane in box.lanes} == set(range(len(access.addresses)))


def test_a_row_of_ldmatrix_is_one_box_and_shared_words_are_too():
    rows = Access(np.arange(32) * 16, 16, Kind.LDMATRIX, 128, True)
    assert [(box.banks, box.lanes) for box in schedule(rows)[0]] == [(4, (lane,)) for lane in range(32)]
    pairs = Access(np.arange(32) * 2, 2, Kind.PER_LANE, 128, True)
    assert [box.lanes for box in schedule(pairs)[0]] == [(lane, lane + 1) for lane in range(0, 32, 2)]


def test_there_is_a_picture_for_every_load_instruction():
    names = set(pictures.pictures(list(VARIANTS), (True, False)))
    for variant in VARIANTS.values():
        for load in kstep_wavefronts(variant, True).loads:
            assert f"banks-{variant.name}-{load.operand}{load.load}" in names
    assert {"fragments", "swizzle-a", "swizzle-b", "swizzle-bt", "store-A"} <= names
    assert {"store-B-natural", "store-B-transposed"} <= names


def test_titles_say_what_the_model_says():
    figure = load_figure(VARIANTS["A3"], "B", 0)
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == [
        "swizzle off: 16 wavefronts, ideal 2 – 8-way bank conflict",
        "swizzle on: 2 wavefronts, ideal 2 – no bank conflict",
    ]
    figure = swizzle_figure("b")
    assert "XORed with 0 1 2 3 4 5 6 7" in figure.get_suptitle()
    assert [axes.get_title("left") for axes in figure.axes][1:] == [
        "in memory, swizzle off: 8-way conflict",
        "in memory, swizzle on: no conflict",
    ]
    assert "XORed with 0 0 1 1 2 2 3 3" in swizzle_figure("a").get_suptitle()


def test_equal_pictures_are_equal_to_the_byte(monkeypatch, tmp_path):
    every = pictures.pictures(["A1"], (True, False))
    few = {name: every[name] for name in ("swizzle-a", "banks-A1-B0")}
    monkeypatch.setattr(pictures, "pictures", lambda variants, swizzles: few)
    first = pictures.draw_all(tmp_path / "first", ["A1"], (True, False))
    second = pictures.draw_all(tmp_path / "second", ["A1"], (True, False))
    assert [path.name for path in first] == [f"{name}.{suffix}" for name in few for suffix in ("png", "svg")]
    for left, right in zip(first, second, strict=True):
        assert left.read_bytes() == right.read_bytes(), left.name
        assert left.stat().st_size > 10_000


def test_a_folder_that_cannot_be_written_takes_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        pictures.draw_all(tmp_path / "file", ["A1"], (True,))


def luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_ramp_keeps_its_order_in_grey_and_numbers_stay_readable():
    shades = [luminance(colour) for colour in RAMP]
    assert shades == sorted(shades, reverse=True)
    for colour in RAMP:
        text = luminance("#ffffff" if ink_on(colour) == "white" else ink_on(colour))
        light, dark = max(text, luminance(colour)), min(text, luminance(colour))
        assert (light + 0.05) / (dark + 0.05) >= 3.5, colour

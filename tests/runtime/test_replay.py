"""Results of slow steps are taken from a file as long as they are those of the same inputs."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar.runtime.replay import recalled, replaying


def steps(path, computed, inputs=(1.0, 2.0, 3.0), identity="fit", stop=None):
    """Run three steps, which take notes of what they compute; stop before one of them."""
    found = []
    with replaying(path, identity):
        for number, each in enumerate(inputs):
            if number == stop:
                return found

            def compute(number=number, each=each):
                computed.append(number)
                return each, np.arange(6.0).reshape(3, 2).T / each, True

            found.append(recalled(compute, each))
    return found


def equal(one, other):
    return repr(one) == repr(other)


def test_steps_are_not_computed_again(tmp_path):
    expected = steps(tmp_path / "all", [])
    steps(tmp_path / "kept", first := [], stop=2)
    found = steps(tmp_path / "kept", second := [])
    assert (first, second) == ([0, 1], [2])
    assert equal(found, expected)
    assert found[0][2] is True
    assert found[0][1].flags.c_contiguous
    assert expected[0][1].flags.c_contiguous


def test_other_inputs_end_the_replay(tmp_path):
    steps(tmp_path / "kept", [])
    found = steps(tmp_path / "kept", computed := [], inputs=(1.0, 9.0, 3.0))
    assert computed == [1, 2]
    assert equal(found, steps(tmp_path / "all", [], inputs=(1.0, 9.0, 3.0)))


def test_what_was_half_written_is_computed_again(tmp_path):
    expected = steps(tmp_path / "all", [])
    whole = (tmp_path / "all").read_bytes()
    for length in range(len(whole) - 150, len(whole), 37):
        (tmp_path / "kept").write_bytes(whole[:length])
        assert equal(steps(tmp_path / "kept", computed := []), expected)
        assert computed == [2]
        assert (tmp_path / "kept").read_bytes() == whole


@pytest.mark.parametrize("content", [b"text", None])
def test_another_file_is_refused_and_left_as_it_is(tmp_path, content):
    if content is None:
        steps(tmp_path / "kept", [], identity="another fit")
    else:
        (tmp_path / "kept").write_bytes(content)
    before = (tmp_path / "kept").read_bytes()
    with pytest.raises(ValueError, match="is not of this fit"):
        steps(tmp_path / "kept", [])
    assert (tmp_path / "kept").read_bytes() == before


def test_steps_inside_of_steps_are_not_kept(tmp_path):
    def outer():
        return (recalled(lambda: (1.0,))[0] + 1.0,)

    for _ in range(2):
        with replaying(tmp_path / "kept", "fit"):
            assert recalled(outer) == (2.0,)
            assert recalled(lambda: (5.0,)) == (5.0,)


def test_without_a_file_steps_are_computed():
    assert recalled(lambda: ("anything",)) == ("anything",)

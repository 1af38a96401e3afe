"""Sanity tests of the MetricBoost reference itself."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from references import boostmetric, metricboost

Floats = metricboost.Floats
RESPONSES = get_args(metricboost.Response)
MODELS = [
    ("real", "exact"),
    ("normalized", "exact"),
    ("binary", "exact"),
    ("binary", "gaussian"),
]
STEPS = np.array([0.99, 1.0, 1.01])


def labelled(n_classes: int, seed: int = 0, apart: float = 1.5) -> tuple[Floats, metricboost.Ints]:
    """Overlapping classes of unequal sizes in four dimensions."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), [9, 6, 4][:n_classes])
    centres = apart * rng.normal(size=(n_classes, 4))
    X = centres[y] + rng.normal(size=(len(y), 4)) * [1.0, 2.0, 0.5, 1.5]
    return X, y


def run(X, triplets, model, **options):
    options.setdefault("max_iter", 8)
    return metricboost.boost(X, triplets, response=model[0], threshold=model[1], **options)


def start(triplets, weight=None, offset=None) -> float:
    """Return the objective before the first round."""
    weight = np.ones(len(triplets)) if weight is None else weight
    offset = np.zeros(len(triplets)) if offset is None else offset
    return float(np.log(np.sum(weight * np.exp(-offset))))


def normaliser(gain: Floats, D: Floats, alpha: float) -> float:
    return float(np.sum(D * np.exp(-alpha * gain)))


def gains(result, X, triplets, model, t: int) -> Floats:
    """Return the far less near response of weak model `t`, by a loop over the triplets."""
    C2 = metricboost.largest_squared_distance(X)
    found = []
    for i, j, k in triplets:
        near = float(result.directions[t] @ (X[i] - X[j])) ** 2
        far = float(result.directions[t] @ (X[i] - X[k])) ** 2
        if model[0] == "normalized":
            near, far = near / C2, far / C2
        if model[0] == "binary":
            near, far = float(near >= result.thresholds[t]), float(far >= result.thresholds[t])
        found.append(far - near)
    return np.array(found)


def test_all_triplets_in_order() -> None:
    rows = metricboost.all_triplets([0, 1, 0, 2])
    np.testing.assert_array_equal(rows, [(0, 2, 1), (0, 2, 3), (2, 0, 1), (2, 0, 3)])
    assert metricboost.all_triplets([0, 1]).shape == (0, 3)
    sizes = np.array([9, 6, 4])
    assert len(metricboost.all_triplets(labelled(3)[1])) == np.sum(
        sizes * (sizes - 1) * (19 - sizes)
    )


@pytest.mark.parametrize("psd", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_theorem_1_and_the_path(model, n_classes, psd) -> None:
    X, y = labelled(n_classes)
    triplets = metricboost.all_triplets(y)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(triplets))
    result = run(X, triplets, model, weight=weight, psd=psd)
    bound = np.cumprod(result.Z)
    assert len(result.alphas) >= 2
    assert np.all(result.training_error <= bound)
    moved = np.abs(result.eigenvalues) > 1e-5 * result.eigenvalues[0]  # not yet converged
    assert np.all(result.Z <= 1.0 + 1e-15)
    assert np.all(result.Z[moved] < 1.0)
    objectives = np.append(start(triplets, weight), result.objectives)
    assert np.all(np.diff(objectives) <= 1e-14)
    assert np.all(np.diff(objectives)[moved] < 0.0)
    np.testing.assert_allclose(bound, np.exp(result.objectives - objectives[0]), rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(result.directions, axis=1), 1.0)
    assert np.all(np.isfinite(result.thresholds)) == (model[0] == "binary")
    if psd:
        assert np.all(result.eigenvalues > 0.0)
        assert np.all(result.alphas > 0.0)
        assert np.linalg.eigvalsh(result.M)[0] > -1e-12
    elif model[0] != "binary":
        np.testing.assert_array_equal(np.sign(result.alphas), np.sign(result.eigenvalues))


@pytest.mark.parametrize("psd", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_every_round_by_hand(model, psd) -> None:
    """Replay the rounds with the paper's multiplicative update (2) and loops."""
    X, y = labelled(3, seed=2)
    triplets = metricboost.all_triplets(y)[::3]
    result = run(X, triplets, model, psd=psd, max_iter=5)
    m = len(triplets)
    D = np.full(m, 1.0 / m)
    margins = np.zeros(m)
    unsmoothed = 0
    for t, alpha in enumerate(result.alphas):
        A = np.zeros((4, 4))
        for r, (i, j, k) in enumerate(triplets):
            far, near = X[i] - X[k], X[i] - X[j]
            A += D[r] * (np.outer(far, far) - np.outer(near, near))
        values = np.linalg.eigvalsh(A)
        expected = values[-1] if psd else values[np.argmax(np.abs(values))]
        assert result.eigenvalues[t] == pytest.approx(expected, rel=1e-10)
        u = result.directions[t]
        np.testing.assert_allclose(A @ u, expected * u, atol=1e-10 * abs(values).max())

        gain = gains(result, X, triplets, model, t)
        Z = normaliser(gain, D, alpha)
        assert result.Z[t] == pytest.approx(Z, rel=1e-12)
        r = float(np.sum(D * gain))
        if model[0] == "normalized":
            bound = [np.exp(-a) * (1 + r) / 2 + np.exp(a) * (1 - r) / 2 for a in alpha * STEPS]
            assert np.argmin(bound) == 1
            assert np.sqrt(1.0 - r * r) >= Z
        elif model[0] == "real":
            assert abs(np.sum(D * gain * np.exp(-alpha * gain))) < 1e-12 * Z * np.ptp(gain)
            assert np.argmin([normaliser(gain, D, a) for a in alpha * STEPS]) == 1
        else:
            plus, minus = np.sum(D[gain == -1.0]), np.sum(D[gain == 1.0])
            if min(plus, minus) == 0.0:  # smoothed: short of the minimum
                plus, minus = plus + 0.5 / m, minus + 0.5 / m
            else:
                least = 1.0 - (np.sqrt(minus) - np.sqrt(plus)) ** 2
                assert result.Z[t] == pytest.approx(least, rel=1e-12)
                assert np.argmin([normaliser(gain, D, a) for a in alpha * STEPS]) == 1
                unsmoothed += 1
            assert alpha == pytest.approx(0.5 * np.log(minus / plus), rel=1e-10)

        margins = margins + alpha * gain
        D = D * np.exp(-alpha * gain) / Z
        assert result.training_error[t] == pytest.approx(np.mean(margins <= 0.0), abs=1e-14)
    assert unsmoothed >= (2 if model[0] == "binary" else 0)
    np.testing.assert_allclose(result.D, D, rtol=1e-10)
    np.testing.assert_allclose(result.margins, margins, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("psd", [True, False])
def test_exact_threshold_beats_a_fine_grid(psd) -> None:
    X, y = labelled(2, seed=3)
    triplets = metricboost.all_triplets(y)
    result = run(X, triplets, ("binary", "exact"), psd=psd, max_iter=4)
    i, j, k = triplets.T
    D = np.full(len(triplets), 1.0 / len(triplets))
    for t in range(len(result.alphas)):
        lengths = metricboost.squared_lengths(X, result.directions[t])
        near, far = lengths[i, j], lengths[i, k]

        def score(beta: float, near=near, far=far, D=D) -> float:
            gain = 1.0 * (far >= beta) - 1.0 * (near >= beta)
            value = float(np.sqrt(np.sum(D[gain > 0])) - np.sqrt(np.sum(D[gain < 0])))
            return value if psd else abs(value)

        beta = result.thresholds[t]
        best = max(score(b) for b in np.linspace(0.0, 1.01 * lengths.max(), 3000))
        assert score(beta) >= best - 1e-12
        lower = np.unique(np.concatenate([near, far]))
        lower = lower[lower < beta]
        assert all(score(b) < score(beta) for b in lower)
        gain = 1.0 * (far >= beta) - 1.0 * (near >= beta)
        D = D * np.exp(-result.alphas[t] * gain) / result.Z[t]


def test_exact_threshold_by_hand() -> None:
    near = np.array([1.0, 3.0, 3.0])
    far = np.array([2.0, 4.0, 1.0])
    D = np.array([0.7, 0.1, 0.2])  # scores sqrt(.7) - sqrt(.2), -sqrt(.2), sqrt(.1)
    assert metricboost._exact_threshold(near, far, D, True) == 1.5
    assert metricboost._exact_threshold(far, near, D, True) == 2.5
    assert metricboost._exact_threshold(far, near, np.array([0.9, 0.1, 0.0]), False) == 1.5
    assert metricboost._exact_threshold(near, far, np.array([0.2, 0.6, 0.2]), True) == 3.5
    assert np.isnan(metricboost._exact_threshold(near, near, D, True))
    assert np.isnan(metricboost._exact_threshold(far, near, np.array([0.5, 0.5, 0.0]), True))


def test_exact_threshold_takes_the_lowest_of_equals() -> None:
    near, far = np.array([0.0, 2.0]), np.array([1.0, 3.0])
    assert metricboost._exact_threshold(near, far, np.array([0.5, 0.5]), True) == 0.5


@pytest.mark.parametrize("psd", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_weights_of_all_label_triplets_factorise(model, n_classes, psd) -> None:
    """D(i, j, k) = exp(H_ij) exp(-H_ik) / sum_i s_i w_i, and (8) is a sum over pairs."""
    X, y = labelled(n_classes, seed=4)
    triplets = metricboost.all_triplets(y)
    i, j, k = triplets.T
    n = len(X)
    same = (y[:, None] == y) & ~np.eye(n, dtype=bool)
    other = y[:, None] != y
    for rounds in range(1, 6):
        result = run(X, triplets, model, psd=psd, max_iter=rounds)
        H = np.zeros((n, n))
        for t in range(len(result.alphas)):
            h = metricboost.squared_lengths(X, result.directions[t])
            if model[0] == "normalized":
                h = h / metricboost.largest_squared_distance(X)
            if model[0] == "binary":
                h = 1.0 * (h >= result.thresholds[t])
            H += result.alphas[t] * h
        closer = np.where(same, np.exp(H), 0.0)
        farther = np.where(other, np.exp(-H), 0.0)
        s, w = closer.sum(axis=1), farther.sum(axis=1)
        total = float(np.sum(s * w))
        np.testing.assert_allclose(result.D, np.exp(H[i, j] - H[i, k]) / total, rtol=1e-10)
        assert np.exp(result.objectives[-1]) == pytest.approx(total, rel=1e-10)
        assert np.prod(result.Z) == pytest.approx(total / len(triplets), rel=1e-10)

        A = np.zeros((4, 4))
        for a in range(n):
            for b in range(n):
                pair = s[a] * farther[a, b] - w[a] * closer[a, b]
                A += pair / total * np.outer(X[a] - X[b], X[a] - X[b])
        explicit = metricboost.matrix(X, triplets, result.D)
        np.testing.assert_allclose(A, explicit, atol=1e-10 * np.abs(explicit).max())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_real_response_is_boostmetric_without_a_penalty(n_classes) -> None:
    X, y = labelled(n_classes, seed=5, apart=1.0)
    triplets = metricboost.all_triplets(y)[::4]
    rng = np.random.default_rng(6)
    weight = rng.uniform(0.5, 2.0, size=len(triplets))
    offset = 0.1 * rng.normal(size=len(triplets))
    ours = metricboost.boost(
        X, triplets, response="real", max_iter=12, weight=weight, offset=offset
    )
    theirs = boostmetric.boost(
        X, triplets, weight=weight, offset=offset, penalty=1e-14, max_iter=12
    )
    assert len(ours.alphas) == len(theirs.steps) == 12
    np.testing.assert_allclose(
        ours.M / np.trace(ours.M), theirs.M / np.trace(theirs.M), rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(ours.alphas, theirs.steps, rtol=1e-6)
    shift = np.log(np.mean(weight))
    np.testing.assert_allclose(ours.objectives, theirs.objectives + shift, rtol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_hypothesis_recomputes_the_margins(model) -> None:
    X, y = labelled(3, seed=7)
    triplets = metricboost.all_triplets(y)
    offset = np.random.default_rng(8).normal(size=len(triplets))
    result = run(X, triplets, model, offset=offset, psd=False)
    found = metricboost.hypothesis(result, X, triplets, model[0])
    np.testing.assert_allclose(found + offset, result.margins, atol=1e-12)
    some = triplets[::7][:, [0, 2, 1]]
    C2 = metricboost.largest_squared_distance(X)
    found = metricboost.hypothesis(result, X[: some.max() + 1], some, model[0], C2)
    expected = sum(
        result.alphas[t] * gains(result, X, some, model, t) for t in range(len(result.alphas))
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)
    if model[0] != "binary":
        i, j, k = some.T
        scale = 1.0 if model[0] == "real" else C2
        far = np.einsum("ra,ab,rb->r", X[i] - X[k], result.M, X[i] - X[k])
        near = np.einsum("ra,ab,rb->r", X[i] - X[j], result.M, X[i] - X[j])
        np.testing.assert_allclose(found, (far - near) / scale, atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_an_offset_continues_a_run(model) -> None:
    X, y = labelled(2, seed=9, apart=1.0)
    triplets = metricboost.all_triplets(y)
    weight = np.random.default_rng(10).uniform(0.5, 2.0, size=len(triplets))
    whole = run(X, triplets, model, weight=weight, max_iter=4)
    first = run(X, triplets, model, weight=weight, max_iter=2)
    rest = run(X, triplets, model, weight=weight, max_iter=2, offset=first.margins)
    assert len(whole.alphas) == 4
    np.testing.assert_allclose(rest.alphas, whole.alphas[2:], rtol=1e-10)
    np.testing.assert_allclose(rest.Z, whole.Z[2:], rtol=1e-10)
    np.testing.assert_allclose(rest.objectives, whole.objectives[2:], rtol=1e-12)
    np.testing.assert_allclose(rest.margins, whole.margins, atol=1e-10)
    share = np.sum(first.D[whole.margins <= 0.0])
    assert rest.training_error[-1] == pytest.approx(share, abs=1e-12)
    by_weight = np.sum(weight[rest.margins <= 0.0]) / np.sum(weight)
    assert by_weight <= np.exp(rest.objectives[-1]) / np.sum(weight)


@pytest.mark.parametrize("model", [m for m in MODELS if m != ("binary", "exact")])  # no smoothing
def test_a_weight_of_two_repeats_a_triplet(model) -> None:
    X, y = labelled(2, seed=11)
    triplets = metricboost.all_triplets(y)
    weight = np.where(np.arange(len(triplets)) % 3 == 0, 2.0, 1.0)
    weighted = run(X, triplets, model, weight=weight, max_iter=4)
    repeated = run(X, np.repeat(triplets, weight.astype(int), axis=0), model, max_iter=4)
    np.testing.assert_allclose(weighted.alphas, repeated.alphas, rtol=1e-10)
    np.testing.assert_allclose(weighted.M, repeated.M, atol=1e-10)
    np.testing.assert_allclose(weighted.objectives, repeated.objectives, rtol=1e-12)


def test_scale_of_the_points() -> None:
    X, y = labelled(2, seed=12)
    triplets = metricboost.all_triplets(y)
    for response, power in (("real", 2), ("normalized", 0), ("binary", 0)):
        a = run(X, triplets, (response, "exact"), max_iter=4)
        b = run(8.0 * X, triplets, (response, "exact"), max_iter=4)
        np.testing.assert_allclose(a.alphas, b.alphas * 8.0**power, rtol=1e-9)
        np.testing.assert_allclose(a.margins, b.margins, atol=1e-9)


def test_separable_triplets_stop_at_the_cap() -> None:
    X = np.array([[0.0, 0.0], [0.1, 5.0], [9.0, 2.0]])
    triplets = np.array([(0, 1, 2), (1, 0, 2)])
    result = metricboost.boost(X, triplets, response="real", max_iter=9)
    assert len(result.alphas) == 1
    assert result.alphas[0] == pytest.approx(50.0 / result.eigenvalues[0], rel=1e-14)
    assert result.training_error[0] == 0.0
    swapped = metricboost.boost(X, triplets[:, [0, 2, 1]], response="real", max_iter=9, psd=False)
    assert len(swapped.alphas) == 1
    np.testing.assert_allclose(swapped.M, -result.M, rtol=1e-10)


def test_a_root_beyond_the_cap_does_not_stop_unless_all_are_satisfied() -> None:
    gain = np.array([1.0, -1e-3])
    D = np.log([1.0 - 1e-6, 1e-6])
    alpha, finished = metricboost._line_search(gain, D, 1.0)
    assert alpha < 50.0
    assert not finished
    gain = np.array([1.0, -1e-30])
    assert metricboost._line_search(gain, np.log([0.5, 1e-30]), 0.5) == (100.0, False)
    assert metricboost._line_search(-gain, np.log([0.5, 1e-30]), -0.5) == (-100.0, False)
    gain = np.array([1.0, 0.0])
    assert metricboost._line_search(gain, np.log([0.5, 0.5]), 0.5) == (100.0, True)


def test_line_search_has_the_closed_form_of_adaboost() -> None:
    D = np.array([0.5, 0.2, 0.3])
    alpha, finished = metricboost._line_search(np.array([1.0, 1.0, -1.0]), np.log(D), 0.4)
    assert not finished
    assert alpha == pytest.approx(0.5 * np.log(0.7 / 0.3), rel=1e-13)


def test_binary_alpha_smooths_an_empty_side() -> None:
    D = np.array([0.5, 0.25, 0.25])
    alpha = metricboost._binary_alpha(np.array([1.0, 0.0, 1.0]), D)
    assert alpha == pytest.approx(0.5 * np.log((0.75 + 1 / 6) / (1 / 6)))
    assert metricboost._binary_alpha(np.zeros(3), D) == 0.0
    alpha = metricboost._binary_alpha(np.array([1.0, -1.0, 0.0]), D)
    assert alpha == pytest.approx(0.5 * np.log(2.0))


@pytest.mark.parametrize("threshold", ["exact", "gaussian"])
def test_binary_stops_when_the_direction_returns(threshold) -> None:
    rng = np.random.default_rng(13)
    X = np.column_stack([rng.normal(size=12) + 3.0 * (np.arange(12) % 2), np.zeros(12)])
    triplets = metricboost.all_triplets(np.arange(12) % 2)
    assert len(run(X, triplets, ("binary", threshold)).alphas) == 1
    assert len(run(X, triplets, ("normalized", "exact")).alphas) == 8


def test_nothing_to_learn() -> None:
    X = np.array([[0.0], [1.0], [0.0]])
    for response in RESPONSES:
        result = metricboost.boost(X, [(0, 1, 2)], response=response, max_iter=5)
        assert result.alphas.shape == result.objectives.shape == (0,)
        assert result.directions.shape == (0, 1)
        np.testing.assert_array_equal(result.M, [[0.0]])
        np.testing.assert_array_equal(result.D, [1.0])
        assert metricboost.hypothesis(result, X, [(0, 1, 2)], response) == [0.0]


def density(b: float, lengths: Floats) -> float:
    m, s = np.mean(lengths), np.std(lengths)
    return float(-0.5 * ((b - m) / s) ** 2 - np.log(s))


@pytest.mark.parametrize("seed", range(20))
def test_gaussian_threshold_solves_the_quadratic(seed) -> None:
    rng = np.random.default_rng(seed)
    near = rng.gamma(1.0, 10.0 ** rng.uniform(-2, 2), size=30)
    far = rng.gamma(2.0, 10.0 ** rng.uniform(-2, 2), size=40)
    m1, s1, m2, s2 = np.mean(near), np.std(near), np.mean(far), np.std(far)
    a = 1 / s1**2 - 1 / s2**2
    c = -2 * (m1 / s1**2 - m2 / s2**2)
    e = m1**2 / s1**2 - m2**2 / s2**2 + 2 * np.log(s1 / s2)
    roots = np.roots([a, c, e])
    inside = [r.real for r in roots if r.imag == 0 and min(m1, m2) <= r.real <= max(m1, m2)]
    beta = metricboost.gaussian_threshold(near, far)
    assert len(inside) <= 1
    if inside:
        assert beta == pytest.approx(inside[0], rel=1e-8)
        assert density(beta, near) == pytest.approx(density(beta, far), abs=1e-9)
    else:
        assert beta == pytest.approx((m1 * s2 + m2 * s1) / (s1 + s2), rel=1e-12)
    assert metricboost.gaussian_threshold(far, near) == pytest.approx(beta, rel=1e-10)


def test_gaussian_threshold_degenerate_cases() -> None:
    threshold = metricboost.gaussian_threshold
    assert threshold([1.0, 3.0], [5.0, 7.0]) == pytest.approx(4.0, rel=1e-14)  # equal deviations
    assert threshold([1.0, 3.0], [0.0, 4.0]) == 2.0  # equal means
    assert threshold([1.0, 3.0], [1.0, 3.0]) == 2.0  # equal sets
    assert threshold([2.0, 2.0], [5.0, 7.0]) == 2.0  # a constant near set
    assert threshold([1.0, 3.0], [6.0, 6.0]) == 6.0  # a constant far set
    assert threshold([0.1] * 3, [0.3] * 7) == pytest.approx(0.2)  # both constant
    assert threshold([0.1] * 3, [0.1] * 7) == 0.1
    wide = threshold([0.0, 2.0], [-100.0, 103.0])  # no root between the means
    assert wide == pytest.approx((1.0 * 101.5 + 1.5 * 1.0) / 102.5, rel=1e-14)

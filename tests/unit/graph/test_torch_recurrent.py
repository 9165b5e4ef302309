"""Recurrent layers of torch: whole, right, and with the weights that the model has now."""

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.graph.from_torch.trace import trace  # noqa: E402

LAYERS = {
    "LSTM": (torch.nn.LSTM, {}),
    "LSTM of two layers, both ways": (torch.nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "LSTM without biases": (torch.nn.LSTM, {"bias": False, "batch_first": True}),
    "GRU both ways": (torch.nn.GRU, {"bidirectional": True}),
    "GRU without biases, batch first": (torch.nn.GRU, {"bias": False, "batch_first": True, "num_layers": 2}),
    "RNN": (torch.nn.RNN, {"num_layers": 2}),
    "RNN with relu": (torch.nn.RNN, {"nonlinearity": "relu", "bidirectional": True}),
}


def operators(gm):
    return [str(node.target) for node in gm.graph.nodes if str(node.target).startswith("weft.")]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_whole_and_as_eager(name):
    torch.manual_seed(1)
    kind, options = LAYERS[name]
    layer, x = kind(5, 7, **options).eval(), torch.randn(4, 3, 5)
    with torch.no_grad():
        assert len(operators(trace(layer, (x,), {}).gm)) == 1
        fast = weft.compile(layer, (x,))
        expected, made = layer(x), fast(x)
    pairs = [(expected[0], made[0]), *zip(*(e if isinstance(e, tuple) else (e,) for e in (expected[1], made[1])))]
    for want, have in pairs:
        torch.testing.assert_close(have, want)
        assert have.stride() == want.stride()
    assert "0 calls of the framework" in str(weft.explain(fast))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("batch", "units"), [(1, 272), (1, 257), (3, 131)])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_weights_larger_than_caches(kind, batch, units, threads):
    """Steps go through them to and fro, an even and an odd number of times."""
    torch.manual_seed(units)
    layer, before = getattr(torch.nn, kind)(3, units, batch_first=True).eval(), weft.get_num_threads()
    try:
        weft.set_num_threads(threads)
        for steps in (4, 5):
            x = torch.randn(batch, steps, 3)
            with torch.no_grad():
                torch.testing.assert_close(weft.compile(layer, (x,))(x)[0], layer(x)[0])
    finally:
        weft.set_num_threads(before)


def test_given_states_other_sizes_and_other_weights():
    torch.manual_seed(2)
    layer = torch.nn.LSTM(5, 6, batch_first=True).eval()

    def drawn(batch, steps):
        return torch.randn(batch, steps, 5), (torch.randn(1, batch, 6), torch.randn(1, batch, 6))

    with torch.no_grad():
        fast = weft.compile(layer, drawn(2, 3))
        for batch, steps in ((2, 3), (4, 9), (1, 6), (3, 1)):
            given = drawn(batch, steps)
            torch.testing.assert_close(fast(*given), layer(*given))
        given = drawn(2, 3)
        layer.weight_hh_l0.mul_(0.5)
        torch.testing.assert_close(fast(*given), layer(*given))
        layer.weight_ih_l0 = torch.nn.Parameter(torch.randn(24, 5))
        torch.testing.assert_close(fast(*given), layer(*given))
        layer.load_state_dict(torch.nn.LSTM(5, 6).state_dict(), assign=True)
        torch.testing.assert_close(fast(*given), layer(*given))


def test_projections_are_taken_apart_by_torch():
    torch.manual_seed(3)
    layer, x = torch.nn.LSTM(5, 7, proj_size=3).eval(), torch.randn(2, 2, 5)
    with torch.no_grad():
        torch.testing.assert_close(weft.compile(layer, (x,))(x)[0], layer(x)[0])
        assert not operators(trace(layer, (x,), {}).gm)


def test_an_operator_of_ours_is_as_torchs():
    """It runs as torch's own where there is no formula for its arguments."""
    torch.manual_seed(4)
    layer, x = torch.nn.GRU(5, 7).eval(), torch.randn(4, 2, 5)
    traced = trace(layer, (x,), {})
    with torch.no_grad():
        made = traced.gm(*layer.parameters(), x)
        for have, want in zip(made, layer(x)):
            torch.testing.assert_close(have, want)


def test_long_sequences_are_a_few_kernels():
    layer = torch.nn.GRU(4, 4, batch_first=True).eval()
    x = torch.randn(2, 300, 4)
    with torch.no_grad():
        fast = weft.compile(layer, (x,))
        torch.testing.assert_close(fast(x)[0], layer(x)[0])
    assert len(trace(layer, (x,), {}).gm.graph.nodes) < 20
    assert str(weft.explain(fast)).count("\nkernel ") < 8

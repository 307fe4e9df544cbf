"""tandem.Program: text, numpy arrays, errors, threads. No torch."""
import gc
import sys
import threading

import numpy as np
import pytest

import tandem

TEXT = """
func @f(%x: f32[3], %w: f32[3]) {
  %h = mul(%x, %w)
  %y = tanh(%h)
  add_(%x, 1.0)
  return %y
}
func @g(%x: f32[s0]) {
  %y = mul(%x, 2.0)
  %v = slice(%y, 0, 1, 2)
  return %y, %v, 7, none
}
case "f with gradients" {
  %b = randn([3], seed=1, requires_grad=true)
  %x = mul(%b, 1.0)
  %w = randn([3], seed=2)
  call @f(%x, %w)
  backward seed=3
}
"""


@pytest.fixture
def program():
    return tandem.Program.from_text(TEXT)


def test_import_needs_no_torch():
    import subprocess
    code = "import sys, tandem; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_run_writes_the_array_of_the_caller(program):
    x, w = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    y, = program.run(x, w)
    assert np.allclose(y, np.tanh([0, 1, 2])) and (x == [1, 2, 3]).all()


def test_eager_and_compiled_are_equal(program):
    x, w = np.arange(3, dtype=np.float32), np.full(3, 0.3, np.float32)
    assert (program.run(x.copy(), w)[0] == program.run_eagerly(x.copy(), w)[0]).all()


def test_results_of_every_kind(program):
    y, v, n, none = program.run(np.arange(4, dtype=np.float32), function="g")
    assert (y == [0, 2, 4, 6]).all() and v == [2.0] and n == 7 and none is None


def test_results_share_memory_as_in_tandem(program):
    y, v, _, _ = program.run(np.arange(4, dtype=np.float32), function="g")
    y[1] = 5
    assert v[0] == 5


def test_other_sizes(program):
    for n in (2, 3, 5, 9):
        assert program.run(np.ones(n, np.float32), function="g")[0].shape == (n,)
    assert program.compiled("g").specializations <= 2


def test_results_outlive_the_program():
    p = tandem.Program.from_text(TEXT)
    y = p.run(np.ones(5, np.float32), function="g")[0]
    del p
    gc.collect()
    assert (y == 2).all()


def test_read_only_arrays(program):
    x = np.ones(3, np.float32)
    x.flags.writeable = False
    with pytest.raises(tandem.Error, match="read-only"):
        program.run(x, np.ones(3, np.float32))


def test_check_explain_report(program, tmp_path):
    assert "1 equal" in program.check()
    program.run(np.ones(3, np.float32), np.ones(3, np.float32))
    assert "captured 3 ops" in program.explain()
    assert program.explain(json=True).lstrip().startswith("{")
    program.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1000


@pytest.mark.parametrize("args,error,text", [
    ((np.ones(3, np.float32),), tandem.Error, "takes 2 inputs"),
    ((np.ones(3, np.float32), np.ones(4, np.float32)), tandem.Error, "cannot broadcast"),
    ((np.ones(3, np.float32), "w"), TypeError, "it must be a number, None, or a tensor"),
    ((np.ones(3, np.float32), np.ones(3, np.uint16)), tandem.Error, "element type"),
])
def test_errors_have_tandems_message(program, args, error, text):
    with pytest.raises(error, match=text):
        program.run(*args)
    program.run(np.ones(3, np.float32), np.ones(3, np.float32))


def test_text_with_an_error():
    with pytest.raises(tandem.Error, match=r"text:1:\d+:"):
        tandem.Program.from_text("func @f(%x: f32[3]) { %y = no_such_op(%x) return %y }")


def test_no_reference_is_lost(program):
    x, w = np.ones(3, np.float32), np.ones(3, np.float32)
    program.run(x, w)
    before = sys.getrefcount(x), sys.getrefcount(w)
    for _ in range(50):
        program.run(x, w)
    assert (sys.getrefcount(x), sys.getrefcount(w)) == before


def test_threads_share_a_program(program):
    failures = []

    def work(k):
        for n in range(40):
            y = program.run(np.full(3 + n % 3, k, np.float32), function="g")[0]
            if not (y == 2 * k).all():
                failures.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures

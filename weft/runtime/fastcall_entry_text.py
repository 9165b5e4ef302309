"""Part of `fastcall_text`: the functions that Python calls, and the search for the plan that fits."""

from __future__ import annotations

ENTRY = '''
def view_all(objs, views, count):
    """Views of ``count`` objects; 0 where one needs the slow path, else the greatest number of a framework seen (1 for
    none)."""
    most = 1
    for i in range(count):
        view: View = views + i * view_size
        if not view_of(objs[i], view):
            return 0
        if view.framework > most:
            most = view.framework
    return most


def unpack_outputs(out: Object, objs, count):
    """The objects in out=: itself where there is one output, the items of a tuple otherwise."""
    if count == 1:
        objs[0] = out
        return 1
    if count == 0 or out.type != PyTuple_Type or PyTuple_Size(out) != count:
        return 0
    for i in range(count):
        objs[i] = PyTuple_GetItem(out, i)
    return 1


def fits(plan: Plan, nargs, nouts, args, views, out, given, out_views, slots):
    """Whether a call is one that ``plan`` is for; -1 where it is, but with arrays that overlap."""
    recs = plan.args
    if not matches_all(recs, args, views, nargs, slots):
        return 0
    if out == 0:
        if plan.allocates == 0:
            return 0
        return 1 if nouts != 0 or arguments_are_apart(recs, views, nargs) else -1
    if not matches_all(plan.outs, given, out_views, nouts, slots):
        return 0
    return 1 if outputs_are_apart(recs, views, nargs, plan.outs, out_views, nouts) else -1


def call_table(table: Table, out, args, given_args):
    """The result of the plan that fits, or MISS; ``out`` is null where the call gave none."""
    views = room(views_length)
    out_views = room(out_views_length)
    given = room(max_outputs)
    slots = room(slots_length)
    nargs = table.nargs
    nouts = table.nouts
    if given_args != nargs:
        return miss()
    framework = view_all(args, views, nargs)
    if framework == 0:
        return miss()
    if out != 0:
        if not unpack_outputs(out, given, nouts) or not view_all(given, out_views, nouts):
            return miss()
    count = table.count
    plans = table.plans
    for i in range(count):
        plan: Plan = plans[i]
        found = fits(plan, nargs, nouts, args, views, out, given, out_views, slots)
        if found == -1:
            break
        if found == 1:
            plans[i] = plans[0]  # the plan that fits is likely to fit again
            plans[0] = plan
            return run_plan(plan, slots, out, plan.outs, nouts, framework)
    return miss()


def weft_call(self, all, nall):
    """METH_FASTCALL: (out or None, *arguments) -> result or MISS."""
    if nall <= 0:
        return miss()
    out = all[0]
    return call_table(PyCapsule_GetPointer(self, 0), 0 if out == object_none else out, all + 8, nall - 1)


def weft_method(self, args, nargs, names):
    """METH_FASTCALL | METH_KEYWORDS, as the __call__ of a class whose instances have `_fast_table` and
    `_call_slowly`."""
    out = 0
    if names != 0:
        # One name, and that is `out`: names in calls are interned, so the object tells.
        if PyTuple_Size(names) != 1 or PyTuple_GetItem(names, 0) != name_out:
            return call_slowly(self, args, nargs, names)
        if args[nargs] != object_none:
            out = args[nargs]
    capsule = PyObject_GetAttr(self, name_table)
    if capsule == 0:
        PyErr_Clear()
        return call_slowly(self, args, nargs, names)
    result = object_miss
    if capsule != object_none:
        result = call_table(PyCapsule_GetPointer(capsule, 0), out, args, nargs)
        if result == object_miss:
            Py_DecRef(result)
    Py_DecRef(capsule)
    return call_slowly(self, args, nargs, names) if result == object_miss else result


def call_slowly(self, args, nargs, names):
    method = PyObject_GetAttr(self, name_slow)
    if method == 0:
        return 0
    named = 0
    if names != 0:
        named = named_arguments(args, nargs, names)
    answer = 0
    if names == 0 or named != 0:
        answer = PyObject_VectorcallDict(method, args, nargs, named)
    if named != 0:
        Py_DecRef(named)
    Py_DecRef(method)
    return answer


def named_arguments(args, nargs, names):
    named = PyDict_New()
    if named == 0:
        return 0
    for i in range(PyTuple_Size(names)):
        if PyDict_SetItem(named, PyTuple_GetItem(names, i), args[nargs + i]) != 0:
            Py_DecRef(named)
            return 0
    return named
'''

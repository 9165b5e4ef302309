"""Which orders of a loop program compute the same: dependences and legality.

`leaves` lists the statements that touch memory with the loops and tests around them; `find_conflict` asks
whether two of their instances can meet in one element (`solve`, an exact integer solver, answers; isl where that
gives up); the ``check_`` functions put the question for each rewrite and answer with a `Verdict`.
Nothing is accepted that is not proved.
"""

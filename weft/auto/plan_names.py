"""What other plans for a product than the time model's first choice are called; `weft.auto.gpu.other_plans` finds them.
Apart from it, since who asks for code by its plan need not load what schedules."""

#: The depth cut where it was whole, or the other way round; the best other tiles.
OTHERWISE_CUT, OTHER_TILES = "otherwise cut", "other tiles"
PLAN_NAMES = (OTHERWISE_CUT, OTHER_TILES)

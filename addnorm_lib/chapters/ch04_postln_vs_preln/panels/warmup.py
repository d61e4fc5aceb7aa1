"""The warm-up bench: which placements train at which rate, with which warm-up."""

from addnorm_lib.chapters.ch04_postln_vs_preln.figures import GUESS
from addnorm_lib.chapters.ch04_postln_vs_preln.panels.parts import name_of, placements
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.course.panels.training_bench import bench
from addnorm_lib.experiments.placement_training import training_grid
from addnorm_lib.experiments.results import Run
from addnorm_lib.layers import PLACEMENTS
from addnorm_lib.messages import _


def warmup_bench(seed: int = 0) -> Panel:
    """Return a panel that trains one Transformer to reverse six tokens, 200 steps of Adam: see `bench`.

    64 sequences a step; depth 12 takes about four seconds.
    """
    rates, steps = (3e-4, 1e-3, 3e-3, 1e-2, 2e-2), 200

    def run(placement: str, depth: int, lr: float, warmup: int) -> Run:
        return training_grid(
            [placement], [depth], [warmup], [lr], steps=steps, batch_size=64, seeds=[seed], record_every=steps
        )[0]

    def describe(placement: str, depth: int, lr: float, warmup: int) -> tuple[str, str]:
        schedule = _("rate {lr:.2g}, warm-up {warmup}").format(lr=lr, warmup=warmup)
        return f"{name_of(placement)}, L = {depth}", schedule

    return bench(
        title=_("The warm-up bench: reverse six tokens"),
        try_this=_(
            "Press train. Then give it 100 warm-up steps and train again; then pre without any. "
            "(The stop button interrupts.)"
        ),
        controls={
            "placement": placements(*PLACEMENTS, "deepnorm", value="post"),
            "depth": slider(_("depth L"), 12, 1, 24, whole=True),
            "lr": choice(_("learning rate"), [(f"{rate:g}", rate) for rate in rates], 3e-3),
            "warmup": slider(_("warm-up steps"), 0, 0, steps, 10, whole=True),
        },
        run=run,
        describe=describe,
        steps=steps,
        losses=(2e-3, 6),
        bounds=(0.1, 1),
        guessing=GUESS,
    )

"""Panels of chapter 6: the bytes that Add & Norm moves, and what one program of the kernel holds."""

import functools
from collections.abc import Mapping

import torch
from matplotlib.patches import Rectangle

from addnorm_lib.chapters.ch06_fused_add_norm.figures import READ, WRITE, how_name
from addnorm_lib.course.figures.style import BLACK, BLUE, GREY, SKY, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.fused.shapes import choose_config, next_power_of_2
from addnorm_lib.messages import _
from addnorm_lib.microscope.traffic import Access, add_norm_traffic, large_tensors, moved

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WAYS = ("eager", "fused")
BYTES = {"GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
MOST_BOXES = 6  # tensors that the busier way reads and writes
ROWS, FEATURES = 8, 32  # the largest tensor of the tile view


_traffic = functools.lru_cache(maxsize=4096)(add_norm_traffic)  # the bandwidth's slider changes no byte


def _measured(value: float, units: Mapping[str, float]) -> str:
    """Return a value in the first of `units` that it reaches, or in the last."""
    unit = next((name for name, size in units.items() if value >= size), list(units)[-1])
    return f"{value / units[unit]:.3g} {unit}"


@house_style
def byte_panel() -> Panel:
    """Return a panel: the bytes that Add & Norm moves, two lines or fused, and their time at a bandwidth.

    The bytes are counted (`microscope.traffic`), with the sum kept, as in Pre-LN; the time is bytes / bandwidth, which
    no kernel beats.
    """
    figure, (left, right) = new_figure(8.6, 2.6, columns=2)
    cases = [(dtype, way) for dtype in DTYPES for way in WAYS]
    left.set_xlim(0, MOST_BOXES + 0.6)
    left.set_ylim(-1.6, 0.6)
    left.set_yticks([0, -1], [how_name(way) for way in WAYS])
    left.set_xlabel(_("tensors (plain: read, hatched: written)"))
    left.grid(False)
    right.set_xlim(0, 125)
    right.set_ylim(-len(cases) + 0.4, 0.6)
    right.set_yticks([-y for y in range(len(cases))], [f"{dtype}, {how_name(way)}" for dtype, way in cases])
    right.set_xlabel(_("time (% of float32, two lines)"))
    right.grid(False)
    boxes = [[left.add_patch(Rectangle((i, -y - 0.3), 1, 0.6)) for i in range(MOST_BOXES)] for y in range(len(WAYS))]
    bars = [right.add_patch(Rectangle((0, -y - 0.3), 0, 0.6, facecolor=BLUE)) for y in range(len(cases))]
    texts = [right.text(0, -y, "", va="center") for y in range(len(cases))]

    def place(row: list[Rectangle], accesses: list[Access], shape: tuple[int, int], chosen: bool) -> int:
        counts = [zip((READ, WRITE), large_tensors([access], *shape), strict=True) for access in accesses]
        order = [style for count in counts for style, n in count for _i in range(n)]
        for box, style in zip(row, [*order, *[None] * (MOST_BOXES - len(order))], strict=True):
            box.set_visible(style is not None)
            if style is not None:
                box.set(facecolor=style["facecolor"], edgecolor=BLACK, hatch=style.get("hatch", ""))
                box.set_alpha(1.0 if chosen else 0.35)
        return len(order)

    def update(features: int, rows: float, dtype: str, way: str, direction: str, bandwidth: float) -> str:
        rows = round(rows)
        backward = direction == "backward"
        all_counted = {
            (its_dtype, one): _traffic(rows, features, DTYPES[its_dtype], one, backward=backward)
            for its_dtype, one in cases
        }
        times = {case: moved(accesses) / bandwidth / 1e9 for case, accesses in all_counted.items()}
        for case, bar, text in zip(cases, bars, texts, strict=True):
            share = 100 * times[case] / max(times.values())
            bar.set_width(share)
            bar.set_alpha(1.0 if case == (dtype, way) else 0.35)
            text.set(
                x=share + 2,
                text=_measured(times[case], SECONDS),
                fontweight="bold" if case == (dtype, way) else "normal",
            )
        counted, seconds = ({one: found[dtype, one] for one in WAYS} for found in (all_counted, times))
        tensors = {one: place(boxes[i], counted[one], (rows, features), one == way) for i, one in enumerate(WAYS)}
        other = WAYS[1 - WAYS.index(way)]
        return _(
            "{rows} × {features} {dtype}, {direction}, {way}: reads {read}, writes {written}, {tensors} tensors; "
            "at {bandwidth:.0f} GB/s at least {time}. {other}: {others} tensors, {other_time}."
        ).format(
            rows=rows,
            features=features,
            dtype=dtype,
            direction=_("forward") if direction == "forward" else _("backward"),
            way=how_name(way),
            read=_measured(sum(a.read for a in counted[way]), BYTES),
            written=_measured(sum(a.written for a in counted[way]), BYTES),
            tensors=tensors[way],
            bandwidth=bandwidth,
            time=_measured(seconds[way], SECONDS),
            other=how_name(other).capitalize(),
            others=tensors[other],
            other_time=_measured(seconds[other], SECONDS),
        )

    return Panel(
        title=_("The byte counter"),
        try_this=_("Set your machine's bandwidth. What saves more: fusing, or bfloat16? Forward, then backward."),
        controls={
            "features": slider(_("features D"), 1024, 64, 16384, 64, whole=True),
            "rows": slider(_("rows"), 10**3.6, 0, 6, log=True),
            "dtype": choice(_("dtype"), [(name, name) for name in DTYPES], "bfloat16"),
            "way": choice(_("kernels"), [(how_name(way), way) for way in WAYS], "fused"),
            "direction": choice(_("direction"), [(_("forward"), "forward"), (_("backward"), "backward")], "forward"),
            "bandwidth": slider(_("bandwidth (GB/s)"), 10**3.5, 1, 4, log=True),
        },
        canvas=LiveCanvas(figure, [*(b for row in boxes for b in row), *bars, *texts]),
        update=update,
    )


@house_style
def tile_panel() -> Panel:
    """Return a panel: how programs of BM rows cover a tensor, which lanes are masked, and what one program holds."""
    figure, ax = new_figure(8, 2.8)
    ax.set_xlim(-1, next_power_of_2(FEATURES) + 1)
    ax.set_ylim(ROWS + 0.3, -0.3)
    ax.set_yticks(range(0, ROWS + 1, 2))
    ax.set_xlabel(_("columns"))
    ax.set_ylabel(_("rows"))
    ax.grid(False)
    tensor = ax.add_patch(Rectangle((0, 0), 1, 1, facecolor="#DDEBF5", edgecolor="none"))
    masked = [
        ax.add_patch(Rectangle((0, 0), 0, 0, facecolor="#EEEEEE", edgecolor=GREY, hatch="////", linewidth=0.5))
        for _i in range(2)
    ]
    held = ax.add_patch(Rectangle((0, 0), 0, 0, facecolor=SKY, edgecolor="none"))
    outlines = [ax.add_patch(Rectangle((0, 0), 0, 0, fill=False, edgecolor=GREY)) for _i in range(ROWS)]
    frame = ax.add_patch(Rectangle((0, 0), 0, 0, fill=False, edgecolor=BLACK, linewidth=2.2))
    name = ax.text(1, 1.03, "", transform=ax.transAxes, ha="right", va="bottom", color=BLUE)
    key = [Rectangle((0, 0), 1, 1, facecolor=SKY), Rectangle((0, 0), 1, 1, facecolor="#EEEEEE", hatch="////")]
    ax.legend(key, [_("data"), _("masked")], loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=9)

    def update(rows: int, features: int, block: int, program: int) -> str:
        columns, programs = next_power_of_2(features), -(-rows // block)
        tensor.set_bounds(0, 0, features, rows)
        for pid, outline in enumerate(outlines):
            outline.set_bounds(0, pid * block, columns, block)
            outline.set_visible(pid < programs)
        launched = program < programs
        top = program * block
        real = min(rows - top, block)
        for patch in (*masked, held, frame):
            patch.set_visible(launched)
        if not launched:
            said = _(
                "{rows} × {features} tensor: program {program} is not launched; tiles of {block} × {columns} cover the "
                "tensor with programs 0 to {last}."
            )
            name.set_text(_("program {program}: not launched").format(program=program))
            return said.format(
                rows=rows, features=features, program=program, block=block, columns=columns, last=programs - 1
            )
        held.set_bounds(0, top, features, real)
        masked[0].set_bounds(features, top, columns - features, block)
        masked[1].set_bounds(0, top + real, features, block - real)
        frame.set_bounds(0, top, columns, block)
        lanes = block * columns
        name.set_text(_("program {program} of programs 0 to {last}").format(program=program, last=programs - 1))
        own = choose_config(features, torch.float32).forward
        return _(
            "{rows} × {features} tensor, program {program} of programs 0 to {last}: a tile of {block} × {columns}; "
            "{data} of {lanes} lanes hold data, {masked} are masked. In registers: s, γ and β, {size} bytes of float32."
            " (The library's own tile for D = {features}: {own_rows} × {own_columns}, {each} lanes for each of "
            "{threads} threads.)"
        ).format(
            rows=rows,
            features=features,
            program=program,
            last=programs - 1,
            block=block,
            columns=columns,
            data=real * features,
            lanes=lanes,
            masked=lanes - real * features,
            size=3 * 4 * lanes,
            own_rows=own.rows,
            own_columns=own.columns,
            each=own.rows * own.columns // (32 * own.warps),
            threads=32 * own.warps,
        )

    return Panel(
        title=_("One program's tile"),
        try_this=_("Find a D with no masked column, and one where nearly half are. Which program has masked rows?"),
        controls={
            "rows": slider(_("rows M"), 7, 1, ROWS, whole=True),
            "features": slider(_("features D"), 20, 1, FEATURES, whole=True),
            "block": choice(_("rows a program BM"), [(str(n), n) for n in (1, 2, 4)], 2),
            "program": slider(_("program"), 3, 0, ROWS - 1, whole=True),
        },
        canvas=LiveCanvas(figure, [tensor, *masked, held, *outlines, frame, name]),
        update=update,
    )

"""Offscreen OpenGL for MuJoCo worlds: one context per process, RGB and metric depth, nothing that
physics would notice.

A context belongs to one thread. All drawing happens on a thread of its own, so that environments
may be used from any: several episodes of a campaign share a process, and their threads take turns.
A process in which one thread does everything draws on that one (`draw_here`).

Backends: EGL first and OSMesa second on Linux, the native one on macOS and Windows; MUJOCO_GL
overrides. Shadows are off by default: in software rendering they cost ten times the rest.
"""

from __future__ import annotations

import atexit
import importlib
import itertools
import math
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import mujoco
import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, ErrorCode, GLUnavailable
from capex.worlds import Image

T = TypeVar("T")


class DrawingThread:
    """Runs what it is given, one after the other, on the thread that holds the GL context."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, or what it raised."""
        if self._thread is threading.current_thread():
            future = self.post(work)
            while not future.done():
                self._serve_next()
            return future.result()
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(None, self._serve, "capex drawing", daemon=True)
                self._thread.start()
        return self.post(work).result()

    def be_this_one(self) -> None:
        """Draw on the calling thread; what others post is done when it draws next. Too late once
        another one has begun.
        """
        with self._starting:
            self._thread = self._thread or threading.current_thread()

    def post(self, work: Callable[[], T]) -> Future[T]:
        """The same without waiting; safe wherever the garbage collector may call it."""
        future: Future[T] = Future()
        self._work.put((future, work))
        return future

    def _serve(self) -> None:
        while True:
            self._serve_next()

    def _serve_next(self) -> None:
        future, work = self._work.get()
        try:
            future.set_result(work())
        except BaseException as error:  # whoever asked gets it
            future.set_exception(error)


PACKAGES = "libegl1 libgl1 (or libosmesa6)"
MAX_SIZE = 4096
MARGIN = 1e-3  # m; what is out of sight by less is drawn

Size = tuple[int, int]  # width, height

_context: Any = None
_backend = ""


_drawing = DrawingThread()


def draw_here() -> None:
    """Draw on the calling thread, where no other one of this process draws or will: handing the
    work to another thread takes as long as a small picture.
    """
    _drawing.be_this_one()


def backend() -> str:
    """Name of the OpenGL backend in use, loading it if need be; GLUnavailable if none loads."""
    _drawing.run(_ensure_context)
    return _backend


def renderer_name() -> str:
    """What OpenGL calls its renderer, for example the software rasterizer or a graphics card."""
    return _drawing.run(_renderer_name)


def serve_mujoco() -> None:
    """Let MuJoCo's own renderer, in a world of the user's, draw where ours does. By itself it takes
    GLFW unless MUJOCO_GL says otherwise, and aborts the process where there is no display.
    """
    if sys.platform == "linux" and not os.environ.get("MUJOCO_GL", "").strip():
        mujoco.GLContext = mujoco.gl_context.GLContext = _context_for_mujoco


def _context_for_mujoco(width: int, height: int) -> Any:
    """A context of the backend in use; GLUnavailable if none loads."""
    return importlib.import_module(f"mujoco.{backend()}").GLContext(width, height)


def _renderer_name() -> str:
    _ensure_context()
    _context.make_current()
    from OpenGL import GL

    name = GL.glGetString(GL.GL_RENDERER)
    return name.decode("ascii", "replace") if isinstance(name, bytes) else "unknown"


def _candidates() -> tuple[str, ...]:
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if asked:
        return (asked,)
    if sys.platform == "darwin":
        return ("cgl",)
    if sys.platform == "win32":
        return ("glfw",)
    return ("egl", "osmesa")


def _ensure_context() -> None:
    global _context, _backend
    if _context is not None:
        return
    reasons = []
    for name in _candidates():
        # PyOpenGL chooses its platform once, at its first import; MuJoCo's modules insist on a
        # matching one.
        platform = os.environ.get("PYOPENGL_PLATFORM")
        if name in ("egl", "osmesa"):
            os.environ["PYOPENGL_PLATFORM"] = name
        try:
            context = importlib.import_module(f"mujoco.{name}").GLContext(64, 64)
            context.make_current()
        except Exception as error:  # any failure of a foreign GL stack means: try the next backend
            reasons.append(f"{name}: {type(error).__name__}: {error}")
            if platform is None:
                os.environ.pop("PYOPENGL_PLATFORM", None)
            prefixes = ("OpenGL.", f"mujoco.{name}")
            for module in [m for m in sys.modules if m == "OpenGL" or m.startswith(prefixes)]:
                del sys.modules[module]
            continue
        _context, _backend = context, name
        # While the GL library is still loaded and its thread still runs; the context's own
        # destructor comes too late.
        atexit.register(_drawing.run, context.free)
        return
    raise GLUnavailable(
        f"no OpenGL backend could be loaded ({'; '.join(reasons)}); on Debian or Ubuntu install"
        f" {PACKAGES}: apt-get install libegl1 libgl1"
    )


class Renderer:
    """Renders one model; cheap to keep, its textures and meshes live on the GL side until `close`.

    `groups` are the groups of shapes that are drawn; `sites` draws sites too, which some worlds use
    for flames and water.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        shadows: bool = False,
        samples: int = 0,
        max_geoms: int = 2000,
        groups: Sequence[int] = (0, 1, 2),
        sites: bool = False,
    ):
        self._model = model
        _drawing.run(lambda: self._open(shadows, samples, max_geoms, groups, sites))

    def _open(
        self, shadows: bool, samples: int, max_geoms: int, groups: Sequence[int], sites: bool
    ) -> None:
        _ensure_context()
        model = self._model
        _context.make_current()
        model.vis.quality.offsamples = samples
        model.vis.quality.shadowsize = 2048 if shadows else 0
        self._size = (int(model.vis.global_.offwidth), int(model.vis.global_.offheight))
        self._gl = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._gl)
        self._gl.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self._scene = mujoco.MjvScene(model, maxgeom=max_geoms)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = True
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = [group in groups for group in range(6)]
        self._option.sitegroup[:] = [sites and group < 3 for group in range(6)]
        self._undrawn = next((group for group in range(6) if group not in groups), None)
        self._perturb = mujoco.MjvPerturb()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._forgotten = weakref.finalize(self, _drawing.post, lambda gl=self._gl: _free(gl))
        self._forgotten.atexit = False

    def rgb(self, data: mujoco.MjData, camera: int, size: Size) -> Image:
        """Upright RGB (height, width, 3)."""
        return _drawing.run(lambda: self._rgb(data, camera, size))

    def _rgb(self, data: mujoco.MjData, camera: int, size: Size) -> Image:
        width, height = self._draw(data, camera, size)
        image = np.empty((height, width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(image, None, mujoco.MjrRect(0, 0, width, height), self._gl)
        return np.ascontiguousarray(image[::-1])

    def depth(self, data: mujoco.MjData, camera: int, size: Size) -> npt.NDArray[np.float32]:
        """Metric depth along the optical axis (height, width); infinite where nothing is seen."""
        return _drawing.run(lambda: self._depth(data, camera, size))

    def _depth(self, data: mujoco.MjData, camera: int, size: Size) -> npt.NDArray[np.float32]:
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = False
        try:
            width, height = self._draw(data, camera, size)
        finally:
            self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = True
        raw = np.empty((height, width), dtype=np.float32)
        mujoco.mjr_readPixels(None, raw, mujoco.MjrRect(0, 0, width, height), self._gl)
        # The buffer holds 1 at the near plane and 0 at the far one (better spread of the float): z
        # = near far / (near + raw (far - near)).
        near = float(self._model.vis.map.znear * self._model.stat.extent)
        far = float(self._model.vis.map.zfar * self._model.stat.extent)
        metric = near * far / (near + raw[::-1].astype(np.float64) * (far - near))
        return np.where(raw[::-1] <= 0.0, np.inf, metric).astype(np.float32)

    def _draw(self, data: mujoco.MjData, camera: int, size: Size) -> Size:
        width, height = _valid(size)
        _context.make_current()
        if width > self._size[0] or height > self._size[1]:
            self._size = (max(width, self._size[0]), max(height, self._size[1]))
            mujoco.mjr_resizeOffscreen(self._size[0], self._size[1], self._gl)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._gl)
        self._camera.fixedcamid = camera
        self._update(data, width / height)
        mujoco.mjr_render(mujoco.MjrRect(0, 0, width, height), self._scene, self._gl)
        return width, height

    def _update(self, data: mujoco.MjData, aspect: float) -> None:
        """Bring the scene up to date, without what the camera cannot see: MuJoCo would draw it all
        the same. No pixel changes, but where something out of sight throws a shadow.

        The model says for a moment that these shapes belong to another group, which physics does
        not read; whoever changes groups or sizes of shapes does so while nothing of it is drawn.
        """
        groups, before = self._model.geom_group, None
        if self._undrawn is not None and not self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW]:
            mujoco.mjv_updateCamera(self._model, data, self._camera, self._scene)
            before = groups.copy()
            groups[_out_of_sight(self._model, data, self._scene, aspect)] = self._undrawn
        shown, everything = self._option, mujoco.mjtCatBit.mjCAT_ALL.value
        try:
            mujoco.mjv_updateScene(
                self._model, data, shown, self._perturb, self._camera, everything, self._scene
            )
        finally:
            if before is not None:
                groups[:] = before

    def close(self) -> None:
        """Free the GL side; the drawing thread frees that of a renderer dropped without it."""
        if self._forgotten.detach() is not None:
            _drawing.run(lambda: _free(self._gl))


@dataclass(frozen=True)
class Shot:
    """Views of a world as it is now; taken before it moves."""

    renderer: Renderer
    data: mujoco.MjData
    views: Mapping[str, tuple[int, Size]]  # camera and size, by name


def take(shots: Sequence[Shot]) -> list[dict[str, Image]]:
    """The views of each, upright RGB (height, width, 3) by name."""
    return _drawing.run(lambda: _take(shots))


def _take(shots: Sequence[Shot]) -> list[dict[str, Image]]:
    """Views wait side by side until many of them are read at once: a GPU is waited for once, and
    turns once to each of the processes that share it.
    """
    taken: list[dict[str, Image]] = [{} for _ in shots]
    wanted = [
        (k, name, camera, _valid(size))
        for k, shot in enumerate(shots)
        for name, (camera, size) in shot.views.items()
    ]
    while wanted:
        ends = itertools.accumulate(size[0] for *_, size in wanted)
        count = max(1, sum(end <= MAX_SIZE for end in ends))
        row, wanted = wanted[:count], wanted[count:]
        drawn = _drawn([(shots[k], camera, size) for k, _, camera, size in row])
        for (k, name, *_), image in zip(row, drawn, strict=True):
            taken[k][name] = image
    return taken


def _drawn(row: Sequence[tuple[Shot, int, Size]]) -> list[Image]:
    """Views of cameras at sizes, together no wider than MAX_SIZE."""
    if len(row) == 1:
        ((shot, camera, size),) = row
        return [shot.renderer._rgb(shot.data, camera, size)]
    lefts = list(itertools.accumulate((w for _, _, (w, _) in row), initial=0))
    width, height = lefts.pop(), max(h for _, _, (_, h) in row)
    sheet = _Sheet.of(width, height)
    for (shot, camera, size), left in zip(row, lefts, strict=True):
        shot.renderer._draw(shot.data, camera, size)
        sheet.take(shot.renderer._gl, size, left)
    whole, places = sheet.read(width, height), zip(row, lefts, strict=True)
    return [np.ascontiguousarray(whole[:h, x : x + w][::-1]) for (_, _, (w, h)), x in places]


def _valid(size: Size) -> Size:
    width, height = (int(s) for s in size)
    if not (1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE):
        raise CapexError(
            f"image size {width}x{height}; width and height must lie between 1 and {MAX_SIZE}",
            code=ErrorCode.BAD_SETTING,
        )
    return width, height


def _out_of_sight(
    model: mujoco.MjModel, data: mujoco.MjData, scene: mujoco.MjvScene, aspect: float
) -> npt.NDArray[np.bool_]:
    """Shapes (ngeom,) whose bounding spheres lie outside what the scene's camera sees."""
    view = mujoco.mjv_averageCamera(*scene.camera)
    if view.orthographic:
        return np.zeros(model.ngeom, dtype=bool)
    top, bottom, near = view.frustum_top, view.frustum_bottom, view.frustum_near
    half = view.frustum_width or aspect * (top - bottom) / 2
    left, right = view.frustum_center - half, view.frustum_center + half
    forward, up = view.forward.astype(np.float64), view.up.astype(np.float64)
    across = np.empty(3)
    mujoco.mju_cross(across, forward, up)
    # The sides of what is seen, with normals that point outwards, and the plane of the camera.
    flat = [(near, across, -right), (-near, across, left), (near, up, -top), (-near, up, bottom)]
    sides = [(a * axis + b * forward) / math.hypot(a, b) for a, axis, b in flat]
    normals = np.array([*sides, -forward])
    outside = (normals @ data.geom_xpos.T - (normals @ view.pos)[:, None]).max(axis=0)
    # A plane has no sphere.
    unseen: npt.NDArray[np.bool_] = (model.geom_rbound > 0) & (outside > model.geom_rbound + MARGIN)
    return unseen


def _free(gl: Any) -> None:
    _context.make_current()
    gl.free()


class _Sheet:
    """A framebuffer in which finished views wait, one for all renderers of the process. Views are
    copied into it, not drawn: their pixels do not depend on their place.
    """

    _newest: _Sheet | None = None

    def __init__(self, width: int, height: int):
        from OpenGL import GL

        self._GL, self.width, self.height = GL, width, height
        self._buffer, self._color = GL.glGenFramebuffers(1), GL.glGenRenderbuffers(1)
        GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, self._buffer)
        GL.glBindRenderbuffer(GL.GL_RENDERBUFFER, self._color)
        GL.glRenderbufferStorage(GL.GL_RENDERBUFFER, GL.GL_RGBA8, width, height)
        attached = GL.GL_COLOR_ATTACHMENT0, GL.GL_RENDERBUFFER, self._color
        GL.glFramebufferRenderbuffer(GL.GL_FRAMEBUFFER, *attached)
        if GL.glCheckFramebufferStatus(GL.GL_FRAMEBUFFER) != GL.GL_FRAMEBUFFER_COMPLETE:
            self.free()
            raise GLUnavailable(f"OpenGL gives no framebuffer of {width}x{height} pixels")

    @classmethod
    def of(cls, width: int, height: int) -> _Sheet:
        """One that is large enough."""
        _ensure_context()
        _context.make_current()
        sheet = cls._newest
        if sheet is None or width > sheet.width or height > sheet.height:
            if sheet is not None:
                width, height = max(width, sheet.width), max(height, sheet.height)
                cls._newest = None
                sheet.free()
            sheet = cls._newest = cls(width, height)
        return sheet

    def take(self, drawn: mujoco.MjrContext, size: Size, left: int) -> None:
        """Copy what was drawn last to its place."""
        gl, (width, height) = self._GL, size
        gl.glBindFramebuffer(gl.GL_READ_FRAMEBUFFER, drawn.offFBO)
        gl.glBindFramebuffer(gl.GL_DRAW_FRAMEBUFFER, self._buffer)
        gl.glReadBuffer(gl.GL_COLOR_ATTACHMENT0)
        gl.glDrawBuffer(gl.GL_COLOR_ATTACHMENT0)
        there, here = (0, 0, width, height), (left, 0, left + width, height)
        gl.glBlitFramebuffer(*there, *here, gl.GL_COLOR_BUFFER_BIT, gl.GL_NEAREST)

    def read(self, width: int, height: int) -> Image:
        """Everything that waits, the lowest row first."""
        gl, pixels = self._GL, np.empty((height, width, 3), dtype=np.uint8)
        gl.glBindFramebuffer(gl.GL_READ_FRAMEBUFFER, self._buffer)
        gl.glReadBuffer(gl.GL_COLOR_ATTACHMENT0)
        gl.glPixelStorei(gl.GL_PACK_ALIGNMENT, 1)
        gl.glReadPixels(0, 0, width, height, gl.GL_RGB, gl.GL_UNSIGNED_BYTE, pixels)
        return pixels

    def free(self) -> None:
        """Give its memory back."""
        self._GL.glDeleteFramebuffers(1, [self._buffer])
        self._GL.glDeleteRenderbuffers(1, [self._color])


def intrinsics(fovy_deg: float, size: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Pinhole matrix (3,3) of a camera with square pixels; the first centre is (0.5, 0.5)."""
    width, height = size
    focal = 0.5 * height / math.tan(math.radians(fovy_deg) / 2)
    return np.array([[focal, 0.0, width / 2], [0.0, focal, height / 2], [0.0, 0.0, 1.0]])
